"""One run: its steps, its tier, checkpoints, resuming, limits and signals."""
