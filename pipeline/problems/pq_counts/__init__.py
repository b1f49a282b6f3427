"""Counts of (p, q)-bicliques: configuration, tables and result text."""
