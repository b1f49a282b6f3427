"""Pairs of vertices of one side that share neighbours: the weighted projection of a bipartite graph."""
