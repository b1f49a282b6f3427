"""The graph of the flow tests."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

# {a, b} x {1, 2, 3} and {b, c} x {3, 4}; together also {b} x {1, 2, 3, 4} and {a, b, c} x {3}.
EDGES = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3), ("b", 4), ("c", 3), ("c", 4)]
N_BICLIQUES = 4
