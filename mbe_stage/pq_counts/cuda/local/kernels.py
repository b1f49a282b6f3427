"""The kernel of local counts: persistent warps, as in `cuda.kernels`, add to the sums of vertices and edges."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from mbe_stage.device.grid import THREADS, this_warp
from mbe_stage.device.intrinsics import global_nanoseconds, held
from mbe_stage.device.jit import I64, I64_2D, bundle, kernel
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.child_piece import child_submatrix
from mbe_stage.pq_counts.cuda.kernels import BLOCKS_PER_MULTIPROCESSOR, DEVICE, GRAPH, WARPS, next_task, own_of
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import key_of, size_bounds_of
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.frame_walk import open_local_entry, walk_local_frame
from mbe_stage.pq_counts.cuda.local.layout import FramePath, LocalLaunch, Scratch, Sums, Work
from mbe_stage.pq_counts.cuda.local.submatrix_forms import (
    MatrixVertices,
    frame_vertices,
    local_node_of,
    open_child,
    open_root,
    process_local_submatrix,
)
from mbe_stage.pq_counts.cuda.matrices import Submatrix
from mbe_stage.pq_counts.cuda.root_piece import root_submatrix
from mbe_stage.pq_counts.cuda.submatrix_forms import FRAME, NODE, frame_of, kind_of_node
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES, PAIRS, TRUNCATION
from mbe_stage.search.cuda.loop import persistent_loop, reserve_nothing

_SCRATCH = bundle(Scratch, I64_2D)
_SUMS = bundle(Sums, *[I64] * 6)
_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def _local_submatrix_of(node, child, work):
    """Make the submatrix of a root, or of a child of a node wider than a frame, and set this warp's path.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    place : int64
        Position of the matrix; -1 if the pool is too full.
    n_rows, n_columns, n_words : int32
    chosen : Chosen
    vertices : MatrixVertices
    n_path : int32
    """
    own, graph, device, launch = work.own, work.graph, work.device, work.launch
    if node == layout.ROOT:
        place, n_rows, n_columns, n_words = root_submatrix(
            child, launch.bounds.fewest_columns, True, own, graph, device
        )
        rows_at, n_path = _L(0), _I(1)
        if place >= 0:
            rows_at = open_root(child, n_rows, n_columns, work)
            if rows_at < 0:
                place = rows_at
        chosen = Chosen(_I(1), _I(0), _I(0), _I(0))
        vertices = MatrixVertices(device.words, rows_at, _L(rows_at + n_rows))
    else:
        place, n_rows, n_columns, n_words, chosen = child_submatrix(node, child, own, device, launch.bounds)
        rows_at, n_path = open_child(node, child, work)
        vertices = MatrixVertices(device.words, rows_at, _L(rows_at + device.nodes[node, layout.N_ROWS]))
    return place, n_rows, n_columns, n_words, chosen, vertices, n_path


@cuda.jit(device=True, forceinline=True)
def _do_local_task(node, child, newest, n_reserved, work):
    """Process a root or a child of a node for `persistent_loop`: add it, walk it, or write it as a node.

    It needs no reserved slots. A task that could not be finished has added nothing.
    """
    own, mine, device, launch = work.own, work.mine, work.device, work.launch
    bounds = launch.bounds
    began = global_nanoseconds()
    pool_offset = _L(-1)
    nothing = np.uint64(0)
    path = FramePath(nothing, nothing, nothing, nothing)
    outcome = FRAME
    if node >= 0 and device.nodes[node, layout.KIND] & layout.IS_FRAME != 0:
        rows, columns, chosen, path, n_path, pool_offset = open_local_entry(node, child, work, bounds)
    else:
        if cuda.laneid == 0:
            own.state[layout.N_WIDE_NODES] += 1
        place, n_rows, n_columns, n_words, chosen, vertices, n_path = _local_submatrix_of(node, child, work)
        if place < 0:
            return False, newest, n_reserved
        is_truncated = launch.techniques & TRUNCATION != 0
        submatrix = Submatrix(device.words, place, n_words, own.rows, own.mask, own.frame, own.frame_at, is_truncated)
        narrow = _I(device.settings[layout.NARROW])
        outcome, n_rows, n_columns, chosen, n_path, pivot = process_local_submatrix(
            submatrix, vertices, n_rows, n_columns, chosen, n_path, narrow, work
        )
        rows, columns = nothing, nothing
        if outcome == FRAME:
            rows, columns = frame_of(submatrix, n_rows, n_columns, own)
            frame_vertices(submatrix, vertices, n_rows, mine)
        elif outcome == NODE:
            kind = kind_of_node(n_rows, n_columns, chosen, pivot, launch.techniques & PAIRS != 0, bounds)
            key = key_of(chosen, bounds)
            made = local_node_of(submatrix, vertices, n_rows, n_columns, key, pivot, kind, newest, n_path, work)
            if made < 0:
                return False, newest, n_reserved
            newest = made
    if cuda.laneid == 0:
        own.state[layout.SETUP_NS] += _L(global_nanoseconds() - began)
    if outcome == FRAME:
        walk_local_frame(rows, columns, chosen, path, n_path, pool_offset, work)
    return True, newest, n_reserved


_loop = persistent_loop(next_task, reserve_nothing, _do_local_task)


@cuda.jit(device=True, forceinline=True)
def _add_work(graph, warps, device, scratch, sums, with_edges, techniques):
    """Run one warp until no work is left or the quantum ends.

    Parameters
    ----------
    graph : Graph
        Global: the core.
    warps : Warps
        Global, one row a warp.
    device : Device
        Global, shared by all warps.
    scratch : Scratch
        Global, one row a warp.
    sums : Sums
        Global, shared by all warps.
    with_edges : bool
    techniques : int
        Both are constants of the compiled kernel.
    """
    own = own_of(warps)
    mine = held(scratch.words[this_warp()])
    deadline = _L(global_nanoseconds() + device.settings[layout.QUANTUM_NS])
    n_rows = _I(sums.constants[local_layout.N_ROWS])
    launch = LocalLaunch(size_bounds_of(device.settings), deadline, n_rows, techniques, with_edges)
    _loop(Work(own, mine, graph, device, sums, launch))


def add_vertices_warp_per_task(graph, warps, device, scratch, sums):
    """Count the bicliques of each row and column."""
    _add_work(graph, warps, device, scratch, sums, False, ALL_TECHNIQUES)


def add_edges_warp_per_task(graph, warps, device, scratch, sums):
    """Count the bicliques of each row, column and edge."""
    _add_work(graph, warps, device, scratch, sums, True, ALL_TECHNIQUES)


@cache
def local_kernel_for(with_edges: bool) -> Any:
    """Return the kernel for vertices, or for vertices and edges; compiled at its launch."""
    compiled = kernel(
        GRAPH,
        WARPS,
        DEVICE,
        _SCRATCH,
        _SUMS,
        launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR),
        name=f"{__name__}:local_kernel_for({with_edges})",
        seconds=30.0,
    )
    return compiled(add_edges_warp_per_task if with_edges else add_vertices_warp_per_task)
