"""What `make run` shows: the whole job on two real graphs, one of 1941 and one made on the spot."""
