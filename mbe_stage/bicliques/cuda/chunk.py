"""A warp's chunk of the output: room in it, and making what was written there bicliques."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device.warp import ballot, count_bits, rank

__all__ = ["accepts", "commit", "has_room"]


@cuda.jit(device=True, forceinline=True)
def has_room(n_members, n_bicliques, mode, chunk, wide_control, output):
    """Whether the warp's chunks hold so many more descriptors and members; takes new chunks as needed."""
    if chunk[at.DESCRIPTOR_AT] + n_bicliques > chunk[at.DESCRIPTOR_END]:
        cuda.syncwarp()
        if cuda.laneid == 0:
            first = cuda.atomic.add(wide_control, at.DESCRIPTORS_TOP, at.CHUNK_DESCRIPTORS)
            if first + at.CHUNK_DESCRIPTORS <= output.left_sizes.size:
                chunk[at.DESCRIPTOR_AT] = first
                chunk[at.DESCRIPTOR_END] = first + at.CHUNK_DESCRIPTORS
        cuda.syncwarp()
        if chunk[at.DESCRIPTOR_AT] + n_bicliques > chunk[at.DESCRIPTOR_END]:
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
def accepts(left_weight, right_weight, limits):
    return (
        limits[at.MIN_LEFT] <= left_weight <= limits[at.MAX_LEFT]
        and limits[at.MIN_RIGHT] <= right_weight <= limits[at.MAX_RIGHT]
        and np.int64(left_weight) * np.int64(right_weight) >= limits[at.MIN_EDGES]
    )


@cuda.jit(device=True, forceinline=True)
def commit(accepted, begin, n_left, n_right, left_weight, right_weight, n_members, mode, own, output):
    """Make what was written behind the chunk's cursor bicliques: one for each lane that has `accepted` one."""
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
            output.left_sizes[place] = left_weight
            output.right_sizes[place] = right_weight
    if lane == 0:
        own.chunk[at.CHUNK_AT] = start + n_members
        own.chunk[at.DESCRIPTOR_AT] = descriptor + count_bits(mask)
        own.state[at.FOUND] += count_bits(mask)
    cuda.syncwarp()
