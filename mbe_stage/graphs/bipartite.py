"""A bipartite graph as two sorted adjacency arrays: the input of every engine for bicliques."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.ids import as_ids, checksum_of_edges, vertex_count


@dataclass(frozen=True, slots=True, eq=False)
class BipartiteCSR:
    """A simple bipartite graph in CSR form, in both directions.

    Attributes
    ----------
    n_left, n_right : int
        Number of vertices on each side. Ids are dense, ``0 .. n - 1``; the sides have separate ids.
    left_offsets : (n_left + 1,) int64
        The neighbours of left vertex ``u`` are ``left_members[left_offsets[u]:left_offsets[u + 1]]``.
    left_members : (n_edges,) int32
        Right ids, ascending and distinct within each left vertex.
    right_offsets, right_members
        The same edges seen from the right side.
    """

    n_left: int
    n_right: int
    left_offsets: np.ndarray
    left_members: np.ndarray
    right_offsets: np.ndarray
    right_members: np.ndarray

    @classmethod
    def from_edges(
        cls, left_ids: ArrayLike, right_ids: ArrayLike, n_left: int | None = None, n_right: int | None = None
    ) -> BipartiteCSR:
        """Build the graph from pairs of dense ids; duplicate pairs are merged.

        Parameters
        ----------
        left_ids, right_ids : (n_pairs,) integers
            The two ends of each edge.
        n_left, n_right : int, optional
            Number of vertices; by default the largest id plus one.

        Raises
        ------
        InvalidArgument
            Lengths differ, ids are not integers, negative, or not below the number of vertices.

        Examples
        --------
        >>> graph = BipartiteCSR.from_edges([0, 0, 1], [0, 1, 1])
        >>> graph.n_edges, graph.left_degrees.tolist()
        (3, [2, 1])
        """
        left, right = as_ids(left_ids, "left_ids"), as_ids(right_ids, "right_ids")
        if left.shape != right.shape:
            raise InvalidArgument(
                f"left_ids has {left.size} entries and right_ids {right.size}: give one left and one right id per edge"
            )
        n_left = vertex_count(left, n_left, "n_left", "left ids")
        n_right = vertex_count(right, n_right, "n_right", "right ids")
        # Imported here: loading compiled code takes time, and many modules only need the type.
        from mbe_stage.graphs.csr import transposed
        from mbe_stage.graphs.pairs import distinct_pairs, row_offsets

        left, right = distinct_pairs(left, right, n_left, n_right)
        left_offsets, right_offsets = row_offsets(left, n_left), row_offsets(right, n_right)
        # Compiled code expects contiguous, writable arrays.
        right = np.require(right, requirements=["C", "W"])
        return cls(n_left, n_right, left_offsets, right, right_offsets, transposed(left_offsets, right, right_offsets))

    @property
    def n_edges(self) -> int:
        """Number of distinct edges."""
        return int(self.left_members.size)

    @property
    def is_on_host(self) -> bool:
        """True for NumPy arrays, False for CuPy arrays."""
        return isinstance(self.left_offsets, np.ndarray)

    @property
    def edges_checksum(self) -> int:
        """CRC-32 of the edges; it guards against mixing up graphs by mistake, not against forgery."""
        return checksum_of_edges(self.left_offsets, self.left_members)

    def check_containing(self, left: Iterable[int], right: Iterable[int]) -> None:
        """Raise `InvalidArgument` if a vertex that must be a member is not in the graph."""
        for side, wanted, n in (("left", left, self.n_left), ("right", right, self.n_right)):
            for vertex in wanted:
                if not 0 <= vertex < n:
                    raise InvalidArgument(f"containing_{side} holds {vertex}: the {side} ids run from 0 to {n - 1}")

    @property
    def left_degrees(self) -> np.ndarray:
        """Degrees of the left vertices, ``(n_left,) int64``."""
        return np.diff(self.left_offsets)

    @property
    def right_degrees(self) -> np.ndarray:
        """Degrees of the right vertices, ``(n_right,) int64``."""
        return np.diff(self.right_offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of the four arrays."""
        arrays = self.left_offsets, self.left_members, self.right_offsets, self.right_members
        return sum(array.nbytes for array in arrays)

    def neighbours_of_left(self, vertex: int) -> np.ndarray:
        """Return the right neighbours of a left vertex, ascending (a view)."""
        return self.left_members[self.left_offsets[vertex] : self.left_offsets[vertex + 1]]

    def neighbours_of_right(self, vertex: int) -> np.ndarray:
        """Return the left neighbours of a right vertex, ascending (a view)."""
        return self.right_members[self.right_offsets[vertex] : self.right_offsets[vertex + 1]]

    def swapped(self) -> BipartiteCSR:
        """Return the graph with its sides exchanged; no array is copied."""
        left, right = (self.left_offsets, self.left_members), (self.right_offsets, self.right_members)
        return BipartiteCSR(self.n_right, self.n_left, *right, *left)

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all edges as ``(left_ids, right_ids)``, int32, ordered by left id and then right id."""
        return np.repeat(np.arange(self.n_left, dtype=np.int32), self.left_degrees), self.left_members


def wedge_counts(graph: BipartiteCSR) -> tuple[int, int]:
    """Return the sums of the squared degrees of the left and of the right side.

    The first is the number of two-step paths right - left - right, which enumerating the right side walks at its first
    level. The second is the same for enumerating the left side.
    """
    return int(np.sum(graph.left_degrees**2)), int(np.sum(graph.right_degrees**2))
