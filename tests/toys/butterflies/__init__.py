"""Count the butterflies of each edge: the complete 2 x 2 subgraphs that contain it. A problem in small files."""
