"""Local counts on the CPU: the (p, q)-bicliques of a cell that hold each vertex, and each edge."""
