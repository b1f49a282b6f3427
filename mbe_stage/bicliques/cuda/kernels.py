"""The kernel: persistent warps, one per task, that work until the tree is done or the quantum ends.

Compiled once for each output mode (`layout.COUNT` and so on).

Persistent threads take the next piece of work when one is done: GMBE+ IV-C 1 and its algorithm 4. Here the unit is a
child of a node at any depth, not a root, and there is no queue: a node is its own list of tasks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, types

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.bitset_walk import walk_bitset_frames
from mbe_stage.bicliques.cuda.subgraph_children import visit_subgraph_child
from mbe_stage.bicliques.cuda.techniques import ALL_TECHNIQUES, SPLITTING
from mbe_stage.bicliques.cuda.walk_bundles import Launch, Own
from mbe_stage.bicliques.cuda.work_donation import (
    EXIT,
    NO_NODE,
    end_overdue_quantum,
    find_open_node,
    read_shared,
    take_child,
    wait_for_work,
)
from mbe_stage.device import WARP_SIZE
from mbe_stage.device.intrinsics import global_nanoseconds, held, load_fresh
from mbe_stage.device.jit import I32, I32_2D, I32_3D, I64, I64_2D, INT, U32, U32_2D, bundle, kernel

# Types of the bundles of arrays that kernels take.
POOL = bundle(layout.Pool, I32, I64_2D, I32, I32, I32, I32, types.UniTuple(INT, 6), I64)
WARPS = bundle(layout.Warps, U32_2D, I32_2D, I32_3D, I64_2D, I32_2D, U32_2D, I32_2D, I32_2D, I32_2D, U32, I32)
OUTPUT = bundle(layout.Output, I32, I64, I32, I32)

THREADS = layout.WALKING_WARPS_PER_BLOCK * WARP_SIZE
_HOPPER = (9, 0)
_TABLES_SHAPE = (layout.WALKING_WARPS_PER_BLOCK, 2 * layout.BITMAP_WORDS)
_SUBSETS_SHAPE = (layout.WALKING_WARPS_PER_BLOCK, 64)
_SIGNATURE = (POOL, WARPS, OUTPUT, I32, I64)
_CHUNKS_SHAPE = (layout.WALKING_WARPS_PER_BLOCK, 4)
_NAMES = ("counts", "counts_within", "sizes", "members", "constrained")
"""Endings of the kernels' names, by output mode."""


@cuda.jit(device=True, forceinline=True)
def _next_child(own, pool, launch):
    """Take a child of a subgraph: of this warp's own newest one, else of an open one of any warp."""
    child = np.int32(-1)
    node = np.int32(NO_NODE)
    n_own = np.int32(own.state[layout.N_OWN])
    while child < 0:
        is_own = n_own > 0
        if is_own:
            node = own.own_nodes[n_own - 1]
        else:
            node = find_open_node(pool, launch.control, launch.techniques & SPLITTING != 0, launch.mode)
            if node < 0:
                break
        child = take_child(node, is_own, pool, launch.control)
        if child < 0 and is_own:
            n_own = np.int32(n_own - 1)
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.state[layout.N_OWN] = n_own
    cuda.syncwarp()
    return node, child


@cuda.jit(device=True, forceinline=True)
def _own(warp, slot, warps):
    """Bundle this warp's memory, with an empty chunk of the output."""
    tables = cuda.shared.array(_TABLES_SHAPE, types.uint32)
    subsets = cuda.shared.array(_SUBSETS_SHAPE, types.uint32)
    chunks = cuda.shared.array(_CHUNKS_SHAPE, types.int64)
    chunk = chunks[slot]
    if cuda.laneid < 4:
        chunk[cuda.laneid] = 0
    cuda.syncwarp()
    return Own(
        held(warps.words[warp]),
        held(warps.ints[warp]),
        held(warps.frames[warp]),
        warps.state[warp],
        warps.own_nodes[warp],
        held(warps.bits[warp]),
        held(warps.counts[warp]),
        held(warps.nonzero[warp]),
        held(warps.columns[warp]),
        tables[slot],
        subsets[slot],
        chunk,
    )


@cuda.jit(device=True, forceinline=True)
def _go_idle(warp, first, now, states):
    """Mark a warp idle and add it to its block's idle count; `first` is the block's first warp."""
    if cuda.laneid == 0:
        states[warp, layout.IDLE_SINCE] = now
        cuda.threadfence()
        cuda.atomic.add(states, (first, layout.N_IDLE), 1)


@cuda.jit(device=True, forceinline=True)
def _go_on(warp, first, now, states):
    """Mark a warp busy again. If all of its block were idle, it records for how long."""
    if cuda.laneid == 0 and cuda.atomic.add(states, (first, layout.N_IDLE), -1) == layout.WALKING_WARPS_PER_BLOCK:
        since = load_fresh(states[first], layout.IDLE_SINCE)
        for other in range(1, layout.WALKING_WARPS_PER_BLOCK):
            since = max(since, load_fresh(states[first + other], layout.IDLE_SINCE))
        states[warp, layout.BLOCK_IDLE_NS] += now - since


@cuda.jit(device=True, forceinline=True)
def _persistent_loop(pool, warps, output, control, control_64, mode, techniques):
    """Work of one warp until no work is left or the quantum ends.

    `mode` and `techniques` (`Techniques.kernel_mask`) are known at compile time. All arrays are in global memory, and
    all but the rows of `warps` are shared by all warps.
    """
    lane = cuda.laneid
    slot = np.int32(cuda.threadIdx.x // WARP_SIZE)
    warp = np.int32(cuda.blockIdx.x * layout.WALKING_WARPS_PER_BLOCK + slot)
    own = _own(warp, slot, warps)
    state = own.state
    began = global_nanoseconds()
    launch = Launch(control, control_64, began + control_64[layout.QUANTUM_NS], mode, techniques)
    idle = 0
    while True:
        end_overdue_quantum(launch)
        if read_shared(control, layout.SIGNAL) >= layout.STOP_BIT:
            break
        if state[layout.DEPTH] >= 0:
            status = walk_bitset_frames(warp, own, pool, warps, output, launch)
            if status == layout.PAUSED:
                break
            continue
        node = np.int32(state[layout.PENDING_NODE])
        row = np.int32(state[layout.PENDING_ROW])
        if node < 0:
            node, row = _next_child(own, pool, launch)
            if row < 0:
                before = global_nanoseconds()
                _go_idle(warp, np.int32(warp - slot), before, warps.state)
                answer = wait_for_work(warp, warps, launch)
                after = global_nanoseconds()
                _go_on(warp, np.int32(warp - slot), after, warps.state)
                idle += after - before
                if answer == EXIT:
                    break
                continue
            if node == 0:
                row = pool.order[row]
            if lane == 0:
                state[layout.PENDING_NODE] = node
                state[layout.PENDING_ROW] = row
                state[layout.ROOT] = row if node == 0 else pool.nodes[node, layout.NODE_ROOT]
            cuda.syncwarp()
        status = visit_subgraph_child(node, row, own, pool, output, launch)
        if status == layout.PAUSED:
            break
        if lane == 0:
            state[layout.PENDING_NODE] = -1
        cuda.syncwarp()
    cuda.syncwarp()
    if lane == 0:
        cuda.atomic.add(control_64, layout.ALL_FOUND, state[layout.FOUND])
        state[layout.FOUND] = 0
        state[layout.IDLE_NS] += idle
        state[layout.BUSY_NS] += global_nanoseconds() - began - idle


def blocks_per_multiprocessor(mode: int, capability: tuple[int, int]) -> int:
    """Resident blocks of a kernel: five if 96 registers suffice without spills, else four."""
    return 5 if mode == layout.COUNT or (mode in (layout.WITHIN, layout.MEMBERS) and capability >= _HOPPER) else 4


@cache
def kernel_for(mode: int, techniques: int, n_resident: int) -> Any:
    """Return the kernel of an output mode, with the techniques of a mask, for so many resident blocks.

    It is compiled when called. The code of all is kept, each under the constants that it is compiled with.
    """
    name = f"{__name__}:kernel_for({mode}, {techniques}, {n_resident})"
    compiled = kernel(*_SIGNATURE, launch_bounds=(THREADS, n_resident), name=name, seconds=20.0)

    def bicliques_warp_per_task(pool, warps, output, control, control_64):
        _persistent_loop(pool, warps, output, control, control_64, mode, techniques)

    walk = bicliques_warp_per_task
    if techniques == ALL_TECHNIQUES:
        walk.__name__ = walk.__qualname__ = f"{walk.__name__}_{_NAMES[mode]}"
    return compiled(walk)


def walking_kernel(mode: int, techniques: int) -> Any:
    """`kernel_for` the current device."""
    from mbe_stage.device.launch import capability

    return kernel_for(mode, techniques, blocks_per_multiprocessor(mode, capability()))


def kernel_blocks(mode: int) -> int:
    """Number of blocks of the walk resident on the current device. Waiting warps rely on all others."""
    from mbe_stage.device.launch import capability, multiprocessors

    return multiprocessors() * blocks_per_multiprocessor(mode, capability())
