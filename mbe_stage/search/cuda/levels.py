"""Turn entries of a frame's stack into nodes that any warp can continue, now or in the next quantum."""

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
    """Return the pool offset of this warp's own words, for its current frame; int64."""
    return _L(settings[layout.POOL_LIMIT] + _L(this_warp()) * settings[layout.OWN_WORDS])


def stack_entries_with(frame_words: Any, write_frame: Any, write_entry: Any) -> tuple[Any, Any]:
    """Make the device functions `share_entry` and `keep_entries` of a problem.

    Parameters
    ----------
    frame_words : device function
        ``frame_words(frame)``: words of a frame in the pool.
    write_frame : device function
        ``write_frame(pool_offset, frame, work)`` writes the words that are not there yet.
    write_entry : device function
        ``write_entry(node, entry, frame, work)`` writes the problem's fields of a node, and returns its number of
        children, int32.
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
        """Share a stack entry as a node if there is memory for it. If not, the warp keeps it.

        Parameters
        ----------
        entry : int32
        pool_offset : int64
            Offset of the frame in the pool; -1 if it is not there yet.
        frame, work
            Arguments of the problem's functions.

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
        """Keep the entries `bottom` to `depth` as nodes in this warp's own places, for the next quantum."""
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
