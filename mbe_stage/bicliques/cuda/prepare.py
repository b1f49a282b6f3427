"""The graph on the device, ready to be walked: twins collapsed, side chosen, rows in enumeration order.

What `mbe_stage.reduction` and `mbe_stage.ordering` do, with sorts and scans on the device. Queries that shrink the
graph first (`containing_*`, minimum sizes) take the host's reduction, and the result is copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.expand import DeviceGroups
from mbe_stage.bicliques.cuda.plan import GraphFacts
from mbe_stage.bicliques.cuda.warp import ALL
from mbe_stage.device.graph import on_host
from mbe_stage.graph import BipartiteCSR
from mbe_stage.options import BicliqueQuery
from mbe_stage.ordering import enumerates_left, rows_by_degree
from mbe_stage.reduction import Groups, reduce_graph

__all__ = ["DeviceGraph", "prepare"]

_WARPS_PER_BLOCK = 8


@dataclass(frozen=True, slots=True, eq=False)
class DeviceGraph:
    """A reduced graph on the device. Rows are the enumerated side, in ascending degree.

    Attributes
    ----------
    facts : GraphFacts
    rows_are_left : bool
        Whether the rows are the user's left side.
    row_offsets, row_members, column_offsets, column_members : int32
    order : (n_rows,) int32
        Rows by expected work below them, the heaviest first.
    work_before : (n_rows + 1,) float64, on the host
        Share of the expected work that lies before each position of `order`.
    row_group, column_group : int32 or None
        The row or column that each vertex of the user's graph belongs to; None where `host_groups` is given.
    host_groups : pair of Groups or None
        Of the rows and of the columns.
    """

    facts: GraphFacts
    rows_are_left: bool
    row_offsets: cp.ndarray
    row_members: cp.ndarray
    column_offsets: cp.ndarray
    column_members: cp.ndarray
    order: cp.ndarray
    work_before: np.ndarray
    row_group: cp.ndarray | None
    column_group: cp.ndarray | None
    host_groups: tuple[Groups, Groups] | None

    def groups(self) -> tuple[DeviceGroups, DeviceGroups]:
        """The user's vertices behind the rows and behind the columns."""
        if self.host_groups is not None:
            rows, columns = (
                DeviceGroups(cp.asarray(groups.offsets), cp.asarray(groups.members)) for groups in self.host_groups
            )
            return rows, columns
        assert self.row_group is not None
        assert self.column_group is not None
        return _members_of(self.row_group, self.facts.n_rows), _members_of(self.column_group, self.facts.n_columns)

    def weights(self) -> tuple[cp.ndarray, cp.ndarray]:
        """How many of the user's vertices each row and each column stands for, int32."""
        if self.host_groups is not None:
            rows, columns = (cp.asarray(groups.weights) for groups in self.host_groups)
            return rows, columns
        assert self.row_group is not None
        assert self.column_group is not None
        return (
            cp.bincount(self.row_group + 1, minlength=self.facts.n_rows + 1)[1:].astype(cp.int32),
            cp.bincount(self.column_group + 1, minlength=self.facts.n_columns + 1)[1:].astype(cp.int32),
        )


def prepare(graph: BipartiteCSR, query: BicliqueQuery) -> DeviceGraph | None:
    """The reduced graph on the device; None where nothing is left of it.

    Parameters
    ----------
    graph : BipartiteCSR
        Its arrays may be NumPy's or CuPy's.
    query : BicliqueQuery
    """
    if graph.n_edges == 0:
        return None
    shrinks = query.containing_left or query.containing_right or query.min_left > 1 or query.min_right > 1
    return _prepare_on_host(graph, query) if shrinks else _prepare_on_device(graph)


def _prepare_on_host(graph: BipartiteCSR, query: BicliqueQuery) -> DeviceGraph | None:
    reduced = reduce_graph(on_host(graph), query)
    if reduced.graph.n_edges == 0:
        return None
    rows_are_left = enumerates_left(reduced.graph)
    if rows_are_left:
        reduced = reduced.swapped()
    reduced = rows_by_degree(reduced)
    small = reduced.graph
    return _finished(
        cp.asarray(small.right_offsets.astype(np.int32)),
        cp.asarray(small.right_members),
        cp.asarray(small.left_offsets.astype(np.int32)),
        cp.asarray(small.left_members),
        rows_are_left,
        None,
        None,
        (reduced.right_groups, reduced.left_groups),
    )


def _prepare_on_device(graph: BipartiteCSR) -> DeviceGraph:
    left_offsets, left_members = cp.asarray(graph.left_offsets), cp.asarray(graph.left_members)
    right_offsets, right_members = cp.asarray(graph.right_offsets), cp.asarray(graph.right_members)
    left_twin = _first_twins(left_offsets, left_members)
    right_twin = _first_twins(right_offsets, right_members)
    right_of_edge = _owner_of_entries(right_offsets, right_members.size)
    kept = (left_twin[right_members] == right_members) & (right_twin[right_of_edge] == right_of_edge)
    left_ids, right_ids = right_members[kept], right_of_edge[kept]
    left_degrees = cp.bincount(left_ids, minlength=graph.n_left)
    right_degrees = cp.bincount(right_ids, minlength=graph.n_right)
    # One copy to the host: which side has fewer two-step paths.
    wedges = cp.asnumpy(cp.stack([(left_degrees * left_degrees).sum(), (right_degrees * right_degrees).sum()]))
    rows_are_left = bool(wedges[1] < wedges[0])
    if rows_are_left:
        left_ids, right_ids = right_ids, left_ids
        left_degrees, right_degrees = right_degrees, left_degrees
        left_twin, right_twin = right_twin, left_twin
    row_number, n_rows = _numbers_by_degree(right_degrees)
    column_number, n_columns = _numbers(left_degrees)
    rows, columns = row_number[right_ids], column_number[left_ids]
    row_offsets, row_members = _lists(rows, columns, n_rows)
    column_offsets, column_members = _lists(columns, rows, n_columns)
    return _finished(
        row_offsets,
        row_members,
        column_offsets,
        column_members,
        rows_are_left,
        _group_of(row_number, right_twin),
        _group_of(column_number, left_twin),
        None,
    )


def _finished(
    row_offsets, row_members, column_offsets, column_members, rows_are_left, row_group, column_group, host_groups
) -> DeviceGraph:
    row_degrees, column_degrees = cp.diff(row_offsets), cp.diff(column_offsets)
    through = cp.zeros(row_members.size + 1, cp.float64)
    cp.cumsum(column_degrees[row_members], out=through[1:])
    costs = through[row_offsets[1:]] - through[row_offsets[:-1]]
    order = cp.argsort(-costs)
    facts = cp.asnumpy(
        cp.stack(
            [row_degrees.max().astype(cp.float64), through[-1], cp.sort(column_degrees)[-64:].sum().astype(cp.float64)]
        )
    )
    work = cp.zeros(order.size + 1, cp.float64)
    cp.cumsum(costs[order], out=work[1:])
    return DeviceGraph(
        facts=GraphFacts(
            n_rows=row_degrees.size,
            n_columns=column_degrees.size,
            n_edges=row_members.size,
            max_row_degree=int(facts[0]),
            wedges=int(facts[1]),
            widest_word_wedges=int(facts[2]),
        ),
        rows_are_left=rows_are_left,
        row_offsets=row_offsets,
        row_members=row_members,
        column_offsets=column_offsets,
        column_members=column_members,
        order=order.astype(cp.int32),
        work_before=cp.asnumpy(work) / max(1.0, float(facts[1])),
        row_group=row_group,
        column_group=column_group,
        host_groups=host_groups,
    )


def _owner_of_entries(offsets: cp.ndarray, n: int) -> cp.ndarray:
    """Which list each entry belongs to."""
    starts = cp.zeros(n + 1, cp.int32)
    cp.add.at(starts, offsets[1:-1], 1)
    return cp.cumsum(starts[:-1], dtype=cp.int32)


def _mixed(values: cp.ndarray) -> cp.ndarray:
    values = values.astype(cp.uint64) + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _first_twins(offsets: cp.ndarray, members: cp.ndarray) -> cp.ndarray:
    """For each vertex one that has the same neighbours, the same for all of them; vertices without any keep themselves.

    Equal hashes alone are no proof: lists are compared. A collision only leaves twins apart, which costs time.
    """
    sums = cp.zeros(members.size + 1, cp.uint64)
    cp.cumsum(_mixed(members), out=sums[1:])
    hashes = sums[offsets[1:]] - sums[offsets[:-1]]
    order = cp.argsort(hashes)
    n = order.size
    is_new = cp.ones(n, cp.int32)
    n_blocks = -(-n // _WARPS_PER_BLOCK)
    lists_differ_warp_per_pair[n_blocks, _WARPS_PER_BLOCK * 32](
        *map(cuda.as_cuda_array, (order, hashes, offsets, members, is_new))
    )
    firsts = cp.flatnonzero(is_new)
    twin = cp.empty(n, cp.int32)
    twin[order] = order[firsts[cp.cumsum(is_new) - 1]]
    return twin


@cuda.jit(cache=True)
def lists_differ_warp_per_pair(order, hashes, offsets, members, is_new):
    """Clear `is_new` where a vertex has the same neighbours as the one before it in `order`."""
    position = cuda.blockIdx.x * _WARPS_PER_BLOCK + cuda.threadIdx.x // 32
    if position == 0 or position >= order.size:
        return
    vertex, previous = order[position], order[position - 1]
    start, before = offsets[vertex], offsets[previous]
    length = offsets[vertex + 1] - start
    if hashes[vertex] != hashes[previous] or offsets[previous + 1] - before != length:
        return
    differs = False
    for tile in range(0, length, 32):
        k = tile + cuda.laneid
        if k < length and members[start + k] != members[before + k]:
            differs = True
        if cuda.any_sync(ALL, differs):
            return
    if cuda.laneid == 0:
        is_new[position] = 0


def _numbers(degrees: cp.ndarray) -> tuple[cp.ndarray, int]:
    """New ids of the vertices that have edges, in their order; -1 for the others."""
    alive = degrees > 0
    ranks = cp.cumsum(alive, dtype=cp.int32) - 1
    return cp.where(alive, ranks, cp.int32(-1)).astype(cp.int32), int(ranks[-1]) + 1


def _numbers_by_degree(degrees: cp.ndarray) -> tuple[cp.ndarray, int]:
    """New ids in ascending degree of the vertices that have edges; -1 for the others."""
    order = cp.argsort(degrees)
    n_without = int((degrees == 0).sum())
    numbers = cp.empty(degrees.size, cp.int32)
    numbers[order] = cp.arange(-n_without, degrees.size - n_without, dtype=cp.int32)
    return cp.maximum(numbers, -1), degrees.size - n_without


def _lists(owners: cp.ndarray, members: cp.ndarray, n: int) -> tuple[cp.ndarray, cp.ndarray]:
    """Offsets and members, ascending within each list."""
    keys = cp.sort((owners.astype(cp.int64) << 32) | members)
    offsets = cp.zeros(n + 1, cp.int32)
    offsets[1:] = cp.cumsum(cp.bincount(owners, minlength=n))
    return offsets, keys.astype(cp.int32)


def _group_of(number: cp.ndarray, twin: cp.ndarray) -> cp.ndarray:
    """Row or column of each vertex of the whole graph; -1 for those without edges."""
    return number[twin]


def _members_of(group: cp.ndarray, n: int) -> DeviceGroups:
    vertices = cp.argsort(group).astype(cp.int32)
    offsets = cp.zeros(n + 1, cp.int64)
    cp.cumsum(cp.bincount(group + 1, minlength=n + 1)[1:], out=offsets[1:])
    # Vertices without edges have no group, -1, and come first.
    return DeviceGroups(offsets, vertices[vertices.size - int(offsets[-1]) :])
