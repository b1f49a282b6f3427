"""Bicliques of two rows: count later rows that share columns with a root, without building anything.

A block takes a root. Its warps walk the two-step paths to later rows, which are counted in shared memory, a window of
ranks at a time (`rank_windows`). A row that shares ``n`` columns with the root gives a leaf: two rows with ``n``
optional columns. There are no nodes, no pool and no table of signatures: leaves are counted by ``n``. Lists are read as
given; only ranks are computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from mbe_stage.device.intrinsics import global_nanoseconds
from mbe_stage.device.jit import I32, I64, bundle, kernel
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import count_leaf, count_window, fill, flush, next_root, note_time

THREADS, BLOCKS_PER_MULTIPROCESSOR = 512, 3
WINDOW = 11_264
"""Number of ranks counted at a time: with `_SMALL` counters of leaves, they fill a block's shared memory."""
_SMALL = 512
_FLUSH_FROM = 1 << 30
_I = np.int32
_L = np.int64
_U = np.uint32


class Wedges(NamedTuple):
    """Memory shared by all blocks.

    Attributes
    ----------
    times : (max_row_degree + 1,) int64
        Number of pairs of rows with each number of common columns.
    control : (rank_windows.CONTROL_WORDS,) int64
        As in `layout.Device`, plus two words (`rank_windows`).
    settings : int64
        `layout.QUANTUM_NS`, `FEWEST_COLUMNS`, `N_RANKED` and `LANE_ENTRIES` are read.
    ranks : (n_rows,) int32
        Rank of each row, -1 for rows in no pair. A pair is counted from its row of lower rank.
    """

    times: Any
    control: Any
    settings: Any
    ranks: Any


GRAPH = bundle(layout.Graph, I64, I32, I64, I64, I32, I32)
WEDGES = bundle(Wedges, I64, I64, I64, I32)


@cuda.jit(device=True, forceinline=True)
def _count_window(n_rows, fewest, counts, small, times):
    """Count the leaves of a window, and clear its counters.

    Parameters
    ----------
    n_rows : int32
        Number of ranks in the window.
    fewest : int32
        Fewest columns that a row shares with the root.
    counts : (WINDOW,) int32, shared
    small : (_SMALL,) int32, shared
        Number of leaves with few columns.
    times : int64, global
        Number of leaves with more columns.
    """
    k = _I(cuda.threadIdx.x)
    while k < n_rows:
        n = counts[k]
        if n > 0:
            counts[k] = _I(0)
            if n >= fewest:
                count_leaf(n, small, times)
        k = _I(k + _I(cuda.blockDim.x))


@kernel(GRAPH, WEDGES, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=3.0)
def count_wedges_block_per_root(graph, wedges):
    """Count the pairs of a root and a later row by their common columns, for roots not yet taken.

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
    deadline = _L(global_nanoseconds() + wedges.settings[layout.QUANTUM_NS])
    fewest, short_list = _I(wedges.settings[layout.FEWEST_COLUMNS]), _U(wedges.settings[layout.LANE_ENTRIES])
    n_rows = _I(wedges.settings[layout.N_RANKED])
    fill(counts, _I(0), _I(WINDOW), _I(0))
    fill(small, _I(0), _I(_SMALL), _I(0))
    n_looked_at = _I(0)
    while True:
        if thread == 0:
            slots[0] = next_root(graph.order, deadline, wedges.control)
        cuda.syncthreads()
        root = slots[0]
        if root < 0:
            break
        n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
        window = _I(wedges.ranks[root] + 1)
        while window < n_rows:
            count_window(root, n_columns, window, _I(WINDOW), short_list, counts, slots, graph, wedges.ranks)
            n_here = min(_I(WINDOW), _I(n_rows - window))
            _count_window(n_here, fewest, counts, small, wedges.times)
            n_looked_at = _I(n_looked_at + n_here)
            window = slots[1]
            cuda.syncthreads()
        if n_looked_at >= _FLUSH_FROM:
            flush(small, wedges.times)
            n_looked_at = _I(0)
        cuda.syncthreads()
    flush(small, wedges.times)
    if thread == 0:
        note_time(deadline, wedges.settings, wedges.control)


def wedge_blocks() -> int:
    """Return the number of resident blocks on the current device."""
    from mbe_stage.device.launch import multiprocessors

    return multiprocessors() * BLOCKS_PER_MULTIPROCESSOR
