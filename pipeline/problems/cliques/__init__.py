"""Maximal cliques: what may be asked, how cliques become tables, and what is shown of them."""
