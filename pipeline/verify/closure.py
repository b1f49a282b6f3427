"""Checks of bicliques against the input graph: complete, maximal, distinct, and none missing.

Deliberately plain: sorted neighbour lists and binary search, no bitmaps, no search tree, no ordering of vertices.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import int64, types, uint64

from mbe_stage.pipeline.cli.terminal import shortened
from mbe_stage.pipeline.edges import EdgeData
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.job import Job
from mbe_stage.pipeline.verify.recipe import biclique_keys
from mbe_stage.pipeline.verify.rows import Batch, RowRules
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, WORDS, compiled, readonly, steps_of

__all__ = ["COMPLETE_AND_MAXIMAL", "LEFT_CAN_JOIN", "MISSING_EDGE", "RIGHT_CAN_JOIN", "Adjacency", "Keys", "adjacency"]
__all__ += ["check_distinct", "check_nothing_missing", "closures", "compile_steps", "in_parts", "judge", "judge_rows"]

COMPLETE_AND_MAXIMAL, MISSING_EDGE, LEFT_CAN_JOIN, RIGHT_CAN_JOIN = range(4)
_GRAPH = LONGS, INTS, LONGS, INTS
# Seeds whose bicliques are looked up at once.
_CHUNK = 1 << 16
# Enough draws that on a small graph nearly every pair comes up.
_PAIRS_PER_EDGE = 16
# Pairs of vertices whose bicliques are looked up.
_PAIRS = 100_000
# Characters of a key in a message.
_KEY = 80
Keys = tuple[pa.ChunkedArray, pa.ChunkedArray]
"""Those of the left and of the right vertices, by dense id."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """Neighbours of both sides, ascending: those of left `u` are ``left[left_offsets[u]:left_offsets[u + 1]]``."""

    left_offsets: np.ndarray
    left: np.ndarray
    right_offsets: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, left_ids: np.ndarray, right_ids: np.ndarray, n_left: int, n_right: int) -> Adjacency:
        """Sort distinct edges by either end."""
        by_left = np.lexsort((right_ids, left_ids))
        by_right = np.lexsort((left_ids, right_ids))
        return cls(
            left_offsets=_offsets(left_ids, n_left),
            left=right_ids[by_left],
            right_offsets=_offsets(right_ids, n_right),
            right=left_ids[by_right],
        )

    def swapped(self) -> Adjacency:
        """The same with its sides exchanged."""
        return Adjacency(self.right_offsets, self.right, self.left_offsets, self.left)

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        """Degrees of (left, right)."""
        return np.diff(self.left_offsets), np.diff(self.right_offsets)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The four arrays, for compiled code."""
        return self.left_offsets, self.left, self.right_offsets, self.right


def judge(
    adjacency: Adjacency,
    rows: np.ndarray,
    left_offsets: np.ndarray,
    left_members: np.ndarray,
    right_offsets: np.ndarray,
    right_members: np.ndarray,
    threads: int,
) -> np.ndarray:
    """Verdicts on the bicliques at `rows`, ``(n_rows, 3) int64``.

    First column: one of the four constants. Then the witness: the ends of the missing edge (left, right), or the vertex
    that can join and -1.

    Parameters
    ----------
    adjacency : Adjacency
        Of the graph that was read again.
    rows : int
        Which bicliques.
    left_offsets, right_offsets : (n_bicliques + 1,) int64
    left_members, right_members : int32
        Members of all bicliques of the table.
    """
    verdicts = np.empty((rows.size, 3), np.int64)
    graph = adjacency.arrays()

    def work(part: slice) -> None:
        _judge(rows[part], left_offsets, left_members, right_offsets, right_members, *graph, verdicts[part])

    in_parts(work, rows.size, threads)
    return verdicts


def closures(
    adjacency: Adjacency,
    side: str,
    seeds: np.ndarray,
    hashes: tuple[np.ndarray, np.ndarray],
    containing: tuple[np.ndarray, np.ndarray],
    threads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The maximal bicliques that pairs of vertices of one side generate, without listing their members.

    Parameters
    ----------
    seeds : (n, 2) integers
        Vertices of `side` with a common neighbour; twice the same stands for one vertex.
    hashes, containing
        Vertex hashes, and the ids that a biclique must hold, of (left, right).

    Returns
    -------
    sizes : (n, 2) int64
        Members on the left and right.
    sums : (n, 2) uint64
        Sums of their hashes.
    holds_all : (n,) bool
        Whether every id of `containing` is a member.
    """
    own = 0 if side == "left" else 1
    neighbours = (adjacency.left_offsets, adjacency.left), (adjacency.right_offsets, adjacency.right)
    sides = [_Side(*neighbours[i], hashes[i], containing[i]) for i in (0, 1)]
    sizes = np.zeros((len(seeds), 2), np.int64)
    sums = np.zeros((len(seeds), 2), np.uint64)
    holds_all = np.zeros(len(seeds), np.bool_)

    def work(part: slice) -> None:
        _closures(seeds[part], sides[own], sides[1 - own], sizes[part], sums[part], holds_all[part])

    in_parts(work, len(seeds), threads)
    if own == 1:
        sizes, sums = sizes[:, ::-1], sums[:, ::-1]
    return sizes, sums, holds_all


def in_parts(work, n: int, threads: int, step: int = 1024) -> None:
    """Run compiled code that releases the lock on slices of ``range(n)``; small slices, because rows differ much."""
    step = max(1, min(step, -(-n // threads)))
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, [slice(start, min(start + step, n)) for start in range(0, n, step)]):
            pass


def _offsets(ids: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(ids, minlength=n))])


def compile_steps() -> tuple[CompileStep, ...]:
    """List the compiled functions of this module."""
    return steps_of(_judge, _closures)


@compiled()
def _is_in(values, start, stop, wanted):
    while start < stop:
        middle = (start + stop) // 2
        if values[middle] < wanted:
            start = middle + 1
        elif values[middle] > wanted:
            stop = middle
        else:
            return True
    return False


@compiled()
def _rarest(members, offsets):
    """The member with the fewest neighbours."""
    best = members[0]
    for vertex in members:
        if offsets[vertex + 1] - offsets[vertex] < offsets[best + 1] - offsets[best]:
            best = vertex
    return best


@compiled()
def _sees_all(vertex, wanted, offsets, neighbours):
    """Return whether every vertex of `wanted` is a neighbour."""
    start, stop = offsets[vertex], offsets[vertex + 1]
    if stop - start < wanted.size:
        return False
    for other in wanted:  # noqa: SIM110 - numba compiles no generator expressions
        if not _is_in(neighbours, start, stop, other):
            return False
    return True


@compiled()
def _can_join(own, other, own_offsets, own_neighbours, other_offsets, other_neighbours):
    """A vertex outside `own` that sees all of `other`, or -1: it would be a neighbour of the rarest of `other`.

    Parameters
    ----------
    own, other : int32
        The two sides of a biclique.
    own_offsets, own_neighbours
        Neighbours of the vertices of the side of `own`, ascending.
    other_offsets, other_neighbours
        The same of the other side.
    """
    rarest = _rarest(other, other_offsets)
    for i in range(other_offsets[rarest], other_offsets[rarest + 1]):
        vertex = other_neighbours[i]
        if not _is_in(own, 0, own.size, vertex) and _sees_all(vertex, other, own_offsets, own_neighbours):
            return vertex
    return -1


@compiled(LONGS, LONGS, readonly(INTS), LONGS, readonly(INTS), *_GRAPH, int64[:, ::1], seconds=1.5)
def _judge(rows, l_starts, l_members, r_starts, r_members, l_offsets, l_edges, r_offsets, r_edges, verdicts):
    """Verdicts on the bicliques at `rows`; `judge` says what they mean.

    Parameters
    ----------
    l_starts, r_starts : (n_bicliques + 1,) int64
    l_members, r_members : int32
        Members of all bicliques of the table.
    l_offsets, l_edges, r_offsets, r_edges
        Neighbours of the left and of the right vertices, ascending.
    verdicts : (n_rows, 3) int64
        The result.
    """
    for i in range(rows.size):
        row = rows[i]
        left = l_members[l_starts[row] : l_starts[row + 1]]
        right = r_members[r_starts[row] : r_starts[row + 1]]
        verdicts[i, 0], verdicts[i, 1], verdicts[i, 2] = 0, -1, -1
        for u in left:
            for v in right:
                if not _is_in(l_edges, l_offsets[u], l_offsets[u + 1], v):
                    verdicts[i, 0], verdicts[i, 1], verdicts[i, 2] = 1, u, v
                    break
            if verdicts[i, 0]:
                break
        if verdicts[i, 0]:
            continue
        joiner = _can_join(left, right, l_offsets, l_edges, r_offsets, r_edges)
        if joiner >= 0:
            verdicts[i, 0], verdicts[i, 1] = 2, joiner
            continue
        joiner = _can_join(right, left, r_offsets, r_edges, l_offsets, l_edges)
        if joiner >= 0:
            verdicts[i, 0], verdicts[i, 1] = 3, joiner


@compiled()
def _common(members, own_side, other_side):
    """Common neighbours of `members`, ascending."""
    rarest = _rarest(members, own_side.offsets)
    found = np.empty(own_side.offsets[rarest + 1] - own_side.offsets[rarest], np.int32)
    n = 0
    for i in range(own_side.offsets[rarest], own_side.offsets[rarest + 1]):
        neighbour = own_side.edges[i]
        if _sees_all(neighbour, members, other_side.offsets, other_side.edges):
            found[n] = neighbour
            n += 1
    return found[:n]


class _Side(NamedTuple):
    """The vertices of one side of the graph, and of the query.

    Attributes
    ----------
    offsets, edges : (n + 1,) int64 and int32
        Neighbours, ascending.
    hashes : (n,) uint64
    wanted : int64
        Ids that a biclique of the query holds.
    """

    offsets: np.ndarray
    edges: np.ndarray
    hashes: np.ndarray
    wanted: np.ndarray


_SIDE = types.NamedTuple((LONGS, INTS, WORDS, LONGS), _Side)


@compiled(int64[:, ::1], _SIDE, _SIDE, int64[:, ::1], uint64[:, ::1], FLAGS, seconds=1.5)
def _closures(seeds, own_side, other_side, sizes, sums, holds_all):
    """Return the bicliques that `seeds` generate; see `closures`.

    Parameters
    ----------
    seeds : (n, 2) integers
        Pairs of vertices of the own side; a vertex twice stands for itself.
    sizes, sums : (n, 2) int64, uint64
        The result, own side first.
    holds_all : (n,) bool
        The same: whether all wanted ids are members.
    """
    for i in range(len(seeds)):
        n = 1 if seeds[i, 0] == seeds[i, 1] else 2
        other = _common(seeds[i, :n].astype(np.int32), own_side, other_side)
        own = _common(other, other_side, own_side)
        sizes[i, 0], sizes[i, 1] = own.size, other.size
        own_sum = other_sum = uint64(0)
        for vertex in own:
            own_sum += own_side.hashes[vertex]
        for vertex in other:
            other_sum += other_side.hashes[vertex]
        sums[i, 0], sums[i, 1] = own_sum, other_sum
        complete = True
        for vertex in own_side.wanted:
            complete = complete and _is_in(own, 0, own.size, vertex)
        for vertex in other_side.wanted:
            complete = complete and _is_in(other, 0, other.size, vertex)
        holds_all[i] = complete


def vertex_seeds(n_vertices: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """Each vertex with itself, ``(n, 2)``; a random choice of them where there are more than `most`."""
    vertices = np.arange(n_vertices)
    if n_vertices > most:
        vertices = np.sort(rng.choice(n_vertices, most, replace=False))
    return np.column_stack([vertices, vertices])


def pair_seeds(adjacency: Adjacency, most: int, rng: np.random.Generator) -> np.ndarray:
    """Random pairs of left vertices that share a neighbour, ``(n, 2)``: both ends of two edges of a right vertex."""
    n_edges = adjacency.right.size
    n = min(most, _PAIRS_PER_EDGE * n_edges)
    first = rng.integers(0, n_edges, n)
    middle = np.searchsorted(adjacency.right_offsets, first, side="right") - 1
    second = rng.integers(adjacency.right_offsets[middle], adjacency.right_offsets[middle + 1])
    return np.sort(np.column_stack([adjacency.right[first], adjacency.right[second]]), axis=1).astype(np.int64)


def check_witnesses(
    adjacency: Adjacency,
    side: str,
    seeds: np.ndarray,
    rules: RowRules,
    sorted_keys: np.ndarray,
    vertex_keys: pa.ChunkedArray,
    threads: int,
) -> np.ndarray:
    """Look up the bicliques that `seeds` generate; returns the distinct keys of those that the query asks for.

    Parameters
    ----------
    side : str
        Whose vertices the seeds are.
    seeds : (n, 2) integers
        As in `closures`.
    rules : RowRules
        Hashes of the vertices, and what the query asks for.
    sorted_keys : int64
        Those of the run's bicliques, ascending.
    vertex_keys : pa.ChunkedArray
        The keys of that side as the user wrote them, for the message.

    Raises
    ------
    VerificationError
        One is not in the run.
    """
    looked_up = [np.empty(0, np.int64)]
    for start in range(0, len(seeds), _CHUNK):
        chunk = seeds[start : start + _CHUNK]
        sizes, sums, holds_all = closures(adjacency, side, chunk, rules.hashes, rules.containing, threads)
        expected = np.flatnonzero(rules.accepts(sizes) & holds_all)
        keys = biclique_keys(sums[expected, 0], sums[expected, 1])
        places = np.searchsorted(sorted_keys, keys)
        found = places < sorted_keys.size
        found[found] = sorted_keys[places[found]] == keys[found]
        looked_up.append(np.unique(keys))
        if not found.all():
            seed = int(expected[np.argmin(found)])
            ends = " and ".join(
                shortened(repr(vertex_keys[int(vertex)].as_py()), 80) for vertex in dict.fromkeys(chunk[seed].tolist())
            )
            raise VerificationError(
                f"a biclique is missing: the maximal one generated by {side} {ends}, "
                f"{sizes[seed, 0]} x {sizes[seed, 1]}, biclique_key {keys[np.argmin(found)]}"
            )
    return np.unique(np.concatenate(looked_up))


def adjacency(edges: EdgeData) -> Adjacency:
    """The graph of some edges."""
    return Adjacency.of(edges.left_ids, edges.right_ids, len(edges.left_keys), len(edges.right_keys))


def judge_rows(graph: Adjacency, batch: Batch, chosen: np.ndarray, keys: Keys, threads: int) -> None:
    """Some rows of a batch: each complete, and none can join.

    Raises
    ------
    VerificationError
        Names the first that is not.
    """
    verdicts = judge(graph, chosen, batch.offsets[0], batch.members[0], batch.offsets[1], batch.members[1], threads)
    wrong = np.flatnonzero(verdicts[:, 0])
    if wrong.size == 0:
        return
    verdict, first, second = verdicts[wrong[0]].tolist()
    left, right = (partial(_key_of, of_side) for of_side in keys)
    what = {
        MISSING_EDGE: lambda: f"is not complete: no edge between left {left(first)} and right {right(second)}",
        LEFT_CAN_JOIN: lambda: f"is not maximal: left {left(first)} can join",
        RIGHT_CAN_JOIN: lambda: f"is not maximal: right {right(first)} can join",
    }[verdict]()
    raise VerificationError(f"{batch.name(int(chosen[wrong[0]]))}: {what}")


def check_distinct(place: str, sorted_keys: np.ndarray, name: str = "biclique_key") -> None:
    """No key twice, of keys in ascending order; `place` is where they are from.

    Raises
    ------
    VerificationError
    """
    twice = np.flatnonzero(sorted_keys[1:] == sorted_keys[:-1])
    if twice.size:
        raise VerificationError(f"{place}: {name} {sorted_keys[twice[0]]} is there more than once")


def check_nothing_missing(job: Job, graph: Adjacency, rules: RowRules, sorted_keys: np.ndarray, keys: Keys) -> int:
    """The bicliques of single vertices and of pairs are there; returns how many were looked up.

    Raises
    ------
    VerificationError
        One is not.
    """
    looked_up = [
        check_witnesses(graph, side, seeds, rules, sorted_keys, of_side, job.threads)
        for side, seeds, of_side in (
            ("left", vertex_seeds(len(keys[0]), job.sample, job.rng), keys[0]),
            ("right", vertex_seeds(len(keys[1]), job.sample, job.rng), keys[1]),
            ("left", pair_seeds(graph, min(_PAIRS, job.sample), job.rng), keys[0]),
        )
    ]
    return int(np.unique(np.concatenate(looked_up)).size)


def _key_of(keys: pa.ChunkedArray, vertex: int) -> str:
    return shortened(repr(keys[vertex].as_py()), _KEY)
