"""Count (p, q)-bicliques: p left and q right vertices with every edge between them, maximal or not."""
