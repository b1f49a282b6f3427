"""Groups that are no chance, ranked, and scores of all vertices: a derived output of bicliques. See docs/groups.md."""
