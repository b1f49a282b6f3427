"""Closed itemsets, as maximal bicliques of transactions (left) and items (right), and their cover relation."""
