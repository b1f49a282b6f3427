"""Writing found bicliques. Each warp fills a chunk of its own; where there is none left, nothing has been written."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.family import spread
from mbe_stage.bicliques.cuda.warp import ballot, rank, shuffle_word, sum_all

__all__ = ["emit_family", "emit_list", "emit_word", "weight_of_columns"]

_U = np.uint64
_ONE = _U(1)


@cuda.jit(device=True, forceinline=True)
def weight_of_columns(left, ints, pool):
    """How many of the user's vertices the columns of a word stand for."""
    lane = cuda.laneid
    weight = 0
    if (left >> _U(lane)) & _ONE:
        weight += pool.column_weights[ints[lane]]
    if (left >> _U(lane + 32)) & _ONE:
        weight += pool.column_weights[ints[lane + 32]]
    return sum_all(weight)


@cuda.jit(device=True, forceinline=True)
def _has_room(n_members, mode, chunk, wide_control, output):
    """Whether the warp's chunks hold one more descriptor and `n_members` more members; takes new chunks as needed."""
    if chunk[at.DESCRIPTOR_AT] == chunk[at.DESCRIPTOR_END]:
        cuda.syncwarp()
        if cuda.laneid == 0:
            first = cuda.atomic.add(wide_control, at.DESCRIPTORS_TOP, at.CHUNK_DESCRIPTORS)
            if first + at.CHUNK_DESCRIPTORS <= output.left_sizes.size:
                chunk[at.DESCRIPTOR_AT] = first
                chunk[at.DESCRIPTOR_END] = first + at.CHUNK_DESCRIPTORS
        cuda.syncwarp()
        if chunk[at.DESCRIPTOR_AT] == chunk[at.DESCRIPTOR_END]:
            return False
    if mode < at.MEMBERS or chunk[at.CHUNK_AT] + n_members <= chunk[at.CHUNK_END]:
        return True
    cuda.syncwarp()
    if cuda.laneid == 0:
        size = max(n_members, wide_control[at.CHUNK_MEMBERS])
        first = cuda.atomic.add(wide_control, at.MEMBERS_TOP, size)
        if first + size <= output.members.size:
            chunk[at.CHUNK_AT] = first
            chunk[at.CHUNK_END] = first + size
        else:
            cuda.atomic.max(wide_control, at.NEEDED_MEMBERS, n_members)
    cuda.syncwarp()
    return chunk[at.CHUNK_AT] + n_members <= chunk[at.CHUNK_END]


@cuda.jit(device=True, forceinline=True)
def _accepts(left_weight, right_weight, limits):
    return (
        limits[at.MIN_LEFT] <= left_weight <= limits[at.MAX_LEFT]
        and limits[at.MIN_RIGHT] <= right_weight <= limits[at.MAX_RIGHT]
        and left_weight * right_weight >= limits[at.MIN_EDGES]
    )


@cuda.jit(device=True, forceinline=True)
def _commit(n_left, n_right, left_weight, right_weight, mode, chunk, pool, output, state):
    """Make what was written behind the chunk's cursor a biclique, unless its size is not wanted."""
    cuda.syncwarp()
    if cuda.laneid == 0 and (pool.limits[at.ACTIVE] == 0 or _accepts(left_weight, right_weight, pool.limits)):
        descriptor = chunk[at.DESCRIPTOR_AT]
        if mode == at.MEMBERS:
            output.starts[descriptor] = chunk[at.CHUNK_AT]
            output.left_sizes[descriptor] = n_left
            output.right_sizes[descriptor] = n_right
            chunk[at.CHUNK_AT] += n_left + n_right
        else:
            output.left_sizes[descriptor] = left_weight
            output.right_sizes[descriptor] = right_weight
        chunk[at.DESCRIPTOR_AT] = descriptor + 1
        state[at.FOUND] += 1
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def emit_word(left, base, n_base, base_ids, words, ints, mode, chunk, pool, output, wide_control, state):
    """One biclique whose left side is a word over the columns ``ints[:64]``.

    Its right side is every row of the base, ``words[base:base + n_base]`` with ids at ``ints[base_ids:]``, that holds
    all of `left`. Returns False, with nothing done, where there is no room.
    """
    lane = cuda.laneid
    n_left = cuda.popc(left)
    if not _has_room(n_left + n_base, mode, chunk, wide_control, output):
        return False
    start = chunk[at.CHUNK_AT]
    left_weight = 0
    for bit in range(lane, 64, 32):
        if (left >> _U(bit)) & _ONE:
            column = ints[bit]
            left_weight += pool.column_weights[column]
            if mode == at.MEMBERS:
                output.members[start + cuda.popc(left & ((_ONE << _U(bit)) - _ONE))] = column
    n_right = 0
    right_weight = 0
    for tile in range(0, n_base, 32):
        row = _U(0)
        if tile + lane < n_base:
            row = words[base + tile + lane]
        holds = left & ~row == _U(0)
        mask = ballot(holds)
        if holds:
            row_id = ints[base_ids + tile + lane]
            right_weight += pool.row_weights[row_id]
            if mode == at.MEMBERS:
                output.members[start + n_left + n_right + rank(mask)] = row_id
        n_right += cuda.popc(np.uint32(mask))
    if mode == at.SIZES or pool.limits[at.ACTIVE] != 0:
        left_weight = sum_all(left_weight)
        right_weight = sum_all(right_weight)
    _commit(n_left, n_right, left_weight, right_weight, mode, chunk, pool, output, state)
    return True


@cuda.jit(device=True, forceinline=True)
def emit_family(family, left, base, n_base, base_ids, words, ints, mode, chunk, pool, output, wide_control, state):
    """All bicliques of a family of subsets of `left`, from the first that is not in the output yet.

    Returns False where room ran out; ``state[EMITTED]`` then says how many are done.
    """
    done = state[at.EMITTED]
    seen = 0
    lanes = ballot(family != _U(0))
    while lanes != 0:
        source = cuda.ffs(lanes) - 1
        lanes &= lanes - np.uint32(1)
        part = shuffle_word(family, source)
        while part != _U(0):
            index = _U(64 * source + cuda.ffs(part) - 1)
            part &= part - _ONE
            if seen >= done:
                subset = spread(index, left)
                if not emit_word(
                    subset, base, n_base, base_ids, words, ints, mode, chunk, pool, output, wide_control, state
                ):
                    cuda.syncwarp()
                    if cuda.laneid == 0:
                        state[at.EMITTED] = seen
                    cuda.syncwarp()
                    return False
            seen += 1
    cuda.syncwarp()
    if cuda.laneid == 0:
        state[at.EMITTED] = 0
    cuda.syncwarp()
    return True


@cuda.jit(device=True, forceinline=True)
def emit_list(
    left_at, n_left, path_at, n_path, row_ids_at, touched, n_touched, counts, mode, chunk, pool, output, wide_control,
    state, column_ids_at
):  # fmt: skip
    """One biclique with a list of local columns; its right side is a path and the touched rows that hold them all."""
    lane = cuda.laneid
    if not _has_room(n_left + n_path + n_touched, mode, chunk, wide_control, output):
        return False
    start = chunk[at.CHUNK_AT]
    left_weight = 0
    for k in range(lane, n_left, 32):
        column = pool.ints[column_ids_at + pool.ints[left_at + k]]
        left_weight += pool.column_weights[column]
        if mode == at.MEMBERS:
            output.members[start + k] = column
    right_weight = 0
    for k in range(lane, n_path, 32):
        row = pool.ints[path_at + k]
        right_weight += pool.row_weights[row]
        if mode == at.MEMBERS:
            output.members[start + n_left + k] = row
    n_right = n_path
    for tile in range(0, n_touched, 32):
        holds = False
        row = 0
        if tile + lane < n_touched:
            row = touched[tile + lane]
            holds = counts[row] == n_left
        mask = ballot(holds)
        if holds:
            row = pool.ints[row_ids_at + row]
            right_weight += pool.row_weights[row]
            if mode == at.MEMBERS:
                output.members[start + n_left + n_right + rank(mask)] = row
        n_right += cuda.popc(np.uint32(mask))
    left_weight = sum_all(left_weight)
    right_weight = sum_all(right_weight)
    _commit(n_left, n_right, left_weight, right_weight, mode, chunk, pool, output, state)
    return True
