"""Bicliques of a graph in arrays, in memory: researchers who share interests.

python examples/arrays.py
"""

from __future__ import annotations

import numpy as np

from mbe_stage import enumerate_bicliques

PEOPLE = ["Ada", "Ben", "Cleo", "Dan"]
TOPICS = ["graphs", "logic", "music", "optics"]

# One edge per position: person and topic, as dense ids.
PERSON = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3])
TOPIC = np.array([0, 1, 2, 0, 1, 0, 1, 3, 3])


def main() -> None:
    """Print every group of at least two people with at least two topics in common."""
    table = enumerate_bicliques((PERSON, TOPIC), min_left=2, min_right=2)
    for index in range(len(table)):
        people, topics = table[index]
        print(", ".join(PEOPLE[u] for u in people), "share", ", ".join(TOPICS[v] for v in topics))
    print(f"{len(enumerate_bicliques((PERSON, TOPIC)))} maximal bicliques of any size")


if __name__ == "__main__":
    main()
