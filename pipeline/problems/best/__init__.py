"""Runs of the best bicliques: the section, the table, and the collector."""
