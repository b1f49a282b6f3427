"""Bicliques of three rows: count two later rows with their root on masks of the root's columns.

A block takes a root. A later row that shares enough columns with it is a *partner*. Rows are in ascending degree, so
the root has no more columns than its partners, and the mask of columns that a partner shares with it is short: most
roots have all of theirs in shared memory. Two partners whose masks have ``n`` common columns are a leaf, three rows
with ``n`` optional columns. There are no nodes, no pool and no table of signatures, and lists are read as given
(`rank_windows`).

If the masks of a root do not fit, they are made for some columns at a time, and common columns of two partners are
added up. The area for this is the block's part of shared memory, or, if that is too small, of device memory.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from mbe_stage.device.jit import kernel
from mbe_stage.device.warp import global_nanoseconds
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import fill, flush, next_root, note_time
from mbe_stage.pq_counts.cuda.triples import layout as triples_layout
from mbe_stage.pq_counts.cuda.triples.heads import below_head
from mbe_stage.pq_counts.cuda.triples.layout import AREA, SMALL, WINDOW
from mbe_stage.pq_counts.cuda.triples.masks import below_root
from mbe_stage.pq_counts.cuda.wedges import BLOCKS_PER_MULTIPROCESSOR, GRAPH, THREADS

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
        With the partners of the roots.
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
