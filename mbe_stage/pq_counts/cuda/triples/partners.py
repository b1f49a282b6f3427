"""Count the later rows that share enough columns with each root, and estimate the work below it."""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from mbe_stage.device.jit import kernel
from mbe_stage.device.warp import global_nanoseconds
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import count_window, fill, next_root, note_time
from mbe_stage.pq_counts.cuda.triples import layout as triples_layout
from mbe_stage.pq_counts.cuda.triples.layout import PARTNER_WINDOW
from mbe_stage.pq_counts.cuda.wedges import BLOCKS_PER_MULTIPROCESSOR, GRAPH, THREADS, WEDGES

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def _count_enough(n_here, fewest, counts, slots):
    """Count into `slots[2]` the ranks of a window with enough common columns, and clear their counters."""
    k, n = _I(cuda.threadIdx.x), _I(0)
    while k < n_here:
        if counts[k] >= fewest:
            n = _I(n + 1)
        counts[k] = _I(0)
        k = _I(k + _I(cuda.blockDim.x))
    if n > 0:
        cuda.atomic.add(slots, 2, n)


@cuda.jit(device=True, forceinline=True)
def _write_root(root, n_partners, n_columns, n_later, roots):
    """Write partners and costs of a root. Called by one thread; other threads have the same arguments."""
    roots.partners[root] = n_partners
    if n_partners > 1:
        n, n_words = _L(n_partners), _L((n_columns + 31) >> 5)
        compared = _L(n * (n - _L(1)) // _L(2) * n_words)
        roots.costs[root] = _L(compared + _L(triples_layout.WORDS_PER_COLUMN) * _L(n_columns))
        cuda.atomic.add(roots.needs, triples_layout.Needs.ROOTS, _L(1))
        cuda.atomic.max(roots.needs, triples_layout.Needs.PARTNERS, n)
        cuda.atomic.max(roots.needs, triples_layout.Needs.WORDS, compared)
        cuda.atomic.add(roots.needs, triples_layout.Needs.WORDS_IN_ALL, compared)
        cuda.atomic.max(
            roots.needs, triples_layout.Needs.SCRATCH, triples_layout.scratch_words(n, n_words, _L(n_later))
        )


@kernel(GRAPH, WEDGES, triples_layout.ROOTS, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=2.0)
def count_partners_block_per_root(graph, wedges, roots):
    """Write for each root its number of partners and the expected work.

    Parameters
    ----------
    graph : Graph
        Its positions are not read.
    wedges : Wedges
        Its times are not written.
    roots : RootNeeds
        Zeros before.
    """
    counts = cuda.shared.array(PARTNER_WINDOW, types.int32)
    slots = cuda.shared.array(3, types.int32)
    thread = _I(cuda.threadIdx.x)
    deadline = _L(global_nanoseconds() + wedges.settings[layout.QUANTUM_NS])
    fewest, short_list = _I(wedges.settings[layout.FEWEST_COLUMNS]), _U(wedges.settings[layout.LANE_ENTRIES])
    n_rows = _I(wedges.settings[layout.N_RANKED])
    fill(counts, _I(0), _I(PARTNER_WINDOW), _I(0))
    while True:
        if thread == 0:
            slots[0] = next_root(graph.order, deadline, wedges.control)
            slots[2] = _I(0)
        cuda.syncthreads()
        root = slots[0]
        if root < 0:
            break
        n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
        window = _I(wedges.ranks[root] + 1)
        n_later = _I(n_rows - window)
        while window < n_rows and n_later > triples_layout.HEAD:
            size = _I(PARTNER_WINDOW)
            count_window(root, n_columns, window, size, short_list, counts, slots, graph, wedges.ranks)
            _count_enough(min(size, _I(n_rows - window)), fewest, counts, slots)
            window = slots[1]
            cuda.syncthreads()
        if thread == 0:
            _write_root(root, slots[2] if n_later > triples_layout.HEAD else n_later, n_columns, n_later, roots)
        cuda.syncthreads()
    if thread == 0:
        note_time(deadline, wedges.settings, wedges.control)
