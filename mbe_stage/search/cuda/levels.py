"""Levels of a frame's stack as nodes, which any warp can continue: given away, or kept for the next quantum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from mbe_stage.device.grid import this_warp
from mbe_stage.search.cuda import control as layout
from mbe_stage.search.cuda.nodes import new_node, publish, take_words

_I = np.int32
_L = np.int64


@cuda.jit(device=True, forceinline=True)
def pool_offset_of(settings):
    """Where the words begin that this warp has for the frame in its hands, int64."""
    return _L(settings[layout.POOL_LIMIT] + _L(this_warp()) * settings[layout.OWN_WORDS])


def stack_entries_with(frame_words: Any, write_frame: Any, write_entry: Any) -> tuple[Any, Any]:
    """The device functions `share_entry` and `keep_entries` of a problem.

    Parameters
    ----------
    frame_words : device function
        ``frame_words(frame)``: words of a frame in the pool.
    write_frame : device function
        ``write_frame(pool_offset, frame, work)`` writes them, as far as they do not stand there already.
    write_entry : device function
        ``write_entry(node, entry, frame, work)`` writes the problem's fields of a node, and gives how many children it
        has, int32.
    """

    @cuda.jit(device=True, forceinline=True)
    def write_node(node, entry, pool_offset, frame, work):
        """Write what a level of the stack is; returns how many children are left, int32."""
        nodes = work.device.nodes
        if cuda.laneid == 0:
            nodes[node, layout.OFFSET] = pool_offset
            nodes[node, layout.WORDS] = _L(frame_words(frame))
            nodes[node, layout.LINK] = _L(layout.ANYBODYS)
        return write_entry(node, entry, frame, work)

    @cuda.jit(device=True, forceinline=True)
    def share_entry(entry, pool_offset, frame, work):
        """Make a node of a level of the stack, where there is room; nobody has to be given anything.

        Parameters
        ----------
        entry : int32
        pool_offset : int64
            Where the frame stands in the pool, -1 where it does not yet.
        frame, work
            The problem's.

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
        """Make nodes of levels `bottom` to `depth`, in the places that this warp has; they are for the next quantum."""
        device = work.device
        if pool_offset < 0:
            pool_offset = pool_offset_of(device.settings)
            write_frame(pool_offset, frame, work)
        node = _L(device.settings[layout.NODE_LIMIT] + _L(this_warp()) * device.settings[layout.MOST_ENTRIES])
        entry = bottom
        while entry < depth:
            n_children = write_node(node, entry, pool_offset, frame, work)
            if cuda.laneid == 0:
                device.nodes[node, layout.END] = _L(n_children)
            cuda.syncwarp()
            node += 1
            entry = _I(entry + 1)

    return share_entry, keep_entries
