"""Arrange a graph for the search: merge twins, choose the side to enumerate, and sort its vertices.

One compiled call does all of it, because each call from Python costs as much as the work on a small graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64
from numba.types import UniTuple

from mbe_stage.bicliques.cpu.layout import subgraph_parts
from mbe_stage.bicliques.cpu.prefetch import prefetch
from mbe_stage.bicliques.cpu.techniques import ORDER, SIDE
from mbe_stage.bicliques.reduction import SUMS, Core, Groups, merged_twins
from mbe_stage.errors import InvalidArgument
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

_LEFT, _RIGHT = 0, 1
# A NumPy scalar: Numba would compile another version for a literal.
ANY_SIDE: Any = np.int64(-1)
"""Lets `arrange` choose the side of the rows."""
# Lists are prefetched this many rows ahead.
_AHEAD = 16
parts = compiled()(subgraph_parts)


class Arranged(NamedTuple):
    """A graph without twins, in the layout that the search reads.

    Attributes
    ----------
    node : int32
        The whole graph, in the layout of a subgraph.
    columns, rows : Groups
        The user's vertices that each column and row represents.
    rows_are_left : bool
        True if the rows are the user's left side.
    places : (n_rows,) int32
        The root of each row, ascending; the row itself if `arranged` got no roots.
    costs : (n_rows,) float64
        Expected work below each row, in no unit: the power 1.5 of its two-step paths. The work grows faster than these
        paths, and with this power the reported share of work follows the time on the benchmark graphs.
    """

    node: np.ndarray
    columns: Groups
    rows: Groups
    rows_are_left: bool
    places: np.ndarray
    costs: np.ndarray


def arranged(core: Core, roots: Arranged | None = None) -> Arranged:
    """Return a graph without isolated vertices, with one vertex for each set of twins.

    The rows are the side with fewer two-step paths through the other one. On nine public graphs whose path numbers
    differ by more than a factor of two, this side is 1.2 to 158 times faster (the last on mushroom). On actor_movies,
    where they differ by two, both sides take about the same time.

    Rows are in ascending degree. Rows with many neighbours come last, where they have few candidates left. This is
    iMBEA's order of candidates, and also balances the trees (cuMBE 3.1.2).

    Parameters
    ----------
    roots : Arranged, optional
        A graph that contains this one; take its side and the order of its rows. A row may represent several of its
        rows.

    Raises
    ------
    InvalidArgument
        The graph has too many edges for 32-bit offsets.
    """
    row_side, places = ANY_SIDE, np.empty(0, np.int32)
    if roots is not None:
        row_side, groups = _LEFT if roots.rows_are_left else _RIGHT, roots.rows
        places = np.zeros(int(groups.members.max(initial=-1)) + 1, np.int32)
        places[groups.members] = np.repeat(np.arange(groups.n, dtype=np.int32), groups.multiplicities)
    row_side, n_edges, node, places, costs, columns, rows = arrange(*core.arrays, places, row_side)
    if n_edges and not node.size:
        raise InvalidArgument(
            f"the graph has {n_edges:,} edges after reduction: the CPU engine takes about {2**30:,} at most; "
            "use minimum sizes, which remove edges before the search"
        )
    return Arranged(node, Groups(*columns), Groups(*rows), row_side == _LEFT, places, costs)


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(arrange)


@compiled(*(UniTuple(kind, 2) for kind in (LONGS, INTS, INTS)), INTS, int64, seconds=2.0)
def arrange(offsets, members, vertices, places, row_side):
    """The same as `arranged`.

    Parameters
    ----------
    offsets, members, vertices
        Pairs for the left and the right side.
    places : int32
        The root of each vertex on the rows' side; empty to sort by degree.
    row_side : int
        The side of the rows, or `ANY_SIDE` to choose it.

    Returns
    -------
    row_side, n_edges : int
    node, places, costs : int32, int32, float64
        `node` is empty if there are too many edges.
    columns, rows : (int64, int32)
        Offsets and members of the groups.
    """
    n_left, n_right = offsets[_LEFT].size - 1, offsets[_RIGHT].size - 1
    left = merged_twins(offsets[_LEFT], members[_LEFT], n_right, vertices[_LEFT])
    right = merged_twins(offsets[_RIGHT], members[_RIGHT], n_left, vertices[_RIGHT])
    left_degrees, through_left = _degrees(offsets[_LEFT], members[_LEFT], left[0], right[0], left[1].size)
    right_degrees, through_right = _degrees(offsets[_RIGHT], members[_RIGHT], right[0], left[0], right[1].size)
    degrees = left_degrees, right_degrees
    if row_side == ANY_SIDE:
        row_side = _LEFT if (through_right < through_left) == SIDE else _RIGHT
    groups = (left[2], left[3]), (right[2], right[3])
    column_side = 1 - row_side
    columns, rows = groups[column_side], groups[row_side]
    order, row_places = _by_place(rows, places) if places.size else _by_degree(degrees[row_side])
    n_edges = int64(0)
    for row in range(order.size):
        n_edges += degrees[row_side][row]
    n_ints = parts(order.size, degrees[column_side].size, n_edges)[-1] + degrees[column_side].size
    node, costs = np.empty(0, np.int32), np.empty(order.size)
    if n_ints < 2**31:
        node = np.empty(n_ints, np.int32)
        lists = offsets[row_side], members[row_side]
        row_vertices, column_ids = (left[1], right[0]) if row_side == _LEFT else (right[1], left[0])
        _write_rows(lists, row_vertices, column_ids, order, degrees[row_side], columns[0], n_edges, node)
        _write_columns(degrees[column_side], n_edges, node, costs)
    return row_side, n_edges, node, row_places, costs, columns, _reordered(rows, order)


@compiled()
def _degrees(offsets, members, ids, member_ids, n_groups):
    """Return how many members of each row with an id have one, and the sum of the squares."""
    degrees, sums = np.empty(n_groups + 1, np.int32), np.empty(min(SUMS, members.size) + 1, np.int64)
    # Each is a difference of sums over all members: a loop over those of a row would end unpredictably.
    row, group, before, total, through = np.uint64(0), np.uint64(0), int64(0), int64(0), int64(0)
    for start in range(0, members.size, SUMS):
        n = min(SUMS, members.size - start)
        sums[0] = total
        for k in range(n):
            total += member_ids[np.uint64(members[start + k])] >= 0
            sums[k + 1] = total
        while row < np.uint64(ids.size) and offsets[row + np.uint64(1)] <= start + n:
            end, is_first = sums[np.uint64(offsets[row + np.uint64(1)] - start)], ids[row] >= 0
            degrees[group] = end - before
            through += (end - before) * (end - before) * is_first
            group += np.uint64(is_first)
            before = end
            row += np.uint64(1)
    return degrees[:n_groups], through


@compiled()
def _by_degree(degrees):
    """Return the rows in ascending degree, stably, and their places, which are all rows."""
    order, places = np.empty(degrees.size, np.int32), np.empty(degrees.size, np.int32)
    most = 0
    for row in range(degrees.size):
        order[row] = places[row] = row
        most = max(most, degrees[row])
    if not ORDER:
        return order, places
    starts = np.zeros(most + 2, np.int64)
    for row in range(degrees.size):
        starts[np.uint64(degrees[row] + 1)] += 1
    for degree in range(1, most + 2):
        starts[degree] += starts[degree - 1]
    for row in range(degrees.size):
        place = np.uint64(degrees[row])
        order[np.uint64(starts[place])] = row
        starts[place] += 1
    return order, places


@compiled()
def _by_place(rows, places):
    """Return the rows in the order of their first roots, and the positions of these roots."""
    starts, behind = rows
    row_at = np.empty(places.size, np.int32)
    row_at[:] = -1
    for row in range(starts.size - 1):
        first = places[behind[starts[row]]]
        for k in range(starts[row], starts[row + 1]):
            first = min(first, places[behind[k]])
        row_at[first] = row
    order, row_places, n = np.empty(starts.size - 1, np.int32), np.empty(starts.size - 1, np.int32), 0
    for place in range(places.size):
        if row_at[place] >= 0:
            order[n], row_places[n] = row_at[place], place
            n += 1
    return order, row_places


@compiled()
def _write_rows(lists, vertices, column_ids, order, degrees, column_starts, n_edges, node):
    """Write all of the node except the lists of columns.

    Parameters
    ----------
    lists : (int64, int32)
        Offsets and members of the rows' side.
    vertices, column_ids : int32
        The vertex of each unsorted row, and the columns of the other side's vertices, from `merged_twins`.
    order, degrees : (n_rows,) int32
        The rows in order, and the degree of each unsorted row.
    column_starts : (n_columns + 1,) int64
        Offsets of the vertices that each column represents.
    node : int32
    """
    offsets, members = lists
    n_rows, n_columns = order.size, column_starts.size - 1
    row_ids_at, row_offsets, _, row_members, _, column_ids_at = parts(n_rows, n_columns, n_edges)
    for column in range(n_columns):
        node[column] = column_starts[column + 1] - column_starts[column]
        node[n_columns + column] = node[column_ids_at + column] = column
    node[2 * n_columns] = n_columns
    starts, n_before = np.empty(n_rows, np.int64), 0
    for row in range(n_rows):
        starts[row] = offsets[np.uint64(vertices[np.uint64(order[row])])]
        node[row_ids_at + row], node[row_offsets + row] = row, n_before
        n_before += degrees[np.uint64(order[row])]
    node[row_offsets + n_rows] = n_before
    for row in range(n_rows):
        prefetch(members, starts[min(row + _AHEAD, n_rows - 1)])
        written, end = np.uint64(row_members + node[row_offsets + row]), row_members + node[row_offsets + row + 1]
        k = np.uint64(starts[row])
        while written < np.uint64(end):
            column = column_ids[np.uint64(members[k])]
            node[written] = column
            written += np.uint64(column >= 0)
            k += np.uint64(1)


@compiled()
def _write_columns(degrees, n_edges, node, costs):
    """Write the lists of columns from those of the rows; also write the costs of the rows."""
    n_rows, n_columns = costs.size, degrees.size
    _, row_offsets, column_offsets, row_members, column_members, _ = parts(n_rows, n_columns, n_edges)
    # Each offset starts as the begin of its list. Filling the list moves it to the end, which is the begin of the next.
    node[column_offsets] = 0
    n_before = 0
    for column in range(n_columns):
        node[column_offsets + column + 1] = n_before
        n_before += degrees[column]
    for row in range(n_rows):
        paths = 1.0
        start, end = row_members + node[row_offsets + row], row_members + node[row_offsets + row + 1]
        for k in range(np.uint64(start), np.uint64(end)):
            own = np.uint64(node[k])
            place = np.uint64(column_offsets + 1) + own
            node[np.uint64(column_members) + np.uint64(node[place])] = row
            node[place] += 1
            paths += degrees[own]
        costs[row] = paths * np.sqrt(paths)


@compiled()
def _reordered(groups, order):
    """Return offsets and members of the groups in this order."""
    starts, behind = groups
    new_starts, new_behind = np.empty_like(starts), np.empty_like(behind)
    new_starts[0] = written = 0
    for k in range(order.size):
        for j in range(np.uint64(starts[order[k]]), np.uint64(starts[order[k] + 1])):
            new_behind[np.uint64(written)] = behind[j]
            written += 1
        new_starts[k + 1] = written
    return new_starts, new_behind
