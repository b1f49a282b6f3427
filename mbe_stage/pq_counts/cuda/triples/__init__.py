"""Bicliques of three rows, counted on masks of the columns of roots."""
