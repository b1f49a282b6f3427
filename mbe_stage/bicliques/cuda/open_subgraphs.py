"""Taking children of subgraphs: any warp takes the next one of any subgraph that has some left.

Load-aware splitting of GMBE (idea 3 of its slides) and GMBE+ IV-C 1 enqueues the children of nodes above two
thresholds; here every subgraph's children can be taken one by one.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.time_quantum import read_shared
from mbe_stage.device.warp import ALL, ballot, first_bit, load_fresh, max_all, next_tile

_U = np.uint32
_FEW_OPEN = 1024
_LARGEST = 1 << 30
NO_NODE = -1


@cuda.jit(device=True, forceinline=True)
def take_child(node, is_own, pool, control):
    """The next child of a subgraph, or -1; the same for all lanes.

    A node of this warp's own needs neither of the two looks: its cursor goes past the end once for each warp that finds
    it exhausted, and the warp has written what it is going to read.
    """
    child = np.int32(0)
    if cuda.laneid == 0:
        child = np.int32(-1)
        end = load_fresh(pool.nodes[node], at.NODE_END)
        if is_own or load_fresh(pool.cursors, node) < end:
            taken = cuda.atomic.add(pool.cursors, node, 1)
            if taken < end:
                child = taken
                if taken + 1 == end:
                    cuda.atomic.add(control, at.N_OPEN, -1)
    child = cuda.shfl_sync(ALL, child, 0)
    if not is_own and node != 0:
        # The node's data was written before END: nothing read from here on may be older. The whole graph is older than
        # the launch; the fence empties the multiprocessor's cache, and most children of a small graph are roots.
        cuda.threadfence()
    return child


@cuda.jit(device=True, forceinline=True)
def find_open_node(pool, control, any_owner, mode):
    """A node with children nobody has taken, or -1; without `any_owner` only one that no warp keeps.

    The oldest stands high in the tree, and warps that work on the same node find it in the caches. But where few are
    open, what takes long must not be left to the end: then it is the largest of 32 that were made one after the other,
    any 32, the same for all who look at the time. Where bicliques are written this does not pay: those of large nodes
    would stand side by side in the output, and whoever expands them has all the long lists.
    """
    lane = cuda.laneid
    n_open = read_shared(control, at.N_OPEN)
    if n_open <= 0:
        return np.int32(NO_NODE)
    low = np.int32(read_shared(control, at.LOW_NODE))
    n_nodes = np.int32(min(read_shared(control, at.N_NODES), pool.cursors.size))
    is_any = mode == at.COUNTS and any_owner and n_open < _FEW_OPEN
    tile = np.int32(low + _anywhere(n_open, n_nodes, np.int32(n_nodes - low)) if is_any else low)
    while tile < n_nodes:
        node = np.int32(tile + lane)
        size = np.int32(0)
        is_over = False
        if node < n_nodes:
            end = load_fresh(pool.nodes[node], at.NODE_END)
            is_open = load_fresh(pool.cursors, node) < end
            # A node that is still being written has no end yet.
            is_over = end > 0 and not is_open and any_owner
            if is_open and (any_owner or pool.nodes[node, at.NODE_IS_OWNED] == 0):
                size = np.int32(min(pool.nodes[node, at.NODE_SIZE], _LARGEST) if is_any else 1)
        largest = max_all(size)
        if largest > 0:
            return np.int32(tile + first_bit(ballot(size == largest)))
        if tile == low and cuda.all_sync(ALL, is_over):
            low = np.int32(tile + 32)
            if lane == 0:
                cuda.atomic.max(control, at.LOW_NODE, low)
        tile = np.int32(low if is_any else next_tile(tile))
        is_any = False
    return np.int32(NO_NODE)


@cuda.jit(device=True, forceinline=True)
def _anywhere(n_open, n_nodes, n):
    """A number below `n` that is another one with every change of the other two."""
    mixed = _U(_U(_U(n_nodes) + _U(_U(n_open) * _U(0x85EBCA6B))) * _U(0x9E3779B1))
    return np.int32(np.uint64(np.uint64(mixed) * np.uint64(_U(n))) >> np.uint64(32))
