"""Blocks of cliques in host memory to the published tables."""
