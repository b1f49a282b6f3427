"""Nodes that any warp can continue: made, found, their children handed out one by one; and the end of a quantum."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import ALL, ballot, count_bits, global_nanoseconds, load_fresh, next_tile, nth_bit
from mbe_stage.search.cuda import control as at


@cuda.jit(device=True, forceinline=True)
def read_shared(control, index):
    """A word that other warps change, int64, the same for all lanes: two must never take different turns on it."""
    value = np.int64(0)
    if cuda.laneid == 0:
        value = np.int64(load_fresh(control, index))
    return cuda.shfl_sync(ALL, value, 0)


@cuda.jit(device=True, forceinline=True)
def stops(control, deadline):
    """Whether the quantum has to end; says so to all where its time is over."""
    status = np.int64(0)
    if cuda.laneid == 0:
        status = np.int64(load_fresh(control, at.STATUS))
        if status == 0 and global_nanoseconds() > deadline:
            cuda.atomic.or_(control, at.STATUS, np.int64(at.TIME_OVER))
            status = np.int64(at.TIME_OVER)
    return cuda.shfl_sync(ALL, status, 0) != 0


@cuda.jit(device=True, forceinline=True)
def somebody_waits(control):
    """Whether warps are idle, and have nothing to take."""
    return read_shared(control, at.N_IDLE) > read_shared(control, at.N_OPEN)


@cuda.jit(device=True, forceinline=True)
def take_words(n, is_needed, control, settings):
    """Where `n` words of the pool begin that are this warp's now, int64; -1 where there are not so many left.

    The pool never takes back what it gave within a quantum: between the addition and a subtraction another warp could
    get what is not there. Who cannot go on without the words (`is_needed`) ends the quantum, and the host makes room.
    """
    start = np.int64(-1)
    if cuda.laneid == 0:
        # Stretches begin on cache lines: nobody has part of one cached from before it was written.
        n_whole = np.int64(np.int64(np.int64(n) + np.int64(31)) & np.int64(~31))
        if is_needed or load_fresh(control, at.POOL_TOP) + n_whole <= settings[at.POOL_LIMIT]:
            start = np.int64(cuda.atomic.add(control, at.POOL_TOP, n_whole))
            if start + n_whole > settings[at.POOL_LIMIT]:
                start = np.int64(-1)
                if is_needed:
                    cuda.atomic.add(control, at.NEEDED, n_whole)
                    cuda.atomic.or_(control, at.STATUS, np.int64(at.POOL_SHORT))
    return cuda.shfl_sync(ALL, start, 0)


@cuda.jit(device=True, forceinline=True)
def new_node(is_needed, control, settings):
    """The number of a new node, int32; -1 where the table is full, as `take_words`."""
    node = np.int32(-1)
    if cuda.laneid == 0 and (is_needed or load_fresh(control, at.N_NODES) < settings[at.NODE_LIMIT]):
        taken = cuda.atomic.add(control, at.N_NODES, np.int64(1))
        if taken < settings[at.NODE_LIMIT]:
            node = np.int32(taken)
        elif is_needed:
            cuda.atomic.or_(control, at.STATUS, np.int64(at.POOL_SHORT))
    return cuda.shfl_sync(ALL, node, 0)


@cuda.jit(device=True, forceinline=True)
def publish(node, n_children, nodes, control):
    """Let anybody take children of a node whose fields and matrix this warp has written."""
    cuda.threadfence()
    cuda.syncwarp()
    if cuda.laneid == 0:
        nodes[node, at.END] = np.int64(n_children)
        cuda.atomic.add(control, at.N_OPEN, np.int64(1))
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def take_child(node, is_own, nodes, control):
    """The next child of a node, int32, or -1 where all are taken; the same for all lanes."""
    child = np.int32(-1)
    if cuda.laneid == 0:
        end = load_fresh(nodes[node], at.END)
        if load_fresh(nodes[node], at.CURSOR) < end:
            taken = cuda.atomic.add(nodes, (node, at.CURSOR), np.int64(1))
            if taken < end:
                child = np.int32(taken)
                if taken + 1 == end:
                    cuda.atomic.add(control, at.N_OPEN, np.int64(-1))
    child = cuda.shfl_sync(ALL, child, 0)
    if not is_own:
        # What the node holds was written before END: nothing read from here on may be older. A warp has written its
        # own nodes, and is spared the fence, which empties the multiprocessor's cache.
        cuda.threadfence()
    return child


@cuda.jit(device=True, forceinline=True)
def next_root(order, control):
    """The next root that nobody has taken, int32; -1 where there is none."""
    root = np.int32(-1)
    if cuda.laneid == 0:
        taken = cuda.atomic.add(control, at.NEXT_ROOT, np.int64(1))
        if taken < order.size:
            root = order[taken]
    return cuda.shfl_sync(ALL, root, 0)


@cuda.jit(device=True, forceinline=True)
def find_some_open_node(turn, n_oldest, is_any, nodes, control, settings):
    """One of the oldest nodes with children nobody has taken, int32, or -1: they stand high in the tree.

    Warps that look at the same time find different ones: hundreds that go for the oldest get in each other's way, as at
    the beginning of a quantum that goes on with the nodes of the one before. Where they spread over all that are open,
    the largest are begun too late, and the matrices that they read do not stay in the cache.

    Parameters
    ----------
    turn : int32
        Which one, not below 0; another one for each warp and each time.
    n_oldest : int32
        Open nodes that warps choose between, 32 at most.
    is_any : bool
        Whether it may be of a warp's own chain; those of no warp's may be taken by all.
    nodes : (n_nodes, NODE_FIELDS) int64, global
    control, settings : int64, global
    """
    lane = np.int32(cuda.laneid)
    if read_shared(control, at.N_OPEN) <= 0:
        return np.int32(-1)
    low = np.int32(read_shared(control, at.LOW_NODE))
    n_nodes = np.int32(min(read_shared(control, at.N_NODES), settings[at.NODE_LIMIT]))
    tile = low
    while tile < n_nodes:
        node = np.int32(tile + lane)
        is_open = False
        is_over = False
        if node < n_nodes:
            end = load_fresh(nodes[node], at.END)
            is_open = load_fresh(nodes[node], at.CURSOR) < end
            # A node that is being written has no end yet.
            is_over = end > 0 and not is_open
            if not is_any and is_open:
                is_open = nodes[node, at.LINK] == at.ANYBODYS
        found = ballot(is_open)
        if found != 0:
            n_found = np.int32(min(count_bits(found), n_oldest))
            return np.int32(tile + nth_bit(found, np.int32(turn % n_found)))
        if tile == low and cuda.all_sync(ALL, is_over) and lane == 0:
            cuda.atomic.max(control, at.LOW_NODE, np.int64(tile + np.int32(32)))
        tile = next_tile(tile)
    return np.int32(-1)
