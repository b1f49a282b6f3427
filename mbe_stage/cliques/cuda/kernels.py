"""The kernel: persistent warps that find maximal cliques until the search is over or the quantum ends.

A warp takes a child of its own newest node, else a root (the heaviest first), else a child of one of the oldest open
nodes. It turns it into a frame and walks it, or into a wide node, or finds no clique in it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, types

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.child_piece import child_subproblem
from mbe_stage.cliques.cuda.emit import empty_page
from mbe_stage.cliques.cuda.frame_walk import open_entry, walk_frame
from mbe_stage.cliques.cuda.root_piece import DONE, FRAME, SHORT_OF, no_frame, root_subproblem
from mbe_stage.cliques.cuda.sub_warps import small_roots
from mbe_stage.cliques.cuda.techniques import ALL_TECHNIQUES, SHARING, SUB_WARPS
from mbe_stage.device import WARP_SIZE, WARPS_PER_BLOCK
from mbe_stage.device.grid import THREADS, this_warp
from mbe_stage.device.intrinsics import global_nanoseconds, held
from mbe_stage.device.jit import I32, I32_2D, I64, I64_2D, U32, U32_2D, bundle, kernel
from mbe_stage.device.warp import ALL
from mbe_stage.search.cuda.loop import next_task_with, persistent_loop, reserve_nothing

BLOCKS_PER_MULTIPROCESSOR = 2
_GRAPH = bundle(layout.Graph, I64, I64, I32, I32)
_WARPS = bundle(layout.Warps, I32_2D, I32_2D, U32_2D, U32_2D, I64_2D, I32_2D, I32_2D, I64_2D)
_DEVICE = bundle(layout.Device, U32, I64_2D, I64, I64)
_OUTPUT = bundle(layout.Output, I32, I32)
_FRAMES_SHAPE = WARPS_PER_BLOCK * layout.FRAME_WORDS
_OLDEST = 32
"""Number of oldest open nodes that warps choose from; with only 4 they block each other."""
_NAMES = ("count", "sizes", "members")
_I = np.int32
_L = np.int64
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _next_roots(order, device):
    """Take the next root, or the next group of small roots, identified by its position in the order.

    Returns
    -------
    kind : int32
        `layout.ROOT`, `layout.SMALL`, or `layout.NOTHING` if none is left.
    child : int32
    """
    kind, child = _I(layout.NOTHING), _I(0)
    if cuda.laneid == 0:
        taken = cuda.atomic.add(device.control, layout.NEXT_ROOT, _L(1))
        n_large = device.settings[layout.N_LARGE]
        if taken < n_large:
            kind, child = _I(layout.ROOT), _I(order[taken])
        else:
            position = n_large + layout.ROOTS_AT_ONCE * (taken - n_large)
            if position < order.size:
                kind, child = _I(layout.SMALL), _I(position)
    return cuda.shfl_sync(ALL, kind, 0), cuda.shfl_sync(ALL, child, 0)


_next_task = next_task_with(_next_roots, _OLDEST, SHARING)


@cuda.jit(device=True, forceinline=True)
def _do_task(node, child, newest, n_reserved, work):
    """Walk a root or a node's child, or make it a node (`persistent_loop`). It needs no reserved slots."""
    own, graph, device, launch = work.own, work.graph, work.device, work.launch
    began = global_nanoseconds()
    if node >= 0 and device.nodes[node, layout.KIND] == layout.FRAME:
        joined, candidates, frame = open_entry(node, child, own, device)
        outcome = FRAME
    elif launch.techniques & SUB_WARPS != 0 and node == layout.SMALL:
        joined, candidates, frame = _W(0), _W(0), no_frame()
        outcome = DONE if small_roots(child, own, graph, device, work.output, launch) else SHORT_OF
        if cuda.laneid == 0:
            own.state[layout.N_WIDE_NODES] += layout.ROOTS_AT_ONCE
            own.state[layout.SETUP_NS] += _L(global_nanoseconds() - began)
    else:
        if node == layout.ROOT:
            outcome, joined, candidates, frame, newest = root_subproblem(child, newest, own, graph, device, launch)
        else:
            outcome, joined, candidates, frame, newest = child_subproblem(node, child, newest, own, device, launch)
        if cuda.laneid == 0:
            own.state[layout.N_WIDE_NODES] += 1
            own.state[layout.SETUP_NS] += _L(global_nanoseconds() - began)
    is_done = outcome != SHORT_OF
    if outcome == FRAME:
        is_done = walk_frame(joined, candidates, frame, work)
    if cuda.laneid == 0:
        own.state[layout.BUSY_NS] += _L(global_nanoseconds() - began)
    return is_done, newest, n_reserved


_loop = persistent_loop(_next_task, reserve_nothing, _do_task)


@cuda.jit(device=True, forceinline=True)
def _own(warps):
    """Return this warp's own data."""
    frames = cuda.shared.array(_FRAMES_SHAPE, types.uint64)
    warp = this_warp()
    slot = _I(cuda.threadIdx.x // WARP_SIZE)
    return layout.Own(
        held(warps.columns[warp]),
        held(warps.rows[warp]),
        held(warps.mask[warp]),
        held(warps.joined[warp]),
        warps.histogram[warp],
        held(warps.page[warp]),
        held(warps.page_sizes[warp]),
        warps.state[warp],
        frames,
        _I(slot * layout.FRAME_WORDS),
    )


@cuda.jit(device=True, forceinline=True)
def _run_warp(graph, warps, device, output, mode, techniques):
    """Run one warp until no work is left or the quantum ends.

    Parameters
    ----------
    graph : Graph
        Global.
    warps : Warps
        Global, one row per warp.
    device : Device
        Global, shared by all warps.
    output : Output
        Global.
    mode, techniques : int
        Compile-time constants.
    """
    own, settings = _own(warps), device.settings
    began = _L(global_nanoseconds())
    deadline = _L(began + settings[layout.QUANTUM_NS])
    launch = layout.Launch(_I(settings[layout.MIN_SIZE]), _I(settings[layout.MAX_SIZE]), deadline, mode, techniques)
    if launch.mode == layout.MEMBERS:
        if cuda.laneid == 0:
            own.frame[own.frame_at + layout.PAGE_AT] = _W(own.state[layout.PAGE])
        cuda.syncwarp()
    _loop(layout.Work(own, graph, device, output, launch))
    if launch.mode == layout.MEMBERS:
        # If the page does not fit, it waits for the next quantum.
        empty_page(own, device.control, output)
    cuda.syncwarp()
    if cuda.laneid == 0:
        if launch.mode == layout.MEMBERS:
            own.state[layout.PAGE] = _L(own.frame[own.frame_at + layout.PAGE_AT])
        cuda.atomic.min(device.control, layout.BEGAN, began)
        cuda.atomic.max(device.control, layout.ENDED, _L(global_nanoseconds()))


@cache
def kernel_for(mode: int, techniques: int) -> Any:
    """Return the kernel for a mode and a mask of techniques; it is compiled at its launch."""
    name = f"{__name__}:kernel_for({mode}, {techniques})"
    compiled = kernel(
        _GRAPH, _WARPS, _DEVICE, _OUTPUT, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), name=name, seconds=12.0
    )

    def cliques_warp_per_task(graph, warps, device, output):
        _run_warp(graph, warps, device, output, mode, techniques)

    cliques_warp_per_task.__name__ += f"_{_NAMES[mode]}" + ("" if techniques == ALL_TECHNIQUES else "_without")
    return compiled(cliques_warp_per_task)


def kernel_blocks() -> int:
    """Return the number of blocks resident on the current device: waiting warps rely on all others."""
    from mbe_stage.device.launch import multiprocessors

    return multiprocessors() * BLOCKS_PER_MULTIPROCESSOR
