"""The CUDA engine of counting (p, q)-bicliques."""
