"""Graphs as arrays, used by all problems."""
