"""Nodes that any warp can continue: make and find them, take their children, and end a quantum.

At the end of a quantum, the entries of a frame's stack become nodes for the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from mbe_stage.device.grid import this_warp
from mbe_stage.device.intrinsics import global_nanoseconds, load_fresh
from mbe_stage.device.warp import ALL, ballot, count_bits, next_tile, nth_bit
from mbe_stage.search.cuda import control as layout

_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def read_shared(control, index):
    """Read a word that other warps change, int64; all lanes get the same value, so they take the same branch."""
    value = np.int64(0)
    if cuda.laneid == 0:
        value = np.int64(load_fresh(control, index))
    return cuda.shfl_sync(ALL, value, 0)


@cuda.jit(device=True, forceinline=True)
def quantum_is_over(control, deadline):
    """Return True if the quantum must end; if its time is over, set the status for all warps."""
    status = np.int64(0)
    if cuda.laneid == 0:
        status = np.int64(load_fresh(control, layout.STATUS))
        if status == 0 and global_nanoseconds() > deadline:
            cuda.atomic.or_(control, layout.STATUS, np.int64(layout.TIME_OVER))
            status = np.int64(layout.TIME_OVER)
    return cuda.shfl_sync(ALL, status, 0) != 0


@cuda.jit(device=True, forceinline=True)
def warps_are_waiting(control):
    """Return True if more warps are idle than nodes are open."""
    return read_shared(control, layout.N_IDLE) > read_shared(control, layout.N_OPEN)


@cuda.jit(device=True, forceinline=True)
def take_words(n, is_needed, control, settings):
    """Take `n` words of the pool for this warp; return their offset, int64, or -1 if too few are left.

    Words are never returned within a quantum: between an addition and its reversal, another warp could be refused. If
    `is_needed`, a shortage ends the quantum, and the host makes room.
    """
    start = np.int64(-1)
    if cuda.laneid == 0:
        # Pool segments begin on cache lines, so no multiprocessor has an old copy of one in its cache.
        n_whole = np.int64(np.int64(np.int64(n) + np.int64(31)) & np.int64(~31))
        if is_needed or load_fresh(control, layout.POOL_TOP) + n_whole <= settings[layout.POOL_LIMIT]:
            start = np.int64(cuda.atomic.add(control, layout.POOL_TOP, n_whole))
            if start + n_whole > settings[layout.POOL_LIMIT]:
                start = np.int64(-1)
                if is_needed:
                    cuda.atomic.add(control, layout.NEEDED, n_whole)
                    cuda.atomic.or_(control, layout.STATUS, np.int64(layout.POOL_SHORT))
    return cuda.shfl_sync(ALL, start, 0)


@cuda.jit(device=True, forceinline=True)
def new_node(is_needed, control, settings):
    """Return the number of a new node, int32; -1 if the table is full. `is_needed` is as in `take_words`."""
    node = np.int32(-1)
    if cuda.laneid == 0 and (is_needed or load_fresh(control, layout.N_NODES) < settings[layout.NODE_LIMIT]):
        taken = cuda.atomic.add(control, layout.N_NODES, np.int64(1))
        if taken < settings[layout.NODE_LIMIT]:
            node = np.int32(taken)
        elif is_needed:
            cuda.atomic.or_(control, layout.STATUS, np.int64(layout.POOL_SHORT))
    return cuda.shfl_sync(ALL, node, 0)


@cuda.jit(device=True, forceinline=True)
def publish(node, n_children, nodes, control):
    """Open a node to all warps, after this warp has written its fields and words."""
    cuda.threadfence()
    cuda.syncwarp()
    if cuda.laneid == 0:
        nodes[node, layout.END] = np.int64(n_children)
        cuda.atomic.add(control, layout.N_OPEN, np.int64(1))
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def take_child(node, is_own, nodes, control):
    """Take the next child of a node, int32, or -1 if all are taken; all lanes get the same result."""
    child = np.int32(-1)
    if cuda.laneid == 0:
        end = load_fresh(nodes[node], layout.END)
        if load_fresh(nodes[node], layout.CURSOR) < end:
            taken = cuda.atomic.add(nodes, (node, layout.CURSOR), np.int64(1))
            if taken < end:
                child = np.int32(taken)
                if taken + 1 == end:
                    cuda.atomic.add(control, layout.N_OPEN, np.int64(-1))
    child = cuda.shfl_sync(ALL, child, 0)
    if not is_own:
        # The node was written before END, so later reads must not be older. A warp's own nodes need no fence, which
        # would empty the multiprocessor's cache.
        cuda.threadfence()
    return child


@cuda.jit(device=True, forceinline=True)
def next_root(order, control):
    """Take a root that no warp has taken, int32; -1 if there is none."""
    root = np.int32(-1)
    if cuda.laneid == 0:
        taken = cuda.atomic.add(control, layout.NEXT_ROOT, np.int64(1))
        if taken < order.size:
            root = order[taken]
    return cuda.shfl_sync(ALL, root, 0)


@cuda.jit(device=True, forceinline=True)
def find_some_open_node(turn, n_oldest, is_any, nodes, control, settings):
    """Find one of the oldest nodes with children left, int32, or -1. The oldest nodes are high in the tree.

    Warps that look at the same time find different nodes: hundreds of warps on the oldest one would block each other,
    as at the beginning of a quantum that resumes nodes. If they spread over all open nodes, the largest would begin too
    late, and matrices would not stay in the cache.

    Parameters
    ----------
    turn : int32
        Selects the node; not negative, and different for each warp and try.
    n_oldest : int32
        Number of oldest open nodes to choose from, at most 32.
    is_any : bool
        True to include nodes in warps' chains; nodes in no chain are always included.
    nodes : (n_nodes, NODE_FIELDS) int64, global
    control, settings : int64, global
    """
    lane = np.int32(cuda.laneid)
    if read_shared(control, layout.N_OPEN) <= 0:
        return np.int32(-1)
    low = np.int32(read_shared(control, layout.LOW_NODE))
    n_nodes = np.int32(min(read_shared(control, layout.N_NODES), settings[layout.NODE_LIMIT]))
    tile = low
    while tile < n_nodes:
        node = np.int32(tile + lane)
        is_open = False
        is_over = False
        if node < n_nodes:
            end = load_fresh(nodes[node], layout.END)
            is_open = load_fresh(nodes[node], layout.CURSOR) < end
            # A node without an end is still being written.
            is_over = end > 0 and not is_open
            if not is_any and is_open:
                is_open = nodes[node, layout.LINK] == layout.ANYBODYS
        found = ballot(is_open)
        if found != 0:
            n_found = np.int32(min(count_bits(found), n_oldest))
            return np.int32(tile + nth_bit(found, np.int32(turn % n_found)))
        if tile == low and cuda.all_sync(ALL, is_over) and lane == 0:
            cuda.atomic.max(control, layout.LOW_NODE, np.int64(tile + np.int32(32)))
        tile = next_tile(tile)
    return np.int32(-1)


@cuda.jit(device=True, forceinline=True)
def pool_offset_of(settings):
    """Return the pool offset of this warp's own words, for its current frame; int64."""
    return _L(settings[layout.POOL_LIMIT] + _L(this_warp()) * settings[layout.OWN_WORDS])


def stack_entries_with(
    frame_words: Any, write_frame: Any, write_entry: Any, pool_offset_of: Any = pool_offset_of
) -> tuple[Any, Any]:
    """Make a problem's device functions `share_entry` and `keep_entries`.

    Parameters
    ----------
    frame_words : device function
        ``frame_words(frame)`` returns the number of words of a frame in the pool.
    write_frame : device function
        ``write_frame(pool_offset, frame, work)`` writes a frame's words, as far as they are not there yet.
    write_entry : device function
        ``write_entry(node, entry, frame, work)`` writes the problem's fields of a node, and returns its number of
        children, int32.
    pool_offset_of : device function, optional
        By default the function above. A problem with frames of constant size passes its own: the size is then known at
        compile time, which saves two registers.
    """

    @cuda.jit(device=True, forceinline=True)
    def write_node(node, entry, pool_offset, frame, work):
        """Write a stack entry as a node; return the number of children left, int32."""
        nodes = work.device.nodes
        if cuda.laneid == 0:
            nodes[node, layout.OFFSET] = pool_offset
            nodes[node, layout.WORDS] = _L(frame_words(frame))
            nodes[node, layout.LINK] = _L(layout.ANYBODYS)
        return write_entry(node, entry, frame, work)

    @cuda.jit(device=True, forceinline=True)
    def share_entry(entry, pool_offset, frame, work):
        """Share a stack entry as a node if there is memory for it; otherwise the warp keeps it.

        Parameters
        ----------
        entry : int32
        pool_offset : int64
            Offset of the frame in the pool; -1 if it has not been written there.
        frame, work
            Passed to the problem's functions.

        Returns
        -------
        pool_offset : int64
        is_shared : bool
        """
        device = work.device
        if pool_offset < 0:
            pool_offset = take_words(frame_words(frame), False, device.control, device.settings)
            if pool_offset < 0:
                return pool_offset, False
            write_frame(pool_offset, frame, work)
        node = new_node(False, device.control, device.settings)
        if node < 0:
            return pool_offset, False
        publish(node, write_node(node, entry, pool_offset, frame, work), device.nodes, device.control)
        return pool_offset, True

    @cuda.jit(device=True, forceinline=True)
    def keep_entries(bottom, depth, pool_offset, frame, work):
        """Save the entries `bottom` to `depth` as nodes in this warp's own places, for the next quantum.

        Only forged work from a file has more entries than places. Its other entries are dropped.
        """
        device = work.device
        most = _I(device.settings[layout.MOST_ENTRIES])
        if pool_offset < 0:
            pool_offset = pool_offset_of(device.settings)
            write_frame(pool_offset, frame, work)
        node = _L(device.settings[layout.NODE_LIMIT] + _L(this_warp()) * _L(most))
        entry = bottom
        while entry < depth and entry - bottom < most:
            n_children = write_node(node, entry, pool_offset, frame, work)
            if cuda.laneid == 0:
                device.nodes[node, layout.END] = _L(n_children)
            cuda.syncwarp()
            node += 1
            entry = _I(entry + 1)

    return share_entry, keep_entries
