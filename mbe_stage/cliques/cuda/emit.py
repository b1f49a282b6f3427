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
from mbe_stage.device.masks import has, low_bits, size_of, voted
from mbe_stage.device.warp import ALL, ballot, count_bits, first_bit, next_one, next_tile, sum_small

__all__ = ["emit", "empty_page", "place_members"]

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64
_MEMBERS = (1 << at.CLIQUES_SHIFT) - 1


@cuda.jit(device=True, forceinline=True)
def _reserve(n_cliques, n_members, control, output):
    """Where so many cliques and members begin, as in `OUTPUT_TOP`, int64; -1 where they do not fit."""
    start = _L(-1)
    if cuda.laneid == 0:
        start = _L(cuda.atomic.add(control, at.OUTPUT_TOP, _L((_L(n_cliques) << at.CLIQUES_SHIFT) | _L(n_members))))
        n_before, members_before = _L(start >> at.CLIQUES_SHIFT), _L(start & _MEMBERS)
        if n_before + n_cliques > output.sizes.size or members_before + n_members > output.members.size:
            cuda.atomic.min(control, at.OUTPUT_END, start)
            cuda.atomic.max(control, at.OUTPUT_NEEDED, _L(n_members))
            cuda.atomic.or_(control, at.STATUS, _L(at.OUTPUT_FULL))
            start = _L(-1)
    return cuda.shfl_sync(ALL, start, 0)


@cuda.jit(device=True, forceinline=True)
def empty_page(own, control, output):
    """Copy the warp's page to the output; False where it does not fit, and the page is as it was."""
    n_cliques, n_members = _I(own.state[at.PAGE_CLIQUES]), _I(own.state[at.PAGE_MEMBERS])
    if n_cliques == 0:
        return True
    start = _reserve(n_cliques, n_members, control, output)
    if start < 0:
        return False
    clique_at, member_at = _L(start >> at.CLIQUES_SHIFT), _L(start & _MEMBERS)
    k = _I(cuda.laneid)
    while k < n_cliques:
        output.sizes[clique_at + k] = own.page_sizes[k]
        k = next_tile(k)
    k = _I(cuda.laneid)
    while k < n_members:
        output.members[member_at + k] = own.page[k]
        k = next_tile(k)
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.state[at.PAGE_CLIQUES] = _L(0)
        own.state[at.PAGE_MEMBERS] = _L(0)
    cuda.syncwarp()
    return True


@cuda.jit(device=True, forceinline=True)
def _room_for(n_cliques, n_members, own, control, output):
    """Room for some cliques on the warp's page, or, where it is too small for so many, in the output.

    Returns
    -------
    is_on_page : bool
    start : int64
        Where they begin, as in `OUTPUT_TOP`; -1 where there is no room.
    """
    if n_members > own.page.size or n_cliques > own.page_sizes.size:
        return False, _reserve(n_cliques, n_members, control, output)
    before, members_before = own.state[at.PAGE_CLIQUES], own.state[at.PAGE_MEMBERS]
    if before + n_cliques > own.page_sizes.size or members_before + n_members > own.page.size:
        if not empty_page(own, control, output):
            return True, _L(-1)
        before, members_before = _L(0), _L(0)
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.state[at.PAGE_CLIQUES] = _L(before + n_cliques)
        own.state[at.PAGE_MEMBERS] = _L(members_before + n_members)
    return True, _L((before << at.CLIQUES_SHIFT) | members_before)


@cuda.jit(device=True, forceinline=True)
def _column(column, joined, candidates, frame, words):
    """What this lane writes of a column, where a clique has it.

    Returns
    -------
    vertex : int32
    n_before : int32
        Smaller vertices of the base.
    turn : int32
        Which of the candidates it is; -1 where all cliques have it, 31 where none has.
    """
    vertex, n_before, turn = _I(0), _I(0), _I(31)
    if has(candidates, column):
        turn = size_of(_W(candidates & low_bits(column)))
    if has(joined, column):
        turn = _I(-1)
    if turn < 31:
        vertex = _I(words[frame.home + at.IDS_AT + column])
        n_before = _I(words[frame.home + at.EARLIER_AT + column])
    return vertex, n_before, turn


@cuda.jit(device=True, forceinline=True)
def _is_in(turn, number):
    """Whether a set of candidates has the one of a turn; the set's number has a bit for each."""
    return turn < 0 or (number >> turn) & 1 != 0


@cuda.jit(device=True, forceinline=True)
def _write_base(vertex, position, mask, place, members):
    """Write a vertex of the base, which knows how many of it are smaller, and how many of the candidates."""
    n_before = _L(position >> _U(7)) + size_of(_W(mask & low_bits(_I(position & _U(127)))))
    members[place + n_before] = vertex


@cuda.jit(device=True, forceinline=True)
def _write_sets(low, high, joined, candidates, start, frame, words, members, sizes):
    """Write a clique for each set, ascending. What all of them have is read once.

    Parameters
    ----------
    low, high : uint32
    joined : uint64
        What all of them have.
    candidates : uint64
    start : int64
        Where they begin, as in `OUTPUT_TOP`.
    frame : Frame
    words : uint32, global
    members, sizes : int32, global
        What is written.
    """
    lane = _I(cuda.laneid)
    vertex, n_before, turn = _column(lane, joined, candidates, frame, words)
    high_vertex, high_n_before, high_turn = _column(_I(lane + 32), joined, candidates, frame, words)
    first, position = _I(0), _U(0)
    if lane < frame.n_base:
        entry = _L(frame.home + at.BASE_AT + 2 * lane)
        first, position = _I(words[entry]), _U(words[entry + 1])
    base = _I(0)
    while True:
        if low == 0:
            low, high, base = high, _U(0), _I(32)
            if low == 0:
                break
        number = _I(base + first_bit(low))
        low = _U(low & _U(low - _U(1)))
        mask = voted(_is_in(turn, number), _is_in(high_turn, number))
        place = _L(start & _MEMBERS)
        if has(mask, lane):
            members[place + n_before + size_of(_W(mask & low_bits(lane)))] = vertex
        if has(mask, lane + 32):
            members[place + high_n_before + size_of(_W(mask & low_bits(_I(lane + 32))))] = high_vertex
        if lane < frame.n_base:
            _write_base(first, position, mask, place, members)
        k = _I(lane + 32)
        while k < frame.n_base:
            entry = _L(frame.home + at.BASE_AT + 2 * k)
            _write_base(_I(words[entry]), _U(words[entry + 1]), mask, place, members)
            k = next_tile(k)
        size = _I(frame.n_base + size_of(mask))
        if lane == 0:
            sizes[start >> at.CLIQUES_SHIFT] = size
        start = _L(start + (_L(1) << at.CLIQUES_SHIFT) + _L(size))
    cuda.syncwarp()


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
    frame : Frame
    own : Own
    device : Device
    output : Output
    launch : Launch

    Returns
    -------
    is_done : bool
        False where the output has no room: nothing is counted then.
    n_found : int32
    """
    if launch.mode == at.COUNT:
        return True, _I(count_bits(low) + count_bits(high))
    lane = _I(cuda.laneid)
    size = _I(frame.n_base + size_of(joined) + count_bits(_U(lane)))
    is_low = _U(low >> _U(lane)) & _U(1) != 0 and size >= launch.min_size and size <= launch.max_size
    is_high = _U(high >> _U(lane)) & _U(1) != 0 and size + 1 >= launch.min_size and size + 1 <= launch.max_size
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
    is_on_page, start = _room_for(n_found, n_members, own, device.control, output)
    if start < 0:
        return False, _I(0)
    members, sizes = output.members, output.sizes
    if is_on_page:
        members, sizes = own.page, own.page_sizes
    _write_sets(low, high, joined, candidates, start, frame, device.words, members, sizes)
    return True, n_found


@cuda.jit(device=True, forceinline=True)
def place_members(home, n_base, n, words):
    """Find out where the vertices of a frame stand in its cliques.

    Each candidate learns how many of the base are smaller. Each of the base learns how many of the base are smaller,
    and how many candidates.
    """
    lane = _I(cuda.laneid)
    base_at, ids_at = _L(home + at.BASE_AT), _L(home + at.IDS_AT)
    for half in range(2):
        column = _I(lane + 32 * half)
        mine = _U(words[ids_at + column]) if column < n else _U(0)
        smaller = _I(0)
        k = _I(0)
        while k < n_base:
            if _U(words[base_at + 2 * k]) < mine:
                smaller = _I(smaller + 1)
            k = next_one(k)
        if column < n:
            words[home + at.EARLIER_AT + column] = _U(smaller)
    tile = _I(0)
    while tile < n_base:
        own = _I(tile + lane)
        mine = _U(words[base_at + 2 * own]) if own < n_base else _U(0)
        smaller, below = _I(0), _I(0)
        k = _I(0)
        while k < n_base:
            if _U(words[base_at + 2 * k]) < mine:
                smaller = _I(smaller + 1)
            k = next_one(k)
        k = _I(0)
        while k < n:
            if _U(words[ids_at + k]) < mine:
                below = _I(below + 1)
            k = next_one(k)
        if own < n_base:
            words[base_at + 2 * own + 1] = _U((smaller << 7) | below)
        tile = next_tile(tile)
    cuda.syncwarp()
