"""The rows of the highest ranks: all later rows are partners of each, so partners need not be counted.

In a graph with very different degrees, they have most of the entries and share columns with each other. A lane walks a
column and sets a bit in a word for each of these rows that contains it. The words of 32 lanes are transposed into one
word of each row's mask.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.warp import ALL, ballot, first_bit, or_all
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.rank_windows import fill
from mbe_stage.pq_counts.cuda.triples import layout as triples_layout
from mbe_stage.pq_counts.cuda.triples.masks import pairs

_I = np.int32
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _head_bits(start, stop, window, short_list, graph, ranks):
    """Return a bit for each of `triples_layout.HEAD` ranks that is in this lane's list, uint64.

    Parameters
    ----------
    start, stop : uint32
        Range of the list.
    window : int32
        The first of the ranks.
    short_list : uint32
        Longest list that one lane walks alone.
    ranks : (n_rows,) int32, global
    """
    bits, lane = _W(0), _U(cuda.laneid)
    is_long = _U(stop - start) > short_list
    if not is_long:
        for place in range(start, stop):
            k = _I(ranks[graph.column_members[place]] - window)
            if k >= 0:
                bits |= _W(1) << _W(k)
    long_lists = ballot(is_long)
    while long_lists != 0:
        source = first_bit(long_lists)
        long_lists = _U(long_lists & _U(long_lists - _U(1)))
        position = _U(_U(cuda.shfl_sync(ALL, _I(start), source)) + lane)
        last = _U(cuda.shfl_sync(ALL, _I(stop), source))
        part = _W(0)
        while position < last:
            k = _I(ranks[graph.column_members[position]] - window)
            if k >= 0:
                part |= _W(1) << _W(k)
            position = _U(position + _U(32))
        cuda.syncwarp()
        low, high = or_all(_U(part)), or_all(_U(part >> _W(32)))
        if lane == source:
            bits = _W(_W(high) << _W(32)) | _W(low)
    cuda.syncwarp()
    return bits


@cuda.jit(device=True, forceinline=True)
def _mark_head(root, first, stop, window, n_partners, start, short_list, area, graph, ranks):
    """Write the masks of all later rows for the columns from `first` up to `stop`; a warp writes words of 32 columns.

    Parameters
    ----------
    root : int32
    first, stop : int32
        Positions in the root's list; `first` is a multiple of 32.
    window, n_partners : int32
        The first rank after the root, and the number of later rows, at most `triples_layout.HEAD`.
    start : int32
        Position of the masks in the area.
    short_list : uint32
    area : uint32, shared
    ranks : (n_rows,) int32, global
    """
    lane, n_warps = _I(cuda.laneid), _I(cuda.blockDim.x // WARP_SIZE)
    own = _U(graph.row_offsets[root])
    word = _I(cuda.threadIdx.x // WARP_SIZE)
    while first + 32 * word < stop:
        column = _I(first + 32 * word + lane)
        begin, end = _U(0), _U(0)
        if column < stop:
            member = graph.row_members[_U(own + _U(column))]
            begin, end = _U(graph.column_offsets[member]), _U(graph.column_offsets[member + 1])
        bits = _head_bits(begin, end, window, short_list, graph, ranks)
        number = _I(0)
        while number < n_partners:
            # This lane gets the mask of rank `number + lane`.
            mine = _U(0)
            for k in range(min(_I(WARP_SIZE), _I(n_partners - number))):
                mask = ballot(((bits >> _W(k)) & _W(1)) != _W(0))
                if lane == k:
                    mine = mask
            if number + lane < n_partners:
                area[start + word * n_partners + number + lane] = mine
            bits = _W(bits >> _W(WARP_SIZE))
            number = _I(number + WARP_SIZE)
        word = _I(word + n_warps)


@cuda.jit(device=True, forceinline=True)
def below_head(root, fewest, short_list, area, small, graph, triples):
    """Count the triples of a root with at most `triples_layout.HEAD` later rows, which are all partners.

    Parameters
    ----------
    root : int32
    fewest : int32
        Fewest columns of a leaf.
    short_list : uint32
    area : (triples_layout.AREA,) uint32, shared
    small : (triples_layout.SMALL,) int32, shared
    triples : Triples
    """
    window = _I(triples.ranks[root] + 1)
    n_partners = _I(_I(triples.settings[layout.N_RANKED]) - window)
    n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
    n_words, start = _I((n_columns + 31) >> 5), _I(0)
    in_one = n_partners * n_words <= triples_layout.AREA
    if not in_one:
        start = _I(n_partners * (n_partners - 1) // 2)
        n_words = _I((_I(triples_layout.AREA) - start) // n_partners)
        fill(area, _I(0), start, _U(0))
    first = _I(0)
    while first < n_columns:
        stop = min(n_columns, _I(first + 32 * n_words))
        _mark_head(root, first, stop, window, n_partners, start, short_list, area, graph, triples.ranks)
        cuda.syncthreads()
        n_here = _I((stop - first + 31) >> 5)
        pairs(n_partners, n_here, start, not in_one, stop == n_columns, fewest, area, small, triples.times)
        cuda.syncthreads()
        first = stop
