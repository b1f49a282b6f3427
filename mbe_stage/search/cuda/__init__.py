"""A search on a GPU with open nodes, which any warp can continue."""
