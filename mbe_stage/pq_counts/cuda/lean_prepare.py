"""The graph ready to be searched, as `prepare` has it, made in little memory: its lists are written in submatrices.

`prepare` sorts all edges at once, which takes ten times what the lists take. Here the lists of some vertices at a time
are gathered, renumbered, sorted and written to where they belong, first those of the rows, then those of the columns.
Positions are not made: kernels for little memory look for them. Where the lists do not fit they are written to the
host's memory, where kernels read them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.device import WARPS_PER_BLOCK, mapped
from mbe_stage.device.arrays import kernel_bundles, kernel_views
from mbe_stage.device.core import live_degrees
from mbe_stage.device.grid import THREADS, on_grid, this_thread, this_warp
from mbe_stage.device.jit import CSR, I32, I64, INT, Lists, kernel
from mbe_stage.device.warp import ALL, ballot, count_bits, rank
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.prepare import DeviceGraph, with_sizes
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.ordering import left_vertices_are_roots

_USUAL = Techniques()
_BYTES_PER_VERTEX, _BYTES_PER_LISTED, _BYTES_PER_ENTRY = 20, 16, 24
_FEWEST_ENTRIES, _MOST_ENTRIES = 1 << 17, 1 << 22
"""Written at a time."""
_PART_ENTRIES, _MOST_PARTS = 2048, 256
"""Of a list that warps share."""


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
        Entries of the longest list.
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
    """The lists of a core: on the device what there is room for, those of columns first; else in the host's memory.

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
    """Write the lists of one side, in their order, as many at a time as have room; no list is cut.

    Parameters
    ----------
    side : _Side
    numbers : (n_others,) int32
        Of the vertices of the other side.
    codes : int64
        Room for as many entries at a time.
    members : (n_edges,) int32
        Where the lists go.
    paths : (n_others,) int64, or empty
        Added to: for each entry how many stand behind it in its list.
    """
    lists, ends = Lists(side.all_offsets, side.all_members), cp.asnumpy(side.offsets)
    first = 0
    while first < side.vertices.size:
        n_before = int(ends[first])
        stop = max(first + 1, int(np.searchsorted(ends, n_before + codes.size, side="right")) - 1)
        some = codes[: int(ends[stop]) - n_before]
        cursors = side.offsets[first:stop] - n_before
        # Degrees ascend.
        n_parts = max(1, min(_MOST_PARTS, int(ends[stop] - ends[stop - 1]) // _PART_ENTRIES))
        on_grid(number_members_warp_per_part, -(-(stop - first) * n_parts // WARPS_PER_BLOCK), THREADS)(
            *kernel_bundles(number_members_warp_per_part, lists),
            *kernel_views(side.vertices, numbers, cursors, some),
            first,
            n_parts,
        )
        some.sort()
        on_grid(write_members_thread_per_code, -(-some.size // THREADS), THREADS)(
            *kernel_views(some, side.offsets[first + 1 : stop + 1], members, paths), n_before
        )
        first = stop


@kernel(CSR, I32, I32, I64, I64, INT, INT)
def number_members_warp_per_part(lists, vertices, numbers, cursors, codes, first, n_parts):
    """Write the entries of some lists as codes: the place of the list above 32 bits, below them the entry's number.

    Parameters
    ----------
    lists : Lists
        Of all vertices.
    vertices : (n,) int32
        The lists from `first` on are wanted, as many as there are cursors.
    numbers : int32
        Of entries, -1 of those that are left out.
    cursors : int64
        Where the codes of each list begin; where they end afterwards.
    codes : int64
        In any order within a list.
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
    """Write the numbers of sorted codes, and add to each number's paths how many entries stand behind it in its list.

    Parameters
    ----------
    codes : (n,) int64
    ends : int64
        Where each list ends in `members`.
    members : int32
        The first `n_before` are there already.
    paths : int64
        Empty where they are not wanted.
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
