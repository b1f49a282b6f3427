"""The edges of a subgraph, written in both directions by the warp that builds it.

In `bits` stands the number of each row in the new node, plus one, 0 for the others; a row's list goes on at
``new.row_offsets[1 + number]``.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.kept_columns import record_of
from mbe_stage.bicliques.cuda.sparse_accumulator import number_of
from mbe_stage.bicliques.cuda.subgraph_parts import entry, write_edge
from mbe_stage.bicliques.cuda.two_step_paths import behind_paths, column_at, end_to_end, list_of, paths_at
from mbe_stage.device.warp import ALL, ballot, count_bits, next_tile, rank

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)


@cuda.jit(device=True, forceinline=True)
def fill_from_paths(new, n_full, node, child, own, numbers, mode):
    """Write the edges of the node `new` where no columns are merged, and where its columns begin.

    A column that stays loses the `n_full` rows that hold the whole left set, and no others. Which it becomes stands in
    `columns`.

    Parameters
    ----------
    n_full : int32
        Rows that hold the whole left set.
    """
    to = np.int32(0)
    group = np.int32(0)
    while group < child.n_left:
        place = np.int32(group + cuda.laneid)
        column = column_at(place, child, own)
        length, start = list_of(place if column >= 0 else np.int32(at.NO_COLUMN), child.n_left, node, child, numbers)
        ends, shift, total = end_to_end(length, start)
        kept = ballot(column >= 0)
        if column >= 0:
            numbers[entry(new, new.column_offsets + column)] = np.int32(to + ends - length - n_full * rank(kept))
        tile = np.int32(0)
        while tile < total:
            path_0, path_1, path_2, path_3 = paths_at(tile, total, ends, shift, node, numbers, mode)
            number_0, number_1 = number_of(path_0[0], own), number_of(path_1[0], own)
            number_2, number_3 = number_of(path_2[0], own), number_of(path_3[0], own)
            to = _put(number_0, cuda.shfl_sync(ALL, column, path_0[1]), to, new, numbers)
            if mode == at.COUNTS and tile + 32 < total:
                to = _put(number_1, cuda.shfl_sync(ALL, column, path_1[1]), to, new, numbers)
            if mode == at.COUNTS and tile + 64 < total:
                to = _put(number_2, cuda.shfl_sync(ALL, column, path_2[1]), to, new, numbers)
                to = _put(number_3, cuda.shfl_sync(ALL, column, path_3[1]), to, new, numbers)
            tile = behind_paths(tile, mode)
        group = next_tile(group)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def fill_from_record(new, columns, n_edges, own, numbers):
    """Write the edges of the node `new` as they were recorded; the lengths of its columns' lists into their offsets."""
    following, following_of = _recorded(np.int32(0), columns, n_edges, own)
    tile = np.int32(0)
    while tile < n_edges:
        number, of, to = following, following_of, tile
        tile = next_tile(tile)
        # On its way while this one is written.
        following, following_of = _recorded(tile, columns, n_edges, own)
        if number != 0:
            cuda.atomic.add(numbers, entry(new, new.column_offsets + of), 1)
        _put(number, of, to, new, numbers)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _recorded(tile, columns, n_edges, own):
    """The number of this lane's row, plus one, and the column of the record's tile; 0 behind the end."""
    k = np.int32(tile + cuda.laneid)
    number, of = _NONE, np.int32(0)
    if k < n_edges:
        place = _U(record_of(columns) + 2 * k)
        number = own.bits[own.words[place]]
        of = np.int32(own.words[_U(place + _ONE)])
    return number, of


@cuda.jit(device=True, forceinline=True)
def _put(number, of, to, new, numbers):
    """Write the edges of the lanes that have one; returns where the next ones of the columns go."""
    live = ballot(number != 0)
    if number != 0:
        write_edge(number, of, to + rank(live), new, numbers)
    return np.int32(to + count_bits(live))
