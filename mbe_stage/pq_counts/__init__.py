"""(p, q)-bicliques counted: p left vertices and q right ones with every edge between them, maximal or not."""
