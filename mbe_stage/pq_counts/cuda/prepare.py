"""Prepare the graph on the device: its core, the roots' side, rows and columns in ascending degree."""

from __future__ import annotations

from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.device.core import core_of
from mbe_stage.device.graph import copy_bytes
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.ordering import left_vertices_are_roots

_USUAL = Techniques()
_LOW_HALF = 0xFFFFFFFF
_SPREAD = 64
"""One in this many roots is among the heaviest."""
_BYTES_PER_EDGE, _BYTES_PER_VERTEX = 100, 64


@dataclass(frozen=True, slots=True, eq=False)
class DeviceGraph:
    """The core of a graph as the search reads it.

    Attributes
    ----------
    lists : Graph
        Its roots are all rows.
    vertices : (n_rows,) integers
        The vertex of each row.
    rows_are_left : bool
    n_rows, max_row_degree, max_column_degree : int
    max_matrix_rows, max_node_words : int
        As in `partition.PartSizes`.
    n_paths, max_paths : int
        Two-step paths from all rows to later ones, and most of one row.
    paths : (n_rows,) int64
        Those of each row.
    is_low_memory : bool
        True if there are no positions (`low_memory_prepare`).
    mapped_bytes : int
        Bytes of members of rows and columns in host memory.
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
        arrays = [*self.lists, self.vertices, self.paths]
        return sum(array.nbytes for array in arrays) - self.mapped_bytes + 4 * self.n_rows

    def roots(self, rows: np.ndarray | None, *, are_spread: bool = False) -> Graph:
        """Return the same core with some of the rows as roots, by default all: those with the most paths first.

        Parameters
        ----------
        rows : (n,) integers, optional
        are_spread : bool
            True to spread roots with many paths among the others, so that their nodes do not all fill a small pool at
            once.
        """
        order = cp.argsort(-self.paths).astype(cp.int32)
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
    """Most device memory of `prepare`, including the graph if it is on the host."""
    own = _BYTES_PER_EDGE * graph.n_edges + _BYTES_PER_VERTEX * (graph.n_left + graph.n_right)
    return own + copy_bytes(graph)


def prepare(
    graph: BipartiteCSR, fewest: tuple[int, int], most: tuple[int, int], n_blocks: int, techniques: Techniques = _USUAL
) -> DeviceGraph | None:
    """Reduce a graph to its core and order it; None if it is empty.

    Parameters
    ----------
    graph : BipartiteCSR
        Arrays are CuPy's.
    fewest, most : tuple of int
        p and q of the smallest bicliques, and of the largest.
    n_blocks : int
        Number of resident blocks.
    techniques : Techniques
        They choose the side of the roots.
    """
    min_p, min_q = fewest
    alive = cp.ones(graph.n_left + graph.n_right, cp.int32)
    core = core_of(graph, alive, min_q, min_p, n_blocks)
    if core.n_edges == 0:
        return None
    squares = cp.stack([(cp.diff(offsets) ** 2).sum() for offsets in (core.left_offsets, core.right_offsets)])
    of_left, of_right = (int(total) for total in cp.asnumpy(squares))
    # Two-step paths between left vertices go through right ones.
    rows_are_left = not techniques.layer_choice or left_vertices_are_roots(of_right, of_left, *most)
    fewest_columns = min_q if rows_are_left else min_p
    core = core if rows_are_left else core.swapped()
    return _in_order(core, rows_are_left, fewest_columns)


def _in_order(core: BipartiteCSR, rows_are_left: bool, fewest_columns: int) -> DeviceGraph:
    """Return the lists of a core whose left vertices are the rows."""
    vertices, row_numbers, row_offsets = _ascending(core.left_offsets)
    _, column_numbers, column_offsets = _ascending(core.right_offsets)
    n_edges = core.n_edges
    entries = cp.arange(n_edges, dtype=cp.int64)
    owners = cp.searchsorted(core.left_offsets[1:], entries, side="right")
    rows, columns = row_numbers[owners], column_numbers[core.left_members]
    codes = cp.sort(rows << 32 | columns)
    rows, columns = codes >> 32, codes & _LOW_HALF
    by_column = cp.argsort(columns << 32 | rows)
    positions = cp.empty(n_edges, cp.int64)
    positions[by_column] = entries
    ends = cp.zeros(n_edges + 1, cp.int64)
    cp.cumsum(column_offsets[columns + 1] - positions - 1, out=ends[1:])
    paths = cp.diff(ends[row_offsets])
    lists = Graph(
        row_offsets,
        columns.astype(cp.int32),
        positions,
        column_offsets,
        rows[by_column].astype(cp.int32),
        cp.empty(0, cp.int32),
    )
    return with_sizes(lists, vertices, paths, rows_are_left, fewest_columns)


def with_sizes(
    lists: Graph, vertices: cp.ndarray, paths: cp.ndarray, rows_are_left: bool, fewest_columns: int
) -> DeviceGraph:
    """A core with what the plan of its search depends on, as `partition` has it, for all roots.

    Parameters
    ----------
    vertices, paths : (n_rows,) integers
        As in `DeviceGraph`.
    rows_are_left : bool
    fewest_columns : int
        Those of the smallest bicliques.
    """
    n_rows, degrees = int(vertices.size), cp.diff(lists.row_offsets)
    matrix_rows = cp.minimum(cp.arange(n_rows - 1, -1, -1), paths // fewest_columns)
    node_words = matrix_rows * ((degrees + 31) // 32) + degrees * ((matrix_rows + 31) // 32)
    sizes = [each.max() for each in (degrees, cp.diff(lists.column_offsets), matrix_rows, node_words)]
    row, column, rows, words, n_paths, most = cp.asnumpy(cp.stack([*sizes, paths.sum(), paths.max()])).tolist()
    return DeviceGraph(lists, vertices, rows_are_left, n_rows, row, column, rows, words, n_paths, most, paths)


def _ascending(offsets: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray, cp.ndarray]:
    """Sort vertices with neighbours by degree, then by id; return them, the number of each vertex, and list offsets."""
    degrees = cp.diff(offsets)
    there = cp.flatnonzero(degrees)
    vertices = there[cp.argsort(degrees[there])]
    numbers = cp.full(degrees.size, -1, cp.int64)
    numbers[vertices] = cp.arange(vertices.size, dtype=cp.int64)
    ordered = cp.zeros(vertices.size + 1, cp.int64)
    cp.cumsum(degrees[vertices], out=ordered[1:])
    return vertices, numbers, ordered
