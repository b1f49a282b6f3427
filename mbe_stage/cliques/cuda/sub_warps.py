"""Find the cliques of small roots, four at a time: eight lanes each.

A root with at most six candidates is finished at once, like nodes in `small_ends`: each of its neighbours, candidates
first, rules out sets of candidates. In most graphs most roots are small, and a warp for each would mostly wait for
memory (sub-warp partitioning; Almasri et al., 2022).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.emit import room_for, write_sizes
from mbe_stage.cliques.cuda.small_ends import dominated, no_cliques, there
from mbe_stage.cliques.cuda.writing import ALWAYS, put, write_tile
from mbe_stage.device.masks import bit_of, has
from mbe_stage.device.warp import ballot, count_bits, next_one, shuffle_word, shuffle_xor, sum_small

_LANES = 32 // layout.ROOTS_AT_ONCE
_ROOTS_LANE = _LANES - 1
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


class SmallRoot(NamedTuple):
    """This lane's root.

    Attributes
    ----------
    vertex : int32
        The root; -1 if there is none.
    first : int64
        Position of its first neighbour.
    n, degree : int32
        Number of candidates, and of all neighbours.
    number : int32
        Index of this lane among the lanes of its root.
    """

    vertex: Any
    first: Any
    n: Any
    degree: Any
    number: Any


@cuda.jit(device=True, forceinline=True)
def _is_among(vertex, place, end, members):
    """Return True if a vertex is among the ascending neighbours `place` to `end`; each lane calls it separately."""
    stop = end
    while place < end:
        middle = _L((place + end) >> 1)
        if members[middle] < vertex:
            place = _L(middle + 1)
        else:
            end = middle
    return place < stop and members[place] == vertex


@cuda.jit(device=True, forceinline=True)
def _is_later(vertex, of, graph):
    """Return True if a vertex is a later neighbour of another; each lane calls it separately."""
    return _is_among(vertex, graph.offsets[of], graph.later_ends[of], graph.members)


@cuda.jit(device=True, forceinline=True)
def _or_of_root(word):
    """Return the union over the lanes of a root, uint32."""
    word = _U(word | shuffle_xor(word, 4))
    word = _U(word | shuffle_xor(word, 2))
    return _U(word | shuffle_xor(word, 1))


@cuda.jit(device=True, forceinline=True)
def _open(position, graph):
    """Return this lane's root; the first lane's root is at `position` in the order."""
    lane = _I(cuda.laneid)
    position = _I(position + _I(lane // _LANES))
    vertex, first, n, degree = _I(-1), _L(0), _I(0), _I(0)
    if position < graph.order.size:
        vertex = _I(graph.order[position])
        first = _L(graph.offsets[vertex])
        n, degree = _I(graph.later_ends[vertex] - first), _I(graph.offsets[vertex + 1] - first)
    return SmallRoot(vertex, first, n, degree, _I(lane % _LANES))


@cuda.jit(device=True, forceinline=True)
def _row_of(k, root, graph):
    """Return the candidates that are later neighbours of neighbour `k`, uint64; each lane calls it separately."""
    row = _W(0)
    if k < root.degree:
        vertex = _I(graph.members[root.first + _L(k)])
        column = _I(0)
        while column < root.n:
            if _is_later(_I(graph.members[root.first + _L(column)]), vertex, graph):
                row = _W(row | bit_of(column))
            column = next_one(column)
    return row


@cuda.jit(device=True, forceinline=True)
def _symmetric(row, root):
    """Return the row of this lane's candidate, with the earlier candidates that have it as a later neighbour."""
    begin = _I(_I(cuda.laneid) - root.number)
    whole = row
    column = _I(0)
    while column < layout.SMALL_ROOT:
        other = shuffle_word(_U(row), _I(begin + column))
        if has(_W(other), root.number):
            whole = _W(whole | bit_of(column))
        column = next_one(column)
    return whole


@cuda.jit(device=True, forceinline=True)
def _sets_of(root, graph):
    """Return the sets of a root's candidates that form maximal cliques with it: the low and the high word."""
    six = (
        bit_of(0) if root.n > 0 else _W(0),
        bit_of(1) if root.n > 1 else _W(0),
        bit_of(2) if root.n > 2 else _W(0),
        bit_of(3) if root.n > 3 else _W(0),
        bit_of(4) if root.n > 4 else _W(0),
        bit_of(5) if root.n > 5 else _W(0),
    )
    row = _row_of(root.number, root, graph)
    whole = _symmetric(row, root)
    low, high = _U(0), _U(0)
    if root.number < root.n:
        low, high = dominated(whole, six)
        more_low, more_high = no_cliques(whole, bit_of(root.number), six)
        low, high = _U(low | more_low), _U(high | more_high)
    elif root.number < root.degree:
        low, high = dominated(row, six)
    k = _I(root.number + _LANES)
    while k < root.degree:
        more_low, more_high = dominated(_row_of(k, root, graph), six)
        low, high = _U(low | more_low), _U(high | more_high)
        k = _I(k + _LANES)
    cuda.syncwarp()
    low, high = _or_of_root(low), _or_of_root(high)
    if root.vertex < 0:
        return _U(0), _U(0)
    return _U(there(root.n) & ~low), _U(~high) if root.n == layout.SMALL_ROOT else _U(0)


@cuda.jit(device=True, forceinline=True)
def _of_sizes(low, high, root, own, launch):
    """Keep the sets whose cliques have wanted sizes; count these by size if requested.

    Parameters
    ----------
    low, high : uint32
    root : SmallRoot
    """
    kept_low, kept_high = _U(0), _U(0)
    number = root.number
    while number < 32:
        size = _I(1 + count_bits(_U(number)))
        bit = _U(_U(1) << _U(number))
        if _U(low & bit) != 0 and size >= launch.min_size and size <= launch.max_size:
            kept_low = _U(kept_low | bit)
            if launch.mode == layout.SIZES:
                cuda.atomic.add(own.histogram, size, _L(1))
        if _U(high & bit) != 0 and size + 1 >= launch.min_size and size + 1 <= launch.max_size:
            kept_high = _U(kept_high | bit)
            if launch.mode == layout.SIZES:
                cuda.atomic.add(own.histogram, _I(size + 1), _L(1))
        number = _I(number + _LANES)
    cuda.syncwarp()
    return _or_of_root(kept_low), _or_of_root(kept_high)


@cuda.jit(device=True, forceinline=True)
def _n_members(low, high, number):
    """Return the number of members in the cliques of this lane's sets of its root, int32."""
    n = _I(0)
    while number < 32:
        size = _I(1 + count_bits(_U(number)))
        n = _I(n + size * _I(_U(low >> _U(number)) & _U(1)) + (size + 1) * _I(_U(high >> _U(number)) & _U(1)))
        number = _I(number + _LANES)
    return n


@cuda.jit(device=True, forceinline=True)
def _put_in_order(turn, root, graph, own):
    """Put root number `turn` and its candidates into shared memory, ascending."""
    is_candidate = root.number < root.n
    vertex = root.vertex
    if is_candidate:
        vertex = _I(graph.members[root.first + _L(root.number)])
    smaller = ballot(is_candidate and vertex < root.vertex)
    n_smaller = count_bits(_U(_U(smaller >> _U(turn * _LANES)) & _U((1 << _LANES) - 1)))
    cuda.syncwarp()
    if _I(cuda.laneid) // _LANES == turn:
        if is_candidate:
            place = root.number if vertex < root.vertex else _I(root.number + 1)
            put(_U(vertex), _U(_U(1) << _U(root.number)), place, own)
        elif root.number == _ROOTS_LANE:
            put(_U(vertex), _U(ALWAYS), n_smaller, own)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _write(low, high, start, root, own, graph, members, sizes):
    """Write the cliques of each root in turn.

    Parameters
    ----------
    low, high : uint32
        Sets of this lane's root.
    start : int64
        Start of the cliques, in the form of `OUTPUT_TOP`.
    root : SmallRoot
    members, sizes : int32, global
    """
    lane = _I(cuda.laneid)
    clique_at, member_at = _L(start >> layout.CLIQUES_SHIFT), _L(start & layout.MEMBERS_MASK)
    place = _I(0)
    turn = _I(0)
    while turn < layout.ROOTS_AT_ONCE:
        source = _I(turn * _LANES)
        its_low, its_high = shuffle_word(low, source), shuffle_word(high, source)
        if its_low != 0 or its_high != 0:
            _put_in_order(turn, root, graph, own)
            n = cuda.shfl_sync(0xFFFFFFFF, root.n, source)
            entry = own.frame[own.frame_at + layout.UNION_AT + lane] if lane <= n else _W(0)
            vertex, bits = _I(entry & _W(0xFFFFFFFF)), _U(entry >> _W(32))
            write_sizes(its_low, its_high, _I(1 + count_bits(_U(lane))), clique_at, sizes)
            clique_at = _L(clique_at + _L(_I(count_bits(its_low) + count_bits(its_high))))
            place = write_tile(its_low, its_high, vertex, bits, _U(0), place, _I(1), member_at, members)
        turn = next_one(turn)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def small_roots(position, own, graph, device, output, launch):
    """Count or write the maximal cliques of at most four roots, from `position` in the order on.

    Parameters
    ----------
    position : int32

    Returns
    -------
    bool
        False if the output has no space; then nothing is counted.
    """
    root = _open(position, graph)
    low, high = _sets_of(root, graph)
    if launch.mode != layout.COUNT:
        low, high = _of_sizes(low, high, root, own, launch)
    n_here = _I(count_bits(low) + count_bits(high)) if root.number == 0 else _I(0)
    n_found = sum_small(n_here)
    if n_found == 0:
        return True
    if launch.mode == layout.MEMBERS:
        n_members = sum_small(_n_members(low, high, root.number))
        is_on_page, start = room_for(n_found, n_members, own, device.control, output)
        if start < 0:
            return False
        members, sizes = output.members, output.sizes
        if is_on_page:
            members, sizes = own.page, own.page_sizes
        _write(low, high, start, root, own, graph, members, sizes)
    if cuda.laneid == 0:
        cuda.atomic.add(device.control, layout.FOUND, _L(n_found))
    return True
