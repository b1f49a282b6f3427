"""Maximal biclique enumeration: the specification and the engines."""
