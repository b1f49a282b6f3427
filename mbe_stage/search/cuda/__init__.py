"""A search on a GPU whose open nodes any warp can continue."""
