"""What is published of each problem, and the outputs that others derive from it."""
