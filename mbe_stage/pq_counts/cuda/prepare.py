"""Prepare the graph on the device: take its core, choose the roots' side, order rows and columns by degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy as cp
import numpy as np

from mbe_stage.device.arrays import sent
from mbe_stage.device.core import core_of
from mbe_stage.device.graph import copy_bytes, on_device
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.ordering import left_vertices_are_roots

_Pair = tuple[Any, Any]
_USUAL = Techniques()
_FEW_EDGES = 1 << 14
"""Largest number of edges to prepare on the host."""
_LOW_HALF = 0xFFFFFFFF
_SPREAD = 64
"""If roots are spread, one in this many is among the heaviest."""
_BYTES_PER_EDGE, _BYTES_PER_VERTEX = 100, 64


@dataclass(frozen=True, slots=True, eq=False)
class DeviceGraph:
    """The core of a graph as the search reads it.

    Attributes
    ----------
    lists : Graph
        If the host has ordered the roots: all rows, in descending number of paths; otherwise none.
    vertices : (n_rows,) integers
        The vertex of each row.
    rows_are_left : bool
    n_rows, max_row_degree, max_column_degree : int
    max_matrix_rows, max_node_words : int
        As in `partition.PartSizes`.
    n_paths, max_paths : int
        Number of two-step paths from all rows to later ones, and the maximum of one row.
    paths : (n_rows,) int64
        Number of two-step paths from each row to later ones.
    is_low_memory : bool
        True if there are no positions (`low_memory_prepare`).
    mapped_bytes : int
        Bytes of the lists in host memory.
    """

    lists: Graph
    vertices: cp.ndarray
    rows_are_left: bool
    n_rows: int
    max_row_degree: int
    max_column_degree: int
    max_matrix_rows: int
    max_node_words: int
    n_paths: int
    max_paths: int
    paths: cp.ndarray
    is_low_memory: bool = False
    mapped_bytes: int = 0

    @property
    def list_bytes(self) -> int:
        """Device memory of the lists, including the order of the roots."""
        arrays = [*self.lists[:-1], self.vertices, self.paths]
        return sum(array.nbytes for array in arrays) - self.mapped_bytes + 4 * self.n_rows

    def roots(self, rows: np.ndarray | None, *, are_spread: bool = False) -> Graph:
        """Return the lists with some of the rows as roots, by default all, in descending number of paths.

        Parameters
        ----------
        rows : (n,) integers, optional
        are_spread : bool
            True to spread roots with many paths among the others, so that their nodes do not fill a small pool all at
            once.
        """
        order = self.lists.order if self.lists.order.size else cp.argsort(-self.paths).astype(cp.int32)
        if are_spread:
            turns = -(-self.n_rows // _SPREAD)
            places = cp.arange(self.n_rows)
            order = order[cp.argsort(places % turns * _SPREAD + places // turns)]
        if rows is not None:
            is_wanted = cp.zeros(self.n_rows, cp.bool_)
            is_wanted[cp.asarray(rows)] = True
            order = order[is_wanted[order]]
        return self.lists._replace(order=cp.ascontiguousarray(order))


def preparation_bytes(graph: BipartiteCSR) -> int:
    """Return the largest device memory of `prepare`, including a copy of the graph if it is on the host."""
    own = _BYTES_PER_EDGE * graph.n_edges + _BYTES_PER_VERTEX * (graph.n_left + graph.n_right)
    return own + copy_bytes(graph)


def prepare(
    graph: BipartiteCSR, fewest: tuple[int, int], most: tuple[int, int], n_blocks: int, techniques: Techniques = _USUAL
) -> DeviceGraph | None:
    """Reduce a graph to its core and order it; None if it is empty.

    Parameters
    ----------
    graph : BipartiteCSR
        Graph with NumPy or CuPy arrays.
    fewest, most : tuple of int
        p and q of the smallest and of the largest bicliques.
    n_blocks : int
        Number of resident blocks.
    techniques : Techniques
        Techniques; `layer_choice` matters for the side of the roots.
    """
    min_p, min_q = fewest
    if graph.is_on_host and graph.n_edges <= _FEW_EDGES:
        edges, degrees = _core_on_the_host(graph, fewest)
    else:
        graph = on_device(graph)
        core = core_of(graph, None, min_q, min_p, n_blocks)
        owners = cp.searchsorted(core.left_offsets[1:], cp.arange(core.n_edges, dtype=cp.int64), side="right")
        edges, degrees = (owners, core.left_members), (cp.diff(core.left_offsets), cp.diff(core.right_offsets))
    if edges[0].size == 0:
        return None
    squares = cp.get_array_module(edges[0]).stack([(each * each).sum() for each in degrees])
    of_left, of_right = (int(total) for total in cp.asnumpy(squares))
    # Two-step paths between left vertices go through right vertices.
    rows_are_left = not techniques.layer_choice or left_vertices_are_roots(of_right, of_left, *most)
    if rows_are_left:
        return _in_order(edges, degrees, rows_are_left, min_q)
    return _in_order(edges[::-1], degrees[::-1], rows_are_left, min_p)


def _core_on_the_host(graph: BipartiteCSR, fewest: tuple[int, int]) -> tuple[_Pair, _Pair]:
    """Return edges and degrees of the core of a small graph, for which launches would take longer."""
    left, right = graph.edges()
    while True:
        of_left, of_right = np.bincount(left, minlength=graph.n_left), np.bincount(right, minlength=graph.n_right)
        is_kept = (of_left[left] >= fewest[1]) & (of_right[right] >= fewest[0])
        if is_kept.all():
            return (left, right), (of_left, of_right)
        left, right = left[is_kept], right[is_kept]


def _in_order(edges: _Pair, degrees: _Pair, rows_are_left: bool, fewest_columns: int) -> DeviceGraph:
    """Return a core on the device, from its edges and degrees by row and column in NumPy or CuPy arrays."""
    xp = cp.get_array_module(edges[0])
    vertices, row_numbers, row_offsets = _ascending(degrees[0])
    _, column_numbers, column_offsets = _ascending(degrees[1])
    n_edges = edges[0].size
    codes = xp.sort(row_numbers[edges[0]] << 32 | column_numbers[edges[1]])
    rows, columns = codes >> 32, codes & _LOW_HALF
    by_column = xp.argsort(columns << 32 | rows)
    positions = xp.empty(n_edges, xp.int64)
    positions[by_column] = xp.arange(n_edges, dtype=xp.int64)
    ends = xp.zeros(n_edges + 1, xp.int64)
    xp.cumsum(column_offsets[columns + 1] - positions - 1, out=ends[1:])
    paths = xp.diff(ends[row_offsets])
    lists = Graph(
        row_offsets,
        columns.astype(xp.int32),
        positions,
        column_offsets,
        rows[by_column].astype(xp.int32),
        xp.empty(0, xp.int32),
    )
    return with_sizes(lists, vertices, paths, rows_are_left, fewest_columns)


def with_sizes(lists: Graph, vertices: Any, paths: Any, rows_are_left: bool, fewest_columns: int) -> DeviceGraph:
    """Return a core with the sizes that the plan of its search depends on (`partition.PartSizes`), for all roots.

    Parameters
    ----------
    vertices, paths : (n_rows,) integers
        As in `DeviceGraph`; NumPy or CuPy arrays, like the lists.
    rows_are_left : bool
    fewest_columns : int
        Columns of the smallest bicliques.
    """
    xp, n_rows = cp.get_array_module(vertices), int(vertices.size)
    degrees = xp.diff(lists.row_offsets)
    matrix_rows = xp.minimum(xp.arange(n_rows - 1, -1, -1), paths // fewest_columns)
    node_words = matrix_rows * ((degrees + 31) // 32) + degrees * ((matrix_rows + 31) // 32)
    sizes = [each.max() for each in (degrees, xp.diff(lists.column_offsets), matrix_rows, node_words)]
    row, column, rows, words, n_paths, most = cp.asnumpy(xp.stack([*sizes, paths.sum(), paths.max()])).tolist()
    if xp is np:
        lists = lists._replace(order=np.argsort(-paths, kind="stable").astype(np.int32))
        *copies, vertices, paths = sent(*lists, vertices, paths)
        lists = Graph(*copies)
    return DeviceGraph(lists, vertices, rows_are_left, n_rows, row, column, rows, words, n_paths, most, paths)


def _ascending(degrees: Any) -> tuple[Any, Any, Any]:
    """Sort vertices with neighbours by degree, then by id; return them, the number of each vertex, and list offsets."""
    xp = cp.get_array_module(degrees)
    there = xp.flatnonzero(degrees)
    vertices = there[xp.argsort(degrees[there], kind="stable")]
    numbers = xp.full(degrees.size, -1, xp.int64)
    numbers[vertices] = xp.arange(vertices.size, dtype=xp.int64)
    ordered = xp.zeros(vertices.size + 1, xp.int64)
    xp.cumsum(degrees[vertices], out=ordered[1:])
    return vertices, numbers, ordered
