"""Counts of (p, q)-bicliques: what may be asked, how the counts become tables, and what is told of them."""
