"""The graph that the flow tests run on."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

# {a, b} x {1, 2, 3} and {b, c} x {3, 4}, and what they make together: {b} x all four, {a, b, c} x {3}.
EDGES = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3), ("b", 4), ("c", 3), ("c", 4)]
N_BICLIQUES = 4
