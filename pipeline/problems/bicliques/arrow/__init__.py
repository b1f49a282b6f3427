"""Blocks of bicliques in host memory to the published tables."""
