"""Execution of a run: steps, tiers, checkpoints, resuming, limits and signals."""
