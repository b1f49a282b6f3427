"""The CUDA kernels."""

from __future__ import annotations

from numba import cuda

from mbe_stage.device.jit import I32, I64, INT, kernel

__all__ = ["count_thread_per_edge"]


@cuda.jit(device=True, forceinline=True)
def _in_common(offsets, members, one, other):
    i, i_end = offsets[one], offsets[one + 1]
    j, j_end = offsets[other], offsets[other + 1]
    n = 0
    while i < i_end and j < j_end:
        a, b = members[i], members[j]
        n += 1 if a == b else 0
        i += 1 if a <= b else 0
        j += 1 if b <= a else 0
    return n


@kernel(I64, I32, I64, I32, I32, INT, I64)
def count_thread_per_edge(left_offsets, left_members, right_offsets, right_members, owners, first, counts):
    """Count the butterflies of the edges from `first` on; `owners` holds the left vertex of each edge."""
    place = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if place < counts.size:
        u = owners[first + place]
        v = left_members[first + place]
        n = 0
        for j in range(right_offsets[v], right_offsets[v + 1]):
            x = right_members[j]
            if x != u:
                n += _in_common(left_offsets, left_members, u, x) - 1
        counts[place] = n
