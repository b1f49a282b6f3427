"""Walk the two-step paths from a root to rows of higher rank, with one block and one window of ranks at a time.

Rows are ranked by degree (as in the wedge-based counting by priorities of Wang et al., PVLDB 12(10), 2019), so lists
are read as given. Counters for ranks are in shared memory, which has room for a window. A walk returns the first rank
after the window on any path, where the next window begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.intrinsics import global_nanoseconds
from mbe_stage.device.warp import ALL, ballot, first_bit, min_all
from mbe_stage.pq_counts.cuda import layout

SHORT_LIST = 64
"""Longest list that one lane walks alone; a warp for each short list would wait longer."""
NEVER = 0x7FFFFFFF
"""Result without a rank."""
BLOCKS_NS, LONGEST_NS = layout.CONTROL_WORDS, layout.CONTROL_WORDS + 1
"""Control words besides the words of all searches: working nanoseconds of all blocks together, and of the last
block."""
CONTROL_WORDS = layout.CONTROL_WORDS + 2
_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def next_root(order, deadline, control):
    """Take the next root, int32; -1 if there is none, or if the quantum is over. Called by one thread."""
    if global_nanoseconds() > deadline:
        cuda.atomic.or_(control, layout.STATUS, _L(layout.TIME_OVER))
        return _I(-1)
    taken = cuda.atomic.add(control, layout.NEXT_ROOT, _L(1))
    return order[taken] if taken < order.size else _I(-1)


@cuda.jit(device=True, forceinline=True)
def note_time(deadline, settings, control):
    """Add the working time of a block; all blocks began together. Called by one thread."""
    worked = _L(global_nanoseconds() - (deadline - settings[layout.QUANTUM_NS]))
    cuda.atomic.add(control, BLOCKS_NS, worked)
    cuda.atomic.max(control, LONGEST_NS, worked)


class Window(NamedTuple):
    """A window of ranks.

    Attributes
    ----------
    first, size : int32
        The first rank, and the number of ranks.
    ranks : (n_rows,) int32, global
        Rank of each row; -1 for rows that are not wanted.
    state
        Argument of `visit` in `walk_with`.
    """

    first: Any
    size: Any
    ranks: Any
    state: Any


@cuda.jit(device=True, forceinline=True)
def _add_path(k, column, counts):  # noqa: ARG001 - as `walk_with` calls it
    """Count a path to rank `k` of a window."""
    cuda.atomic.add(counts, k, _I(1))


def _meeting(visit: Callable[..., None]) -> Any:
    """Make the device function for a path's row; see `walk_with`."""

    @cuda.jit(device=True, forceinline=True)
    def meet(row, column, window):
        """Visit a row in the window; return the rank of a row after the window, otherwise `NEVER`, int32."""
        rank = window.ranks[row]
        beyond = _I(NEVER)
        if rank >= window.first + window.size:
            beyond = rank
        elif rank >= window.first:
            visit(_I(rank - window.first), column, window.state)
        return beyond

    return meet


def _list_walk(meet: Any) -> Any:
    """Make the device function for one lane that walks a column's list."""

    @cuda.jit(device=True, forceinline=True)
    def walk_list(start, stop, column, members, window):
        lane, beyond = _U(cuda.laneid), _I(NEVER)
        if start < stop:
            # Lanes begin at different positions, since a row is often at the same position of several lists.
            position = _U(start + lane % _U(stop - start))
            n_left = _U(stop - start)
            while n_left > _U(0):
                beyond = min(beyond, meet(members[position], column, window))
                position = _U(position + _U(1))
                if position == stop:
                    position = start
                n_left = _U(n_left - _U(1))
        return beyond

    return walk_list


def walk_with(visit: Callable[..., None]) -> Any:
    """Make the device function that walks the two-step paths of a root to a window.

    Parameters
    ----------
    visit : device function
        ``visit(k, column, state)`` is called for a path to rank `k` of the window, int32, through the root's neighbour
        at position `column` of its list, int32.
    """
    meet = _meeting(visit)
    walk_list = _list_walk(meet)

    @cuda.jit(device=True, forceinline=True)
    def walk(root, first_column, end_column, short_list, graph, window):
        """Walk the paths to a window; return the first rank after it on a path of this warp, int32.

        Parameters
        ----------
        root : int32
        first_column, end_column : int32
            Range of the root's list whose neighbours are walked.
        short_list : uint32
            Longest list that one lane walks alone.
        graph : Graph
            Its positions are not read.
        """
        lane, warp = _I(cuda.laneid), _I(cuda.threadIdx.x // WARP_SIZE)
        n_warps = _I(cuda.blockDim.x // WARP_SIZE)
        first = _U(graph.row_offsets[root])
        # Fewer columns at a time for short roots, so that all warps have some.
        at_once = min(_I(32), _I((end_column - first_column + n_warps - 1) // n_warps))
        beyond = _I(NEVER)
        group = _I(first_column + warp * at_once)
        while group < end_column:
            start, stop = _U(0), _U(0)
            if lane < at_once and group + lane < end_column:
                member = graph.row_members[_U(first + _U(group + lane))]
                start, stop = _U(graph.column_offsets[member]), _U(graph.column_offsets[member + 1])
            is_long = _U(stop - start) > short_list
            if not is_long:
                beyond = min(beyond, walk_list(start, stop, _I(group + lane), graph.column_members, window))
            long_lists = ballot(is_long)
            while long_lists != 0:
                source = first_bit(long_lists)
                long_lists = _U(long_lists & _U(long_lists - _U(1)))
                position = _U(_U(cuda.shfl_sync(ALL, _I(start), source)) + _U(lane))
                last = _U(cuda.shfl_sync(ALL, _I(stop), source))
                while position < last:
                    beyond = min(beyond, meet(graph.column_members[position], _I(group + source), window))
                    position = _U(position + _U(32))
            group = _I(group + n_warps * at_once)
        cuda.syncwarp()
        return min_all(beyond)

    return walk


_count_paths = walk_with(_add_path)


@cuda.jit(device=True, forceinline=True)
def count_window(root, n_columns, window, size, short_list, counts, slots, graph, ranks):
    """Count the paths from a root to a window; write the next window to `slots[1]`. Called by the whole block.

    Parameters
    ----------
    root, n_columns, window, size : int32
    short_list : uint32
        As in `walk_with`.
    counts : (size,) int32, shared
        Counter for each rank of the window.
    slots : int32, shared
    ranks : (n_rows,) int32, global
    """
    if cuda.threadIdx.x == 0:
        slots[1] = _I(NEVER)
    cuda.syncthreads()
    beyond = _count_paths(root, _I(0), n_columns, short_list, graph, Window(window, size, ranks, counts))
    if cuda.laneid == 0 and beyond != NEVER:
        cuda.atomic.min(slots, 1, beyond)
    cuda.syncthreads()


@cuda.jit(device=True, forceinline=True)
def fill(array, start, stop, value):
    """Write a value from position `start` up to `stop`. Called by the whole block."""
    k = _I(start + _I(cuda.threadIdx.x))
    while k < stop:
        array[k] = value
        k = _I(k + _I(cuda.blockDim.x))


@cuda.jit(device=True, forceinline=True)
def count_leaf(n, small, times):
    """Count a leaf of `n` columns, int32.

    Parameters
    ----------
    n : int32
    small : int32, shared
        Number of leaves with few columns, emptied from time to time (`flush`).
    times : int64, global
        Number of leaves with more columns.
    """
    if n < small.size:
        cuda.atomic.add(small, n, _I(1))
    else:
        cuda.atomic.add(times, n, _L(1))


@cuda.jit(device=True, forceinline=True)
def flush(small, times):
    """Add the counts in shared memory to the counts of all blocks. Called by the whole block."""
    cuda.syncthreads()
    n = _I(cuda.threadIdx.x)
    while n < small.size:
        # `times` is shorter if the graph has few columns; these counts are then 0.
        if small[n] > 0:
            cuda.atomic.add(times, n, _L(small[n]))
            small[n] = _I(0)
        n = _I(n + _I(cuda.blockDim.x))
    cuda.syncthreads()
