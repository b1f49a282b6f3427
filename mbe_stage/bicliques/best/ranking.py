"""Rank bicliques by score, edges and key, and keep the best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import int64

from mbe_stage.bicliques.best.query import BestQuery
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Bicliques in rank order.

    Attributes
    ----------
    scores : (n,) int64, or float64 for weights and surprise
    keys : (n,) int64
    block : BicliqueBlock
        Their sizes and members.
    """

    scores: np.ndarray
    keys: np.ndarray
    block: Any

    def __len__(self) -> int:
        return self.block.n_bicliques

    def taken(self, places: np.ndarray) -> Ranked:
        """Return the bicliques at these places, in this order."""
        block = self.block
        left_sizes, left = _taken(block.left_sizes, block.left_members, places)
        right_sizes, right = _taken(block.right_sizes, block.right_members, places)
        block = BicliqueBlock(places.size, left_sizes, right_sizes, left, right)
        return Ranked(self.scores[places], self.keys[places], block)

    def followed_by(self, other: Ranked) -> Ranked:
        """Return these bicliques and others, in this order."""
        names = "left_sizes", "right_sizes", "left_members", "right_members"
        parts: dict[str, Any] = {
            name: np.concatenate([getattr(each.block, name) for each in (self, other)]) for name in names
        }
        scores, keys = (np.concatenate(pair) for pair in ((self.scores, other.scores), (self.keys, other.keys)))
        return Ranked(scores, keys, BicliqueBlock(len(self) + len(other), **parts))

    def sorted(self) -> Ranked:
        """Return them in rank order, each once."""
        edges = self.block.left_sizes.astype(np.int64) * self.block.right_sizes
        order = np.lexsort((self.keys, -edges, -self.scores))
        keys = self.keys[order]
        is_new = np.ones(order.size, np.bool_)
        is_new[1:] = keys[1:] != keys[:-1]
        return self.taken(order[is_new])

    def apart(self, overlap: float, most: int) -> np.ndarray:
        """Return the places, at most so many, that are taken by rank if each may share so much of its edges."""
        block = self.block
        chosen: list[int] = []
        if overlap >= 1:
            return np.arange(min(most, len(self)))
        sides = [
            [set(members[first:end].tolist()) for first, end in pairwise(offsets.tolist())]
            for members, offsets in (
                (block.left_members, block.left_offsets),
                (block.right_members, block.right_offsets),
            )
        ]
        for place, (left, right) in enumerate(zip(*sides, strict=True)):
            if len(chosen) == most:
                break
            allowed = overlap * len(left) * len(right)
            if all(len(left & sides[0][each]) * len(right & sides[1][each]) <= allowed for each in chosen):
                chosen.append(place)
        return np.array(chosen, np.int64)


class Scorer:
    """Gives bicliques their members, keys and scores.

    Parameters
    ----------
    graph : BipartiteCSR
    hashes : pair of uint64 arrays
        Salted hashes of the left and right vertices.
    weights : (n_edges,) float64 or None
        In the order of `graph.left_members`.
    """

    def __init__(
        self, graph: BipartiteCSR, query: BestQuery, hashes: tuple[np.ndarray, np.ndarray], weights: np.ndarray | None
    ) -> None:
        self._graph, self._query, self._hashes, self._weights = graph, query, hashes, weights

    def of_rows(self, sizes: np.ndarray, rows: np.ndarray, *, are_right: bool) -> Ranked:
        """Return the maximal bicliques of some sets of vertices of a side, which are all that their neighbours share.

        Parameters
        ----------
        sizes : (n,) int32
        rows : int32
            The sets, one behind the other.
        are_right : bool
            True if they are right vertices.
        """
        graph = self._graph.swapped() if are_right else self._graph
        offsets = long_offsets(sizes)
        shared = _shared(offsets, rows, graph.left_offsets, graph.left_members, graph.n_right)
        order = np.lexsort((rows, np.repeat(np.arange(sizes.size), sizes)))
        sides = (sizes, rows[order]), shared
        (left_sizes, left), (right_sizes, right) = sides[::-1] if are_right else sides
        return self.of_block(BicliqueBlock(sizes.size, left_sizes, right_sizes, left, right))

    def of_block(self, block: Any) -> Ranked:
        """Return bicliques with members as they are, with scores and keys."""
        keys = biclique_keys(block, *self._hashes)
        n_left, n_right = (sizes.astype(np.int64) for sizes in (block.left_sizes, block.right_sizes))
        if self._query.by == "edges":
            scores = n_left * n_right
        elif self._query.by == "vertices":
            scores = n_left + n_right
        elif self._query.by == "balance":
            scores = np.minimum(n_left, n_right)
        else:
            scores = self._weighed(block)
        return Ranked(scores, keys, block)

    def _weighed(self, block: Any) -> np.ndarray:
        """The sums of the weights of the bicliques' edges, correctly rounded, so that they depend on no order."""
        graph, weights = self._graph, self._weights
        assert weights is not None
        sums, left_offsets, right_offsets = np.empty(len(block)), block.left_offsets, block.right_offsets
        for i in range(len(block)):
            right, parts = block.right_members[right_offsets[i] : right_offsets[i + 1]], []
            for u in block.left_members[left_offsets[i] : left_offsets[i + 1]].tolist():
                first = graph.left_offsets[u]
                parts.append(weights[first + np.searchsorted(graph.neighbours_of_left(u), right)])
            sums[i] = math.fsum(np.concatenate(parts).tolist())
        return sums


def nothing(query: BestQuery) -> Ranked:
    """Return no bicliques."""
    empty = np.empty(0, np.int32)
    dtype = np.float64 if query.by in ("weight", "surprise") else np.int64
    return Ranked(np.empty(0, dtype), np.empty(0, np.int64), BicliqueBlock(0, empty, empty, empty, empty))


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_shared)


def _taken(sizes: np.ndarray, members: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    starts = long_offsets(sizes)[places]
    chosen = sizes[places]
    first = np.repeat(starts - long_offsets(chosen)[:-1], chosen)
    return chosen, members[first + np.arange(first.size)]


@compiled(LONGS, INTS, LONGS, INTS, int64)
def _shared(set_offsets, rows, offsets, members, n_columns):
    """The number of columns that all rows of each set share, (n,) int32, and these, ascending within each."""
    sizes = np.zeros(set_offsets.size - 1, np.int32)
    most = 0
    for i in range(sizes.size):
        fewest = n_columns
        for k in range(set_offsets[i], set_offsets[i + 1]):
            fewest = min(fewest, offsets[rows[k] + 1] - offsets[rows[k]])
        most += fewest
    shared, n, used = np.empty(most, np.int32), np.zeros(n_columns, np.int32), 0
    for i in range(sizes.size):
        first, end = set_offsets[i], set_offsets[i + 1]
        for k in range(first, end):
            for j in range(offsets[rows[k]], offsets[rows[k] + 1]):
                n[members[j]] += 1
        for j in range(offsets[rows[first]], offsets[rows[first] + 1]):
            if n[members[j]] == end - first:
                shared[used] = members[j]
                used += 1
                sizes[i] += 1
        for k in range(first, end):
            for j in range(offsets[rows[k]], offsets[rows[k] + 1]):
                n[members[j]] = 0
    return sizes, shared[:used].copy()
