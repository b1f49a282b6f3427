"""Compiled code: compile functions, cache their machine code, and compile ahead of a run."""
