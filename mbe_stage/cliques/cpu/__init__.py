"""The search for maximal cliques on the host, compiled by Numba."""
