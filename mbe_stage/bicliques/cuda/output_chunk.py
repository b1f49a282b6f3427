"""A warp's chunk of the output: room in it, and making what was written there bicliques."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques import constraints
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device.warp import ballot, count_bits, rank

accepts = cuda.jit(device=True, forceinline=True)(constraints.are_met)


@cuda.jit(device=True, forceinline=True)
def has_room(n_members, n_bicliques, chunk, output, launch):
    """Whether the warp's chunks hold so many more descriptors and members; takes new chunks as needed."""
    control_64 = launch.control_64
    if chunk[at.DESCRIPTOR_AT] + n_bicliques > chunk[at.DESCRIPTOR_END]:
        cuda.syncwarp()
        if cuda.laneid == 0:
            first = cuda.atomic.add(control_64, at.DESCRIPTORS_TOP, at.CHUNK_DESCRIPTORS)
            if first + at.CHUNK_DESCRIPTORS <= output.left_sizes.size:
                chunk[at.DESCRIPTOR_AT] = first
                chunk[at.DESCRIPTOR_END] = first + at.CHUNK_DESCRIPTORS
        cuda.syncwarp()
        if chunk[at.DESCRIPTOR_AT] + n_bicliques > chunk[at.DESCRIPTOR_END]:
            return False
    if launch.mode < at.MEMBERS or chunk[at.CHUNK_AT] + n_members <= chunk[at.CHUNK_END]:
        return True
    cuda.syncwarp()
    if cuda.laneid == 0:
        size = max(n_members, control_64[at.CHUNK_MEMBERS])
        first = cuda.atomic.add(control_64, at.MEMBERS_TOP, size)
        if first + size <= output.members.size:
            chunk[at.CHUNK_AT] = first
            chunk[at.CHUNK_END] = first + size
        else:
            cuda.atomic.max(control_64, at.NEEDED_MEMBERS, n_members)
    cuda.syncwarp()
    return chunk[at.CHUNK_AT] + n_members <= chunk[at.CHUNK_END]


@cuda.jit(device=True, forceinline=True)
def commit(accepted, begin, n_left, n_right, left_multiplicity, right_multiplicity, n_members, mode, own, output):
    """Make what was written behind the chunk's cursor bicliques: one for each lane that has `accepted` one.

    Parameters
    ----------
    accepted : bool
        Whether this lane has one.
    begin : int32
        Where its members begin, behind the chunk's cursor.
    left_multiplicity : int32
        The user's vertices on the left.
    n_members : int32
        Of all lanes together.
    """
    lane = cuda.laneid
    mask = ballot(accepted)
    start = own.chunk[at.CHUNK_AT]
    descriptor = own.chunk[at.DESCRIPTOR_AT]
    cuda.syncwarp()
    if accepted:
        place = np.uint64(descriptor + rank(mask))
        if mode >= at.MEMBERS:
            output.starts[place] = start + begin
            output.left_sizes[place] = n_left
            output.right_sizes[place] = n_right
        else:
            output.left_sizes[place] = left_multiplicity
            output.right_sizes[place] = right_multiplicity
    if lane == 0:
        own.chunk[at.CHUNK_AT] = start + n_members
        own.chunk[at.DESCRIPTOR_AT] = descriptor + count_bits(mask)
        own.state[at.FOUND] += count_bits(mask)
    cuda.syncwarp()
