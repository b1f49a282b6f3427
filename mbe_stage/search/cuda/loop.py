"""The loop of a warp in a search with open nodes, until the quantum ends (`persistent_loop`).

A warp takes a child of its own newest node (`own_child`), else a root, else a child of one of the oldest open nodes
(`others_child`). If there is none, it waits (`wait_for_open_node`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from mbe_stage.device import WARPS_PER_BLOCK
from mbe_stage.device.grid import this_warp
from mbe_stage.device.intrinsics import global_nanoseconds
from mbe_stage.search.cuda import control as layout
from mbe_stage.search.cuda.nodes import find_some_open_node, quantum_is_over, read_shared, take_child

_SHORTEST_NAP_NS, _LONGEST_NAP_NS = 100, 2000
_TRIES = 4
_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def own_child(newest, nodes, control):
    """Take a child of this warp's newest node that has children left.

    Parameters
    ----------
    newest : int32
        Newest node of this warp that still had children, or -1.
    nodes : (n_nodes, NODE_FIELDS) int64, global
    control : int64, global

    Returns
    -------
    child : int32
        -1 if none is left.
    newest : int32
        The child's node; -1 if none is left.
    """
    child = _I(-1)
    while newest >= 0:
        child = take_child(newest, True, nodes, control)
        if child >= 0:
            break
        newest = _I(nodes[newest, layout.LINK])
    return child, newest


@cuda.jit(device=True, forceinline=True)
def others_child(turn, n_oldest, is_any, nodes, control, settings):
    """Take a child of one of the oldest open nodes; `NOTHING` if other warps were faster each time.

    Parameters
    ----------
    turn, n_oldest, is_any, nodes, control, settings
        As in `find_some_open_node`.

    Returns
    -------
    node : int32
        `NOTHING` if there is none.
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
    return _I(layout.NOTHING), _I(0)


@cuda.jit(device=True, forceinline=True)
def wait_for_open_node(n_warps, deadline, control):
    """Wait until a node has children left.

    Parameters
    ----------
    n_warps : int64
        Number of warps in the grid, all of them resident.
    deadline : int64
        End of the quantum, by the device's clock.
    control : int64, global

    Returns
    -------
    goes_on : bool
        False if the search or the quantum is over.
    nanoseconds : int64
    """
    began = global_nanoseconds()
    if cuda.laneid == 0:
        cuda.atomic.add(control, layout.N_IDLE, _L(1))
    cuda.syncwarp()
    goes_on = False
    nap = _I(_SHORTEST_NAP_NS)
    while True:
        # Reading words that busy warps write slows these down, so the naps between looks grow.
        cuda.nanosleep(nap)
        nap = min(_I(2 * nap), _I(_LONGEST_NAP_NS))
        n_idle = read_shared(control, layout.N_IDLE)
        if read_shared(control, layout.N_OPEN) > 0:
            goes_on = not quantum_is_over(control, deadline)
            break
        # Only busy warps make nodes. If all warps are idle and no node is open, there will be none.
        if n_idle >= n_warps or quantum_is_over(control, deadline):
            break
    if cuda.laneid == 0 and goes_on:
        cuda.atomic.add(control, layout.N_IDLE, _L(-1))
    cuda.syncwarp()
    return goes_on, _L(global_nanoseconds() - began)


@cuda.jit(device=True, forceinline=True)
def reserve_nothing(n_reserved, device):  # noqa: ARG001 - as `persistent_loop` calls it
    """Reserve nothing, for tasks that need no slots in the leaf table (`reserve` of `persistent_loop`)."""
    return n_reserved


def next_task_with(next_root: Any, n_oldest: int, sharing: int) -> Any:
    """Make the device function that chooses a warp's next task.

    Parameters
    ----------
    next_root : device function
        ``next_root(order, device)`` takes a root that no warp has taken. It returns `ROOT`, or another mark of the
        problem, and the root, both int32; `NOTHING` if there is none.
    n_oldest : int
        Number of oldest open nodes that warps choose from.
    sharing : int
        Bit of the technique that lets warps take nodes from other warps' chains.
    """

    @cuda.jit(device=True, forceinline=True)
    def next_task(newest, roots_left, turn, graph, device, launch):
        """Choose the next task: a root, or a child of a node; `NOTHING` if other warps were faster each time.

        Parameters
        ----------
        newest : int32
            Newest node of this warp that still had children, or -1.
        roots_left : bool
            True if there may be roots that no warp has taken.
        turn : int32
            As in `others_child`.
        graph, device, launch
            The problem's bundles; `order`, `nodes`, `control`, `settings` and `techniques` are read.

        Returns
        -------
        node : int32
            A node, or the first value of `next_root`; `NOTHING` if there is no task.
        child : int32
            A child of the node, or the root.
        newest : int32
        roots_left : bool
        """
        child, newest = own_child(newest, device.nodes, device.control)
        if child >= 0:
            return newest, child, newest, roots_left
        if roots_left:
            kind, child = next_root(graph.order, device)
            if kind != layout.NOTHING:
                return kind, child, newest, roots_left
            roots_left = False
        is_any = launch.techniques & sharing != 0
        node, child = others_child(turn, _I(n_oldest), is_any, device.nodes, device.control, device.settings)
        return node, child, newest, roots_left

    return next_task


def persistent_loop(next_task: Any, reserve: Any, do_task: Any) -> Any:
    """Make the device function with a warp's loop: do tasks until none is left or the quantum ends.

    Parameters
    ----------
    next_task : device function
        Made by `next_task_with`.
    reserve : device function
        ``reserve(n_reserved, device)`` raises the warp's number of reserved slots to the largest need of a task, and
        returns it, int32; below 0 if the quantum must end.
    do_task : device function
        ``do_task(node, child, newest, n_reserved, work)`` returns ``is_done, newest, n_reserved``. An unfinished task
        starts over in the next quantum.
    """

    @cuda.jit(device=True, forceinline=True)
    def loop(work):
        """Do tasks, beginning with the pending one of the warp's state; write an unfinished one there at the end.

        Parameters
        ----------
        work : NamedTuple
            The problem's bundles; `own.state`, `graph`, `device` and `launch` are read.
        """
        own, graph, device, launch = work.own, work.graph, work.device, work.launch
        n_warps = _L(cuda.gridDim.x) * _L(WARPS_PER_BLOCK)
        newest = _I(-1)
        n_reserved = _I(0)
        roots_left = True
        turn = _I(this_warp())
        node, child = _I(own.state[layout.PENDING_NODE]), _I(own.state[layout.PENDING_CHILD])
        while True:
            if quantum_is_over(device.control, launch.deadline):
                break
            n_reserved = reserve(n_reserved, device)
            if n_reserved < 0:
                break
            if node == layout.NOTHING:
                node, child, newest, roots_left = next_task(newest, roots_left, turn, graph, device, launch)
                turn = _I(turn + 1)
            if node == layout.NOTHING:
                goes_on, waited = wait_for_open_node(n_warps, launch.deadline, device.control)
                if cuda.laneid == 0:
                    own.state[layout.IDLE_NS] += waited
                if not goes_on:
                    break
                continue
            is_done, newest, n_reserved = do_task(node, child, newest, n_reserved, work)
            if not is_done:
                break
            node = _I(layout.NOTHING)
        cuda.syncwarp()
        if cuda.laneid == 0:
            own.state[layout.PENDING_NODE] = _L(node)
            own.state[layout.PENDING_CHILD] = _L(child)

    return loop
