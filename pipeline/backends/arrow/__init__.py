"""Arrow tables and NumPy arrays, in host memory."""
