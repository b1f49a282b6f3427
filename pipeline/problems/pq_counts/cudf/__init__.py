"""Counts for a program whose tables are in device memory already."""
