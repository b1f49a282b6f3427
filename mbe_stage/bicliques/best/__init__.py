"""Find the best maximal bicliques by a score, by branch and bound."""
