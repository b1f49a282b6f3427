"""Graphs as arrays, and what can be said of them without a problem in mind."""
