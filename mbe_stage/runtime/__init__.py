"""Compiled code: how functions are compiled, cached, and compiled ahead of a run."""
