"""Where bicliques have two rows: later rows that share columns with a root are counted, and nothing is built.

A block takes a root. Its warps walk the two-step paths to later rows, which are counted in shared memory, a window of
ranks at a time; a row that shares ``n`` columns with the root is a leaf, two rows with ``n`` optional columns
(wedge-based counting: Wang et al., PVLDB 12(10), 2019, with the ranks of rows by degree in place of priorities).
There are no nodes, no pool and no table of kinds: leaves are counted by ``n``. Lists are read as they are given, and
nothing of them is prepared but the ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.jit import I32, I64, bundle, kernel
from mbe_stage.device.warp import ALL, ballot, first_bit, global_nanoseconds, min_all
from mbe_stage.pq_counts.cuda import layout as at

__all__ = ["BLOCKS_PER_MULTIPROCESSOR", "THREADS", "Wedges", "count_wedges_block_per_root", "wedge_blocks"]

THREADS, BLOCKS_PER_MULTIPROCESSOR = 512, 3
WINDOW = 11_264
"""Ranks that are counted at a time: with `_SMALL` counters of leaves what a block may have of shared memory."""
_SMALL = 512
_FLUSH_FROM = 1 << 30
_NEVER = 0x7FFFFFFF
_I = np.int32
_L = np.int64
_U = np.uint32


class Wedges(NamedTuple):
    """What all blocks share.

    Attributes
    ----------
    times : (max_row_degree + 1,) int64
        How many pairs of rows share so many columns.
    control, settings : int64
        As `layout.Device` has them; read are `NEXT_ROOT` and `STATUS`, `QUANTUM_NS`, `FEWEST_COLUMNS`,
        `MOST_ROWS`, which is here how many rows have a rank, and `NARROW`: up to how many entries a lane walks a list
        alone.
    ranks : (n_rows,) int32
        Of rows: a pair is counted from the one of lower rank. -1 for those that are in no pair.
    """

    times: Any
    control: Any
    settings: Any
    ranks: Any


_GRAPH = bundle(at.Graph, I64, I32, I64, I64, I32, I32)
_WEDGES = bundle(Wedges, I64, I64, I64, I32)


@cuda.jit(device=True, forceinline=True)
def _next_root(order, deadline, control):
    """A root that nobody has taken, int32; -1 where there is none, or the quantum is over. For one thread."""
    if global_nanoseconds() > deadline:
        cuda.atomic.or_(control, at.STATUS, _L(at.TIME_OVER))
        return _I(-1)
    taken = cuda.atomic.add(control, at.NEXT_ROOT, _L(1))
    return order[taken] if taken < order.size else _I(-1)


@cuda.jit(device=True, forceinline=True)
def _meet(row, window, counts, ranks):
    """Count a path to a row whose rank is in the window; the rank where it is behind it, else `_NEVER`, int32."""
    rank = ranks[row]
    beyond = _I(_NEVER)
    if rank >= window + WINDOW:
        beyond = rank
    elif rank >= window:
        cuda.atomic.add(counts, _I(rank - window), _I(1))
    return beyond


@cuda.jit(device=True, forceinline=True)
def _walk_list(start, stop, window, counts, graph, ranks):
    """Count the paths through one column, a lane alone; the first rank behind the window that there is one to, int32.

    Parameters
    ----------
    start, stop : uint32
        Where its list stands.
    window, counts, graph, ranks
        As `_walk_window` has them.
    """
    lane, beyond = _U(cuda.laneid), _I(_NEVER)
    if start < stop:
        # Lanes begin at different places: the same row often stands at the same place of several lists.
        position = _U(start + lane % _U(stop - start))
        n_left = _U(stop - start)
        while n_left > _U(0):
            beyond = min(beyond, _meet(graph.column_members[position], window, counts, ranks))
            position = _U(position + _U(1))
            if position == stop:
                position = start
            n_left = _U(n_left - _U(1))
    return beyond


@cuda.jit(device=True, forceinline=True)
def _walk_window(root, window, short_list, counts, graph, ranks):
    """Count the two-step paths to the ranks of a window; the first one behind it that this warp has a path to, int32.

    Parameters
    ----------
    root : int32
    window : int32
        `WINDOW` ranks from this one on are counted.
    short_list : uint32
        Entries of a list that a lane walks alone.
    counts : (WINDOW,) int32, shared
    graph : Graph
        Its positions are not read.
    ranks : (n_rows,) int32, global
    """
    lane, warp = _I(cuda.laneid), _I(cuda.threadIdx.x // WARP_SIZE)
    n_warps = _I(cuda.blockDim.x // WARP_SIZE)
    first = _U(graph.row_offsets[root])
    n_columns = _I(_U(graph.row_offsets[root + 1]) - first)
    # Roots of few columns are for all warps too.
    at_once = min(_I(32), _I((n_columns + n_warps - 1) // n_warps))
    beyond = _I(_NEVER)
    group = _I(warp * at_once)
    while group < n_columns:
        start, stop = _U(0), _U(0)
        if lane < at_once and group + lane < n_columns:
            member = graph.row_members[_U(first + _U(group + lane))]
            start, stop = _U(graph.column_offsets[member]), _U(graph.column_offsets[member + 1])
        is_long = _U(stop - start) > short_list
        if not is_long:
            beyond = min(beyond, _walk_list(start, stop, window, counts, graph, ranks))
        long_lists = ballot(is_long)
        while long_lists != 0:
            source = first_bit(long_lists)
            long_lists = _U(long_lists & _U(long_lists - _U(1)))
            position = _U(_U(cuda.shfl_sync(ALL, _I(start), source)) + _U(lane))
            last = _U(cuda.shfl_sync(ALL, _I(stop), source))
            while position < last:
                beyond = min(beyond, _meet(graph.column_members[position], window, counts, ranks))
                position = _U(position + _U(32))
        group = _I(group + n_warps * at_once)
    cuda.syncwarp()
    return min_all(beyond)


@cuda.jit(device=True, forceinline=True)
def _tally_window(n_rows, fewest, counts, small, times):
    """Count the leaves of a window, whose counters are zeros afterwards.

    Parameters
    ----------
    n_rows : int32
        Ranks of the window.
    fewest : int32
        Columns that a row has to share with the root.
    counts : (WINDOW,) int32, shared
    small : (_SMALL,) int32, shared
        Leaves with few columns.
    times : int64, global
        Leaves with more.
    """
    k = _I(cuda.threadIdx.x)
    while k < n_rows:
        n = counts[k]
        if n > 0:
            counts[k] = _I(0)
            if n >= fewest:
                if n < _SMALL:
                    cuda.atomic.add(small, n, _I(1))
                else:
                    cuda.atomic.add(times, n, _L(1))
        k = _I(k + _I(cuda.blockDim.x))


@cuda.jit(device=True, forceinline=True)
def _flush(small, times):
    """Add what is counted in shared memory to the counts of all blocks."""
    cuda.syncthreads()
    n = _I(cuda.threadIdx.x)
    while n < _SMALL:
        # There may be fewer columns.
        if small[n] > 0:
            cuda.atomic.add(times, n, _L(small[n]))
            small[n] = _I(0)
        n = _I(n + _I(cuda.blockDim.x))
    cuda.syncthreads()


@kernel(_GRAPH, _WEDGES, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=3.0)
def count_wedges_block_per_root(graph, wedges):
    """Count the pairs of a root and a later row by the columns that they share, for roots that nobody has taken.

    Parameters
    ----------
    graph : Graph
        Its positions are not read.
    wedges : Wedges
    """
    counts = cuda.shared.array(WINDOW, types.int32)
    small = cuda.shared.array(_SMALL, types.int32)
    slots = cuda.shared.array(2, types.int32)
    thread = _I(cuda.threadIdx.x)
    deadline = _L(global_nanoseconds() + wedges.settings[at.QUANTUM_NS])
    fewest, short_list = _I(wedges.settings[at.FEWEST_COLUMNS]), _U(wedges.settings[at.NARROW])
    n_rows = _I(wedges.settings[at.MOST_ROWS])
    k = thread
    while k < WINDOW:
        counts[k] = _I(0)
        k = _I(k + _I(cuda.blockDim.x))
    k = thread
    while k < _SMALL:
        small[k] = _I(0)
        k = _I(k + _I(cuda.blockDim.x))
    n_looked_at = _I(0)
    while True:
        if thread == 0:
            slots[0] = _next_root(graph.order, deadline, wedges.control)
        cuda.syncthreads()
        root = slots[0]
        if root < 0:
            break
        window = _I(wedges.ranks[root] + 1)
        while window < n_rows:
            if thread == 0:
                slots[1] = _I(_NEVER)
            cuda.syncthreads()
            beyond = _walk_window(root, window, short_list, counts, graph, wedges.ranks)
            if cuda.laneid == 0 and beyond != _NEVER:
                cuda.atomic.min(slots, 1, beyond)
            cuda.syncthreads()
            n_here = min(_I(WINDOW), _I(n_rows - window))
            _tally_window(n_here, fewest, counts, small, wedges.times)
            n_looked_at = _I(n_looked_at + n_here)
            window = slots[1]
            cuda.syncthreads()
        if n_looked_at >= _FLUSH_FROM:
            _flush(small, wedges.times)
            n_looked_at = _I(0)
        cuda.syncthreads()
    _flush(small, wedges.times)


def wedge_blocks() -> int:
    """As many as the current device keeps resident."""
    from mbe_stage.device.launch import multiprocessors

    return multiprocessors() * BLOCKS_PER_MULTIPROCESSOR
