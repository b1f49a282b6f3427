"""Local counts on a GPU: the (p, q)-bicliques of a cell that contain each vertex, and each edge."""
