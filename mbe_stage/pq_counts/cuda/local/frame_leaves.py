"""Add the leaves of a frame's nodes to the sums of the frame's vertices and pairs.

Each lane has two rows and two columns, and adds only to their sums. A vertex on the path gets the bicliques of all
leaves of a node. A vertex of only some leaves collects the bicliques of these leaves, over the bits of its neighbours.
Pairs with a row on the path are not updated here: they get what the columns collect while the row is open (`open_row`,
`close_rows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.masks import bit_of, first_of, has
from mbe_stage.device.warp import ALL
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.frame_walk import BY_ROWS, ONE_LEAF, leaf_of_lane
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.layout import FRAME_VERTICES, SUMS, TOTALS, FramePath, Values
from mbe_stage.pq_counts.cuda.local.leaves import added, sum_of_lanes, values_of

_I = np.int32
_L = np.int64


class _Others(NamedTuple):
    """Number of bicliques of a node's leaves, for a lane's two vertices, with held and with optional members."""

    with_held: Any
    with_optional: Any
    high_with_held: Any
    high_with_optional: Any


@cuda.jit(device=True, forceinline=True)
def clear_sums(own):
    """Clear the sums of all vertices of the frame."""
    k = _I(cuda.laneid)
    for _ in range(2 * FRAME_VERTICES // 32):
        own.frame[own.frame_at + SUMS + k] = np.uint64(0)
        k = _I(k + 32)
    if cuda.laneid < 4:
        own.frame[own.frame_at + TOTALS + cuda.laneid] = np.uint64(0)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def frame_path(work):
    """Return the frame's path; it stays in shared memory to save registers."""
    frame, place = work.own.frame, _I(work.own.frame_at + local_layout.FRAME_PATH)
    return FramePath(frame[place], frame[place + 1], frame[place + 2], frame[place + 3])


@cuda.jit(device=True, forceinline=True)
def set_frame_path(path, work):
    """Set the frame's path."""
    frame, place = work.own.frame, _I(work.own.frame_at + local_layout.FRAME_PATH)
    cuda.syncwarp()
    if cuda.laneid == 0:
        frame[place] = path.held_rows
        frame[place + 1] = path.optional_rows
        frame[place + 2] = path.held_columns
        frame[place + 3] = path.optional_columns
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def vertices_of_lane(work):
    """Load the two rows and the two columns of this lane, again at each use to save registers."""
    frame, place = work.own.frame, _I(work.own.frame_at + cuda.laneid)
    return frame[place], frame[place + 32], frame[place + 64], frame[place + 96]


@cuda.jit(device=True, forceinline=True)
def _add_to_sums(vertex, with_held, with_optional, work):
    """Add bicliques to this lane's vertex of the frame: with held, and with optional vertices of the other side."""
    own, launch = work.own, work.launch
    place = _I(own.frame_at + SUMS + vertex)
    own.frame[place] = np.uint64(_L(own.frame[place]) + with_held)
    if launch.with_edges:
        place = _I(place + FRAME_VERTICES)
        own.frame[place] = np.uint64(_L(own.frame[place]) + with_optional)


@cuda.jit(device=True, forceinline=True)
def _add_to_path(values, work):
    """Add bicliques to the frame's vertices on the path, and to its totals.

    Parameters
    ----------
    values : Values
        Sum over all leaves of a node.
    """
    own, path = work.own, frame_path(work)
    lane = _I(cuda.laneid)
    for half in range(2):
        vertex = _I(32 * half + lane)
        if has(path.held_rows, vertex):
            _add_to_sums(vertex, values.held_held, values.held_optional, work)
        elif has(path.optional_rows, vertex):
            _add_to_sums(vertex, values.optional_held, values.optional_optional, work)
        if has(path.held_columns, vertex):
            _add_to_sums(_I(vertex + layout.FRAME_WIDTH), values.held_held, values.optional_held, work)
        elif has(path.optional_columns, vertex):
            _add_to_sums(_I(vertex + layout.FRAME_WIDTH), values.held_optional, values.optional_optional, work)
    if lane == 0:
        totals = _I(own.frame_at + TOTALS)
        own.frame[totals] = np.uint64(_L(own.frame[totals]) + values.held_held)
        own.frame[totals + 1] = np.uint64(_L(own.frame[totals + 1]) + values.held_optional)
        own.frame[totals + 2] = np.uint64(_L(own.frame[totals + 2]) + values.optional_held)
        own.frame[totals + 3] = np.uint64(_L(own.frame[totals + 3]) + values.optional_optional)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _column_sums(kind, own):
    """Return this lane's two column sums so far, of bicliques with rows of a kind, int64."""
    place = _I(own.frame_at + SUMS + FRAME_VERTICES * kind + layout.FRAME_WIDTH + cuda.laneid)
    return _L(own.frame[place]), _L(own.frame[place + 32])


@cuda.jit(device=True, forceinline=True)
def open_row(row, kind, work):
    """Put a row of the frame on the path: from now on, the sums of columns also belong to its pairs."""
    own, mine = work.own, work.mine
    low, high = _column_sums(kind, own)
    place = _I(layout.FRAME_WIDTH * row + cuda.laneid)
    mine[local_layout.PAIRS_AT + place] -= low
    mine[local_layout.PAIRS_AT + place + 32] -= high


@cuda.jit(device=True, forceinline=True)
def close_rows(rows, kind, work):
    """Take rows of the frame off the path, and add the sums of columns since `open_row` to their pairs."""
    own, mine = work.own, work.mine
    low, high = _column_sums(kind, own)
    while rows != np.uint64(0):
        place = _I(layout.FRAME_WIDTH * first_of(rows) + cuda.laneid)
        rows = np.uint64(rows & np.uint64(rows - np.uint64(1)))
        mine[local_layout.PAIRS_AT + place] += low
        mine[local_layout.PAIRS_AT + place + 32] += high


@cuda.jit(device=True, forceinline=True)
def add_end(end, rows, columns, chosen, work):
    """Add the leaves of a node (`cuda.frame_walk.kind_of_end`).

    Parameters
    ----------
    end : int
    rows, columns : uint64
    """
    own, mine, launch = work.own, work.mine, work.launch
    is_leaf, leaf = leaf_of_lane(0, end, rows, columns, chosen, own, launch.bounds)
    first = values_of(is_leaf, leaf, work)
    if end == ONE_LEAF:
        values = sum_of_lanes(first, launch)
        _add_remaining(rows, columns, values, work)
        if launch.with_edges:
            _add_remaining_pairs(rows, columns, values, frame_path(work), mine)
        _add_to_path(values, work)
    else:
        _add_members(end == BY_ROWS, first, rows, columns, chosen, work)


@cuda.jit(device=True, forceinline=True)
def _add_remaining(rows, columns, values, work):
    """Add a leaf to the remaining vertices of its node, which are optional.

    Parameters
    ----------
    rows, columns : uint64
    """
    lane = _I(cuda.laneid)
    for half in range(2):
        vertex = _I(32 * half + lane)
        if has(rows, vertex):
            _add_to_sums(vertex, values.optional_held, values.optional_optional, work)
        if has(columns, vertex):
            _add_to_sums(_I(vertex + layout.FRAME_WIDTH), values.held_optional, values.optional_optional, work)


@cuda.jit(device=True, forceinline=True)
def _add_remaining_pairs(rows, columns, values, path, mine):
    """Add a leaf to the pairs of the remaining rows of its node."""
    lane = _I(cuda.laneid)
    while rows != np.uint64(0):
        row = first_of(rows)
        rows = np.uint64(rows & np.uint64(rows - np.uint64(1)))
        for half in range(2):
            column = _I(32 * half + lane)
            number = _L(0)
            if has(path.held_columns, column):
                number = values.optional_held
            elif has(np.uint64(path.optional_columns | columns), column):
                number = values.optional_optional
            mine[local_layout.PAIRS_AT + _I(layout.FRAME_WIDTH * row + column)] += number


@cuda.jit(device=True, forceinline=True)
def _seen(values, by_rows):
    """Return values with the kind of the members (rows or columns) first."""
    if by_rows:
        return values
    return Values(values.held_held, values.optional_held, values.held_optional, values.optional_optional)


@cuda.jit(device=True, forceinline=True)
def _of_lane(values, lane):
    """Broadcast the numbers of a lane."""
    return Values(
        cuda.shfl_sync(ALL, values.held_held, lane),
        cuda.shfl_sync(ALL, values.held_optional, lane),
        cuda.shfl_sync(ALL, values.optional_held, lane),
        cuda.shfl_sync(ALL, values.optional_optional, lane),
    )


@cuda.jit(device=True, forceinline=True)
def _add_members(by_rows, first, rows, columns, chosen, work):
    """Add a leaf for each row (or column), held alone; one without any; and one with both if there are two.

    Parameters
    ----------
    by_rows : bool
        True if the members are rows.
    first : Values
        Values of this lane's first member.
    rows, columns, chosen, work
        As in `add_end`.
    """
    own, mine, launch = work.own, work.mine, work.launch
    lane, bounds, vertices = _I(cuda.laneid), launch.bounds, vertices_of_lane(work)
    # The kind of end, known at run time only; `leaf_of_lane` compares it with `BY_ROWS`.
    end = BY_ROWS if by_rows else BY_ROWS + 1
    members, others = (rows, columns) if by_rows else (columns, rows)
    is_leaf, leaf = leaf_of_lane(1, end, rows, columns, chosen, own, bounds)
    second = values_of(is_leaf, leaf, work)
    is_leaf, leaf = leaf_of_lane(2, end, rows, columns, chosen, own, bounds)
    more = values_of(is_leaf, leaf, work)
    # Added here to free the registers of the values.
    _add_to_path(sum_of_lanes(added(added(first, second), more), launch), work)
    one, other, more = _seen(first, by_rows), _seen(second, by_rows), _seen(more, by_rows)
    without, both = _of_lane(more, 0), _of_lane(more, 1)
    # Common neighbours of both members, if there are two.
    members_at = _I(own.frame_at if by_rows else own.frame_at + layout.FRAME_COLUMNS)
    low_member = first_of(members)
    high_member = first_of(np.uint64(members & ~bit_of(low_member)))
    of_both = np.uint64(others & own.frame[members_at + low_member])
    of_both = np.uint64(of_both & own.frame[members_at + max(high_member, _I(0))])
    # Positions among the frame's vertices: rows, then columns.
    member_vertex, other_vertex = (
        (lane, _I(lane + layout.FRAME_WIDTH)) if by_rows else (_I(lane + layout.FRAME_WIDTH), lane)
    )
    for half in range(2):
        member = _I(32 * half + lane)
        if has(members, member):
            mine_of = one if half == 0 else other
            with_held, with_optional = mine_of.held_held + both.held_held, mine_of.held_optional + both.held_optional
            _add_to_sums(_I(member_vertex + 32 * half), with_held, with_optional, work)
    gathered = _gathered(by_rows, members, one, other, launch, vertices)
    gathered = _with_common(gathered, of_both, without, both)
    if has(others, lane):
        _add_to_sums(other_vertex, gathered.with_held, gathered.with_optional, work)
    if has(others, _I(lane + 32)):
        _add_to_sums(_I(other_vertex + 32), gathered.high_with_held, gathered.high_with_optional, work)
    if launch.with_edges:
        if by_rows:
            _add_pairs_of_rows(rows, columns, one, other, both, of_both, frame_path(work), mine, vertices)
        else:
            _add_pairs_of_columns(rows, columns, gathered, one, other, both, of_both, frame_path(work), mine, vertices)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _gathered(by_rows, members, one, other, launch, vertices):
    """Sum the leaves with one held member, for this lane's vertices of the other side.

    Parameters
    ----------
    by_rows : bool
    members : uint64
    one, other : Values
        Values of this lane's first and second member, with the members' kind first (`_seen`).
    launch : LocalLaunch
    vertices : four uint64
    """
    adjacent, adjacent_high = (vertices[2], vertices[3]) if by_rows else (vertices[0], vertices[1])
    low, low_optional, high, high_optional = _L(0), _L(0), _L(0), _L(0)
    while members != np.uint64(0):
        member = first_of(members)
        members = np.uint64(members & np.uint64(members - np.uint64(1)))
        source = _I(member & 31)
        number = cuda.shfl_sync(ALL, one.held_optional if member < 32 else other.held_optional, source)
        is_low, is_high = has(adjacent, member), has(adjacent_high, member)
        if is_low:
            low += number
        if is_high:
            high += number
        if launch.with_edges:
            number = cuda.shfl_sync(ALL, one.optional_optional if member < 32 else other.optional_optional, source)
            if is_low:
                low_optional += number
            if is_high:
                high_optional += number
    return _Others(low, low_optional, high, high_optional)


@cuda.jit(device=True, forceinline=True)
def _with_common(gathered, of_both, without, both):
    """Add the leaf without held members, which contains all vertices of the other side, and the leaf with two."""
    lane = _I(cuda.laneid)
    low, low_optional = gathered.with_held + without.held_optional, gathered.with_optional + without.optional_optional
    high = gathered.high_with_held + without.held_optional
    high_optional = gathered.high_with_optional + without.optional_optional
    if has(of_both, lane):
        low += both.held_optional
        low_optional += both.optional_optional
    if has(of_both, _I(lane + 32)):
        high += both.held_optional
        high_optional += both.optional_optional
    return _Others(low, low_optional, high, high_optional)


@cuda.jit(device=True, forceinline=True)
def _add_pairs_of_rows(rows, columns, one, other, both, of_both, path, mine, vertices):
    """Add bicliques to the pairs of rows that are held in turn.

    Parameters
    ----------
    rows, columns : uint64
    one, other, both : Values
        Values of this lane's two rows, and of the leaf with both rows.
    of_both : uint64
        Columns of the leaf with both rows.
    mine : (n,) int64
        This warp's words of scratch.
    vertices : four uint64
    """
    lane = _I(cuda.laneid)
    while rows != np.uint64(0):
        row = first_of(rows)
        rows = np.uint64(rows & np.uint64(rows - np.uint64(1)))
        source = _I(row & 31)
        with_held = cuda.shfl_sync(ALL, one.held_held if row < 32 else other.held_held, source)
        with_optional = cuda.shfl_sync(ALL, one.held_optional if row < 32 else other.held_optional, source)
        for half in range(2):
            column = _I(32 * half + lane)
            number = _L(0)
            if has(path.held_columns, column):
                number = with_held + both.held_held
            elif has(path.optional_columns, column):
                number = with_optional + both.held_optional
            elif has(columns, column) and has(vertices[2 + half], row):
                number = _L(with_optional)
                if has(of_both, column):
                    number += both.held_optional
            mine[local_layout.PAIRS_AT + _I(layout.FRAME_WIDTH * row + column)] += number


@cuda.jit(device=True, forceinline=True)
def _add_pairs_of_columns(rows, columns, gathered, one, other, both, of_both, path, mine, vertices):
    """Add bicliques to the pairs of optional rows with the columns that are held in turn.

    Parameters
    ----------
    rows, columns : uint64
    gathered : _Others
        Numbers for this lane's two rows.
    one, other, both : Values
        Values of this lane's two columns, and of the leaf with both columns; the kind of columns first.
    of_both : uint64
        Rows of the leaf with both columns.
    mine : (n,) int64
        This warp's words of scratch.
    vertices : four uint64
    """
    lane = _I(cuda.laneid)
    while rows != np.uint64(0):
        row = first_of(rows)
        rows = np.uint64(rows & np.uint64(rows - np.uint64(1)))
        source = _I(row & 31)
        with_held = cuda.shfl_sync(ALL, gathered.with_held if row < 32 else gathered.high_with_held, source)
        with_optional = cuda.shfl_sync(ALL, gathered.with_optional if row < 32 else gathered.high_with_optional, source)
        for half in range(2):
            column = _I(32 * half + lane)
            number = _L(0)
            if has(path.held_columns, column):
                number = _L(with_held)
            elif has(path.optional_columns, column):
                number = _L(with_optional)
            elif has(columns, column) and has(vertices[2 + half], row):
                number = one.held_optional if half == 0 else other.held_optional
                if has(of_both, row):
                    number += both.held_optional
            mine[local_layout.PAIRS_AT + _I(layout.FRAME_WIDTH * row + column)] += number
