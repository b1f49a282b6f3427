"""`mbe demo`: the whole job on two real graphs, one of 1941 and one of this Python environment."""
