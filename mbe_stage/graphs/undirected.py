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
    """A simple undirected graph in CSR form: no loops, no duplicate edges, each edge stored at both ends.

    Attributes
    ----------
    n : int
        Number of vertices; ids are dense, ``0 .. n - 1``. Vertices without edges count too.
    offsets : (n + 1,) int64
        The neighbours of vertex ``v`` are ``members[offsets[v]:offsets[v + 1]]``.
    members : (2 n_edges,) int32
        Neighbours, ascending and distinct for each vertex.
    """

    n: int
    offsets: np.ndarray
    members: np.ndarray

    @classmethod
    def from_edges(cls, src: ArrayLike, dst: ArrayLike, n: int | None = None) -> UndirectedCSR:
        """Build the graph from pairs of dense ids, in either direction or both.

        Duplicates are merged. Loops are dropped, but their vertices stay.

        Parameters
        ----------
        src, dst : (n_pairs,) integers
            The two ends of each edge.
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
        # SciPy's conversion is linear, sorts rows and merges duplicates. It is slow to import, so it is imported here.
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
        """True for NumPy arrays, False for CuPy arrays."""
        return isinstance(self.offsets, np.ndarray)

    def on_host(self) -> UndirectedCSR:
        """Return the graph in host memory; the same object if it is there already."""
        if self.is_on_host:
            return self
        # The arrays are CuPy's, but CuPy need not be imported here.
        return UndirectedCSR(self.n, self.offsets.get(), self.members.get())  # type: ignore[attr-defined]

    @property
    def edges_checksum(self) -> int:
        """CRC-32 of the edges; it guards against mixing up graphs by mistake, not against forgery."""
        return checksum_of_edges(self.offsets, self.members)

    @property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each vertex, ``(n,) int64``."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def nbytes(self) -> int:
        """Bytes of the two arrays."""
        return self.offsets.nbytes + self.members.nbytes

    def check_containing(self, vertices: Iterable[int]) -> None:
        """Raise `InvalidArgument` if a vertex that must be a member is not in the graph."""
        for vertex in vertices:
            if not 0 <= vertex < self.n:
                raise InvalidArgument(f"containing holds {vertex}: the ids run from 0 to {self.n - 1}")

    def neighbours(self, vertex: int) -> np.ndarray:
        """Return the neighbours of a vertex, ascending (a view)."""
        return self.members[self.offsets[vertex] : self.offsets[vertex + 1]]

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each edge once as ``(src, dst)``, int32, the smaller id first, sorted."""
        sources = np.repeat(np.arange(self.n, dtype=np.int32), self.degrees)
        is_first = sources < self.members
        return sources[is_first], self.members[is_first]
