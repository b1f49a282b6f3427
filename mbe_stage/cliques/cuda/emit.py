"""Count maximal cliques, also by size, or write them.

A warp writes cliques to its own page, and copies full pages to the output. It reserves space there by adding to a
single word with the numbers of cliques and members. So cliques are contiguous, and in the same order in both arrays. If
a page does not fit, the quantum ends and the page waits for the next one. No later page gets space either, so the
output ends before the first page that did not fit.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
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
    """Reserve output for some cliques and members; return its start, int64, or -1 if they do not fit."""
    start = _L(-1)
    if cuda.laneid == 0:
        start = _L(
            cuda.atomic.add(control, layout.OUTPUT_TOP, _L((_L(n_cliques) << layout.CLIQUES_SHIFT) | _L(n_members)))
        )
        n_before, members_before = _L(start >> layout.CLIQUES_SHIFT), _L(start & layout.MEMBERS_MASK)
        if n_before + n_cliques > output.sizes.size or members_before + n_members > output.members.size:
            cuda.atomic.min(control, layout.OUTPUT_END, start)
            cuda.atomic.max(control, layout.OUTPUT_NEEDED, _L(n_members))
            cuda.atomic.or_(control, layout.STATUS, _L(layout.OUTPUT_FULL))
            start = _L(-1)
    return cuda.shfl_sync(ALL, start, 0)


@cuda.jit(device=True, forceinline=True)
def _copy(source, n, to, target):
    """Copy `n` numbers from the beginning of an array to position `to` of another, four per lane at a time."""
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
    """Copy the warp's page to the output; return False, with the page unchanged, if it does not fit."""
    page = _L(own.frame[own.frame_at + layout.PAGE_AT])
    n_cliques, n_members = _I(page >> layout.CLIQUES_SHIFT), _I(page & layout.MEMBERS_MASK)
    if n_cliques == 0:
        return True
    start = _reserve(n_cliques, n_members, control, output)
    if start < 0:
        return False
    _copy(own.page_sizes, n_cliques, _L(start >> layout.CLIQUES_SHIFT), output.sizes)
    _copy(own.page, n_members, _L(start & layout.MEMBERS_MASK), output.members)
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[own.frame_at + layout.PAGE_AT] = _W(0)
    cuda.syncwarp()
    return True


@cuda.jit(device=True, forceinline=True)
def room_for(n_cliques, n_members, own, control, output):
    """Reserve space for some cliques on the warp's page, or in the output if the page is too small for them.

    Returns
    -------
    is_on_page : bool
    start : int64
        Start, in the form of `OUTPUT_TOP`; -1 if there is no space.
    """
    if n_members > own.page.size or n_cliques > own.page_sizes.size:
        return False, _reserve(n_cliques, n_members, control, output)
    before = _L(own.frame[own.frame_at + layout.PAGE_AT])
    n_after, members_after = (
        _I(_I(before >> layout.CLIQUES_SHIFT) + n_cliques),
        _I(_I(before & layout.MEMBERS_MASK) + n_members),
    )
    if n_after > own.page_sizes.size or members_after > own.page.size:
        if not empty_page(own, control, output):
            return True, _L(-1)
        before, n_after, members_after = _L(0), n_cliques, n_members
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[own.frame_at + layout.PAGE_AT] = _W((_L(n_after) << layout.CLIQUES_SHIFT) | _L(members_after))
    return True, before


@cuda.jit(device=True, forceinline=True)
def write_sizes(low, high, size, start, sizes):
    """Write the size of a clique for each set: the lane's own set, and the same with the sixth candidate.

    Parameters
    ----------
    low, high : uint32
    size : int32
        Size of the clique of the lane's set, without the sixth candidate.
    start : int64
        Position of the first size.
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
        Sets of the node's candidates, from `maximal_sets`.
    joined : uint64
        Candidates of the frame that all these cliques contain.
    candidates : uint64
        Candidates of the node.

    Returns
    -------
    is_done : bool
        False if the output has no space; then nothing is counted.
    n_found : int32
    """
    if launch.mode == layout.COUNT:
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
    if launch.mode == layout.SIZES:
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
    # Slices would compute their bounds for every node.
    write_sizes(low, high, size, _L(start >> layout.CLIQUES_SHIFT), sizes)
    write_sets(low, high, joined, candidates, _L(start & layout.MEMBERS_MASK), frame, own, device.words, members)
    return True, n_found
