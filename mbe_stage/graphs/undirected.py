"""An undirected graph as one sorted adjacency array: the input of every engine for cliques."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.ids import as_ids, checksum_of_edges, vertex_count


@dataclass(frozen=True, slots=True, eq=False)
class UndirectedCSR:
    """A simple undirected graph in CSR form: no loops, no edge twice, each edge at both of its ends.

    Attributes
    ----------
    n : int
        Number of vertices; ids are dense, ``0 .. n - 1``. A vertex without edges is one too.
    offsets : (n + 1,) int64
        The neighbours of vertex ``v`` are ``members[offsets[v]:offsets[v + 1]]``.
    members : (2 n_edges,) int32
        Ascending and distinct within each vertex.
    """

    n: int
    offsets: np.ndarray
    members: np.ndarray

    @classmethod
    def from_edges(cls, src: ArrayLike, dst: ArrayLike, n: int | None = None) -> UndirectedCSR:
        """Build the graph from pairs of dense ids, in either direction or both.

        Duplicates are merged. A loop is no edge, and its vertex is a vertex all the same.

        Parameters
        ----------
        src, dst : (n_pairs,) integers
            The two ends of one edge a position.
        n : int, optional
            Number of vertices; by default the largest id plus one.

        Raises
        ------
        InvalidArgument
            Lengths differ, ids are not integers, negative, or not below the number of vertices.

        Examples
        --------
        >>> graph = UndirectedCSR.from_edges([0, 1, 1, 2], [1, 0, 2, 2], n=4)
        >>> graph.n_edges, graph.degrees.tolist()
        (2, [1, 2, 1, 0])
        """
        sources, targets = as_ids(src, "src"), as_ids(dst, "dst")
        if sources.shape != targets.shape:
            raise InvalidArgument(f"src has {sources.size} entries and dst {targets.size}: give both ends of each edge")
        largest = np.maximum(sources, targets)
        n = vertex_count(largest, n, "n", "ids")
        # SciPy's conversion is linear, sorts within rows and merges duplicates; importing it costs, so only here.
        from scipy import sparse

        is_edge = sources != targets
        rows = np.concatenate([sources[is_edge], targets[is_edge]])
        columns = np.concatenate([targets[is_edge], sources[is_edge]])
        adjacency = sparse.coo_array((np.ones(rows.size, np.bool_), (rows, columns)), shape=(n, n)).tocsr()
        return cls(n, adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int32, copy=False))

    @property
    def n_edges(self) -> int:
        """Number of edges, each counted once."""
        return int(self.members.size) // 2

    @property
    def is_on_host(self) -> bool:
        """True if the arrays are NumPy's; else they are CuPy's."""
        return isinstance(self.offsets, np.ndarray)

    def on_host(self) -> UndirectedCSR:
        """Return the graph in host memory: itself if it is there already."""
        if self.is_on_host:
            return self
        # CuPy's arrays; nothing of CuPy is imported here.
        return UndirectedCSR(self.n, self.offsets.get(), self.members.get())  # type: ignore[attr-defined]

    @property
    def edges_checksum(self) -> int:
        """CRC-32 of the edges: it tells graphs apart by mistake, not against forgery."""
        return checksum_of_edges(self.offsets, self.members)

    @property
    def degrees(self) -> np.ndarray:
        """Neighbours of each vertex, ``(n,) int64``."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def nbytes(self) -> int:
        """Bytes of the two arrays."""
        return self.offsets.nbytes + self.members.nbytes

    def check_containing(self, vertices: Iterable[int]) -> None:
        """Refuse vertices that must be members, and are none of the graph.

        Raises
        ------
        InvalidArgument
        """
        for vertex in vertices:
            if not 0 <= vertex < self.n:
                raise InvalidArgument(f"containing holds {vertex}: the ids run from 0 to {self.n - 1}")

    def neighbours(self, vertex: int) -> np.ndarray:
        """The neighbours of a vertex, ascending (a view)."""
        return self.members[self.offsets[vertex] : self.offsets[vertex + 1]]

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Each edge once as ``(src, dst)``, int32, the smaller id first, ordered by both."""
        sources = np.repeat(np.arange(self.n, dtype=np.int32), self.degrees)
        is_first = sources < self.members
        return sources[is_first], self.members[is_first]
