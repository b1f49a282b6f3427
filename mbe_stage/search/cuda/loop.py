"""What a warp does in a search with open nodes until the quantum ends (`persistent_loop`).

It takes a child of the newest node of its own (`own_child`), else a root, else a child of one of the oldest nodes that
any warp has made (`others_child`); where there is none, it waits (`wait_for_work`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from mbe_stage.device.grid import WARPS_PER_BLOCK, this_warp
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


@cuda.jit(device=True, forceinline=True)
def nothing_reserved(credit, device):  # noqa: ARG001 - as `persistent_loop` calls it
    """In the place of `reserve`, for tasks that need nothing beforehand."""
    return credit


def next_task_with(next_root: Any, n_oldest: int, sharing: int) -> Any:
    """The device function that says what a warp does next.

    Parameters
    ----------
    next_root : device function
        ``next_root(order, device)``: a root that nobody has taken, as `ROOT` (or what a problem has beside it) and a
        number, both int32; `NOTHING` if there is none.
    n_oldest : int
        Open nodes that warps choose between.
    sharing : int
        The technique without which only nodes of no warp's own chain are taken.
    """

    @cuda.jit(device=True, forceinline=True)
    def next_task(newest, roots_left, turn, graph, device, launch):
        """What to do next: a root, or a child of a node; nothing, too, where others were always faster.

        Parameters
        ----------
        newest : int32
            The node that this warp made last, of those that had children left; or -1.
        roots_left : bool
            Whether there may be roots that nobody has taken.
        turn : int32
            As `others_child` takes it.
        graph, device, launch
            The problem's; read are `order`, `nodes`, `control`, `settings` and `techniques`.

        Returns
        -------
        node : int32
            As `next_root` gave it; `NOTHING` where nothing is to be had.
        child : int32
            Of the node, or the root.
        newest : int32
        roots_left : bool
        """
        child, newest = own_child(newest, device.nodes, device.control)
        if child >= 0:
            return newest, child, newest, roots_left
        if roots_left:
            kind, child = next_root(graph.order, device)
            if kind != at.NOTHING:
                return kind, child, newest, roots_left
            roots_left = False
        is_any = launch.techniques & sharing != 0
        node, child = others_child(turn, _I(n_oldest), is_any, device.nodes, device.control, device.settings)
        return node, child, newest, roots_left

    return next_task


def persistent_loop(next_task: Any, reserve: Any, do_task: Any) -> Any:
    """The device function that is a warp's work until nothing is left or the quantum ends.

    Parameters
    ----------
    next_task : device function
        As `next_task_with` makes it.
    reserve : device function
        ``reserve(credit, device)``: the warp's credit, int32, raised to what any task needs; below 0 where the quantum
        has to end.
    do_task : device function
        ``do_task(node, child, newest, credit, work)`` gives ``is_done, newest, credit``; a task that is not done is
        begun again.
    """

    @cuda.jit(device=True, forceinline=True)
    def loop(work):
        """Do tasks, beginning with the one in the warp's state; write there the one that is not done.

        Parameters
        ----------
        work : NamedTuple
            The problem's; read are `own.state`, `graph`, `device` and `launch`.
        """
        own, graph, device, launch = work.own, work.graph, work.device, work.launch
        n_warps = _L(cuda.gridDim.x) * _L(WARPS_PER_BLOCK)
        newest = _I(-1)
        credit = _I(0)
        roots_left = True
        turn = _I(this_warp())
        node, child = _I(own.state[at.PENDING_NODE]), _I(own.state[at.PENDING_CHILD])
        while True:
            if stops(device.control, launch.deadline):
                break
            credit = reserve(credit, device)
            if credit < 0:
                break
            if node == at.NOTHING:
                node, child, newest, roots_left = next_task(newest, roots_left, turn, graph, device, launch)
                turn = _I(turn + 1)
            if node == at.NOTHING:
                goes_on, waited = wait_for_work(n_warps, launch.deadline, device.control)
                if cuda.laneid == 0:
                    own.state[at.IDLE_NS] += waited
                if not goes_on:
                    break
                continue
            is_done, newest, credit = do_task(node, child, newest, credit, work)
            if not is_done:
                break
            node = _I(at.NOTHING)
        cuda.syncwarp()
        if cuda.laneid == 0:
            own.state[at.PENDING_NODE] = _L(node)
            own.state[at.PENDING_CHILD] = _L(child)

    return loop
