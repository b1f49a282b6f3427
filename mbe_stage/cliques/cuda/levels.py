"""Entries of a frame's stack as nodes that any warp can continue, now or in the next quantum."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.device.masks import bit_of, low_bits, nth_of, of_halves, size_of
from mbe_stage.device.warp import next_tile
from mbe_stage.search.cuda.levels import stack_entries_with

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _frame_words(frame):
    """Words of a frame's block, int32."""
    return _I(layout.BASE_AT + 2 * frame.n_base + 2 * frame.n_excluded)


@cuda.jit(device=True, forceinline=True)
def _write_frame(pool_offset, frame, work):
    """Write a frame into a block: the candidates' rows, and the rest unless it is there already."""
    own, words = work.own, work.device.words
    k = _I(cuda.laneid)
    for _ in range(2):
        row = own.frame[own.frame_at + k]
        words[pool_offset + 2 * k] = _U(row & _W(0xFFFFFFFF))
        words[pool_offset + 2 * k + 1] = _U(row >> _W(32))
        k = next_tile(k)
    if pool_offset < work.device.settings[layout.POOL_LIMIT]:
        n = _frame_words(frame)
        k = _I(layout.IDS_AT + _I(cuda.laneid))
        while k < n:
            words[pool_offset + k] = words[frame.pool_offset + k]
            k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def _write_entry(node, entry, frame, work):
    """Write a node for a stack entry; return its number of children left, int32."""
    own, nodes = work.own, work.device.nodes
    place = own.frame_at + layout.STACK + entry * layout.ENTRY_WORDS
    joined, candidates, branches = own.frame[place], own.frame[place + 1], own.frame[place + 2]
    if cuda.laneid == 0:
        nodes[node, layout.KIND] = _L(layout.FRAME)
        nodes[node, layout.N_EXCLUDED] = _L(frame.n_excluded)
        nodes[node, layout.N_BASE] = _L(frame.n_base)
        nodes[node, layout.JOINED] = _L(joined)
        nodes[node, layout.CANDIDATES] = _L(candidates)
        nodes[node, layout.BRANCHES] = _L(branches)
    cuda.syncwarp()
    return size_of(branches)


share_entry, keep_entries = stack_entries_with(_frame_words, _write_frame, _write_entry)


@cuda.jit(device=True, forceinline=True)
def open_entry(node, child, own, device):
    """Load the rows of a node's frame into shared memory; return one of the node's children.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    joined, candidates : uint64
    frame : Frame
    """
    fields = device.nodes[node]
    pool_offset = _L(fields[layout.OFFSET])
    lane = _I(cuda.laneid)
    low = of_halves(device.words[pool_offset + 2 * lane], device.words[pool_offset + 2 * lane + 1])
    high = of_halves(device.words[pool_offset + 2 * lane + 64], device.words[pool_offset + 2 * lane + 65])
    cuda.syncwarp()
    own.frame[own.frame_at + lane] = low
    own.frame[own.frame_at + lane + 32] = high
    cuda.syncwarp()
    joined, candidates, branches = _W(fields[layout.JOINED]), _W(fields[layout.CANDIDATES]), _W(fields[layout.BRANCHES])
    branch = nth_of(branches, child)
    gone = _W(branches & low_bits(branch))
    candidates = _W(_W(candidates & ~gone) & own.frame[own.frame_at + branch])
    n_base = _I(fields[layout.N_BASE])
    excluded_at = _L(pool_offset + layout.BASE_AT + 2 * n_base)
    frame = layout.Frame(pool_offset, n_base, _I(fields[layout.N_EXCLUDED]), excluded_at, low, high)
    return _W(joined | bit_of(branch)), candidates, frame
