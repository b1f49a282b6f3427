"""Cut a search into bands of sizes, each with a small core, and search the core of each.

A biclique of at least `T` edges with 16 to 31 left vertices has at least ``T / 31`` right ones. Few vertices of a real
graph have so many neighbours on both sides: progressive bounding (Lyu et al., Maximum Biclique Search at Billion Scale,
VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mbe_stage.bicliques.best.scores import BALANCE, EDGES, VERTICES
from mbe_stage.graphs.bipartite import BipartiteCSR

UNBOUNDED = 1 << 40


class Band(NamedTuple):
    """The sizes of a band, and the highest code that the degrees allow."""

    min_left: int
    max_left: int
    min_right: int
    bound: float


def bands_of(graph: BipartiteCSR, kind: int, scale: float, threshold: float, least: tuple[int, int]) -> Iterator[Band]:
    """Yield bands that together hold all bicliques of the threshold or more; those are left out that can hold none."""
    # Of a left vertices, the one with fewest neighbours bounds the other side; and the other way round.
    by_left = codes(kind, scale, np.arange(1, graph.n_left + 1), -np.sort(-graph.left_degrees))
    by_right = codes(kind, scale, -np.sort(-graph.right_degrees), np.arange(1, graph.n_right + 1))
    highest, most = by_right[least[1] - 1 :].max(initial=-1.0), int(graph.right_degrees.max(initial=0))
    low = least[0]
    while low <= min(most, by_left.size):
        high = 2 * low - 1
        if least_right(kind, scale, threshold, low) <= least[1] or kind not in (EDGES, VERTICES):
            high = UNBOUNDED
        min_left, min_right = low, max(least[1], least_right(kind, scale, threshold, high))
        if kind == BALANCE:
            min_left, min_right = (max(size, int(threshold / scale)) for size in least)
        bound = min(highest, by_left[low - 1 : high].max(initial=-1.0))
        if bound >= threshold:
            yield Band(min_left, high, min_right, bound)
        low = high + 1


def least_right(kind: int, scale: float, threshold: float, n_left: int) -> int:
    """The right vertices that the threshold needs with at most so many left ones."""
    if kind == EDGES:
        return -int(-threshold // n_left)
    return int(threshold / scale) - n_left if kind == VERTICES else 0


def codes(kind: int, scale: float, n_left: np.ndarray, n_right: np.ndarray) -> np.ndarray:
    """`scores.code_of` of arrays; infinite for weights."""
    edges = n_left.astype(np.float64) * n_right
    if kind == EDGES:
        return edges
    if kind == VERTICES:
        return (n_left + n_right) * scale + edges
    return np.minimum(n_left, n_right) * scale + edges if kind == BALANCE else np.full(edges.size, np.inf)
