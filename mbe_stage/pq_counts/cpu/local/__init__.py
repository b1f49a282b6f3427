"""Local counts on the CPU: numbers of a cell's (p, q)-bicliques that contain each vertex, and each edge."""
