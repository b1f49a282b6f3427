"""Closed itemsets as maximal bicliques of transactions (left) and items (right): which of them cover which."""
