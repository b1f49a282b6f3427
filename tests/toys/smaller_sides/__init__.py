"""Of each biclique the size of its smaller side: an output derived from bicliques, in one file and its check."""
