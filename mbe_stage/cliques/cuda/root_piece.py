"""What a root is: a frame, or a wide node. Its later neighbours are candidates, the earlier ones excluded.

An edge between a candidate and an earlier vertex is one of the earlier vertex's later neighbours. So each lane walks
the later neighbours of one vertex, and looks each up among the candidates. Edges between candidates are found once
each, from their earlier end; the matrix is then made symmetric.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.cliques.cuda.levels import home_of
from mbe_stage.cliques.cuda.wide_nodes import new_wide, publish_wide
from mbe_stage.cliques.cuda.writing import place_members
from mbe_stage.device.masks import bit_of, low_bits, of_halves, transposed
from mbe_stage.device.warp import ALL, ballot, count_bits, next_one, next_tile, rank

__all__ = ["DONE", "FRAME", "NODE", "SHORT_OF", "no_frame", "root_piece"]

DONE, FRAME, NODE, SHORT_OF = range(4)
"""What a part of the search has become: nothing is left of it, a frame, a node, or nothing yet, for lack of room."""

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def no_frame():
    """In the place of a frame where there is none."""
    return at.Frame(_L(0), _I(0), _I(0), _L(0), _W(0), _W(0))


@cuda.jit(device=True, forceinline=True)
def _look_up(vertex, first, low, n, members):
    """Where among `n` ascending candidates, from number `low` on, the first stands that is not below a vertex."""
    high = n
    while low < high:
        middle = _I((low + high) >> 1)
        if members[first + middle] < vertex:
            low = _I(middle + 1)
        else:
            high = middle
    return low


@cuda.jit(device=True, forceinline=True)
def _row_of(vertex, first, n, graph):
    """Which of at most 64 candidates are later neighbours of a vertex, uint64; called by each lane for itself."""
    members = graph.members
    row = _W(0)
    low = _I(0)
    place, end = graph.offsets[vertex], graph.later_ends[vertex]
    while place < end and low < n:
        other = members[place]
        low = _look_up(other, first, low, n, members)
        if low < n and members[first + low] == other:
            row = _W(row | bit_of(low))
            low = _I(low + 1)
        place += 1
    return row


@cuda.jit(device=True, forceinline=True)
def _write_row(vertex, to, first, n, n_words, graph, words):
    """Write which of any number of candidates are later neighbours of a vertex; called by each lane for itself.

    Parameters
    ----------
    vertex : int32
    to : int64
        Where the row begins.
    first : int64
        Where the candidates begin among the graph's members.
    n, n_words : int32
        Candidates, and words of the row.
    graph : Graph
    words : uint32, global
    """
    members = graph.members
    low, word = _I(0), _I(0)
    bits = _U(0)
    place, end = graph.offsets[vertex], graph.later_ends[vertex]
    while place < end and low < n:
        other = members[place]
        low = _look_up(other, first, low, n, members)
        if low < n and members[first + low] == other:
            while word < low >> 5:
                words[to + word] = bits
                bits = _U(0)
                word = _I(word + 1)
            bits = _U(bits | _U(_U(1) << _U(low & 31)))
            low = _I(low + 1)
        place += 1
    while word < n_words:
        words[to + word] = bits
        bits = _U(0)
        word = _I(word + 1)


@cuda.jit(device=True, forceinline=True)
def _excluded_rows(root, first, n, excluded_at, graph, words):
    """Write the rows of earlier neighbours that are adjacent to a candidate; how many, int32; -1 where one is to all.

    Parameters
    ----------
    root : int32
    first : int64
        Where the candidates begin among the graph's members.
    n : int32
        Candidates, 1 to 64.
    excluded_at : int64
        Where the rows are to stand.
    graph : Graph
    words : uint32, global
    """
    lane = _I(cuda.laneid)
    everything = low_bits(n)
    begin = graph.later_ends[root]
    n_earlier = _I(graph.offsets[root + 1] - begin)
    n_kept = _I(0)
    tile = _I(0)
    while tile < n_earlier:
        row = _W(0)
        if _I(tile + lane) < n_earlier:
            row = _row_of(graph.members[begin + tile + lane], first, n, graph)
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
def _candidates_rows(first, n, own, graph):
    """Put the rows of at most 64 candidates into shared memory; returns this lane's two."""
    lane = _I(cuda.laneid)
    low, high = _W(0), _W(0)
    if lane < n:
        low = _row_of(graph.members[first + lane], first, n, graph)
    if lane + 32 < n:
        high = _row_of(graph.members[first + lane + 32], first, n, graph)
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
def _root_frame(root, first, n, own, graph, device, mode):
    """The frame of a root with at most 64 candidates.

    Parameters
    ----------
    root : int32
    first : int64
        Where the candidates begin among the graph's members.
    n : int32
    own : Own
    graph : Graph
    device : Device
    mode : int

    Returns
    -------
    outcome : int
    frame : Frame
    """
    words = device.words
    lane = _I(cuda.laneid)
    home = home_of(device.settings)
    excluded_at = _L(home + at.BASE_AT + 2)
    n_excluded = _I(0)
    if n == 0:
        if graph.offsets[root + 1] > graph.later_ends[root]:
            return DONE, no_frame()
    else:
        n_excluded = _excluded_rows(root, first, n, excluded_at, graph, words)
        if n_excluded < 0:
            return DONE, no_frame()
    low, high = _candidates_rows(first, n, own, graph)
    if lane < n:
        words[home + at.IDS_AT + lane] = _U(graph.members[first + lane])
    if lane + 32 < n:
        words[home + at.IDS_AT + lane + 32] = _U(graph.members[first + lane + 32])
    if lane == 0:
        words[home + at.BASE_AT] = _U(root)
    cuda.syncwarp()
    if mode == at.MEMBERS:
        place_members(home, _I(1), n, words)
    return FRAME, at.Frame(home, _I(1), n_excluded, excluded_at, low, high)


@cuda.jit(device=True, forceinline=True)
def _make_symmetric(wide, words):
    """Set the other bit of each pair of candidates."""
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
def _root_node(root, first, n, newest, graph, device, techniques):
    """The wide node of a root.

    Parameters
    ----------
    root : int32
    first : int64
        Where the candidates begin among the graph's members.
    n, newest : int32
    graph : Graph
    device : Device
    techniques : int

    Returns
    -------
    outcome : int
    newest : int32
    """
    words = device.words
    lane = _I(cuda.laneid)
    begin = graph.later_ends[root]
    n_earlier = _I(graph.offsets[root + 1] - begin)
    wide = new_wide(n, n_earlier, _I(1), device)
    if wide.ids_at < 0:
        return SHORT_OF, newest
    k = lane
    tile = _I(0)
    # The candidates and the earlier neighbours stand one behind the other in the list of the root.
    while tile < n + n_earlier:
        if k < n + n_earlier:
            vertex = graph.members[first + k]
            _write_row(vertex, _L(wide.rows_at + _L(k) * _L(wide.n_words)), first, n, wide.n_words, graph, words)
            if k < n:
                words[wide.ids_at + k] = _U(vertex)
        k = next_tile(k)
        tile = next_tile(tile)
    if lane == 0:
        words[wide.base_at] = _U(root)
    cuda.syncwarp()
    _make_symmetric(wide, words)
    made = publish_wide(wide, newest, device, techniques)
    if made == -2:
        return SHORT_OF, newest
    return NODE, made


@cuda.jit(device=True, forceinline=True)
def root_piece(root, newest, own, graph, device, launch):
    """The frame or the wide node of a root.

    Parameters
    ----------
    root : int32
    newest : int32
        The node that this warp made before, or -1.
    own : Own
    graph : Graph
    device : Device
    launch : Launch

    Returns
    -------
    outcome : int
    joined, candidates : uint64
        Of the frame, where it is one.
    frame : Frame
    newest : int32
    """
    first = graph.offsets[root]
    n = _I(graph.later_ends[root] - first)
    if launch.mode != at.COUNT and n + 1 < launch.min_size:
        return DONE, _W(0), _W(0), no_frame(), newest
    if n <= device.settings[at.NARROW]:
        outcome, frame = _root_frame(root, first, n, own, graph, device, launch.mode)
        return outcome, _W(0), low_bits(n), frame, newest
    outcome, newest = _root_node(root, first, n, newest, graph, device, launch.techniques)
    return outcome, _W(0), _W(0), no_frame(), newest
