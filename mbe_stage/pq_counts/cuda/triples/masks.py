"""Find the partners of a root in windows of ranks, make their masks, and count common columns of masks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import Window, count_leaf, count_window, fill, walk_with
from mbe_stage.pq_counts.cuda.triples import layout as triples_layout

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def _in_common(one, other, n_words, n_partners, area, start):
    """Count the common columns of two masks, int32.

    Parameters
    ----------
    one, other : int32
        Numbers of the masks.
    n_words, n_partners : int32
        Words of a mask, and number of masks: the words with the same index of all masks are contiguous.
    area : uint32
    start : int32
        Position of the first mask in the area.
    """
    n, at_one, at_other = _I(0), _I(start + one), _I(start + other)
    for _ in range(n_words):
        n = _I(n + _I(cuda.popc(_U(area[at_one] & area[at_other]))))
        at_one, at_other = _I(at_one + n_partners), _I(at_other + n_partners)
    return n


@cuda.jit(device=True, forceinline=True)
def pairs(n_partners, n_words, start, adds, counts_leaves, fewest, area, small, times):
    """Count the common columns of each pair of partners; add them to earlier numbers, or count a leaf, or both.

    Parameters
    ----------
    n_partners, n_words : int32
    start : int32
        Position of the first mask in the area; before it are the counters of pairs, each written by one thread.
    adds, counts_leaves : bool
    fewest : int32
        Fewest columns of a leaf.
    area : uint32
    small, times
        As in `rank_windows.count_leaf`.
    """
    lane, one = _I(cuda.laneid), _I(cuda.threadIdx.x // WARP_SIZE)
    n_warps = _I(cuda.blockDim.x // WARP_SIZE)
    # Most leaves have the fewest allowed columns: each lane counts them in a register.
    n_fewest = _I(0)
    while one < n_partners - 1:
        row_start = _I(one * (n_partners - 1) - one * (one - 1) // 2 - one - 1)
        other = _I(one + 1 + lane)
        while other < n_partners:
            n = _in_common(one, other, n_words, n_partners, area, start)
            if adds:
                n = _I(n + _I(area[row_start + other]))
                area[row_start + other] = _U(n)
            if counts_leaves:
                if n == fewest:
                    n_fewest = _I(n_fewest + 1)
                elif n > fewest:
                    count_leaf(n, small, times)
            other = _I(other + WARP_SIZE)
        one = _I(one + n_warps)
    if n_fewest > 0:
        if fewest < small.size:
            cuda.atomic.add(small, fewest, n_fewest)
        else:
            cuda.atomic.add(times, fewest, _L(n_fewest))


class _Marks(NamedTuple):
    """Masks in the making.

    Attributes
    ----------
    numbers : (triples_layout.WINDOW,) int32, shared
        Numbers of the partners in a window, from 1 on; 0 for other ranks.
    area : (n_words,) uint32
        The words with the same index of all masks are contiguous, by partner's number, from `start` on.
    start : int32
    n_partners : int32
    first_column : int32
        Position of the first bit's column in the root's list.
    """

    numbers: Any
    area: Any
    start: Any
    n_partners: Any
    first_column: Any


@cuda.jit(device=True, forceinline=True)
def _mark(k, column, marks):
    """Set the bit of a column in the mask of rank `k` of a window, if that rank is a partner."""
    number = marks.numbers[k]
    if number > 0:
        bit = _I(column - marks.first_column)
        word = _I(marks.start + (bit >> 5) * marks.n_partners + number - 1)
        cuda.atomic.or_(marks.area, word, _U(_U(1) << _U(bit & 31)))


_mark_paths = walk_with(_mark)


@cuda.jit(device=True, forceinline=True)
def _number(size, fewest, counts, slots):
    """Replace the counters of a window: by numbers of ranks with enough common columns, and by zeros for others."""
    k = _I(cuda.threadIdx.x)
    while k < size:
        n = counts[k]
        if n > 0:
            counts[k] = _I(cuda.atomic.add(slots, 2, _I(1)) + 1) if n >= fewest else _I(0)
        k = _I(k + _I(cuda.blockDim.x))


@cuda.jit(device=True, forceinline=True)
def below_root(root, fewest, short_list, area, counts, small, slots, graph, triples):
    """Count the triples of a root.

    Parameters
    ----------
    root : int32
    fewest : int32
        Fewest common columns of two rows.
    short_list : uint32
        As in `rank_windows.walk_with`.
    area : (n_words,) uint32
        Area with room for all masks; or, if all later rows fit one window, for a counter of each pair of partners and
        some words of the masks.
    counts : (triples_layout.WINDOW,) int32, shared
        Counters; zeros before and afterwards.
    small : (triples_layout.SMALL,) int32, shared
    slots : (3,) int32, shared
    triples : Triples
    """
    n_partners = triples.partners[root]
    n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
    n_words, start = _I((n_columns + 31) >> 5), _I(0)
    in_one = _L(n_partners) * _L(n_words) <= _L(area.size)
    if not in_one:
        start = _I(n_partners * (n_partners - 1) // 2)
        n_words = _I((_I(area.size) - start) // n_partners)
    end = _I(start + n_partners * n_words)
    fill(area, _I(0), end, _U(0))
    if cuda.threadIdx.x == 0:
        slots[2] = _I(0)
    n_found, window = _I(0), _I(triples.ranks[root] + 1)
    while window < _I(triples.settings[layout.N_RANKED]) and n_found < n_partners:
        n_known = n_found
        count_window(
            root, n_columns, window, _I(triples_layout.WINDOW), short_list, counts, slots, graph, triples.ranks
        )
        # Ranks after the last row have no paths.
        _number(_I(triples_layout.WINDOW), fewest, counts, slots)
        cuda.syncthreads()
        n_found, next_window = slots[2], slots[1]
        if n_found > n_known:
            first = _I(0)
            while first < n_columns:
                stop = min(n_columns, _I(first + 32 * n_words))
                marks = _Marks(counts, area, start, n_partners, first)
                here = Window(window, _I(triples_layout.WINDOW), triples.ranks, marks)
                _mark_paths(root, first, stop, short_list, graph, here)
                cuda.syncthreads()
                if not in_one:
                    pairs(n_partners, n_words, start, True, stop == n_columns, fewest, area, small, triples.times)
                    cuda.syncthreads()
                    fill(area, start, end, _U(0))
                    cuda.syncthreads()
                first = stop
        fill(counts, _I(0), _I(triples_layout.WINDOW), _I(0))
        window = next_window
        cuda.syncthreads()
    if in_one:
        pairs(n_partners, n_words, start, False, True, fewest, area, small, triples.times)
    cuda.syncthreads()
