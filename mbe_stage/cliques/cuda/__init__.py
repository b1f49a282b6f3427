"""The CUDA engine's kernels and what prepares, plans and launches them."""
