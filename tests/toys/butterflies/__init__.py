"""The butterflies of each edge: how many complete 2 x 2 subgraphs it is in. A problem in small files."""
