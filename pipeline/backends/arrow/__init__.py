"""Tables as Arrow has them, arrays as NumPy has them: in host memory."""
