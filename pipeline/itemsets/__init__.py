"""Closed itemsets, association rules and concept lattices of baskets in memory."""
