"""What a root is: a frame, or a wide node. Later vertices are candidates, the earlier ones excluded.

A root is a vertex, with its neighbours; or, where these are very many, each of its edges to a later neighbour is one,
with the neighbours that both have in common (`EDGE_ROOTS`). Edges between candidates are found once each, from their
earlier end; the matrix is then made symmetric. Where far more vertices are excluded than candidates, their rows may be
left out (`PARTIAL`): then the lists are looked through at each clique.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout as at
from mbe_stage.cliques.cuda.candidate_table import fill_table, row_of
from mbe_stage.cliques.cuda.levels import home_of
from mbe_stage.cliques.cuda.lookup import is_among
from mbe_stage.cliques.cuda.techniques import EDGE_ROOTS, PARTIAL
from mbe_stage.cliques.cuda.wide_nodes import new_wide, open_edges, publish_wide
from mbe_stage.cliques.cuda.writing import place_members
from mbe_stage.device.masks import low_bits, of_halves, transposed
from mbe_stage.device.warp import ALL, ballot, count_bits, next_one, next_tile, rank

__all__ = ["DONE", "FRAME", "NODE", "SHORT_OF", "edge_piece", "no_frame", "root_piece"]

DONE, FRAME, NODE, SHORT_OF = range(4)
"""What a part of the search has become: nothing is left of it, a frame, a node, or nothing yet, for lack of room."""

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


class Lists(NamedTuple):
    """The vertices of a root's matrix.

    Attributes
    ----------
    candidates, excluded : int32, global
        Where they stand, each ascending.
    first, first_excluded : int64
        Where they begin.
    n, n_excluded : int32
    root, second : int32
        The base; `second` is -1 where that is the root alone.
    of_all : int32
        The root where the excluded vertices are left out, else -1.
    """

    candidates: Any
    excluded: Any
    first: Any
    first_excluded: Any
    n: Any
    n_excluded: Any
    root: Any
    second: Any
    of_all: Any


@cuda.jit(device=True, forceinline=True)
def no_frame():
    """In the place of a frame where there is none."""
    return at.Frame(_L(0), _I(0), _I(0), _L(0), _W(0), _W(0), _I(-1))


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
            row = _later_of(lists.excluded[lists.first_excluded + _L(_I(tile + lane))], own, graph)
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
        low = _later_of(lists.candidates[lists.first + lane], own, graph)
    if lane + 32 < lists.n:
        high = _later_of(lists.candidates[lists.first + lane + 32], own, graph)
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
    n_base = _I(1) if lists.second < 0 else _I(2)
    excluded_at = _L(home + at.BASE_AT + 2 * n_base)
    n_excluded = _I(0)
    if lists.n == 0:
        if lists.n_excluded > 0:
            return DONE, no_frame()
    else:
        fill_table(lists.first, lists.n, own, lists.candidates)
        n_excluded = _excluded_rows(lists, excluded_at, own, graph, words)
        if n_excluded < 0:
            return DONE, no_frame()
    low, high = _candidates_rows(lists, own, graph)
    if lane < lists.n:
        words[home + at.IDS_AT + lane] = _U(lists.candidates[lists.first + lane])
    if lane + 32 < lists.n:
        words[home + at.IDS_AT + lane + 32] = _U(lists.candidates[lists.first + lane + 32])
    if lane == 0:
        words[home + at.BASE_AT] = _U(lists.root)
        if lists.second >= 0:
            words[home + at.BASE_AT + 2] = _U(lists.second)
    cuda.syncwarp()
    if mode == at.MEMBERS:
        place_members(home, n_base, lists.n, words)
    return FRAME, at.Frame(home, n_base, n_excluded, excluded_at, low, high, lists.of_all)


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
        fill_table(first, n_here, own, lists.candidates)
        bits, place = row_of(place, end, lists.candidates[first + n_here - 1], own, graph.members)
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
    n_base = _I(1) if lists.second < 0 else _I(2)
    wide = new_wide(lists.n, lists.n_excluded, n_base, lists.of_all, device)
    if wide.ids_at < 0:
        return SHORT_OF, newest
    tile = _I(0)
    while tile < lists.n + lists.n_excluded:
        row = _I(tile + lane)
        vertex = _I(-1)
        if row < lists.n:
            vertex = _I(lists.candidates[lists.first + row])
            words[wide.ids_at + row] = _U(vertex)
        elif row < lists.n + lists.n_excluded:
            vertex = _I(lists.excluded[lists.first_excluded + _L(_I(row - lists.n))])
        _write_rows(row, vertex, wide, lists, own, graph, words)
        tile = next_tile(tile)
    if lane == 0:
        words[wide.base_at] = _U(lists.root)
        if lists.second >= 0:
            words[wide.base_at + 1] = _U(lists.second)
    cuda.syncwarp()
    _make_symmetric(wide, words)
    made = publish_wide(wide, newest, device, techniques)
    if made == -2:
        return SHORT_OF, newest
    return NODE, made


@cuda.jit(device=True, forceinline=True)
def _piece_of(lists, newest, own, graph, device, launch):
    """The frame or the wide node of a root; returns what `root_piece` does.

    Parameters
    ----------
    lists : Lists
    newest : int32
    own : Own
    graph : Graph
    device : Device
    launch : Launch
    """
    if lists.n <= device.settings[at.NARROW]:
        outcome, frame = _root_frame(lists, own, graph, device, launch.mode)
        return outcome, _W(0), low_bits(lists.n), frame, newest
    outcome, newest = _root_node(lists, newest, own, graph, device, launch.techniques)
    return outcome, _W(0), _W(0), no_frame(), newest


@cuda.jit(device=True, forceinline=True)
def root_piece(root, newest, own, graph, device, launch):
    """The frame or the wide node of a root, or the node of its edges.

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
    settings = device.settings
    first, begin = graph.offsets[root], graph.later_ends[root]
    n, n_excluded = _I(begin - first), _I(graph.offsets[root + 1] - begin)
    if launch.mode != at.COUNT and n + 1 < launch.min_size:
        return DONE, _W(0), _W(0), no_frame(), newest
    if launch.techniques & EDGE_ROOTS != 0 and n >= settings[at.EDGE_WIDTH]:
        made = open_edges(root, n, newest, device)
        return (SHORT_OF if made == -2 else NODE), _W(0), _W(0), no_frame(), _I(newest if made == -2 else made)
    of_all = _I(-1)
    if launch.techniques & PARTIAL != 0 and n > 0 and _L(n_excluded) > settings[at.PARTIAL_RATIO] * _L(n):
        of_all, n_excluded = root, _I(0)
    lists = Lists(graph.members, graph.members, first, begin, n, n_excluded, root, _I(-1), of_all)
    return _piece_of(lists, newest, own, graph, device, launch)


@cuda.jit(device=True, forceinline=True)
def _common(begin, end, root, into, graph):
    """List the neighbours from `begin` to `end` that are a root's as well; how many, int32.

    Parameters
    ----------
    begin, end : int64
        Of the graph's members.
    root : int32
    into : int32, global
    graph : Graph
    """
    members = graph.members
    first, middle, last = graph.offsets[root], graph.later_ends[root], graph.offsets[root + 1]
    n = _I(0)
    tile = begin
    while tile < end:
        place = _L(tile + _L(cuda.laneid))
        vertex = _I(-1)
        is_common = False
        if place < end:
            vertex = members[place]
            is_common = is_among(vertex, first, middle, members) or is_among(vertex, middle, last, members)
        common = ballot(is_common)
        if is_common:
            into[n + rank(common)] = vertex
        n = _I(n + count_bits(common))
        tile = _L(tile + 32)
    cuda.syncwarp()
    return n


@cuda.jit(device=True, forceinline=True)
def edge_piece(root, child, newest, own, graph, device, launch):
    """The frame or the wide node of an edge, from a root to its later neighbour number `child`.

    What both are adjacent to and stands behind the neighbour in the order are candidates; what stands before it is
    excluded. Returns what `root_piece` does.

    Parameters
    ----------
    root, child, newest : int32
    own : Own
    graph : Graph
    device : Device
    launch : Launch
    """
    second = _I(graph.members[graph.offsets[root] + _L(child)])
    begin, middle, end = graph.offsets[second], graph.later_ends[second], graph.offsets[second + 1]
    n = _common(begin, middle, root, own.columns, graph)
    if launch.mode != at.COUNT and n + 2 < launch.min_size:
        return DONE, _W(0), _W(0), no_frame(), newest
    n_excluded = _common(middle, end, root, own.rows, graph)
    lists = Lists(own.columns, own.rows, _L(0), _L(0), n, n_excluded, root, second, _I(-1))
    return _piece_of(lists, newest, own, graph, device, launch)
