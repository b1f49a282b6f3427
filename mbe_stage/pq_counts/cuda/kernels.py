"""The kernel: persistent warps count leaves until the search is over or the quantum ends.

A warp takes a child of its own newest node, or the next root in descending number of two-step paths, or a child of one
of the oldest open nodes. It counts this task as leaves, walks it as a frame, or writes it as a node.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, types

from mbe_stage.device import WARP_SIZE, WARPS_PER_BLOCK
from mbe_stage.device.grid import THREADS, this_warp
from mbe_stage.device.intrinsics import global_nanoseconds, held
from mbe_stage.device.jit import I32, I32_2D, I64, I64_2D, U32, U32_2D, bundle, kernel
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.child_piece import child_submatrix
from mbe_stage.pq_counts.cuda.frame_walk import open_entry, walk_frame
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import key_of, reserve_slots, size_bounds_of
from mbe_stage.pq_counts.cuda.matrices import Submatrix
from mbe_stage.pq_counts.cuda.root_piece import root_submatrix, windowed_root_submatrix
from mbe_stage.pq_counts.cuda.submatrix_forms import (
    FRAME,
    NODE,
    SHORT_OF,
    frame_of,
    kind_of_node,
    node_of,
    process_submatrix,
)
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES, PAIRS, SHARING, TRUNCATION, WINDOWS
from mbe_stage.search.cuda.loop import next_task_with, persistent_loop
from mbe_stage.search.cuda.nodes import next_root

BLOCKS_PER_MULTIPROCESSOR = 2
GRAPH = bundle(layout.Graph, I64, I32, I64, I64, I32, I32)
WARPS = bundle(layout.Warps, I32_2D, I32_2D, U32_2D, I64_2D)
DEVICE = bundle(layout.Device, U32, I64_2D, I64, I64, I64, I64)
_FRAMES_SHAPE = WARPS_PER_BLOCK * layout.FRAME_WORDS
_OLDEST = 4
"""Number of oldest open nodes to choose from; with 8 or 32, some searches end with most warps idle."""
_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def _next_root(order, device):
    """Take the next root, int32, for `next_task_with`."""
    root = next_root(order, device.control)
    return _I(layout.ROOT) if root >= 0 else _I(layout.NOTHING), root


@cuda.jit(device=True, forceinline=True)
def _reserve(n_reserved, device):
    """Reserve slots for a visit of a frame's node; return the number reserved, int32, or -1 without free slots."""
    n_reserved = reserve_slots(layout.VISIT_SLOTS, n_reserved, device.control, device.settings)
    return n_reserved if n_reserved >= layout.VISIT_SLOTS else _I(-1)


next_task = next_task_with(_next_root, _OLDEST, SHARING)


@cuda.jit(device=True, forceinline=True)
def _submatrix_of(node, child, own, graph, device, launch):
    """Make the submatrix of a root, or of a child of a node wider than a frame.

    Parameters
    ----------
    node, child : int32
        From `next_task`.

    Returns
    -------
    place : int64
        Position of the matrix; -1 if the pool is too full.
    n_rows, n_columns, n_words : int32
        Number of the submatrix's rows and columns; words per row of the matrix.
    chosen : Chosen
    """
    if node == layout.ROOT:
        fewest = launch.bounds.fewest_columns
        if launch.techniques & WINDOWS != 0:
            place, n_rows, n_columns, n_words = windowed_root_submatrix(child, fewest, own, graph, device)
        else:
            place, n_rows, n_columns, n_words = root_submatrix(child, fewest, False, own, graph, device)
        return place, n_rows, n_columns, n_words, Chosen(_I(1), _I(0), _I(0), _I(0))
    return child_submatrix(node, child, own, device, launch.bounds)


@cuda.jit(device=True, forceinline=True)
def _do_task(node, child, newest, n_reserved, work):
    """Process a root or a child of a node for `persistent_loop`: count it, walk it, or write it as a node.

    At least `VISIT_SLOTS` slots are reserved at the beginning, and again before a frame is walked.
    """
    own, graph, device, launch = work.own, work.graph, work.device, work.launch
    bounds = launch.bounds
    began = global_nanoseconds()
    pool_offset = _L(-1)
    outcome = FRAME
    if node >= 0 and device.nodes[node, layout.KIND] & layout.IS_FRAME != 0:
        rows, columns, chosen, pool_offset = open_entry(node, child, own, device, bounds)
    else:
        if cuda.laneid == 0:
            own.state[layout.N_WIDE_NODES] += 1
        place, n_rows, n_columns, n_words, chosen = _submatrix_of(node, child, own, graph, device, launch)
        if place < 0:
            return False, newest, n_reserved
        is_truncated = launch.techniques & TRUNCATION != 0
        submatrix = Submatrix(device.words, place, n_words, own.rows, own.mask, own.frame, own.frame_at, is_truncated)
        outcome, n_rows, n_columns, chosen, n_reserved, pivot = process_submatrix(
            submatrix, n_rows, n_columns, chosen, n_reserved, device, bounds
        )
        rows, columns = np.uint64(0), np.uint64(0)
        if outcome == FRAME:
            n_reserved = reserve_slots(layout.VISIT_SLOTS, n_reserved, device.control, device.settings)
            if n_reserved < layout.VISIT_SLOTS:
                return False, newest, n_reserved
            rows, columns = frame_of(submatrix, n_rows, n_columns, own)
        elif outcome == NODE:
            kind = kind_of_node(n_rows, n_columns, chosen, pivot, launch.techniques & PAIRS != 0, bounds)
            made = node_of(submatrix, n_rows, n_columns, key_of(chosen, bounds), pivot, kind, newest, own.mask, device)
            if made < 0:
                return False, newest, n_reserved
            newest = made
    if cuda.laneid == 0:
        own.state[layout.SETUP_NS] += _L(global_nanoseconds() - began)
    if outcome == FRAME:
        n_reserved = walk_frame(rows, columns, chosen, pool_offset, n_reserved, work)
    return outcome != SHORT_OF, newest, n_reserved


_loop = persistent_loop(next_task, _reserve, _do_task)


@cuda.jit(device=True, forceinline=True)
def own_of(warps):
    """Return this warp's own data."""
    frames = cuda.shared.array(_FRAMES_SHAPE, types.uint64)
    warp = this_warp()
    slot = _I(cuda.threadIdx.x // WARP_SIZE)
    return layout.Own(
        held(warps.counts[warp]),
        held(warps.rows[warp]),
        held(warps.mask[warp]),
        warps.state[warp],
        frames,
        _I(slot * layout.FRAME_WORDS),
    )


@cuda.jit(device=True, forceinline=True)
def _run_warp(graph, warps, device, techniques):
    """Run one warp until no work is left or the quantum ends.

    Parameters
    ----------
    graph : Graph
        Global: the core.
    warps : Warps
        Global, one row a warp.
    device : Device
        Global, shared by all warps.
    techniques : int
        Mask of `Techniques.kernel_mask`, a constant of the compiled kernel.
    """
    own = own_of(warps)
    deadline = _L(global_nanoseconds() + device.settings[layout.QUANTUM_NS])
    launch = layout.Launch(size_bounds_of(device.settings), deadline, techniques)
    _loop(layout.Work(own, graph, device, launch))


def count_bicliques_warp_per_task(graph, warps, device):
    """Count leaves by signature."""
    _run_warp(graph, warps, device, ALL_TECHNIQUES)


def count_bicliques_in_windows_warp_per_task(graph, warps, device):
    """Count leaves with little memory: without an array of all rows for each warp, and without positions."""
    _run_warp(graph, warps, device, ALL_TECHNIQUES | WINDOWS)


@cache
def kernel_for(techniques: int) -> Any:
    """Return the kernel with the techniques of a mask; compiled at its launch."""
    name = f"{__name__}:kernel_for({techniques})"
    compiled = kernel(GRAPH, WARPS, DEVICE, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), name=name, seconds=15.0)
    if techniques == ALL_TECHNIQUES:
        return compiled(count_bicliques_warp_per_task)
    if techniques == ALL_TECHNIQUES | WINDOWS:
        return compiled(count_bicliques_in_windows_warp_per_task)

    def count_bicliques_warp_per_task_without(graph, warps, device):
        _run_warp(graph, warps, device, techniques)

    return compiled(count_bicliques_warp_per_task_without)


def kernel_blocks() -> int:
    """Return the number of resident blocks on the current device; waiting warps rely on all others to run."""
    from mbe_stage.device.launch import multiprocessors

    return multiprocessors() * BLOCKS_PER_MULTIPROCESSOR
