"""Levels of a frame's stack as nodes, which any warp can continue: given away, or kept for the next quantum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from mbe_stage.device.grid import this_warp
from mbe_stage.search.cuda import control as at
from mbe_stage.search.cuda.nodes import new_node, publish, take_words

_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def home_of(settings):
    """Where the words begin that this warp has for the frame in its hands, int64."""
    return _L(settings[at.POOL_LIMIT] + _L(this_warp()) * settings[at.OWN_WORDS])


def levels_with(frame_words: Any, write_frame: Any, write_level: Any) -> tuple[Any, Any]:
    """The device functions `share_level` and `keep_levels` of a problem.

    Parameters
    ----------
    frame_words : device function
        ``frame_words(frame)``: words of a frame in the pool.
    write_frame : device function
        ``write_frame(home, frame, work)`` writes them, as far as they do not stand there already.
    write_level : device function
        ``write_level(node, level, frame, work)`` writes the problem's fields of a node, and gives how many children it
        has, int32.
    """

    @cuda.jit(device=True, forceinline=True)
    def write_node(node, level, home, frame, work):
        """Write what a level of the stack is; returns how many children are left, int32."""
        nodes = work.device.nodes
        if cuda.laneid == 0:
            nodes[node, at.OFFSET] = home
            nodes[node, at.WORDS] = _L(frame_words(frame))
            nodes[node, at.LINK] = _L(at.ANYBODYS)
        return write_level(node, level, frame, work)

    @cuda.jit(device=True, forceinline=True)
    def share_level(level, home, frame, work):
        """Make a node of a level of the stack, where there is room; nobody has to be given anything.

        Parameters
        ----------
        level : int32
        home : int64
            Where the frame stands in the pool, -1 where it does not yet.
        frame, work
            The problem's.

        Returns
        -------
        home : int64
        is_shared : bool
        """
        device = work.device
        if home < 0:
            home = take_words(frame_words(frame), False, device.control, device.settings)
            if home < 0:
                return home, False
            write_frame(home, frame, work)
        node = new_node(False, device.control, device.settings)
        if node < 0:
            return home, False
        publish(node, write_node(node, level, home, frame, work), device.nodes, device.control)
        return home, True

    @cuda.jit(device=True, forceinline=True)
    def keep_levels(bottom, depth, home, frame, work):
        """Make nodes of levels `bottom` to `depth`, in the places that this warp has; they are for the next quantum."""
        device = work.device
        if home < 0:
            home = home_of(device.settings)
            write_frame(home, frame, work)
        node = _L(device.settings[at.NODE_LIMIT] + _L(this_warp()) * device.settings[at.MOST_LEVELS])
        level = bottom
        while level < depth:
            n_children = write_node(node, level, home, frame, work)
            if cuda.laneid == 0:
                device.nodes[node, at.END] = _L(n_children)
            cuda.syncwarp()
            node += 1
            level = _I(level + 1)

    return share_level, keep_levels
