"""Graphs as arrays, for any problem."""
