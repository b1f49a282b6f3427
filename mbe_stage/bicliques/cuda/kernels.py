"""The kernel: persistent warps, one for each task, that work until the tree is done or the slice ends.

Compiled once for each thing it can be asked to say (`layout.COUNTS`, `SIZES`, `MEMBERS`): three entries, one body.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.share import (
    EXIT,
    NO_NODE,
    find_open_node,
    read_shared,
    stop_if_late,
    take_child,
    wait_for_work,
)
from mbe_stage.bicliques.cuda.sparse_node import visit_sparse_child
from mbe_stage.bicliques.cuda.warp import global_nanoseconds
from mbe_stage.bicliques.cuda.word_node import walk_word_nodes

__all__ = ["KERNELS", "bicliques_warp_per_task_counts"]

_THREADS = at.WARPS_PER_BLOCK * at.WARP_SIZE
BLOCKS_PER_MULTIPROCESSOR = 2
_TABLES_SHAPE = (at.WARPS_PER_BLOCK, at.TABLE_SIZE)
_FAMILIES_SHAPE = (2 * at.WARPS_PER_BLOCK, 64)
_CHUNKS_SHAPE = (at.WARPS_PER_BLOCK, 4)


@cuda.jit(device=True, forceinline=True)
def _next_child(own_nodes, state, pool, control):
    """A child of a sparse node: of this warp's own newest one, else of the oldest that has some."""
    child = -1
    node = NO_NODE
    n_own = state[at.N_OWN]
    while n_own > 0 and child < 0:
        node = own_nodes[n_own - 1]
        child = take_child(node, pool, control)
        if child < 0:
            n_own -= 1
    cuda.syncwarp()
    if cuda.laneid == 0:
        state[at.N_OWN] = n_own
    cuda.syncwarp()
    while child < 0:
        node = find_open_node(pool, control)
        if node < 0:
            break
        child = take_child(node, pool, control)
    return node, child


@cuda.jit(device=True, forceinline=True)
def _work(pool, warps, output, control, wide_control, mode):
    lane = cuda.laneid
    warp = np.int32(cuda.blockIdx.x * at.WARPS_PER_BLOCK + cuda.threadIdx.x // at.WARP_SIZE)
    slot = cuda.threadIdx.x // at.WARP_SIZE
    tables = cuda.shared.array(_TABLES_SHAPE, types.uint64)
    families = cuda.shared.array(_FAMILIES_SHAPE, types.uint32)
    chunks = cuda.shared.array(_CHUNKS_SHAPE, types.int64)
    table = tables[slot]
    candidates, forbidden = families[2 * slot], families[2 * slot + 1]
    chunk = chunks[slot]
    words, ints, frames = warps.words[warp], warps.ints[warp], warps.frames[warp]
    state, own_nodes = warps.state[warp], warps.own_nodes[warp]
    bits, counts = warps.bits[warp], warps.counts[warp]
    touched, columns = warps.touched[warp], warps.columns[warp]
    if lane < 4:
        chunk[lane] = 0
    cuda.syncwarp()
    began = global_nanoseconds()
    deadline = began + wide_control[at.SLICE_NS]
    idle = 0
    while True:
        stop_if_late(control, deadline)
        if read_shared(control, at.SIGNAL) >= at.STOP_BIT:
            break
        if state[at.DEPTH] >= 0:
            status = walk_word_nodes(
                warp, words, ints, frames, state, table, candidates, forbidden, chunk, pool, warps, output,
                control, wide_control, deadline, mode
            )  # fmt: skip
            if status == at.PAUSED:
                break
            continue
        node = state[at.PENDING_NODE]
        row = state[at.PENDING_ROW]
        if node < 0:
            node, row = _next_child(own_nodes, state, pool, control)
            if row < 0:
                before = global_nanoseconds()
                answer = wait_for_work(warp, warps, control, deadline)
                idle += global_nanoseconds() - before
                if answer == EXIT:
                    break
                continue
            if node == 0:
                row = pool.order[row]
            if lane == 0:
                state[at.PENDING_NODE] = node
                state[at.PENDING_ROW] = row
            cuda.syncwarp()
        status = visit_sparse_child(
            node, row, words, ints, frames, state, own_nodes, bits, counts, touched, columns, table,
            candidates, forbidden, chunk, pool, output, control, wide_control, mode
        )  # fmt: skip
        if status == at.PAUSED:
            break
        if lane == 0:
            state[at.PENDING_NODE] = -1
        cuda.syncwarp()
    cuda.syncwarp()
    if lane == 0:
        state[at.IDLE_NS] += idle
        state[at.BUSY_NS] += global_nanoseconds() - began - idle


@cuda.jit(cache=True, launch_bounds=(_THREADS, BLOCKS_PER_MULTIPROCESSOR))
def bicliques_warp_per_task_counts(pool, warps, output, control, wide_control):
    """Count only."""
    _work(pool, warps, output, control, wide_control, at.COUNTS)


@cuda.jit(cache=True, launch_bounds=(_THREADS, BLOCKS_PER_MULTIPROCESSOR))
def bicliques_warp_per_task_sizes(pool, warps, output, control, wide_control):
    """Check sizes and write them."""
    _work(pool, warps, output, control, wide_control, at.SIZES)


@cuda.jit(cache=True, launch_bounds=(_THREADS, BLOCKS_PER_MULTIPROCESSOR))
def bicliques_warp_per_task_members(pool, warps, output, control, wide_control):
    """Check sizes and write members."""
    _work(pool, warps, output, control, wide_control, at.MEMBERS)


KERNELS = (bicliques_warp_per_task_counts, bicliques_warp_per_task_sizes, bicliques_warp_per_task_members)
