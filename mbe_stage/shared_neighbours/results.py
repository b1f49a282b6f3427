"""Blocks of pairs, similarity measures, and sinks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numba import float64
from scipy.special import gammaln

from mbe_stage.bicliques.keys import compile_steps as steps_of_keys
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, compiled, steps_of
from mbe_stage.shared_neighbours.problem import SharedQuery
from mbe_stage.tasks import Roots

Measure = Literal["p_value", "jaccard", "cosine", "shared"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
_FLOATS = float64[::1]
# Number of new pairs that wait before the best ones are selected again.
_WAITING_PAIRS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class PairBlock:
    """A block of pairs: two left vertices, the smaller id first, and the number of their shared neighbours.

    Attributes
    ----------
    first, second, shared : (n,) int32
    work_done : float
        Share of the whole work finished with this block, 0 to 1.
    """

    first: np.ndarray
    second: np.ndarray
    shared: np.ndarray
    work_done: float = 0.0

    def __len__(self) -> int:
        return self.first.size

    def part(self, start: int, end: int) -> PairBlock:
        """Return the pairs from `start` to `end`."""
        return PairBlock(self.first[start:end], self.second[start:end], self.shared[start:end])

    @classmethod
    def of(cls, blocks: Sequence[PairBlock], work_done: float) -> PairBlock:
        """Join blocks."""
        if len(blocks) == 1:
            return replace(blocks[0], work_done=work_done)
        first, second, shared = (
            np.concatenate([np.empty(0, np.int32), *(getattr(block, name) for block in blocks)])
            for name in ("first", "second", "shared")
        )
        return cls(first, second, shared, work_done)


@dataclass(frozen=True, slots=True, eq=False)
class SharedNeighbours:
    """Pairs of left vertices with their similarity.

    Attributes
    ----------
    first, second : (n,) int32
        Ids of the two vertices, the smaller one first.
    shared : (n,) int32
        Number of shared neighbours.
    jaccard : (n,) float64
        Shared neighbours divided by the number of neighbours of either vertex.
    cosine : (n,) float64
        Shared neighbours divided by the geometric mean of both degrees.
    p_value : (n,) float64
        Probability of at least that many shared neighbours if both vertices chose their neighbours at random: the upper
        tail of the hypergeometric distribution over the right vertices with an edge. It is 0 below 1e-308.
    """

    first: np.ndarray
    second: np.ndarray
    shared: np.ndarray
    jaccard: np.ndarray
    cosine: np.ndarray
    p_value: np.ndarray

    def __len__(self) -> int:
        return self.first.size


class Similarity:
    """Computes the similarity of pairs of a graph's left vertices."""

    def __init__(self, graph: BipartiteCSR) -> None:
        self._degrees = graph.left_degrees
        self._n = int(np.count_nonzero(graph.right_degrees))
        self._log_factorials = gammaln(np.arange(1.0, self._n + 2.0))

    def of(self, block: PairBlock) -> SharedNeighbours:
        """Return the pairs of a block with their similarity."""
        jaccard, cosine, minus_log_p = (self.value(block, by) for by in ("jaccard", "cosine", "p_value"))
        return SharedNeighbours(block.first, block.second, block.shared, jaccard, cosine, np.exp(-minus_log_p))

    def value(self, block: PairBlock, by: Measure) -> np.ndarray:
        """Return a number for each pair, larger for more similar pairs; for ``p_value`` the negative logarithm."""
        if by == "shared":
            return block.shared.astype(np.float64)
        first, second = self._degrees[block.first], self._degrees[block.second]
        if by == "jaccard":
            return block.shared / (first + second - block.shared)
        if by == "cosine":
            return block.shared / np.sqrt(first.astype(np.float64) * second)
        logs = np.empty(len(block))
        _log_p_values(block.shared, first.astype(np.int32), second.astype(np.int32), self._log_factorials, logs)
        return -logs


class PairSink:
    """Keeps all pairs, or the most similar ones.

    Parameters
    ----------
    graph : BipartiteCSR
        The graph of the search.
    top : int, optional
        Keep only this many pairs; ties go to the smaller first and second id.
    by : str
        The measure for `top`: ``shared``, ``jaccard``, ``cosine`` or ``p_value`` (smallest first).
    """

    detail = None

    def __init__(self, graph: BipartiteCSR, top: int | None = None, by: Measure = "shared") -> None:
        self.similarity = Similarity(graph)
        self._top, self._by = top, by
        self._blocks: list[PairBlock] = []
        self._n_waiting = 0

    def accept(self, block: PairBlock) -> None:
        """Add a block."""
        self._blocks.append(block)
        self._n_waiting += len(block)
        if self._top is not None and self._n_waiting > self._top + _WAITING_PAIRS:
            self._blocks, self._n_waiting = [self.pairs()], 0

    def pairs(self) -> PairBlock:
        """Return the pairs: in rank order with `top`, else in the order of the ids."""
        found = PairBlock.of(self._blocks, 1.0)
        keys = (found.second, found.first)
        order = np.lexsort(keys if self._top is None else (*keys, -self.similarity.value(found, self._by)))[: self._top]
        return PairBlock(found.first[order], found.second[order], found.shared[order], 1.0)

    def table(self) -> SharedNeighbours:
        """Return the result of `pairs` with similarities."""
        return self.similarity.of(self.pairs())


def bytes_of_best(top: int) -> int:
    """Return the most bytes of a `PairSink` with this `top`, including waiting pairs and a copy."""
    return 2 * 12 * (top + 2 * _WAITING_PAIRS)


def roots_of(graph: BipartiteCSR, query: SharedQuery) -> Roots:
    """Return the roots: each left vertex has the pairs in which it is first."""
    return Roots.of("shared_neighbours", np.arange(graph.n_left), query, graph.n_right, graph.edges_checksum)


def compile_steps(config: object = None) -> tuple[CompileStep, ...]:  # noqa: ARG001 - the signature of publications
    """Return the steps to compile the functions of this module and those for keys."""
    return (*steps_of_keys(), *steps_of(_log_p_values))


@compiled(INTS, INTS, INTS, _FLOATS, _FLOATS)
def _log_p_values(shared, first, second, log_factorials, logs):
    """Write the logarithm of the hypergeometric upper tail, from its first term and the ratios of adjacent terms.

    Below the mode, the lower tail is subtracted from 1, since there the upper tail is never small.
    """
    n = log_factorials.size - 1
    for k in range(shared.size):
        a, b, x = first[k], second[k], shared[k]
        if a + b - n >= x:
            logs[k] = 0.0
            continue
        is_upper = (x + 1.0) * (n + 2.0) > (a + 1.0) * (b + 1.0)
        start = x if is_upper else x - 1
        log_term = (
            log_factorials[a]
            + log_factorials[b]
            + log_factorials[n - a]
            + log_factorials[n - b]
            - log_factorials[start]
            - log_factorials[a - start]
            - log_factorials[b - start]
            - log_factorials[n - a - b + start]
            - log_factorials[n]
        )
        total, term, y = 1.0, 1.0, float(start)
        while term > total * 1e-17:
            if is_upper:
                term *= (a - y) * (b - y) / ((y + 1.0) * (n - a - b + y + 1.0))
                y += 1.0
            else:
                term *= y * (n - a - b + y) / ((a - y + 1.0) * (b - y + 1.0))
                y -= 1.0
            total += term
        sum_of_terms = log_term + math.log(total)
        logs[k] = min(0.0, sum_of_terms) if is_upper else math.log1p(-min(1.0 - 1e-16, math.exp(sum_of_terms)))
