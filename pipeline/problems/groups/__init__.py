"""Significant groups, ranked, and scores of all vertices: a derived output. See docs/how-to/groups.md."""
