"""Bicliques of three rows: count pairs of later rows for each root, on masks of the root's columns.

A block takes a root. A later row that shares enough columns with it is a *partner*. Rows are in ascending degree, so a
root has no more columns than its partners, and a partner's mask of common columns is short: all masks of most roots fit
shared memory. Two partners whose masks have ``n`` common columns are a leaf: three rows with ``n`` optional columns.
There are no nodes, no pool and no table of signatures, and lists are read as given (`rank_windows`).

If the masks of a root do not fit, they are made for some columns at a time, and the numbers of common columns of two
partners are added up. The area for this is in the block's shared memory, or in device memory if that is too small.

Before the search, a kernel counts the later rows that share enough columns with each root, to estimate its work.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from mbe_stage.device.intrinsics import global_nanoseconds
from mbe_stage.device.jit import kernel
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import count_window, fill, flush, next_root, note_time
from mbe_stage.pq_counts.cuda.triples import layout as triples_layout
from mbe_stage.pq_counts.cuda.triples.heads import below_head
from mbe_stage.pq_counts.cuda.triples.layout import AREA, PARTNER_WINDOW, SMALL, WINDOW
from mbe_stage.pq_counts.cuda.triples.masks import below_root
from mbe_stage.pq_counts.cuda.wedges import BLOCKS_PER_MULTIPROCESSOR, GRAPH, THREADS, WEDGES

_I = np.int32
_L = np.int64
_U = np.uint32


@kernel(GRAPH, triples_layout.TRIPLES, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=8.0)
def count_triples_block_per_root(graph, triples):
    """Count the triples of a root and two later rows by their common columns, for roots not yet taken.

    Parameters
    ----------
    graph : Graph
        Its positions are not read.
    triples : Triples
        Shared memory with the partners of the roots.
    """
    counts = cuda.shared.array(WINDOW, types.int32)
    area = cuda.shared.array(AREA, types.uint32)
    small = cuda.shared.array(SMALL, types.int32)
    slots = cuda.shared.array(3, types.int32)
    thread = _I(cuda.threadIdx.x)
    deadline = _L(global_nanoseconds() + triples.settings[layout.QUANTUM_NS])
    fewest, short_list = _I(triples.settings[layout.FEWEST_COLUMNS]), _U(triples.settings[layout.LANE_ENTRIES])
    n_scratch = _I(triples.scratch.size // cuda.gridDim.x)
    fill(counts, _I(0), _I(WINDOW), _I(0))
    fill(small, _I(0), _I(SMALL), _I(0))
    n_counted = _L(0)
    while True:
        if thread == 0:
            slots[0] = next_root(graph.order, deadline, triples.control)
        cuda.syncthreads()
        root = slots[0]
        if root < 0:
            break
        n_partners = triples.partners[root]
        n_pairs = _L(_L(n_partners) * _L(n_partners - 1) // _L(2))
        n_words = _L((graph.row_offsets[root + 1] - graph.row_offsets[root] + _L(31)) >> _L(5))
        n_later = _L(triples.settings[layout.N_RANKED] - triples.ranks[root] - 1)
        n_counted = _L(n_counted + n_pairs)
        if n_counted >= triples_layout.FLUSH_FROM:
            flush(small, triples.times)
            n_counted = n_pairs
        if n_later <= triples_layout.HEAD:
            below_head(root, fewest, short_list, area, small, graph, triples)
        elif triples_layout.scratch_words(_L(n_partners), n_words, n_later) == 0:
            below_root(root, fewest, short_list, area, counts, small, slots, graph, triples)
        else:
            first = _L(cuda.blockIdx.x) * _L(n_scratch)
            scratch = triples.scratch[first : first + n_scratch]
            below_root(root, fewest, short_list, scratch, counts, small, slots, graph, triples)
    flush(small, triples.times)
    if thread == 0:
        note_time(deadline, triples.settings, triples.control)


@cuda.jit(device=True, forceinline=True)
def _count_enough(n_here, fewest, counts, slots):
    """Add to `slots[2]` the number of ranks of a window with enough common columns, and clear the counters."""
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
    """Write partners and costs of a root. Called by one thread."""
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
        Its `times` are not written.
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
