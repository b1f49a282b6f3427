"""The graph ready to be searched, as `prepare` has it, made in little memory: its lists are written in pieces.

`prepare` sorts all edges at once, which takes ten times what the lists take. Here the lists of some vertices at a time
are gathered, renumbered, sorted and written to where they belong, first those of the rows, then those of the columns.
Positions are not made: kernels for little memory look for them. Where the lists do not fit they are written to the
host's memory, where kernels read them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import cupy as cp

from mbe_stage.device import mapped
from mbe_stage.device.core import live_degrees
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.prepare import DeviceGraph, with_sizes
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.ordering import left_vertices_are_roots

__all__ = ["Peeled", "in_order", "peeled", "peeling_bytes"]

_USUAL = Techniques()
_BYTES_PER_VERTEX, _BYTES_PER_LISTED, _BYTES_PER_ENTRY = 20, 40, 48
_FEWEST_ENTRIES, _MOST_ENTRIES = 1 << 16, 1 << 22
"""Written at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The vertices of a core that are on one side, in ascending degree, equal ones by id.

    Attributes
    ----------
    vertices : (n,) int32
    numbers : (n_vertices,) int32
        The place of each vertex of the graph, -1 of those that are not in the core.
    offsets : (n + 1,) int64
        Where their lists begin.
    all_offsets, all_members
        The lists of the graph.
    """

    vertices: cp.ndarray
    numbers: cp.ndarray
    offsets: cp.ndarray
    all_offsets: cp.ndarray
    all_members: cp.ndarray

    @property
    def n_bytes(self) -> int:
        """Of what is here beside the graph."""
        return self.vertices.nbytes + self.numbers.nbytes + self.offsets.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Peeled:
    """A core whose lists are not written yet.

    Attributes
    ----------
    rows, columns : _Side
    rows_are_left : bool
    n_edges : int
    longest : int
        Entries of the longest list that is read, of the graph.
    """

    rows: _Side
    columns: _Side
    rows_are_left: bool
    n_edges: int
    longest: int

    @property
    def fixed_bytes(self) -> int:
        """Device memory that writing lists takes whatever their size, with what is here."""
        n_most = max(self.rows.vertices.size, self.columns.vertices.size)
        return self.rows.n_bytes + self.columns.n_bytes + 16 * self.rows.vertices.size + _BYTES_PER_LISTED * n_most

    @property
    def list_bytes(self) -> int:
        """Of the entries of both directions."""
        return 8 * self.n_edges

    @property
    def least_bytes(self) -> int:
        """Device memory that is enough, with the lists on the host."""
        return self.fixed_bytes + _BYTES_PER_ENTRY * max(self.longest, min(self.n_edges, _FEWEST_ENTRIES))


def peeling_bytes(graph: BipartiteCSR) -> int:
    """Device memory that `peeled` takes, without the graph."""
    return _BYTES_PER_VERTEX * (graph.n_left + graph.n_right)


def peeled(
    graph: BipartiteCSR, fewest: tuple[int, int], most: tuple[int, int], n_blocks: int, techniques: Techniques = _USUAL
) -> Peeled | None:
    """The core of a graph; None where nothing is left.

    Parameters
    ----------
    graph : BipartiteCSR
        Arrays are CuPy's, in the device's memory or in the host's.
    fewest, most, n_blocks, techniques
        As `prepare` has them.
    """
    min_p, min_q = fewest
    degrees = live_degrees(graph, cp.ones(graph.n_left + graph.n_right, cp.int32), min_q, min_p, n_blocks)
    left, right = degrees[: graph.n_left], degrees[graph.n_left :]
    squares = cp.stack([(each.astype(cp.int64) ** 2).sum() for each in (left, right)])
    of_left, of_right = (int(total) for total in cp.asnumpy(squares))
    if of_left == 0:
        return None
    rows_are_left = not techniques.layer_choice or left_vertices_are_roots(of_right, of_left, *most)
    sides = (
        _ascending(left, graph.left_offsets, graph.left_members),
        _ascending(right, graph.right_offsets, graph.right_members),
    )
    rows, columns = sides if rows_are_left else sides[::-1]
    longest = max(int(cp.diff(side.all_offsets)[side.vertices].max()) for side in sides)
    return Peeled(rows, columns, rows_are_left, int(rows.offsets[-1]), longest)


def _ascending(degrees: cp.ndarray, all_offsets: cp.ndarray, all_members: cp.ndarray) -> _Side:
    there = cp.flatnonzero(degrees).astype(cp.int32)
    vertices = there[cp.argsort(degrees[there])]
    numbers = cp.full(degrees.size, -1, cp.int32)
    numbers[vertices] = cp.arange(vertices.size, dtype=cp.int32)
    offsets = cp.zeros(vertices.size + 1, cp.int64)
    cp.cumsum(degrees[vertices], out=offsets[1:])
    return _Side(vertices, numbers, offsets, all_offsets, all_members)


def in_order(core: Peeled, fewest_columns: int, room: int, list_room: int) -> DeviceGraph:
    """The lists of a core, on the device where there is room for them, else in the host's memory.

    Parameters
    ----------
    core : Peeled
    fewest_columns : int
        Of the smallest bicliques.
    room : int
        Bytes of device memory that may be taken, `Peeled.least_bytes` at least.
    list_room : int
        Bytes that lists may take on the device.
    """
    rows, columns, n_rows = core.rows, core.columns, core.rows.vertices.size
    is_mapped = core.list_bytes > list_room or core.least_bytes + core.list_bytes > room
    new = mapped.mapped_empty if is_mapped else cp.empty
    left = room - core.fixed_bytes - (0 if is_mapped else core.list_bytes)
    n_at_once = min(_MOST_ENTRIES, left // _BYTES_PER_ENTRY)
    row_members, column_members = new(core.n_edges, cp.int32), new(core.n_edges, cp.int32)
    paths = cp.zeros(n_rows, cp.int64)

    def write_row(_codes: cp.ndarray, members: cp.ndarray, start: int) -> None:
        row_members[start : start + members.size] = members

    def write_column(codes: cp.ndarray, members: cp.ndarray, start: int) -> None:
        column_members[start : start + members.size] = members
        # Behind each entry, in its list.
        later = columns.offsets[(codes >> 32) + 1]
        later -= cp.arange(start + 1, start + 1 + members.size)
        # No row has more paths than there are edges, which floating point counts exactly.
        paths[:] += cp.bincount(members, weights=later, minlength=n_rows).astype(cp.int64)

    _write_lists(rows, columns.numbers, n_at_once, write_row)
    _write_lists(columns, rows.numbers, n_at_once, write_column)
    none, order = cp.empty(1, cp.int64), cp.empty(0, cp.int32)
    lists = Graph(rows.offsets, row_members, none, columns.offsets, column_members, order)
    found = with_sizes(lists, rows.vertices, paths, core.rows_are_left, fewest_columns)
    return replace(found, is_lean=True, is_mapped=is_mapped)


def _write_lists(
    side: _Side, numbers: cp.ndarray, n_at_once: int, write: Callable[[cp.ndarray, cp.ndarray, int], None]
) -> None:
    """Hand the lists of one side to `write`, in their order, as many at a time as have room.

    Parameters
    ----------
    side : _Side
    numbers : (n_others,) int32
        Of the vertices of the other side.
    n_at_once : int
        Entries of the graph's lists; no list is cut.
    write : function
        Of the entries, each the place of its list in the upper half and its number in the lower one, int64, ascending;
        of the numbers alone, int32; and of how many entries came before.
    """
    starts = side.all_offsets[side.vertices]
    ends = cp.cumsum(side.all_offsets[side.vertices + 1] - starts)
    # What has to be added to the place of an entry, among those that are read, for its place in the graph's lists.
    starts[1:] -= ends[:-1]
    first = n_before = n_written = 0
    while first < side.vertices.size:
        stop = max(first + 1, int(cp.searchsorted(ends, cp.asarray([n_before + n_at_once]), side="right")[0]))
        n_end = int(ends[stop - 1])
        entries = cp.arange(n_before, n_end)
        codes = cp.searchsorted(ends[first:stop], entries, side="right")
        codes += first
        entries += starts[codes]
        found = numbers[side.all_members[entries]]
        del entries
        codes <<= 32
        codes |= found
        codes = codes[found >= 0]
        del found
        codes.sort()
        write(codes, codes.astype(cp.int32), n_written)
        n_written += codes.size
        first, n_before = stop, n_end
