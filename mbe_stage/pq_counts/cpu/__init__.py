"""The count on the host, in code compiled by Numba."""
