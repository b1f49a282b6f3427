"""The search tree of the CPU engine, compiled by Numba: see `tree` for the whole picture."""
