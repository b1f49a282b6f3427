"""Levels of a frame's stack as nodes, which anybody may go on with: given away, or kept for the next quantum."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.device.grid import this_warp
from mbe_stage.device.masks import bit_of, low_bits, nth_of, of_halves, size_of
from mbe_stage.device.warp import next_tile
from mbe_stage.search.cuda.nodes import new_node, publish, take_words

__all__ = ["frame_words", "home_of", "keep_levels", "open_level", "share_level"]

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def home_of(settings):
    """Where the words begin that this warp has for the frame in its hands, int64."""
    return _L(settings[at.POOL_LIMIT] + _L(this_warp()) * settings[at.OWN_WORDS])


@cuda.jit(device=True, forceinline=True)
def frame_words(n_base, n_excluded):
    """Words of a frame's block, int32."""
    return _I(at.BASE_AT + 2 * n_base + 2 * n_excluded)


@cuda.jit(device=True, forceinline=True)
def _write_rows(home, own, words):
    """Copy the candidates' rows into a block."""
    k = _I(cuda.laneid)
    for _ in range(2):
        row = own.frame[own.frame_at + k]
        words[home + 2 * k] = _U(row & _W(0xFFFFFFFF))
        words[home + 2 * k + 1] = _U(row >> _W(32))
        k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def _write_block(to, frame, own, words):
    """Copy the frame, which stands in this warp's own place, to another one."""
    _write_rows(to, own, words)
    n = frame_words(frame.n_base, frame.n_excluded)
    k = _I(at.IDS_AT + _I(cuda.laneid))
    while k < n:
        words[to + k] = words[frame.home + k]
        k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def _write_node(node, level, home, frame, own, nodes):
    """Write what a level of the stack is; returns how many children are left, int32.

    Parameters
    ----------
    node : int
    level : int32
    home : int64
        Where the block stands.
    frame : Frame
    own : Own
    nodes : (n_nodes, NODE_FIELDS) int64, global
    """
    place = own.frame_at + at.STACK + level * at.LEVEL_WORDS
    joined, candidates, branches = own.frame[place], own.frame[place + 1], own.frame[place + 2]
    if cuda.laneid == 0:
        nodes[node, at.OFFSET] = home
        nodes[node, at.WORDS] = _L(frame_words(frame.n_base, frame.n_excluded))
        nodes[node, at.LINK] = _L(at.ANYBODYS)
        nodes[node, at.KIND] = _L(at.FRAME)
        nodes[node, at.N_EXCLUDED] = _L(frame.n_excluded)
        nodes[node, at.N_BASE] = _L(frame.n_base)
        nodes[node, at.JOINED] = _L(joined)
        nodes[node, at.CANDIDATES] = _L(candidates)
        nodes[node, at.BRANCHES] = _L(branches)
    cuda.syncwarp()
    return size_of(branches)


@cuda.jit(device=True, forceinline=True)
def share_level(level, home, frame, own, device):
    """Make a node of a level of the stack, where there is room; nobody has to be given anything.

    Returns
    -------
    home : int64
        Where the frame stands: in the pool, once a level was shared.
    is_shared : bool
    """
    if home >= device.settings[at.POOL_LIMIT]:
        n = frame_words(frame.n_base, frame.n_excluded)
        to = take_words(n, False, device.control, device.settings)
        if to < 0:
            return home, False
        _write_block(to, frame, own, device.words)
        home = to
    node = new_node(False, device.control, device.settings)
    if node < 0:
        return home, False
    publish(node, _write_node(node, level, home, frame, own, device.nodes), device.nodes, device.control)
    return home, True


@cuda.jit(device=True, forceinline=True)
def keep_levels(bottom, depth, home, frame, own, device):
    """Make nodes of all levels, in the places that this warp has for the purpose; they are for the next quantum.

    Parameters
    ----------
    bottom, depth : int32
        The levels that there are.
    home : int64
        As `share_level` gave it.
    frame : Frame
    own : Own
    device : Device
    """
    if home >= device.settings[at.POOL_LIMIT]:
        _write_rows(home, own, device.words)
    node = device.settings[at.NODE_LIMIT] + _L(this_warp()) * device.settings[at.MOST_LEVELS]
    level = bottom
    while level < depth:
        n_children = _write_node(node, level, home, frame, own, device.nodes)
        if cuda.laneid == 0:
            device.nodes[node, at.END] = _L(n_children)
        cuda.syncwarp()
        node += 1
        level = _I(level + 1)


@cuda.jit(device=True, forceinline=True)
def open_level(node, child, own, device):
    """Put the rows of a node's frame into shared memory; one of the node's children.

    Parameters
    ----------
    node, child : int32
    own : Own
    device : Device

    Returns
    -------
    joined, candidates : uint64
    frame : Frame
    """
    fields = device.nodes[node]
    home = _L(fields[at.OFFSET])
    lane = _I(cuda.laneid)
    low = of_halves(device.words[home + 2 * lane], device.words[home + 2 * lane + 1])
    high = of_halves(device.words[home + 2 * lane + 64], device.words[home + 2 * lane + 65])
    cuda.syncwarp()
    own.frame[own.frame_at + lane] = low
    own.frame[own.frame_at + lane + 32] = high
    cuda.syncwarp()
    joined, candidates, branches = _W(fields[at.JOINED]), _W(fields[at.CANDIDATES]), _W(fields[at.BRANCHES])
    branch = nth_of(branches, child)
    gone = _W(branches & low_bits(branch))
    candidates = _W(_W(candidates & ~gone) & own.frame[own.frame_at + branch])
    n_base = _I(fields[at.N_BASE])
    excluded_at = _L(home + at.BASE_AT + 2 * n_base)
    frame = at.Frame(home, n_base, _I(fields[at.N_EXCLUDED]), excluded_at, low, high)
    return _W(joined | bit_of(branch)), candidates, frame
