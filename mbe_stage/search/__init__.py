"""Searches as every problem has them: work that is shared, barriers, and the memory that open nodes take."""
