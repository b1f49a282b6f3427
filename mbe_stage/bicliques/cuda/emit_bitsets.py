"""Write bicliques: over the columns of a word, or with a left side that is a list of a subgraph's columns.

Each warp fills a chunk of its own; if there is none left, nothing is written. Bicliques over the columns of a word are
written up to 32 at a time, with a left side in each lane's word. Their right sides come from a list of rows in the
arenas of words and ids: all rows that hold the whole left side.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import are_met
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.closed_sets import spread
from mbe_stage.bicliques.cuda.subgraph_parts import entry, has_constraints, ids_of, left_sizes
from mbe_stage.device import WARP_SIZE
from mbe_stage.device.warp import (
    ALL,
    ballot,
    count_bits,
    inclusive_sum,
    lowest_bit,
    next_one,
    next_tile,
    nth_bit,
    owner_of,
    rank,
    shuffle_word,
    sum_small,
)

accepts = cuda.jit(device=True, forceinline=True)(are_met)
_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_EVERYTHING = _U(0xFFFFFFFF)


@cuda.jit(device=True, forceinline=True)
def has_room(n_members, n_bicliques, chunk, output, launch):
    """True if the warp's chunks have room for this many descriptors and members; takes new chunks as needed."""
    control_64 = launch.control_64
    if chunk[layout.DESCRIPTOR_AT] + n_bicliques > chunk[layout.DESCRIPTOR_END]:
        cuda.syncwarp()
        if cuda.laneid == 0:
            first = cuda.atomic.add(control_64, layout.DESCRIPTORS_TOP, layout.CHUNK_DESCRIPTORS)
            if first + layout.CHUNK_DESCRIPTORS <= output.left_sizes.size:
                chunk[layout.DESCRIPTOR_AT] = first
                chunk[layout.DESCRIPTOR_END] = first + layout.CHUNK_DESCRIPTORS
        cuda.syncwarp()
        if chunk[layout.DESCRIPTOR_AT] + n_bicliques > chunk[layout.DESCRIPTOR_END]:
            return False
    if launch.mode < layout.MEMBERS or chunk[layout.CHUNK_AT] + n_members <= chunk[layout.CHUNK_END]:
        return True
    cuda.syncwarp()
    if cuda.laneid == 0:
        size = max(n_members, control_64[layout.CHUNK_MEMBERS])
        first = cuda.atomic.add(control_64, layout.MEMBERS_TOP, size)
        if first + size <= output.members.size:
            chunk[layout.CHUNK_AT] = first
            chunk[layout.CHUNK_END] = first + size
        else:
            cuda.atomic.max(control_64, layout.NEEDED_MEMBERS, n_members)
    cuda.syncwarp()
    return chunk[layout.CHUNK_AT] + n_members <= chunk[layout.CHUNK_END]


@cuda.jit(device=True, forceinline=True)
def commit(accepted, begin, n_left, n_right, left_multiplicity, right_multiplicity, n_members, mode, own, output):
    """Turn the members written behind the chunk's cursor into bicliques, one for each lane that has `accepted` one.

    Parameters
    ----------
    begin : int32
        First of its members, behind the chunk's cursor.
    left_multiplicity : int32
        The user's vertices on the left.
    n_members : int32
        Members of all lanes together.
    """
    lane = cuda.laneid
    mask = ballot(accepted)
    start = own.chunk[layout.CHUNK_AT]
    descriptor = own.chunk[layout.DESCRIPTOR_AT]
    cuda.syncwarp()
    if accepted:
        place = np.uint64(descriptor + rank(mask))
        if mode >= layout.MEMBERS:
            output.starts[place] = start + begin
            output.left_sizes[place] = n_left
            output.right_sizes[place] = n_right
        else:
            output.left_sizes[place] = left_multiplicity
            output.right_sizes[place] = right_multiplicity
    if lane == 0:
        own.chunk[layout.CHUNK_AT] = start + n_members
        own.chunk[layout.DESCRIPTOR_AT] = descriptor + count_bits(mask)
        own.state[layout.FOUND] += count_bits(mask)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def emit_list(node, child, n_nonzero, left_most, own, pool, output, launch):
    """Write the biclique with a child's left set, a list; its right side is the path and the rows that hold them all.

    `n_nonzero` rows in the accumulator see the left set, which has `left_most` of the user's vertices; 0 if that is not
    known. Returns False, with nothing done, if there is no room.
    """
    mode = launch.mode
    counts_twins = mode == layout.SIZES or has_constraints(mode, pool)
    if mode == layout.SIZES and left_most > 0:
        n_members, left_multiplicity = np.int32(0), np.int32(left_most if cuda.laneid == 0 else 0)
    else:
        n_members, left_multiplicity = left_sizes(node, child, counts_twins, pool, mode)
        n_members = sum_small(n_members)
    if not has_room(n_members + node.n_path + n_nonzero, 1, own.chunk, output, launch):
        return False
    place = np.uint64(own.chunk[layout.CHUNK_AT])
    if mode >= layout.MEMBERS:
        place = _write_left(place, node, child, pool.ints, output)
    n_right, right_multiplicity = _write_right(place, node, child, n_nonzero, own, mode, counts_twins, pool, output)
    left_multiplicity = sum_small(left_multiplicity)
    right_multiplicity = sum_small(right_multiplicity)
    accepted = cuda.laneid == 0 and (
        not has_constraints(mode, pool) or accepts(left_multiplicity, right_multiplicity, pool.constraints)
    )
    n_used = np.int32(n_members + n_right) if cuda.any_sync(ALL, accepted) else np.int32(0)
    commit(accepted, np.int32(0), n_members, n_right, left_multiplicity, right_multiplicity, n_used, mode, own, output)
    return True


@cuda.jit(device=True, forceinline=True)
def _write_left(place, node, child, numbers, output):
    """Write the vertices of the left set from `place` on; return the next position."""
    lane = np.int32(cuda.laneid)
    tile = np.int32(0)
    while tile < child.n_left:
        first = np.int32(0)
        length = np.int32(0)
        if np.int32(tile + lane) < child.n_left:
            first, end = ids_of(node, numbers[entry(node, child.left_at + tile + lane)], numbers)
            length = np.int32(end - first)
        ends = inclusive_sum(length)
        j = np.int32(0)
        while j < length:
            output.members[place + np.uint64(ends - length + j)] = numbers[entry(node, node.ids + first + j)]
            j = next_one(j)
        place += np.uint64(cuda.shfl_sync(ALL, ends, 31))
        tile = next_tile(tile)
    return place


@cuda.jit(device=True, forceinline=True)
def _write_right(place, node, child, n_nonzero, own, mode, counts_twins, pool, output):
    """Write the rows of the right side from `place` on, if members are wanted.

    Returns their number and, if `counts_twins`, this lane's share of the user's vertices.
    """
    lane = np.int32(cuda.laneid)
    numbers = pool.ints
    multiplicity = np.int32(0)
    k = lane
    while k < node.n_path:
        row = numbers[entry(node, node.path + k)]
        if counts_twins:
            multiplicity = np.int32(multiplicity + pool.row_multiplicities[_U(row)])
        if mode >= layout.MEMBERS:
            output.members[place + np.uint64(k)] = row
        k = next_tile(k)
    n_right = np.int32(node.n_path)
    tile = np.int32(0)
    while tile < n_nonzero:
        holds = False
        row = np.int32(0)
        if np.int32(tile + lane) < n_nonzero:
            row = own.nonzero[_U(tile + lane)]
            holds = own.counts[_U(row)] == child.whole
        mask = ballot(holds)
        if holds:
            row = numbers[entry(node, node.row_ids + row)]
            if counts_twins:
                multiplicity = np.int32(multiplicity + pool.row_multiplicities[_U(row)])
            if mode >= layout.MEMBERS:
                output.members[place + np.uint64(n_right + rank(mask))] = row
        n_right = np.int32(n_right + count_bits(mask))
        tile = next_tile(tile)
    return n_right, multiplicity


@cuda.jit(device=True, forceinline=True)
def multiplicity_of_columns(left, own):
    """Number of the user's vertices that the columns of a word stand for."""
    lane = cuda.laneid
    return sum_small(own.ints[_U(layout.HEADER_MULTIPLICITIES + lane)] if _holds(left, lane) else 0)


@cuda.jit(device=True, forceinline=True)
def _holds(word, bit):
    return _U(word & _U(_ONE << _U(bit))) != 0


@cuda.jit(device=True, forceinline=True)
def _right_sizes(word, n, superset, counts_twins, own, pool):
    """Count the rows of the superset that hold this lane's word, a left side.

    Also counts the user's vertices, if `counts_twins`, which is known at compile time without size constraints.
    """
    lane = np.int32(cuda.laneid)
    size = np.int32(0)
    multiplicity = np.int32(0)
    tile = np.int32(0)
    while tile < superset.n_rows:
        k = np.int32(tile + lane)
        missing = _EVERYTHING
        mine = np.int32(0)
        if k < superset.n_rows:
            missing = _U(~own.words[_U(superset.rows + k)])
            if counts_twins:
                mine = pool.row_multiplicities[_U(own.ints[_U(superset.ids + k)])]
        j = np.int32(0)
        while j < n:
            holds = _U(shuffle_word(word, j) & missing) == 0
            mask = ballot(holds)
            if lane == j:
                size = np.int32(size + count_bits(mask))
            if counts_twins:
                total = sum_small(mine if holds else 0)
                if lane == j:
                    multiplicity = np.int32(multiplicity + total)
            j = next_one(j)
        tile = next_tile(tile)
    return size, multiplicity


@cuda.jit(device=True, forceinline=True)
def size_of_word(word, n_vertices):
    """Count the vertices behind the columns of this lane's word; the lane's own column has `n_vertices`."""
    size = count_bits(word)
    merged = ballot(n_vertices > 1)
    while merged != 0:
        column, merged = lowest_bit(merged)
        more = np.int32(cuda.shfl_sync(ALL, n_vertices, column) - 1)
        if _holds(word, column):
            size = np.int32(size + more)
    return size


@cuda.jit(device=True, forceinline=True)
def _write_members(word, place, n_left, chosen, superset, ids_at, length, own, output):
    """Write the members of the bicliques of the lanes in `chosen`.

    Parameters
    ----------
    place : uint32
        First position of its biclique in the output's members.
    n_left : int32
        Number of its left vertices in the reduced graph.
    ids_at, length : int32
        First of the vertices of this lane's column in the header, and their number.
    """
    lane = np.int32(cuda.laneid)
    is_merged = cuda.any_sync(ALL, length > 1)
    rest = chosen
    while rest != 0:
        j, rest = lowest_bit(rest)
        left = shuffle_word(word, j)
        mine = length if _holds(left, lane) else np.int32(0)
        before = np.int32(inclusive_sum(mine) - mine) if is_merged else rank(left)
        to = _U(shuffle_word(place, j) + _U(before))
        k = np.int32(0)
        while k < mine:
            output.members[_U(to + _U(k))] = own.ints[_U(layout.HEADER_IDS + ids_at + k)]
            k = next_one(k)
    place = _U(place + _U(n_left))
    tile = np.int32(0)
    while tile < superset.n_rows:
        missing = _EVERYTHING
        row_id = np.int32(0)
        if np.int32(tile + lane) < superset.n_rows:
            missing = _U(~own.words[_U(superset.rows + tile + lane)])
            row_id = own.ints[_U(superset.ids + tile + lane)]
        rest = chosen
        while rest != 0:
            j, rest = lowest_bit(rest)
            holds = _U(shuffle_word(word, j) & missing) == 0
            mask = ballot(holds)
            to = _U(shuffle_word(place, j) + _U(rank(mask)))
            if holds:
                output.members[to] = row_id
            if lane == j:
                place = _U(place + _U(count_bits(mask)))
        tile = next_tile(tile)


@cuda.jit(device=True, forceinline=True)
def _emit_words(word, n, superset, own, pool, output, launch):
    """Write the bicliques of the words of the first `n` lanes, or only count those within the constraints.

    Right sides are all rows of the superset that hold the word. Returns the number of words done, 0 if there is no
    room.
    """
    lane = np.int32(cuda.laneid)
    mode = launch.mode
    is_constrained = has_constraints(mode, pool)
    counts_twins = mode < layout.MEMBERS or is_constrained
    ids_at = own.ints[_U(lane)]
    length = np.int32(own.ints[_U(lane + 1)] - ids_at) if mode >= layout.MEMBERS else np.int32(1)
    n_left, left_multiplicity = size_of_word(word, length), np.int32(0)
    if counts_twins:
        left_multiplicity = size_of_word(word, own.ints[_U(layout.HEADER_MULTIPLICITIES + lane)])
    n_right, right_multiplicity = _right_sizes(word, n, superset, counts_twins, own, pool)
    accepted = lane < n and (not is_constrained or accepts(left_multiplicity, right_multiplicity, pool.constraints))
    if mode == layout.WITHIN:
        n_accepted = count_bits(ballot(accepted))
        if lane == 0:
            own.state[layout.FOUND] += n_accepted
        return n
    n_mine = np.int32(n_left + n_right) if accepted and mode >= layout.MEMBERS else np.int32(0)
    ends = inclusive_sum(n_mine)
    # As many as a chunk holds; a larger chunk is taken for a single biclique only.
    n_done = count_bits(ballot(lane < n and (lane == 0 or ends <= launch.control_64[layout.CHUNK_MEMBERS])))
    accepted = accepted and lane < n_done
    chosen = ballot(accepted)
    if chosen == 0:
        return n_done
    n_members = cuda.shfl_sync(ALL, ends, np.int32(n_done - 1))
    if not has_room(n_members, count_bits(chosen), own.chunk, output, launch):
        return np.int32(0)
    begin = np.int32(ends - n_mine)
    if mode >= layout.MEMBERS:
        start = own.chunk[layout.CHUNK_AT]
        _write_members(word, _U(start + begin), n_left, chosen, superset, ids_at, length, own, output)
    commit(accepted, begin, n_left, n_right, left_multiplicity, right_multiplicity, n_members, mode, own, output)
    return n_done


@cuda.jit(device=True, forceinline=True)
def emit_below(child, below, listed, n_listed, superset, own, pool, output, launch):
    """Write all bicliques of a bitmap of closed sets, or of a list of words, from the first unwritten one on.

    A small child has a bitmap, others a list at `listed` in the arena of words. Returns False if the room was used up;
    ``state[EMITTED]`` then has the number written.

    Code that writes is long. It is called in this one place only, so that a kernel that writes fits the instruction
    caches.
    """
    lane = np.int32(cuda.laneid)
    n_mine = count_bits(below.closed) if child.is_small else np.int32(n_listed if lane == 0 else 0)
    ends = inclusive_sum(n_mine)
    total = cuda.shfl_sync(ALL, ends, 31)
    done = np.int32(own.state[layout.EMITTED])
    n_done = np.int32(1)
    while done < total and n_done > 0:
        n = np.int32(min(total - done, WARP_SIZE))
        word = _NONE
        if not child.is_small:
            if lane < n:
                word = own.words[_U(listed + done + lane)]
        else:
            # The subsets from `done` to `done` + 31 of all lanes, one for each lane.
            number = np.int32(done + lane)
            holder = owner_of(number, ends)
            part = shuffle_word(below.closed, holder)
            bit = nth_bit(part, np.int32(number - cuda.shfl_sync(ALL, np.int32(ends - n_mine), holder)))
            word = spread(_U(WARP_SIZE * holder + bit), child.left, below.moves) if lane < n else _NONE
        n_done = _emit_words(word, n, superset, own, pool, output, launch)
        done = np.int32(done + n_done)
    cuda.syncwarp()
    if lane == 0:
        own.state[layout.EMITTED] = done if done < total else 0
    cuda.syncwarp()
    return done >= total
