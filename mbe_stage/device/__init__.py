"""What is done with arrays that stay in device memory. Every module but this one needs CuPy, and most numba-cuda."""
