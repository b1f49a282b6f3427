"""Pairs of vertices on one side that share neighbours: the weighted projection of a bipartite graph."""
