"""Maximal cliques: sets of vertices of an undirected graph with every edge between them, which no vertex can join."""
