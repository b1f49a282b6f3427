"""Statistics over all bicliques while they stream past: counts by size, and the bicliques of each vertex.

Memory grows with the vertices and the distinct sizes, not with the number of bicliques. The loops release the GIL, so a
sink may run them beside the search.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numba import int64

from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, readonly, readonly_view, steps_of

DENSE_SIZES = 512
"""Sizes below this on both sides are counted in a dense array; nearly all bicliques are that small."""


@dataclass(frozen=True, slots=True, eq=False)
class VertexStatistics:
    """Statistics of the bicliques of each vertex on one side.

    Attributes
    ----------
    n_bicliques : (n,) int64
        Number of bicliques that contain the vertex.
    largest_edges : (n,) int64
        Number of edges of its largest biclique; 0 for a vertex without bicliques.
    largest_keys : (n,) int64
        Key of its largest biclique; the smallest key in a tie. Undefined for a vertex without bicliques.
    """

    n_bicliques: np.ndarray
    largest_edges: np.ndarray
    largest_keys: np.ndarray

    @classmethod
    def of(cls, n_vertices: int) -> VertexStatistics:
        """Return statistics of no bicliques."""
        return cls(*(np.zeros(n_vertices, np.int64) for _ in range(3)))

    def add(self, sizes: np.ndarray, members: np.ndarray, n_edges: np.ndarray, keys: np.ndarray) -> None:
        """Add some bicliques.

        Parameters
        ----------
        sizes : (n_bicliques,) int32
            Number of members on this side.
        members : int32
            Dense ids, biclique after biclique.
        n_edges, keys : (n_bicliques,) int64
        """
        _add_members(sizes, members, n_edges, keys, self.n_bicliques, self.largest_edges, self.largest_keys)

    def merge(self, other: VertexStatistics) -> None:
        """Add the statistics of other bicliques of the same vertices.

        Raises
        ------
        ValueError
            The statistics have another number of vertices.
        """
        names = ("n_bicliques", "largest_edges", "largest_keys")
        own, others = ([getattr(each, name) for name in names] for each in (self, other))
        # Compiled code does not check, and the statistics may come from a file.
        if {each.shape for each in others} != {self.n_bicliques.shape}:
            raise ValueError(f"sums of {[each.shape for each in others]}: expected {self.n_bicliques.shape}")
        _merge(*own, *map(readonly_view, others))


class SizeCounts:
    """Counts the bicliques of each size ``(n_left, n_right)``."""

    def __init__(self) -> None:
        self._dense = np.zeros((DENSE_SIZES, DENSE_SIZES), np.int64)
        self._sparse: Counter[int] = Counter()

    def __getstate__(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the sizes that occur: most do not, and a sink is sent for each task."""
        return self.sorted_rows()

    def __setstate__(self, rows: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Restore the counts."""
        self.__init__()  # type: ignore[misc]
        self.add_counts(*rows)

    @property
    def n_bytes(self) -> int:
        """Bytes of the dense counts; the sparse ones are few."""
        return self._dense.nbytes

    def add(self, left_sizes: np.ndarray, right_sizes: np.ndarray) -> None:
        """Add the sizes of some bicliques; both ``(n_bicliques,) int32``."""
        if _count_sizes(left_sizes, right_sizes, self._dense):
            is_large = (left_sizes >= DENSE_SIZES) | (right_sizes >= DENSE_SIZES)
            self.add_large(left_sizes[is_large], right_sizes[is_large])

    def add_large(self, left_sizes: np.ndarray, right_sizes: np.ndarray) -> None:
        """Count sizes with a side of `DENSE_SIZES` or more, without compiled code."""
        codes, counts = np.unique(left_sizes.astype(np.int64) << 32 | right_sizes, return_counts=True)
        self._sparse.update(dict(zip(codes.tolist(), counts.tolist(), strict=True)))

    def add_dense(self, counts: np.ndarray) -> None:
        """Add the number of bicliques of each size below `DENSE_SIZES`, ``(DENSE_SIZES, DENSE_SIZES) int64``."""
        self._dense += counts

    def add_counts(self, left_sizes: np.ndarray, right_sizes: np.ndarray, counts: np.ndarray) -> None:
        """Add the number of bicliques of each size, in the form of `sorted_rows`."""
        is_dense = (left_sizes < DENSE_SIZES) & (right_sizes < DENSE_SIZES)
        self._dense[left_sizes[is_dense], right_sizes[is_dense]] += counts[is_dense]
        codes = left_sizes.astype(np.int64) << 32 | right_sizes
        self._sparse.update(dict(zip(codes[~is_dense].tolist(), counts[~is_dense].tolist(), strict=True)))

    def merge(self, other: SizeCounts) -> None:
        """Add the counts of other bicliques."""
        self.add_dense(other._dense)
        self._sparse.update(other._sparse)

    def sorted_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``(n_left, n_right, n_bicliques)`` of every size that occurs, sorted by the first two."""
        # NumPy finds the ones of a Boolean array much faster than numbers that are not zero.
        left, right = np.divmod(np.flatnonzero(self._dense != 0), DENSE_SIZES)
        others, numbers = (np.fromiter(each, np.int64) for each in (self._sparse.keys(), self._sparse.values()))
        codes = np.concatenate([left << 32 | right, others])
        order = np.argsort(codes)
        counts = np.concatenate([self._dense[left, right], numbers])[order]
        return (codes[order] >> 32).astype(np.int32), codes[order].astype(np.int32), counts


def long_form(
    keys: np.ndarray,
    left_sizes: np.ndarray,
    left_members: np.ndarray,
    right_sizes: np.ndarray,
    right_members: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one row per member: each biclique's left members, then its right members, then the next biclique.

    Returns
    -------
    keys : (n_members,) int64
    sides : (n_members,) int8
        0 for left, 1 for right.
    vertices : (n_members,) int32
    """
    return _long_form(*map(readonly_view, (keys, left_sizes, left_members, right_sizes, right_members)))


def compile_steps(with_members: bool = True) -> tuple[CompileStep, ...]:
    """Return the steps to compile the statistics, and `long_form` if wanted."""
    return steps_of(_add_members, _merge, _count_sizes, *([_long_form] if with_members else []))


@compiled(INTS, INTS, LONGS, LONGS, LONGS, LONGS, LONGS)
def _add_members(sizes, members, n_edges, keys, n_bicliques, largest_edges, largest_keys):
    """Add the members of one side of some bicliques to the statistics of its vertices.

    Parameters
    ----------
    sizes : (n,) int32
    members : int32
        Members of all bicliques, concatenated.
    n_edges, keys : (n,) int64
        Number of edges and key of each biclique.
    n_bicliques, largest_edges, largest_keys : (n_vertices,) int64
        Changed in place; among equally large bicliques, the smallest key is kept.
    """
    position = 0
    for i in range(sizes.size):
        edges, key = n_edges[i], keys[i]
        for _ in range(sizes[i]):
            vertex = members[position]
            position += 1
            n_bicliques[vertex] += 1
            if edges > largest_edges[vertex] or (edges == largest_edges[vertex] and key < largest_keys[vertex]):
                largest_edges[vertex] = edges
                largest_keys[vertex] = key


@compiled(LONGS, LONGS, LONGS, *3 * [readonly(LONGS)])
def _merge(n_bicliques, largest_edges, largest_keys, other_n_bicliques, other_edges, other_keys):
    """Add statistics of other bicliques to those of the same vertices, by the rules of `_add_members`.

    Parameters
    ----------
    n_bicliques, largest_edges, largest_keys : (n_vertices,) int64
        Changed in place.
    other_n_bicliques, other_edges, other_keys : (n_vertices,) int64
        Statistics of the other bicliques.
    """
    for vertex in range(n_bicliques.size):
        n_bicliques[vertex] += other_n_bicliques[vertex]
        edges, key = other_edges[vertex], other_keys[vertex]
        # A vertex without bicliques has 0 edges, fewer than any biclique.
        is_first = edges == largest_edges[vertex] and edges > 0 and key < largest_keys[vertex]
        if edges > largest_edges[vertex] or is_first:
            largest_edges[vertex] = edges
            largest_keys[vertex] = key


@compiled(INTS, INTS, int64[:, ::1])
def _count_sizes(left_sizes, right_sizes, dense):
    """Add the sizes for which there is an entry to `dense`; return the number of the others."""
    n_large = 0
    for i in range(left_sizes.size):
        left, right = np.uint64(left_sizes[i]), np.uint64(right_sizes[i])
        if left < dense.shape[0] and right < dense.shape[1]:
            dense[left, right] += 1
        else:
            n_large += 1
    return n_large


@compiled(readonly(LONGS), *4 * [readonly(INTS)])
def _long_form(keys, left_sizes, left_members, right_sizes, right_members):
    n_members = left_members.size + right_members.size
    out_keys = np.empty(n_members, np.int64)
    sides = np.empty(n_members, np.int8)
    vertices = np.empty(n_members, np.int32)
    row = left = right = 0
    for i in range(keys.size):
        for _ in range(left_sizes[i]):
            out_keys[row], sides[row], vertices[row] = keys[i], 0, left_members[left]
            row += 1
            left += 1
        for _ in range(right_sizes[i]):
            out_keys[row], sides[row], vertices[row] = keys[i], 1, right_members[right]
            row += 1
            right += 1
    return out_keys, sides, vertices
