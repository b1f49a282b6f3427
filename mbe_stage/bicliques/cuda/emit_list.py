"""Writing a biclique whose left side is a list of a sparse node's columns. See `emit`."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.bounds import limits_hold
from mbe_stage.bicliques.cuda.chunk import accepts, commit, has_room
from mbe_stage.bicliques.cuda.ids import ids_of, weight_of_ids
from mbe_stage.bicliques.cuda.nodes import entry
from mbe_stage.device.warp import ALL, ballot, count_bits, inclusive_sum, next_one, next_tile, rank, sum_small

__all__ = ["emit_list"]

_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def emit_list(node, child, n_touched, own, mode, pool, output, wide_control):
    """One biclique with a list of a node's columns; its right side is the path and the touched rows that hold them all.

    Returns False, with nothing done, where there is no room.
    """
    lane = np.int32(cuda.laneid)
    numbers = pool.ints
    weighs = mode == at.SIZES or limits_hold(mode, pool)
    left_at, n_left = child.left_at, child.n_left
    n_members = np.int32(0)
    left_weight = np.int32(0)
    k = lane
    while k < n_left:
        first, end = ids_of(node, numbers[entry(node, left_at + k)], numbers)
        n_members = np.int32(n_members + (end - first))
        if weighs:
            left_weight = np.int32(left_weight + weight_of_ids(first, end, node, pool))
        k = next_tile(k)
    n_members = sum_small(n_members)
    if not has_room(n_members + node.n_path + n_touched, 1, mode, own.chunk, wide_control, output):
        return False
    place = np.uint64(own.chunk[at.CHUNK_AT])
    tile = np.int32(0)
    while tile < n_left and mode >= at.MEMBERS:
        first = np.int32(0)
        length = np.int32(0)
        if np.int32(tile + lane) < n_left:
            first, end = ids_of(node, numbers[entry(node, left_at + tile + lane)], numbers)
            length = np.int32(end - first)
        ends = inclusive_sum(length)
        j = np.int32(0)
        while j < length:
            output.members[place + np.uint64(ends - length + j)] = numbers[entry(node, node.ids + first + j)]
            j = next_one(j)
        place += np.uint64(cuda.shfl_sync(ALL, ends, 31))
        tile = next_tile(tile)
    right_weight = np.int32(0)
    k = lane
    while k < node.n_path:
        row = numbers[entry(node, node.path + k)]
        if weighs:
            right_weight = np.int32(right_weight + pool.row_weights[_U(row)])
        if mode >= at.MEMBERS:
            output.members[place + np.uint64(k)] = row
        k = next_tile(k)
    n_right = np.int32(node.n_path)
    tile = np.int32(0)
    while tile < n_touched:
        holds = False
        row = np.int32(0)
        if np.int32(tile + lane) < n_touched:
            row = own.touched[_U(tile + lane)]
            holds = own.counts[_U(row)] == n_left
        mask = ballot(holds)
        if holds:
            row = numbers[entry(node, node.row_ids + row)]
            if weighs:
                right_weight = np.int32(right_weight + pool.row_weights[_U(row)])
            if mode >= at.MEMBERS:
                output.members[place + np.uint64(n_right + rank(mask))] = row
        n_right = np.int32(n_right + count_bits(mask))
        tile = next_tile(tile)
    left_weight = sum_small(left_weight)
    right_weight = sum_small(right_weight)
    accepted = lane == 0 and (not limits_hold(mode, pool) or accepts(left_weight, right_weight, pool.limits))
    n_used = np.int32(n_members + n_right) if cuda.any_sync(ALL, accepted) else np.int32(0)
    commit(accepted, np.int32(0), n_members, n_right, left_weight, right_weight, n_used, mode, own, output)
    return True
