"""Turn a root into a frame or a wide node: later neighbours are candidates, earlier ones are excluded.

Each edge between candidates is found once, from its earlier end; then the matrix is made symmetric.

An edge between a candidate and an earlier vertex is in the earlier vertex's list of later neighbours. So each lane
walks the later neighbours of one vertex, four at a time, and looks up each in a hash table of up to 64 candidates in
shared memory.

*Wide nodes* have more candidates than a frame. They have blocks in the pool, and their own pivots.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.techniques import EXCLUDED_PIVOTS
from mbe_stage.cliques.cuda.writing import place_members
from mbe_stage.device.masks import bit_of, bits_below, low_bits, of_halves, transposed
from mbe_stage.device.warp import ALL, ballot, count_bits, inclusive_sum, max_all, next_one, next_tile, rank
from mbe_stage.search.cuda.nodes import new_node, pool_offset_of, publish, take_words

DONE, FRAME, NODE, SHORT_OF = range(4)
"""Outcomes for a part of the search: nothing left, a frame, a node, or not done because memory is short."""
_MIXER = 0x9E3779B1
"""Multiplier of Fibonacci hashing: 2^32 over the golden ratio."""
_SHIFT = 32 - layout.TABLE_BITS
_LOW_HALF = 0xFFFFFFFF
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


class Wide(NamedTuple):
    """The block of a wide node.

    Attributes
    ----------
    ids_at, base_at, branches_at, rows_at : int64
        Starts of the candidates' ids, the base, the mask of candidates to branch on, and the rows: first those of
        candidates, then those of excluded vertices.
    n, n_excluded, n_base, n_words : int32
        Numbers of candidates, excluded rows, base vertices, and words per row.
    """

    ids_at: Any
    base_at: Any
    branches_at: Any
    rows_at: Any
    n: Any
    n_excluded: Any
    n_base: Any
    n_words: Any


NO_BLOCK = -1
"""Value of `Wide.ids_at` if the pool is short."""


@cuda.jit(device=True, forceinline=True)
def _wide(place, n, n_excluded, n_base):
    """Return the parts of a block that starts at `place`."""
    n_words = _I((n + 31) >> 5)
    base_at = _L(place + n)
    branches_at = _L(base_at + n_base)
    return Wide(place, base_at, branches_at, _L(branches_at + n_words), n, n_excluded, n_base, n_words)


@cuda.jit(device=True, forceinline=True)
def _size_of(n, n_excluded, n_base):
    """Return the number of words in a block, int64."""
    n_words = _I((n + 31) >> 5)
    return _L(n + n_base + n_words) + _L(_I(n + n_excluded)) * _L(n_words)


@cuda.jit(device=True, forceinline=True)
def new_wide(n, n_excluded, n_base, device):
    """Allocate a block of the pool; its place is `NO_BLOCK` if there is no room."""
    place = take_words(_size_of(n, n_excluded, n_base), True, device.control, device.settings)
    return _wide(place, n, n_excluded, n_base)


@cuda.jit(device=True, forceinline=True)
def open_wide(node, nodes):
    """Return the block of a node."""
    fields = nodes[node]
    n, n_excluded, n_base = _I(fields[layout.N_CANDIDATES]), _I(fields[layout.N_EXCLUDED]), _I(fields[layout.N_BASE])
    return _wide(_L(fields[layout.OFFSET]), n, n_excluded, n_base)


@cuda.jit(device=True, forceinline=True)
def _pivot(wide, n_rows, words):
    """Return the row with the most bits, and their number."""
    best, most = _I(0), _I(-1)
    row = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_rows:
        if row < n_rows:
            place = _L(wide.rows_at + _L(row) * _L(wide.n_words))
            met = _I(0)
            k = _I(0)
            while k < wide.n_words:
                met = _I(met + count_bits(words[place + k]))
                k = next_one(k)
            if met > most:
                best, most = row, met
        row = next_tile(row)
        tile = next_tile(tile)
    most_of_all = max_all(most)
    return max_all(_I(best if most == most_of_all else -1)), most_of_all


@cuda.jit(device=True, forceinline=True)
def publish_wide(wide, newest, device, techniques):
    """Choose the pivot of a node that has been written, and open the node to all warps.

    Parameters
    ----------
    newest : int32
        The last node made by this warp, or -1.
    techniques : int

    Returns
    -------
    int32
        The newest node of this warp: `newest` itself if an excluded vertex is adjacent to all candidates, -2 if there
        is no room.
    """
    words = device.words
    cuda.syncwarp()
    pivot, most = _pivot(wide, _I(wide.n + wide.n_excluded), words)
    if most == wide.n:
        return newest
    if techniques & EXCLUDED_PIVOTS == 0:
        pivot, most = _pivot(wide, wide.n, words)
    node = new_node(True, device.control, device.settings)
    if node < 0:
        return _I(-2)
    row_at = _L(wide.rows_at + _L(pivot) * _L(wide.n_words))
    n_children = _I(0)
    tile = _I(0)
    while tile < wide.n_words:
        word = _I(tile + _I(cuda.laneid))
        n_here = _I(0)
        if word < wide.n_words:
            branches = _U(bits_below(word, wide.n) & _U(~_U(words[row_at + word])))
            words[wide.branches_at + word] = branches
            n_here = count_bits(branches)
        n_children = _I(n_children + cuda.shfl_sync(ALL, inclusive_sum(n_here), 31))
        tile = next_tile(tile)
    if cuda.laneid == 0:
        device.nodes[node, layout.OFFSET] = wide.ids_at
        device.nodes[node, layout.WORDS] = _size_of(wide.n, wide.n_excluded, wide.n_base)
        device.nodes[node, layout.LINK] = _L(newest)
        device.nodes[node, layout.KIND] = _L(layout.WIDE)
        device.nodes[node, layout.N_CANDIDATES] = _L(wide.n)
        device.nodes[node, layout.N_EXCLUDED] = _L(wide.n_excluded)
        device.nodes[node, layout.N_BASE] = _L(wide.n_base)
    cuda.syncwarp()
    publish(node, n_children, device.nodes, device.control)
    return node


class RootNeighbours(NamedTuple):
    """The neighbours of a root.

    Attributes
    ----------
    first, first_excluded : int64
        Positions of the first candidate and the first excluded vertex in the graph's members; both lists ascend.
    n, n_excluded : int32
    root : int32
    """

    first: Any
    first_excluded: Any
    n: Any
    n_excluded: Any
    root: Any


@cuda.jit(device=True, forceinline=True)
def _slot_of(vertex):
    """Return the first slot to probe for a vertex, int32."""
    return _I(_U(_U(vertex) * _U(_MIXER)) >> _U(_SHIFT))


@cuda.jit(device=True, forceinline=True)
def _insert(vertex, column, own):
    """Put a candidate into the first free slot."""
    slot = _slot_of(vertex)
    entry = of_halves(_U(vertex), _U(column + 1))
    while cuda.atomic.cas(own.frame, _I(own.frame_at + layout.TABLE_AT + slot), _W(0), entry) != _W(0):
        slot = _I(_I(slot + 1) & _I(layout.TABLE_SLOTS - 1))


@cuda.jit(device=True, forceinline=True)
def _fill_table(first, n, own, members):
    """Build the table of `n` candidates, at most 64, from position `first` on; the first one is column 0."""
    lane = _I(cuda.laneid)
    cuda.syncwarp()
    slot = lane
    while slot < layout.TABLE_SLOTS:
        own.frame[own.frame_at + layout.TABLE_AT + slot] = _W(0)
        slot = next_tile(slot)
    cuda.syncwarp()
    if lane < n:
        _insert(members[first + lane], lane, own)
    if lane + 32 < n:
        _insert(members[first + lane + 32], _I(lane + 32), own)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _bit_from(slot, entry, vertex, own):
    """Return the bit of a vertex's column, uint64; 0 if it is no candidate.

    `entry` is the content of its first slot.
    """
    while entry != _W(0) and _I(entry & _W(_LOW_HALF)) != vertex:
        slot = _I(_I(slot + 1) & _I(layout.TABLE_SLOTS - 1))
        entry = own.frame[own.frame_at + layout.TABLE_AT + slot]
    if entry == _W(0):
        return _W(0)
    return bit_of(_I(_I(entry >> _W(32)) - 1))


@cuda.jit(device=True, forceinline=True)
def _row_of(place, end, last, own, members):
    """Collect the candidates among ascending neighbours; each lane calls it separately.

    Parameters
    ----------
    place, end : int64
        Range of the neighbours among the members.
    last : int32
        Stop at the first neighbour above this one.
    members : int32, global
        The graph's members.

    Returns
    -------
    row : uint64
    place : int64
        The first neighbour not considered.
    """
    table = own.frame_at + layout.TABLE_AT
    row = _W(0)
    n_passed = _I(4)
    while n_passed == 4 and place < end:
        # Four at once, because most time is spent waiting for memory.
        n_left = _L(end - place)
        a = members[place]
        b = members[place + 1] if n_left > 1 else a
        c = members[place + 2] if n_left > 2 else a
        d = members[place + 3] if n_left > 3 else a
        of_a, of_b, of_c, of_d = _slot_of(a), _slot_of(b), _slot_of(c), _slot_of(d)
        at_a, at_b = own.frame[table + of_a], own.frame[table + of_b]
        at_c, at_d = own.frame[table + of_c], own.frame[table + of_d]
        row = _W(row | _W(_bit_from(of_a, at_a, a, own) | _bit_from(of_b, at_b, b, own)))
        row = _W(row | _W(_bit_from(of_c, at_c, c, own) | _bit_from(of_d, at_d, d, own)))
        n_passed = _I(1) if a <= last else _I(0)
        if n_left > 1 and b <= last:
            n_passed = _I(n_passed + 1)
        if n_left > 2 and c <= last:
            n_passed = _I(n_passed + 1)
        if n_left > 3 and d <= last:
            n_passed = _I(n_passed + 1)
        place = _L(place + _L(n_passed))
    return row, place


@cuda.jit(device=True, forceinline=True)
def no_frame():
    """Return an empty frame, for outcomes without one."""
    return layout.Frame(_L(0), _I(0), _I(0), _L(0), _W(0), _W(0))


@cuda.jit(device=True, forceinline=True)
def _later_of(vertex, own, graph):
    """Return the candidates that are later neighbours of a vertex, uint64; each lane calls it separately."""
    row, _ = _row_of(graph.offsets[vertex], graph.later_ends[vertex], _I(0x7FFFFFFF), own, graph.members)
    return row


@cuda.jit(device=True, forceinline=True)
def _excluded_rows(lists, excluded_at, own, graph, words):
    """Write the excluded rows with a candidate; return their number, int32, or -1 if one has all candidates.

    Parameters
    ----------
    lists : RootNeighbours
        The neighbours; the 1 to 64 candidates are in the table.
    excluded_at : int64
        Position of the rows.
    words : uint32, global
    """
    lane = _I(cuda.laneid)
    everything = low_bits(lists.n)
    n_kept = _I(0)
    tile = _I(0)
    while tile < lists.n_excluded:
        row = _W(0)
        if _I(tile + lane) < lists.n_excluded:
            row = _later_of(graph.members[lists.first_excluded + _L(_I(tile + lane))], own, graph)
        if cuda.any_sync(ALL, row == everything):
            return _I(-1)
        kept = ballot(row != _W(0))
        if row != _W(0):
            to = _L(excluded_at + 2 * _I(n_kept + rank(kept)))
            words[to] = _U(row & _W(0xFFFFFFFF))
            words[to + 1] = _U(row >> _W(32))
        n_kept = _I(n_kept + count_bits(kept))
        tile = next_tile(tile)
    return n_kept


@cuda.jit(device=True, forceinline=True)
def _candidates_rows(lists, own, graph):
    """Put the rows of the table's candidates into shared memory; return this lane's two rows."""
    lane = _I(cuda.laneid)
    low, high = _W(0), _W(0)
    if lane < lists.n:
        low = _later_of(graph.members[lists.first + lane], own, graph)
    if lane + 32 < lists.n:
        high = _later_of(graph.members[lists.first + lane + 32], own, graph)
    cuda.syncwarp()
    half = _W(0xFFFFFFFF)
    low_low, high_low = transposed(_U(low & half)), transposed(_U(high & half))
    low_high, high_high = transposed(_U(low >> _W(32))), transposed(_U(high >> _W(32)))
    low = _W(low | of_halves(low_low, high_low))
    high = _W(high | of_halves(low_high, high_high))
    own.frame[own.frame_at + lane] = low
    own.frame[own.frame_at + lane + 32] = high
    cuda.syncwarp()
    return low, high


@cuda.jit(device=True, forceinline=True)
def _root_frame(lists, own, graph, device, mode):
    """Make the frame of a root with at most 64 candidates.

    Parameters
    ----------
    mode : int

    Returns
    -------
    outcome : int
    frame : Frame
    """
    words = device.words
    lane = _I(cuda.laneid)
    pool_offset = pool_offset_of(device.settings)
    excluded_at = _L(pool_offset + layout.BASE_AT + 2)
    n_excluded = _I(0)
    if lists.n == 0:
        if lists.n_excluded > 0:
            return DONE, no_frame()
    else:
        _fill_table(lists.first, lists.n, own, graph.members)
        n_excluded = _excluded_rows(lists, excluded_at, own, graph, words)
        if n_excluded < 0:
            return DONE, no_frame()
    low, high = _candidates_rows(lists, own, graph)
    if lane < lists.n:
        words[pool_offset + layout.IDS_AT + lane] = _U(graph.members[lists.first + lane])
    if lane + 32 < lists.n:
        words[pool_offset + layout.IDS_AT + lane + 32] = _U(graph.members[lists.first + lane + 32])
    if lane == 0:
        words[pool_offset + layout.BASE_AT] = _U(lists.root)
    cuda.syncwarp()
    if mode == layout.MEMBERS:
        place_members(pool_offset, _I(1), lists.n, words)
    return FRAME, layout.Frame(pool_offset, _I(1), n_excluded, excluded_at, low, high)


@cuda.jit(device=True, forceinline=True)
def _make_symmetric(wide, words):
    """Set the mirrored bit of each pair of candidates."""
    lane = _I(cuda.laneid)
    i = _I(0)
    while i < wide.n_words:
        row = _I(32 * i + lane)
        row_at = _L(wide.rows_at + _L(row) * _L(wide.n_words))
        k = i
        while k < wide.n_words:
            other = _I(32 * k + lane)
            other_at = _L(wide.rows_at + _L(other) * _L(wide.n_words))
            upper = _U(words[row_at + k]) if row < wide.n else _U(0)
            lower = _U(words[other_at + i]) if other < wide.n else _U(0)
            of_upper, of_lower = transposed(upper), transposed(lower)
            if row < wide.n:
                words[row_at + k] = _U(upper | of_lower)
            cuda.syncwarp()
            if other < wide.n:
                words[other_at + i] = _U(lower | of_upper)
            k = next_one(k)
        i = next_one(i)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _write_rows(row, vertex, wide, lists, own, graph, words):
    """Write one row per lane (none for vertex -1), for 64 candidates at a time.

    Parameters
    ----------
    row, vertex : int32
    words : uint32, global
    """
    place, end = _L(0), _L(0)
    if vertex >= 0:
        place, end = graph.offsets[vertex], graph.later_ends[vertex]
    to = _L(wide.rows_at + _L(row) * _L(wide.n_words))
    word = _I(0)
    while word < wide.n_words:
        n_here = min(_I(64), _I(lists.n - 32 * word))
        first = _L(lists.first + _L(32 * word))
        _fill_table(first, n_here, own, graph.members)
        bits, place = _row_of(place, end, graph.members[first + n_here - 1], own, graph.members)
        if vertex >= 0:
            words[to + word] = _U(bits & _W(0xFFFFFFFF))
            if word + 1 < wide.n_words:
                words[to + word + 1] = _U(bits >> _W(32))
        word = next_one(next_one(word))


@cuda.jit(device=True, forceinline=True)
def _root_node(lists, newest, own, graph, device, techniques):
    """Make the wide node of a root.

    Parameters
    ----------
    newest : int32
    techniques : int

    Returns
    -------
    outcome : int
    newest : int32
    """
    words = device.words
    lane = _I(cuda.laneid)
    wide = new_wide(lists.n, lists.n_excluded, _I(1), device)
    if wide.ids_at < 0:
        return SHORT_OF, newest
    tile = _I(0)
    while tile < lists.n + lists.n_excluded:
        row = _I(tile + lane)
        vertex = _I(-1)
        if row < lists.n:
            vertex = _I(graph.members[lists.first + row])
            words[wide.ids_at + row] = _U(vertex)
        elif row < lists.n + lists.n_excluded:
            vertex = _I(graph.members[lists.first_excluded + _L(_I(row - lists.n))])
        _write_rows(row, vertex, wide, lists, own, graph, words)
        tile = next_tile(tile)
    if lane == 0:
        words[wide.base_at] = _U(lists.root)
    cuda.syncwarp()
    _make_symmetric(wide, words)
    made = publish_wide(wide, newest, device, techniques)
    if made == -2:
        return SHORT_OF, newest
    return NODE, made


@cuda.jit(device=True, forceinline=True)
def root_subproblem(root, newest, own, graph, device, launch):
    """Make the frame or the wide node of a root.

    Parameters
    ----------
    root : int32
    newest : int32
        The last node made by this warp, or -1.

    Returns
    -------
    outcome : int
    joined, candidates : uint64
        Masks of the frame, if there is one.
    frame : Frame
    newest : int32
    """
    first, begin = graph.offsets[root], graph.later_ends[root]
    n, n_excluded = _I(begin - first), _I(graph.offsets[root + 1] - begin)
    if launch.mode != layout.COUNT and n + 1 < launch.min_size:
        return DONE, _W(0), _W(0), no_frame(), newest
    lists = RootNeighbours(first, begin, n, n_excluded, root)
    if n <= device.settings[layout.NARROW]:
        outcome, frame = _root_frame(lists, own, graph, device, launch.mode)
        return outcome, _W(0), low_bits(n), frame, newest
    outcome, newest = _root_node(lists, newest, own, graph, device, launch.techniques)
    return outcome, _W(0), _W(0), no_frame(), newest
