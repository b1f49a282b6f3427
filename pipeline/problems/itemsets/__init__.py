"""Runs of closed itemsets: the bicliques of transactions and items, without the transactions."""
