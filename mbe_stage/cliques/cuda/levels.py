"""Levels of a frame's stack as nodes, which anybody may go on with: given away, or kept for the next quantum."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.device.masks import bit_of, low_bits, nth_of, of_halves, size_of
from mbe_stage.device.warp import next_tile
from mbe_stage.search.cuda.levels import levels_with

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _frame_words(frame):
    """Words of a frame's block, int32."""
    return _I(at.BASE_AT + 2 * frame.n_base + 2 * frame.n_excluded)


@cuda.jit(device=True, forceinline=True)
def _write_frame(home, frame, work):
    """Write the candidates' rows into a block, and the rest, which stands in this warp's own place, to another one."""
    own, words = work.own, work.device.words
    k = _I(cuda.laneid)
    for _ in range(2):
        row = own.frame[own.frame_at + k]
        words[home + 2 * k] = _U(row & _W(0xFFFFFFFF))
        words[home + 2 * k + 1] = _U(row >> _W(32))
        k = next_tile(k)
    if home < work.device.settings[at.POOL_LIMIT]:
        n = _frame_words(frame)
        k = _I(at.IDS_AT + _I(cuda.laneid))
        while k < n:
            words[home + k] = words[frame.home + k]
            k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def _write_level(node, level, frame, work):
    """Write a node of a level of the stack; returns how many children are left, int32."""
    own, nodes = work.own, work.device.nodes
    place = own.frame_at + at.STACK + level * at.LEVEL_WORDS
    joined, candidates, branches = own.frame[place], own.frame[place + 1], own.frame[place + 2]
    if cuda.laneid == 0:
        nodes[node, at.KIND] = _L(at.FRAME)
        nodes[node, at.N_EXCLUDED] = _L(frame.n_excluded)
        nodes[node, at.N_BASE] = _L(frame.n_base)
        nodes[node, at.JOINED] = _L(joined)
        nodes[node, at.CANDIDATES] = _L(candidates)
        nodes[node, at.BRANCHES] = _L(branches)
    cuda.syncwarp()
    return size_of(branches)


share_level, keep_levels = levels_with(_frame_words, _write_frame, _write_level)


@cuda.jit(device=True, forceinline=True)
def open_level(node, child, own, device):
    """Put the rows of a node's frame into shared memory; one of the node's children.

    Parameters
    ----------
    node, child : int32

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
