"""Parts of searches that several problems share."""
