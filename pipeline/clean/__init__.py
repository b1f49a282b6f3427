"""Cleaning of raw rows to edges: one set of rules, counts and messages for every backend."""
