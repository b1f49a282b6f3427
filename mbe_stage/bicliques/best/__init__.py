"""The best maximal bicliques by a score, found by branch and bound."""
