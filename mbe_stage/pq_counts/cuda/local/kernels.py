"""The kernel of local counts: persistent warps, as in `cuda.kernels`, that add to lines and edges in place of kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from mbe_stage.device.grid import THREADS, this_warp
from mbe_stage.device.jit import I64, I64_2D, bundle, kernel
from mbe_stage.device.warp import global_nanoseconds, held
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.child_piece import child_piece
from mbe_stage.pq_counts.cuda.kernels import BLOCKS_PER_MULTIPROCESSOR, DEVICE, GRAPH, WARPS, next_task, own_of
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import key_of, limits_of
from mbe_stage.pq_counts.cuda.local import layout as own_at
from mbe_stage.pq_counts.cuda.local.frame_walk import walk_local_frame
from mbe_stage.pq_counts.cuda.local.layout import FramePath, LocalLaunch, Scratch, Sums, Work
from mbe_stage.pq_counts.cuda.local.levels import open_local_level
from mbe_stage.pq_counts.cuda.local.pieces import (
    MatrixLines,
    frame_lines,
    local_node_of,
    open_child,
    open_root,
    settle_local_piece,
)
from mbe_stage.pq_counts.cuda.matrices import Piece
from mbe_stage.pq_counts.cuda.pieces import FRAME, NODE, frame_of, kind_of_node
from mbe_stage.pq_counts.cuda.root_piece import root_piece
from mbe_stage.pq_counts.cuda.techniques import ALL_TECHNIQUES, PAIRS, TRUNCATION
from mbe_stage.search.cuda.loop import nothing_reserved, persistent_loop

_SCRATCH = bundle(Scratch, I64_2D)
_SUMS = bundle(Sums, *[I64] * 6)
_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def _local_piece_of(node, child, work):
    """The piece that a root is, or a child of a node that is wider than a frame; its path is this warp's.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    place : int64
        Where the matrix stands; -1 where the pool is short.
    n_rows, n_columns, n_words : int32
    chosen : Chosen
    lines : MatrixLines
    n_path : int32
    """
    own, graph, device, launch = work.own, work.graph, work.device, work.launch
    if node == at.ROOT:
        place, n_rows, n_columns, n_words = root_piece(child, launch.limits.fewest_columns, True, own, graph, device)
        rows_at, n_path = _L(0), _I(1)
        if place >= 0:
            rows_at = open_root(child, n_rows, n_columns, work)
            if rows_at < 0:
                place = rows_at
        chosen = Chosen(_I(1), _I(0), _I(0), _I(0))
        lines = MatrixLines(device.words, rows_at, _L(rows_at + n_rows))
    else:
        place, n_rows, n_columns, n_words, chosen = child_piece(node, child, own, device, launch.limits)
        rows_at, n_path = open_child(node, child, work)
        lines = MatrixLines(device.words, rows_at, _L(rows_at + device.nodes[node, at.N_ROWS]))
    return place, n_rows, n_columns, n_words, chosen, lines, n_path


@cuda.jit(device=True, forceinline=True)
def _do_local_task(node, child, newest, credit, work):
    """A root, or a child of a node: add it, walk it, or make a node of it (`persistent_loop`); it needs no credit.

    Of what is not done nothing is added.
    """
    own, mine, device, launch = work.own, work.mine, work.device, work.launch
    limits = launch.limits
    began = global_nanoseconds()
    home = _L(-1)
    nothing = np.uint64(0)
    path = FramePath(nothing, nothing, nothing, nothing)
    outcome = FRAME
    if node >= 0 and device.nodes[node, at.KIND] & at.IS_FRAME != 0:
        rows, columns, chosen, path, n_path, home = open_local_level(node, child, work, limits)
    else:
        if cuda.laneid == 0:
            own.state[at.N_PIECES] += 1
        place, n_rows, n_columns, n_words, chosen, lines, n_path = _local_piece_of(node, child, work)
        if place < 0:
            return False, newest, credit
        is_truncated = launch.techniques & TRUNCATION != 0
        piece = Piece(device.words, place, n_words, own.rows, own.mask, own.frame, own.frame_at, is_truncated)
        narrow = _I(device.settings[at.NARROW])
        outcome, n_rows, n_columns, chosen, n_path, pivot = settle_local_piece(
            piece, lines, n_rows, n_columns, chosen, n_path, narrow, work
        )
        rows, columns = nothing, nothing
        if outcome == FRAME:
            rows, columns = frame_of(piece, n_rows, n_columns, own)
            frame_lines(piece, lines, n_rows, mine)
        elif outcome == NODE:
            kind = kind_of_node(n_rows, n_columns, chosen, pivot, launch.techniques & PAIRS != 0, limits)
            key = key_of(chosen, limits)
            made = local_node_of(piece, lines, n_rows, n_columns, key, pivot, kind, newest, n_path, work)
            if made < 0:
                return False, newest, credit
            newest = made
    if cuda.laneid == 0:
        own.state[at.PIECE_NS] += _L(global_nanoseconds() - began)
    if outcome == FRAME:
        walk_local_frame(rows, columns, chosen, path, n_path, home, work)
    return True, newest, credit


_loop = persistent_loop(next_task, nothing_reserved, _do_local_task)


@cuda.jit(device=True, forceinline=True)
def _add_work(graph, warps, device, scratch, sums, with_edges, techniques):
    """What one warp does until nothing is left or the quantum ends.

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
        Both known when it is compiled.
    """
    own = own_of(warps)
    mine = held(scratch.words[this_warp()])
    deadline = _L(global_nanoseconds() + device.settings[at.QUANTUM_NS])
    n_rows = _I(sums.constants[own_at.N_ROWS])
    launch = LocalLaunch(limits_of(device.settings), deadline, n_rows, techniques, with_edges)
    _loop(Work(own, mine, graph, device, sums, launch))


def add_vertices_warp_per_task(graph, warps, device, scratch, sums):
    """Add up in how many bicliques each row and column is."""
    _add_work(graph, warps, device, scratch, sums, False, ALL_TECHNIQUES)


def add_edges_warp_per_task(graph, warps, device, scratch, sums):
    """Add up in how many bicliques each row, column and entry is."""
    _add_work(graph, warps, device, scratch, sums, True, ALL_TECHNIQUES)


@cache
def local_kernel_for(with_edges: bool) -> Any:
    """The kernel, for edges too or for vertices alone; compiled when it is launched."""
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
