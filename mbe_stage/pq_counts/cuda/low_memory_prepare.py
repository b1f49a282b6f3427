"""Prepare the graph with little memory and the same result as `prepare`: lists are written in segments.

`prepare` sorts all edges at once, which takes ten times the memory of the lists. Here the lists of some vertices at a
time are gathered, renumbered, sorted and written to their places: first rows, then columns. There are no positions:
kernels for little memory search for them. Lists that do not fit are written to host memory, which kernels can read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.device import mapped
from mbe_stage.device.core import live_degrees
from mbe_stage.device.grid import this_thread, this_warp
from mbe_stage.device.jit import CSR, I32, I64, INT, Lists, kernel
from mbe_stage.device.launch import launch_threads, launch_warps
from mbe_stage.device.warp import ALL, ballot, count_bits, rank
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.prepare import DeviceGraph, with_sizes
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.ordering import left_vertices_are_roots

_USUAL = Techniques()
_BYTES_PER_VERTEX, _BYTES_PER_LISTED, _BYTES_PER_ENTRY = 20, 16, 24
_FEWEST_ENTRIES, _MOST_ENTRIES = 1 << 17, 1 << 22
"""Fewest and most entries written at a time."""
_PART_ENTRIES, _MOST_PARTS = 2048, 256
"""Entries per warp of a long list, and most warps per list."""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The vertices of a core on one side, by ascending degree, then by id.

    Attributes
    ----------
    vertices : (n,) int32
    numbers : (n_vertices,) int32
        Number of each vertex of the graph in the core, -1 outside the core.
    offsets : (n + 1,) int64
        Position of the first entry of each list.
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
        """Bytes of this side besides the graph."""
        return self.vertices.nbytes + self.numbers.nbytes + self.offsets.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Peeled:
    """A core without written lists.

    Attributes
    ----------
    rows, columns : _Side
    rows_are_left : bool
    n_edges : int
    longest : int
        Length of the longest list.
    """

    rows: _Side
    columns: _Side
    rows_are_left: bool
    n_edges: int
    longest: int

    @property
    def fixed_bytes(self) -> int:
        """Device memory for writing lists of any size, including this core."""
        n_most = max(self.rows.vertices.size, self.columns.vertices.size)
        return self.rows.n_bytes + self.columns.n_bytes + 16 * self.rows.vertices.size + _BYTES_PER_LISTED * n_most

    @property
    def list_bytes(self) -> int:
        """Bytes of the lists of rows and columns."""
        return 8 * self.n_edges

    @property
    def least_bytes(self) -> int:
        """Sufficient device memory if the lists are on the host."""
        return self.fixed_bytes + _BYTES_PER_ENTRY * max(self.longest, min(self.n_edges, _FEWEST_ENTRIES))


def peeling_bytes(graph: BipartiteCSR) -> int:
    """Return the device memory of `peeled`, without the graph."""
    return _BYTES_PER_VERTEX * (graph.n_left + graph.n_right)


def peeled(
    graph: BipartiteCSR, fewest: tuple[int, int], most: tuple[int, int], n_blocks: int, techniques: Techniques = _USUAL
) -> Peeled | None:
    """Peel a graph to its core; None if it is empty.

    Parameters
    ----------
    graph : BipartiteCSR
        With CuPy arrays, in device or in host memory.
    fewest, most, n_blocks, techniques
        As in `prepare`.
    """
    min_p, min_q = fewest
    alive = cp.ones(graph.n_left + graph.n_right, cp.int32)
    degrees = live_degrees(graph, alive, min_q, min_p, n_blocks, are_all=True)
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
    n_edges, longest = cp.asnumpy(cp.stack([rows.offsets[-1], degrees.max()])).tolist()
    return Peeled(rows, columns, rows_are_left, n_edges, longest)


def _ascending(degrees: cp.ndarray, all_offsets: cp.ndarray, all_members: cp.ndarray) -> _Side:
    there = cp.flatnonzero(degrees).astype(cp.int32)
    vertices = there[cp.argsort(degrees[there])]
    numbers = cp.full(degrees.size, -1, cp.int32)
    numbers[vertices] = cp.arange(vertices.size, dtype=cp.int32)
    offsets = cp.zeros(vertices.size + 1, cp.int64)
    cp.cumsum(degrees[vertices], out=offsets[1:])
    return _Side(vertices, numbers, offsets, all_offsets, all_members)


def in_order(core: Peeled, fewest_columns: int, room: int, list_room: int) -> DeviceGraph:
    """Write the lists of a core: on the device as far as they fit, columns first; the rest in host memory.

    Parameters
    ----------
    core : Peeled
    fewest_columns : int
        Columns of the smallest bicliques.
    room : int
        Available device memory in bytes, at least `Peeled.least_bytes`.
    list_room : int
        Limit for lists on the device, in bytes.
    """
    rows, columns = core.rows, core.columns
    n_bytes = [n for n in (core.list_bytes, core.list_bytes // 2, 0) if n <= list_room and core.least_bytes + n <= room]
    n_at_once = min(_MOST_ENTRIES, (room - core.fixed_bytes - n_bytes[0]) // _BYTES_PER_ENTRY)
    row_members = (cp.empty if n_bytes[0] == core.list_bytes else mapped.mapped_empty)(core.n_edges, cp.int32)
    column_members = (cp.empty if n_bytes[0] > 0 else mapped.mapped_empty)(core.n_edges, cp.int32)
    paths, no_paths = cp.zeros(rows.vertices.size, cp.int64), cp.zeros(0, cp.int64)
    codes = cp.empty(min(core.n_edges, max(n_at_once, core.longest)), cp.int64)
    _write_lists(rows, columns.numbers, codes, row_members, no_paths)
    _write_lists(columns, rows.numbers, codes, column_members, paths)
    none, order = cp.empty(1, cp.int64), cp.empty(0, cp.int32)
    lists = Graph(rows.offsets, row_members, none, columns.offsets, column_members, order)
    found = with_sizes(lists, rows.vertices, paths, core.rows_are_left, fewest_columns)
    return replace(found, is_low_memory=True, mapped_bytes=core.list_bytes - n_bytes[0])


def _write_lists(side: _Side, numbers: cp.ndarray, codes: cp.ndarray, members: cp.ndarray, paths: cp.ndarray) -> None:
    """Write the lists of one side in order, as many whole lists at a time as fit.

    Parameters
    ----------
    side : _Side
    numbers : (n_others,) int32
        Numbers of the other side's vertices.
    codes : int64
        Scratch; its size is the largest number of entries at a time.
    members : (n_edges,) int32
        The output lists.
    paths : (n_others,) int64, or empty
        For each entry, the number of later entries in its list is added to the entry's vertex.
    """
    lists, ends = Lists(side.all_offsets, side.all_members), cp.asnumpy(side.offsets)
    first = 0
    while first < side.vertices.size:
        n_before = int(ends[first])
        stop = max(first + 1, int(np.searchsorted(ends, n_before + codes.size, side="right")) - 1)
        some = codes[: int(ends[stop]) - n_before]
        cursors = side.offsets[first:stop] - n_before
        # The longest list is the last, since degrees ascend.
        n_parts = max(1, min(_MOST_PARTS, int(ends[stop] - ends[stop - 1]) // _PART_ENTRIES))
        launch_warps(
            number_members_warp_per_part,
            (stop - first) * n_parts,
            lists,
            side.vertices,
            numbers,
            cursors,
            some,
            first,
            n_parts,
        )
        some.sort()
        ends = side.offsets[first + 1 : stop + 1]
        launch_threads(write_members_thread_per_code, some.size, some, ends, members, paths, n_before)
        first = stop


@kernel(CSR, I32, I32, I64, I64, INT, INT)
def number_members_warp_per_part(lists, vertices, numbers, cursors, codes, first, n_parts):
    """Write the entries of some lists as codes: index of the list in the high 32 bits, number of the entry below.

    Parameters
    ----------
    lists : Lists
        Lists of all vertices.
    vertices : (n,) int32
        Vertices; lists of those from `first` on are written, as many as there are cursors.
    numbers : int32
        New number of each vertex in the lists, -1 to leave it out.
    cursors : int64
        Position of the first code of each list; afterwards of its end.
    codes : int64
        Output, in any order within a list.
    first : int
    n_parts : int
        Warps that share a list.
    """
    lane, item = cuda.laneid, this_warp()
    index, part = item // n_parts, item % n_parts
    if index >= cursors.size:
        return
    vertex = vertices[first + index]
    group, stop = lists.offsets[vertex] + 32 * part, lists.offsets[vertex + 1]
    while group < stop:
        number = np.int32(-1)
        if group + lane < stop:
            number = numbers[lists.members[group + lane]]
        kept = ballot(number >= 0)
        place = np.int64(0)
        if lane == 0:
            place = np.int64(cuda.atomic.add(cursors, index, np.int64(count_bits(kept))))
        place = np.int64(cuda.shfl_sync(ALL, place, 0))
        if number >= 0:
            codes[place + rank(kept)] = (np.int64(index) << np.int64(32)) | np.int64(number)
        group += 32 * n_parts


@kernel(I64, I64, I32, I64, INT)
def write_members_thread_per_code(codes, ends, members, paths, n_before):
    """Write the numbers of sorted codes; add the number of later entries in the list to the paths of each number.

    Parameters
    ----------
    codes : (n,) int64
    ends : int64
        End of each list in `members`.
    members : int32
        Output; the first `n_before` are already written.
    paths : int64
        Empty if not wanted.
    n_before : int
    """
    thread = this_thread()
    if thread >= codes.size:
        return
    code, place = codes[thread], n_before + thread
    number = code & np.int64(0xFFFFFFFF)
    members[place] = np.int32(number)
    if paths.size > 0:
        cuda.atomic.add(paths, number, np.int64(ends[code >> np.int64(32)] - 1 - place))
