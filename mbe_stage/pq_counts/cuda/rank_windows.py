"""The two-step paths from a root to rows of higher rank, walked by a block, a window of ranks at a time.

Rows have their ranks by degree (wedge-based counting: Wang et al., PVLDB 12(10), 2019, has priorities in their place),
so lists are read as they are given. What a kernel counts or notes of ranks stands in shared memory, which has room for
a window of them; a walk tells the first rank behind the window, where the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.warp import ALL, ballot, first_bit, global_nanoseconds, min_all
from mbe_stage.pq_counts.cuda import layout as at

SHORT_LIST = 64
"""Rows of a list that a lane walks alone: where lists are counted in shared memory, a warp for each waits longer."""
NEVER = 0x7FFFFFFF
"""In place of a rank, where there is none."""
BLOCKS_NS, LONGEST_NS = at.CONTROL_WORDS, at.CONTROL_WORDS + 1
"""Words of control beside those of all searches: nanoseconds in which blocks were at work, of all blocks together and
of the one that ended last."""
CONTROL_WORDS = at.CONTROL_WORDS + 2
_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def next_root(order, deadline, control):
    """A root that nobody has taken, int32; -1 where there is none, or the quantum is over. For one thread."""
    if global_nanoseconds() > deadline:
        cuda.atomic.or_(control, at.STATUS, _L(at.TIME_OVER))
        return _I(-1)
    taken = cuda.atomic.add(control, at.NEXT_ROOT, _L(1))
    return order[taken] if taken < order.size else _I(-1)


@cuda.jit(device=True, forceinline=True)
def note_time(deadline, settings, control):
    """How long a block was at work, which began together with all others. For one thread."""
    worked = _L(global_nanoseconds() - (deadline - settings[at.QUANTUM_NS]))
    cuda.atomic.add(control, BLOCKS_NS, worked)
    cuda.atomic.max(control, LONGEST_NS, worked)


class Window(NamedTuple):
    """Ranks that are looked at at a time.

    Attributes
    ----------
    first, size : int32
        The first rank, and how many.
    ranks : (n_rows,) int32, global
        -1 for rows that are not asked for.
    state
        What `visit` of `walk_with` is given.
    """

    first: Any
    size: Any
    ranks: Any
    state: Any


@cuda.jit(device=True, forceinline=True)
def _add_path(k, column, counts):  # noqa: ARG001 - as `walk_with` calls it
    """Count a path to the rank `k` of a window."""
    cuda.atomic.add(counts, k, _I(1))


def _meeting(visit: Callable[..., None]) -> Any:
    """The device function that meets a row; see `walk_with`."""

    @cuda.jit(device=True, forceinline=True)
    def meet(row, column, window):
        """The rank of a row that is behind the window, else `NEVER`, int32."""
        rank = window.ranks[row]
        beyond = _I(NEVER)
        if rank >= window.first + window.size:
            beyond = rank
        elif rank >= window.first:
            visit(_I(rank - window.first), column, window.state)
        return beyond

    return meet


def _list_walk(meet: Any) -> Any:
    """The device function that walks one column, a lane alone."""

    @cuda.jit(device=True, forceinline=True)
    def walk_list(start, stop, column, members, window):
        lane, beyond = _U(cuda.laneid), _I(NEVER)
        if start < stop:
            # Lanes begin at different places: the same row often stands at the same place of several lists.
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
    """The device function that walks the two-step paths of a root to a window.

    Parameters
    ----------
    visit : device function
        ``visit(k, column, state)``: there is a path to the rank `k` of the window, int32, through the root's neighbour
        at the place `column` of its list, int32.
    """
    meet = _meeting(visit)
    walk_list = _list_walk(meet)

    @cuda.jit(device=True, forceinline=True)
    def walk(root, first_column, end_column, short_list, graph, window):
        """Walk the paths to a window; the first rank behind it that this warp has a path to, int32.

        Parameters
        ----------
        root : int32
        first_column, end_column : int32
            Places of the root's list, between which its neighbours are walked.
        short_list : uint32
            Entries of a list that a lane walks alone.
        graph : Graph
            Its positions are not read.
        """
        lane, warp = _I(cuda.laneid), _I(cuda.threadIdx.x // WARP_SIZE)
        n_warps = _I(cuda.blockDim.x // WARP_SIZE)
        first = _U(graph.row_offsets[root])
        # Roots of few columns are for all warps too.
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
    """Count the paths of a root to a window; where the next one begins is in `slots[1]` then. For the whole block.

    Parameters
    ----------
    root, n_columns, window, size : int32
    short_list : uint32
        As `walk_with` has it.
    counts : (size,) int32, shared
        One for each rank of the window.
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
    """Write a value to the places from `start` up to `stop`. For the whole block."""
    k = _I(start + _I(cuda.threadIdx.x))
    while k < stop:
        array[k] = value
        k = _I(k + _I(cuda.blockDim.x))


@cuda.jit(device=True, forceinline=True)
def tally(n, small, times):
    """Count a leaf of `n` columns, int32.

    Parameters
    ----------
    n : int32
    small : int32, shared
        Leaves with few columns, emptied now and then (`flush`).
    times : int64, global
        Leaves with more.
    """
    if n < small.size:
        cuda.atomic.add(small, n, _I(1))
    else:
        cuda.atomic.add(times, n, _L(1))


@cuda.jit(device=True, forceinline=True)
def flush(small, times):
    """Add what is counted in shared memory to the counts of all blocks. For the whole block."""
    cuda.syncthreads()
    n = _I(cuda.threadIdx.x)
    while n < small.size:
        # There may be fewer columns.
        if small[n] > 0:
            cuda.atomic.add(times, n, _L(small[n]))
            small[n] = _I(0)
        n = _I(n + _I(cuda.blockDim.x))
    cuda.syncthreads()
