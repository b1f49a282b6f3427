"""The count on the host, compiled by Numba."""
