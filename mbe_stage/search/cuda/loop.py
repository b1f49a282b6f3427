"""What a warp does next in a search with open nodes: a child of its own nodes, of anybody's, or waiting for one.

A problem's kernel takes a child of the newest node of its own (`own_child`), else a root, else a child of one of the
oldest nodes that anybody has made (`others_child`); where there is none, it waits (`wait_for_work`).
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import global_nanoseconds
from mbe_stage.search.cuda import control as at
from mbe_stage.search.cuda.nodes import find_some_open_node, read_shared, stops, take_child

_SHORTEST_NAP_NS, _LONGEST_NAP_NS = 100, 2000
_TRIES = 4
_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def own_child(newest, nodes, control):
    """A child of the newest node of this warp that has any left.

    Parameters
    ----------
    newest : int32
        The node that this warp made last, of those that had children left; or -1.
    nodes : (n_nodes, NODE_FIELDS) int64, global
    control : int64, global

    Returns
    -------
    child : int32
        -1 where none is left.
    newest : int32
        The node that it is of; -1 where none is left.
    """
    child = _I(-1)
    while newest >= 0:
        child = take_child(newest, True, nodes, control)
        if child >= 0:
            break
        newest = _I(nodes[newest, at.LINK])
    return child, newest


@cuda.jit(device=True, forceinline=True)
def others_child(turn, n_oldest, is_any, nodes, control, settings):
    """A child of one of the oldest nodes that have any left; nothing, too, where others were always faster.

    Parameters
    ----------
    turn, n_oldest, is_any, nodes, control, settings
        As `find_some_open_node` takes them.

    Returns
    -------
    node : int32
        `NOTHING` where there is none.
    child : int32
    """
    tries = _I(0)
    while tries < _TRIES:
        node = find_some_open_node(_I(turn + tries), n_oldest, is_any, nodes, control, settings)
        if node < 0:
            break
        child = take_child(node, False, nodes, control)
        if child >= 0:
            return node, child
        tries = _I(tries + 1)
    return _I(at.NOTHING), _I(0)


@cuda.jit(device=True, forceinline=True)
def wait_for_work(n_warps, deadline, control):
    """Wait until some node has children.

    Parameters
    ----------
    n_warps : int64
        Of the grid, all of which are resident.
    deadline : int64
        When the quantum ends, by the device's clock.
    control : int64, global

    Returns
    -------
    goes_on : bool
        False where the search or the quantum is over.
    nanoseconds : int64
    """
    began = global_nanoseconds()
    if cuda.laneid == 0:
        cuda.atomic.add(control, at.N_IDLE, _L(1))
    cuda.syncwarp()
    goes_on = False
    nap = _I(_SHORTEST_NAP_NS)
    while True:
        # Who reads the words that busy warps write to keeps them waiting: the longer in vain, the less often.
        cuda.nanosleep(nap)
        nap = min(_I(2 * nap), _I(_LONGEST_NAP_NS))
        n_idle = read_shared(control, at.N_IDLE)
        if read_shared(control, at.N_OPEN) > 0:
            goes_on = not stops(control, deadline)
            break
        # Nodes come from busy warps alone: if all were idle before none was open, there is none.
        if n_idle >= n_warps or stops(control, deadline):
            break
    if cuda.laneid == 0 and goes_on:
        cuda.atomic.add(control, at.N_IDLE, _L(-1))
    cuda.syncwarp()
    return goes_on, _L(global_nanoseconds() - began)
