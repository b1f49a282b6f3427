"""Maximal cliques counted, by size too, or written.

A warp writes cliques onto a page of its own, and copies a full page to the output. Room there is one addition to one
word, which holds how many cliques and how many members there are: so the cliques stand without gaps, and in the same
order in both arrays. What does not fit ends the quantum: then nobody gets room any more, and what was written before is
what stands before the first that did not fit. A page that does not fit waits for the next quantum.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.cliques.cuda.small_ends import MOST_CANDIDATES
from mbe_stage.cliques.cuda.writing import write_sets
from mbe_stage.device.masks import size_of
from mbe_stage.device.warp import ALL, ballot, count_bits, next_tile, rank, sum_small

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _reserve(n_cliques, n_members, control, output):
    """Where so many cliques and members begin, as in `OUTPUT_TOP`, int64; -1 where they do not fit."""
    start = _L(-1)
    if cuda.laneid == 0:
        start = _L(cuda.atomic.add(control, at.OUTPUT_TOP, _L((_L(n_cliques) << at.CLIQUES_SHIFT) | _L(n_members))))
        n_before, members_before = _L(start >> at.CLIQUES_SHIFT), _L(start & at.MEMBERS_MASK)
        if n_before + n_cliques > output.sizes.size or members_before + n_members > output.members.size:
            cuda.atomic.min(control, at.OUTPUT_END, start)
            cuda.atomic.max(control, at.OUTPUT_NEEDED, _L(n_members))
            cuda.atomic.or_(control, at.STATUS, _L(at.OUTPUT_FULL))
            start = _L(-1)
    return cuda.shfl_sync(ALL, start, 0)


@cuda.jit(device=True, forceinline=True)
def _copy(source, n, to, target):
    """Copy `n` numbers from the beginning of an array to place `to` of another one, four of a lane at a time."""
    k = _I(cuda.laneid)
    while k < n:
        second, third, fourth = _I(k + 32), _I(k + 64), _I(k + 96)
        a = source[k]
        b = source[second] if second < n else a
        c = source[third] if third < n else a
        d = source[fourth] if fourth < n else a
        target[_W(to + k)] = a
        if second < n:
            target[_W(to + second)] = b
        if third < n:
            target[_W(to + third)] = c
        if fourth < n:
            target[_W(to + fourth)] = d
        k = next_tile(_I(k + 96))


@cuda.jit(device=True, forceinline=True)
def empty_page(own, control, output):
    """Copy the warp's page to the output; False where it does not fit, and the page is as it was."""
    page = _L(own.frame[own.frame_at + at.PAGE_AT])
    n_cliques, n_members = _I(page >> at.CLIQUES_SHIFT), _I(page & at.MEMBERS_MASK)
    if n_cliques == 0:
        return True
    start = _reserve(n_cliques, n_members, control, output)
    if start < 0:
        return False
    _copy(own.page_sizes, n_cliques, _L(start >> at.CLIQUES_SHIFT), output.sizes)
    _copy(own.page, n_members, _L(start & at.MEMBERS_MASK), output.members)
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[own.frame_at + at.PAGE_AT] = _W(0)
    cuda.syncwarp()
    return True


@cuda.jit(device=True, forceinline=True)
def room_for(n_cliques, n_members, own, control, output):
    """Room for some cliques on the warp's page, or, where it is too small for so many, in the output.

    Returns
    -------
    is_on_page : bool
    start : int64
        Where they begin, as in `OUTPUT_TOP`; -1 where there is no room.
    """
    if n_members > own.page.size or n_cliques > own.page_sizes.size:
        return False, _reserve(n_cliques, n_members, control, output)
    before = _L(own.frame[own.frame_at + at.PAGE_AT])
    n_after, members_after = (
        _I(_I(before >> at.CLIQUES_SHIFT) + n_cliques),
        _I(_I(before & at.MEMBERS_MASK) + n_members),
    )
    if n_after > own.page_sizes.size or members_after > own.page.size:
        if not empty_page(own, control, output):
            return True, _L(-1)
        before, n_after, members_after = _L(0), n_cliques, n_members
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[own.frame_at + at.PAGE_AT] = _W((_L(n_after) << at.CLIQUES_SHIFT) | _L(members_after))
    return True, before


@cuda.jit(device=True, forceinline=True)
def write_sizes(low, high, size, start, sizes):
    """Write the size of a clique for each set: that of the lane's number, and the one that has the sixth candidate too.

    Parameters
    ----------
    low, high : uint32
    size : int32
        Of the clique of the lane's set, without the sixth candidate.
    start : int64
        Where the first one's stands.
    sizes : int32, global
    """
    lane = _U(cuda.laneid)
    if _U(low >> lane) & _U(1) != 0:
        sizes[_W(start + _L(rank(low)))] = size
    if _U(high >> lane) & _U(1) != 0:
        sizes[_W(start + _L(_I(count_bits(low) + rank(high))))] = _I(size + 1)


@cuda.jit(device=True, forceinline=True)
def emit(low, high, joined, candidates, frame, own, device, output, launch):
    """Count the maximal cliques of a node, or write them.

    Parameters
    ----------
    low, high : uint32
        Sets of the node's candidates, as `maximal_sets` gave them.
    joined : uint64
        What all of the cliques have, of the frame's candidates.
    candidates : uint64
        Of the node.

    Returns
    -------
    is_done : bool
        False where the output has no room: nothing is counted then.
    n_found : int32
    """
    if launch.mode == at.COUNT:
        return True, _I(count_bits(low) + count_bits(high))
    lane = _I(cuda.laneid)
    n_joined = _I(frame.n_base + size_of(joined))
    size = _I(n_joined + count_bits(_U(lane)))
    is_low, is_high = _U(low >> _U(lane)) & _U(1) != 0, _U(high >> _U(lane)) & _U(1) != 0
    if n_joined < launch.min_size or n_joined + MOST_CANDIDATES > launch.max_size:
        is_low = is_low and size >= launch.min_size and size <= launch.max_size
        is_high = is_high and size + 1 >= launch.min_size and size + 1 <= launch.max_size
        low, high = ballot(is_low), ballot(is_high)
    n_found = _I(count_bits(low) + count_bits(high))
    if n_found == 0:
        return True, n_found
    if launch.mode == at.SIZES:
        if is_low:
            cuda.atomic.add(own.histogram, size, _L(1))
        if is_high:
            cuda.atomic.add(own.histogram, _I(size + 1), _L(1))
        return True, n_found
    n_members = sum_small(_I((size if is_low else _I(0)) + (_I(size + 1) if is_high else _I(0))))
    is_on_page, start = room_for(n_found, n_members, own, device.control, output)
    if start < 0:
        return False, _I(0)
    members, sizes = output.members, output.sizes
    if is_on_page:
        members, sizes = own.page, own.page_sizes
    # Not slices: where these begin and end would be worked out for every node.
    write_sizes(low, high, size, _L(start >> at.CLIQUES_SHIFT), sizes)
    write_sets(low, high, joined, candidates, _L(start & at.MEMBERS_MASK), frame, own, device.words, members)
    return True, n_found
