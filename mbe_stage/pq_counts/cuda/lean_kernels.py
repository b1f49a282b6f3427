"""Lists gathered and renumbered, then, sorted, written to where they belong."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.grid import this_thread, this_warp
from mbe_stage.device.jit import CSR, I32, I64, INT, kernel
from mbe_stage.device.warp import ALL, ballot, count_bits, rank


@kernel(CSR, I32, I32, I64, I64, INT, INT)
def number_members_warp_per_part(lists, vertices, numbers, cursors, codes, first, n_parts):
    """Write the entries of some lists as codes: the place of the list above 32 bits, below them the entry's number.

    Parameters
    ----------
    lists : Lists
        Of all vertices.
    vertices : (n,) int32
        The lists from `first` on are wanted, as many as there are cursors.
    numbers : int32
        Of entries, -1 of those that are left out.
    cursors : int64
        Where the codes of each list begin; where they end afterwards.
    codes : int64
        In any order within a list.
    first : int
    n_parts : int
        Warps that share a list.
    """
    lane, item = cuda.laneid, this_warp()
    index, part = item // n_parts, item % n_parts
    if index >= cursors.size:
        return
    vertex = vertices[first + index]
    group, stop = lists.offsets[vertex] + 32 * part, lists.offsets[vertex + 1]
    while group < stop:
        number = np.int32(-1)
        if group + lane < stop:
            number = numbers[lists.members[group + lane]]
        kept = ballot(number >= 0)
        place = np.int64(0)
        if lane == 0:
            place = np.int64(cuda.atomic.add(cursors, index, np.int64(count_bits(kept))))
        place = np.int64(cuda.shfl_sync(ALL, place, 0))
        if number >= 0:
            codes[place + rank(kept)] = (np.int64(index) << np.int64(32)) | np.int64(number)
        group += 32 * n_parts


@kernel(I64, I64, I32, I64, INT)
def write_members_thread_per_code(codes, ends, members, paths, n_before):
    """Write the numbers of sorted codes, and add to each number's paths how many entries stand behind it in its list.

    Parameters
    ----------
    codes : (n,) int64
    ends : int64
        Where each list ends in `members`.
    members : int32
        The first `n_before` are there already.
    paths : int64
        Empty where they are not wanted.
    n_before : int
    """
    thread = this_thread()
    if thread >= codes.size:
        return
    code, place = codes[thread], n_before + thread
    number = code & np.int64(0xFFFFFFFF)
    members[place] = np.int32(number)
    if paths.size > 0:
        cuda.atomic.add(paths, number, np.int64(ends[code >> np.int64(32)] - 1 - place))
