"""Maximal cliques: the section, the tables, and their display."""
