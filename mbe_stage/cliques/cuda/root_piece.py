"""What a root is: a frame, or a wide node. Later neighbours are candidates, the earlier ones excluded.

Edges between candidates are found once each, from their earlier end; the matrix is then made symmetric.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.cliques.cuda.candidate_table import fill_table, row_of
from mbe_stage.cliques.cuda.wide_nodes import new_wide, publish_wide
from mbe_stage.cliques.cuda.writing import place_members
from mbe_stage.device.masks import low_bits, of_halves, transposed
from mbe_stage.device.warp import ALL, ballot, count_bits, next_one, next_tile, rank
from mbe_stage.search.cuda.levels import home_of

DONE, FRAME, NODE, SHORT_OF = range(4)
"""What a part of the search has become: nothing is left of it, a frame, a node, or nothing yet, for lack of room."""

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


class Lists(NamedTuple):
    """The neighbours of a root.

    Attributes
    ----------
    first, first_excluded : int64
        Where candidates and excluded vertices begin among the graph's members, each ascending.
    n, n_excluded : int32
    root : int32
    """

    first: Any
    first_excluded: Any
    n: Any
    n_excluded: Any
    root: Any


@cuda.jit(device=True, forceinline=True)
def no_frame():
    """In the place of a frame where there is none."""
    return at.Frame(_L(0), _I(0), _I(0), _L(0), _W(0), _W(0))


@cuda.jit(device=True, forceinline=True)
def _later_of(vertex, own, graph):
    """Which candidates of the table are later neighbours of a vertex, uint64; called by each lane for itself."""
    row, _ = row_of(graph.offsets[vertex], graph.later_ends[vertex], _I(0x7FFFFFFF), own, graph.members)
    return row


@cuda.jit(device=True, forceinline=True)
def _excluded_rows(lists, excluded_at, own, graph, words):
    """Write the rows of excluded vertices that are adjacent to a candidate; how many, int32; -1 where one is to all.

    Parameters
    ----------
    lists : Lists
        With 1 to 64 candidates, which are in the table.
    excluded_at : int64
        Where the rows are to stand.
    own : Own
    graph : Graph
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
    """Put the rows of at most 64 candidates, which are in the table, into shared memory; returns this lane's two."""
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
    """The frame of a root with at most 64 candidates.

    Parameters
    ----------
    lists : Lists
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
    if lists.n == 0:
        if lists.n_excluded > 0:
            return DONE, no_frame()
    else:
        fill_table(lists.first, lists.n, own, graph.members)
        n_excluded = _excluded_rows(lists, excluded_at, own, graph, words)
        if n_excluded < 0:
            return DONE, no_frame()
    low, high = _candidates_rows(lists, own, graph)
    if lane < lists.n:
        words[home + at.IDS_AT + lane] = _U(graph.members[lists.first + lane])
    if lane + 32 < lists.n:
        words[home + at.IDS_AT + lane + 32] = _U(graph.members[lists.first + lane + 32])
    if lane == 0:
        words[home + at.BASE_AT] = _U(lists.root)
    cuda.syncwarp()
    if mode == at.MEMBERS:
        place_members(home, _I(1), lists.n, words)
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
def _write_rows(row, vertex, wide, lists, own, graph, words):
    """Write a row of each lane (a vertex of -1: none), the candidates 64 at a time.

    Parameters
    ----------
    row, vertex : int32
    wide : Wide
    lists : Lists
    own : Own
    graph : Graph
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
        fill_table(first, n_here, own, graph.members)
        bits, place = row_of(place, end, graph.members[first + n_here - 1], own, graph.members)
        if vertex >= 0:
            words[to + word] = _U(bits & _W(0xFFFFFFFF))
            if word + 1 < wide.n_words:
                words[to + word + 1] = _U(bits >> _W(32))
        word = next_one(next_one(word))


@cuda.jit(device=True, forceinline=True)
def _root_node(lists, newest, own, graph, device, techniques):
    """The wide node of a root.

    Parameters
    ----------
    lists : Lists
    newest : int32
    own : Own
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
    first, begin = graph.offsets[root], graph.later_ends[root]
    n, n_excluded = _I(begin - first), _I(graph.offsets[root + 1] - begin)
    if launch.mode != at.COUNT and n + 1 < launch.min_size:
        return DONE, _W(0), _W(0), no_frame(), newest
    lists = Lists(first, begin, n, n_excluded, root)
    if n <= device.settings[at.NARROW]:
        outcome, frame = _root_frame(lists, own, graph, device, launch.mode)
        return outcome, _W(0), low_bits(n), frame, newest
    outcome, newest = _root_node(lists, newest, own, graph, device, launch.techniques)
    return outcome, _W(0), _W(0), no_frame(), newest
