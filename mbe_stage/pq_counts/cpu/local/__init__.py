"""Local counts on the CPU: in how many (p, q)-bicliques of one cell each vertex, and each edge, is."""
