"""Write a biclique whose left side is a list of a subgraph's columns, into the warp's chunk of the output.

For other bicliques see `emit_bitsets`.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques import constraints
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.subgraph_parts import entry, has_constraints, ids_of, multiplicity_of_ids
from mbe_stage.device.warp import ALL, ballot, count_bits, inclusive_sum, next_one, next_tile, rank, sum_small

accepts = cuda.jit(device=True, forceinline=True)(constraints.are_met)
_U = np.uint32


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
    accepted : bool
        True if this lane has one.
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
def emit_list(node, child, n_nonzero, own, pool, output, launch):
    """Write a biclique with a list of a node's columns; its right side is the path and the rows that hold them all.

    Returns False, with nothing done, if there is no room.

    Parameters
    ----------
    child : Child
        Its left set is the biclique's.
    n_nonzero : int32
        Number of rows in the accumulator that see the left set.
    """
    mode = launch.mode
    counts_twins = mode == layout.SIZES or has_constraints(mode, pool)
    n_members, left_multiplicity = _left_sizes(node, child, counts_twins, pool)
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
def _left_sizes(node, child, counts_twins, pool):
    """Count the vertices of the reduced graph in the left set, and this lane's share of the user's."""
    numbers = pool.ints
    n_members = np.int32(0)
    multiplicity = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < child.n_left:
        first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
        n_members = np.int32(n_members + (end - first))
        if counts_twins:
            multiplicity = np.int32(multiplicity + multiplicity_of_ids(first, end, node, pool))
        k = next_tile(k)
    return sum_small(n_members), multiplicity


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

    Parameters
    ----------
    place : uint64
        Position in the output's members.
    counts_twins : bool
        True if the user's vertices are counted.

    Returns
    -------
    multiplicity : int32
        This lane's share of the user's vertices.
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
            holds = own.counts[_U(row)] == child.n_left
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
