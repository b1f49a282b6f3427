"""The CUDA engine's kernels, and the code that prepares, plans and launches them."""
