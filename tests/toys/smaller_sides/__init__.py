"""The size of each biclique's smaller side: a derived output of bicliques, in one file and its check."""
