"""In how many (p, q)-bicliques each vertex and edge is, on a GPU."""
