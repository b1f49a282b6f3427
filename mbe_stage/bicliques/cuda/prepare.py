"""Prepare the graph on the device for the walk: shrink it to the query, collapse twins, choose the side, order rows.

`containing_*` leaves the common neighbours, minimum sizes leave the (p, q)-core (`bicliques.reduction` on the host).
Vertices keep their ids; those left out have empty lists. Then one launch collapses twins and counts, one sort orders
the vertices by degree and, once the memory is planned, one launch writes the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.collapse_twins import (
    ALIVE,
    DEGREE_MASK,
    EDGES,
    FACTS_PER_SIDE,
    LARGEST_DEGREE,
    SQUARES,
    DeviceGroups,
    Twins,
    collapse_twins_warp_per_tile,
    groups_thread_per_vertex,
    multiplicities_thread_per_vertex,
)
from mbe_stage.bicliques.cuda.column_order import sort_columns
from mbe_stage.bicliques.cuda.memory_plan import ReducedSizes, check_preparation, slots_for
from mbe_stage.bicliques.cuda.prepare_on_host import HostGraph
from mbe_stage.bicliques.cuda.root_order import RootOrder
from mbe_stage.bicliques.cuda.whole_graph import (
    N_BINS,
    PARTS_PER_WARP,
    Numbering,
    Target,
    write_whole_graph_warp_per_tile,
)
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.device import WARPS_PER_BLOCK
from mbe_stage.device.core import core_of
from mbe_stage.device.graph import on_device
from mbe_stage.device.grid import THREADS
from mbe_stage.device.jit import Lists
from mbe_stage.device.launch import launch_blocks, launch_threads
from mbe_stage.graphs.bipartite import BipartiteCSR

LONG_ROW, LONG_SHARE = 8000, 48
"""Columns of a row from which on columns are sorted, if it has one in so many edges, too.

Making such a root takes one warp milliseconds, and longer than the others have to do.
"""
SMALL = 1 << 13
"""Most vertices and edges, together, of a graph that the host prepares."""
LITTLE = 170_000
"""Most edges that a count searches in vain before it makes a core without them, which takes .3 ms."""
_SORTING_SHARE = 16
"""Share of the budget that sorting may take."""


def shrinks(query: BicliqueQuery) -> bool:
    """True if a query leaves out vertices before the enumeration."""
    return bool(query.containing_left or query.containing_right or query.min_left > 1 or query.min_right > 1)


def loses_little(graph: BipartiteCSR, query: BicliqueQuery) -> bool:
    """True if few edges can have an end with too few neighbours, so that a count takes less without the core."""
    most = (query.min_right - 1) * graph.n_left + (query.min_left - 1) * graph.n_right
    return not (query.containing_left or query.containing_right) and most <= min(LITTLE, graph.n_edges)


def shrunk(graph: BipartiteCSR, query: BicliqueQuery, n_blocks: int) -> BipartiteCSR:
    """Return the graph without the vertices that can be in no wanted biclique.

    Parameters
    ----------
    graph : BipartiteCSR
        With CuPy arrays.
    n_blocks : int
        Number of resident blocks.

    Returns
    -------
    BipartiteCSR
        The core on the same vertices; new arrays.
    """
    members = [*query.containing_left, *(graph.n_left + vertex for vertex in query.containing_right)]
    if not members:
        return core_of(graph, None, query.min_right, query.min_left, n_blocks)
    alive = cp.concatenate(
        (
            _common_neighbours(graph.right_offsets, graph.right_members, query.containing_right, graph.n_left),
            _common_neighbours(graph.left_offsets, graph.left_members, query.containing_left, graph.n_right),
        )
    )
    if not bool(alive[np.array(members)].all()):
        alive[:] = 0
    return core_of(graph, alive, query.min_right, query.min_left, n_blocks)


def _common_neighbours(offsets: cp.ndarray, members: cp.ndarray, vertices: Sequence[int], n: int) -> cp.ndarray:
    """Mark the `n` vertices of the other side that are neighbours of all `vertices`: 1 or 0, int32."""
    found = cp.zeros(n, cp.int32)
    for vertex in vertices:
        start, end = (int(offset) for offset in offsets[vertex : vertex + 2])
        found[members[start:end]] += 1
    return (found == len(vertices)).astype(cp.int32)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One side of the graph. Vertices of both sides share one numbering here, the left ones first."""

    lists: Lists
    first_vertex: int
    facts: np.ndarray

    @property
    def n_vertices(self) -> int:
        return self.lists.offsets.size - 1

    @property
    def n_alive(self) -> int:
        return int(self.facts[ALIVE])


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A reduced graph on the device. Rows are the enumerated side, in ascending degree.

    Attributes
    ----------
    rows_are_left : bool
        True if the rows are the user's left side.
    """

    facts: ReducedSizes
    rows_are_left: bool
    _rows: _Side
    _columns: _Side
    _twins: cp.ndarray
    _multiplicities: cp.ndarray
    _keys: cp.ndarray
    _order: cp.ndarray
    _numbers: cp.ndarray
    _n_blocks: int

    def write(self, ints: cp.ndarray, nodes: cp.ndarray) -> RootOrder:
        """Write the whole graph as node 0 of a pool (`layout.Pool`), whose node fields must be zeros."""
        facts, rows, columns = self.facts, self._rows, self._columns
        zeros = cp.zeros(N_BINS + 1, cp.int32)
        parts = cp.empty(PARTS_PER_WARP * self._n_blocks * WARPS_PER_BLOCK, cp.int32)
        roots = RootOrder(cp.empty(facts.n_rows, cp.int32), cp.empty(facts.n_rows, cp.int64))
        self._numbers.fill(-1)
        numbering = Numbering(self._order, self._keys, self._numbers, parts, zeros[1:])
        target = Target(ints, nodes, roots.order, roots.paths)
        arrays = rows.lists, columns.lists, numbering, target, zeros[:1]
        rows_from = rows.first_vertex + rows.n_vertices - rows.n_alive
        numbers = rows.first_vertex, rows_from, columns.first_vertex, facts.n_columns, facts.n_edges
        launch_blocks(write_whole_graph_warp_per_tile, self._n_blocks, THREADS, *arrays, *numbers)
        return roots

    def sorted_columns(self, ints: cp.ndarray) -> cp.ndarray:
        """Sort the columns of the written graph, which is skewed; return `layout.Pool.prefixes`."""
        rows = self._rows
        last = rows.first_vertex + rows.n_vertices
        frequent = self._order[last - min(layout.PREFIX_ROWS, rows.n_alive) : last] - rows.first_vertex
        return sort_columns(ints, self.facts, self._n_blocks, frequent, rows.lists.offsets)

    def write_sizes(self, ints: cp.ndarray) -> None:
        """Let the offsets of the columns' ids count the user's vertices, as if each were an id."""
        n = self.facts.n_columns
        _, multiplicities = self.multiplicities()
        if self.facts.is_sorted:
            multiplicities = multiplicities[ints[n + 1 : 2 * n + 1]]
        cp.cumsum(multiplicities, dtype=cp.int32, out=ints[1 : n + 1])

    def first_vertices(self) -> np.ndarray:
        """Smallest of the user's vertices of each row; int32, on the host."""
        rows = self._rows
        last = rows.first_vertex + rows.n_vertices
        # Vertices left out come first on their side.
        return cp.asnumpy(self._order[last - rows.n_alive : last]).astype(np.int32) - np.int32(rows.first_vertex)

    def multiplicities(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Number of the user's vertices of each row and column, int32; once the graph is written."""
        n_rows = self.facts.n_rows
        return self._multiplicities_by_number[:n_rows], self._multiplicities_by_number[n_rows:]

    def groups(self) -> tuple[DeviceGroups, DeviceGroups]:
        """The user's vertices of the rows and of the columns; once the graph is written."""
        rows, columns, multiplicities = self._rows, self._columns, self._multiplicities_by_number
        offsets = cp.zeros(multiplicities.size + 1, cp.int64)
        cp.cumsum(multiplicities, out=offsets[1:])
        n_others = cp.zeros(multiplicities.size, cp.int32)
        members, alone = cp.empty(self._numbers.size, cp.int32), cp.empty(multiplicities.size, cp.int32)
        split = rows.n_alive
        vertices = rows.first_vertex, rows.n_vertices, columns.first_vertex, split
        arrays = self._numbers, self._twins, *vertices, offsets, n_others, members, alone
        launch_threads(groups_thread_per_vertex, self._numbers.size, *arrays)
        return (
            DeviceGroups(offsets[: split + 1], members, alone[:split]),
            DeviceGroups(offsets[split:], members, alone[split:]),
        )

    @cached_property
    def _multiplicities_by_number(self) -> cp.ndarray:
        """Multiplicities of the rows, then of the columns."""
        rows = self._rows
        result = cp.empty(rows.n_alive + self._columns.n_alive, cp.int32)
        arrays = self._numbers, self._multiplicities, rows.first_vertex, rows.n_vertices, rows.n_alive, result
        launch_threads(multiplicities_thread_per_vertex, self._numbers.size, *arrays)
        return result


def prepare(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    n_blocks: int,
    budget_bytes: int,
    *,
    by_degree: bool = True,
    sorts_columns: bool = False,
    at_once: bool = False,
) -> DeviceGraph | HostGraph | None:
    """Reduce the graph, on the host if it is small and stands there, else on the device; None if it is empty.

    Parameters
    ----------
    graph : BipartiteCSR
        Its arrays may be NumPy's or CuPy's.
    n_blocks : int
        Number of resident blocks.
    by_degree : bool
        True to order rows by degree; otherwise they are in the order of the user's ids.
    sorts_columns : bool
        True to sort the columns if the graph is skewed and memory allows it; `sorted_columns` does it.
    at_once : bool
        True for a count without tasks and barriers, whose rows need not be those of the core.

    Raises
    ------
    MemoryBudgetExceeded
        Preparing the graph alone does not fit the budget.
    """
    if graph.n_edges == 0:
        return None
    n = graph.n_left + graph.n_right
    check_preparation(n, budget_bytes)
    makes_core = shrinks(query) and not (at_once and loses_little(graph, query))
    if graph.is_on_host and n + graph.n_edges <= SMALL and by_degree and not makes_core:
        small = HostGraph(graph)
        if not sorts_columns or small.facts.max_row_degree < LONG_ROW:
            return small
    graph = on_device(graph)
    if makes_core:
        graph = shrunk(graph, query, n_blocks)
        if graph.n_edges == 0:
            return None
    n_slots = slots_for(n)
    zeros_64, zeros = cp.zeros(n_slots + 2 * FACTS_PER_SIDE, cp.int64), cp.zeros(n_slots + n + 1, cp.int32)
    hashes, facts = zeros_64[:n_slots].view(cp.uint64), zeros_64[n_slots:]
    firsts, multiplicities, arrived = zeros[:n_slots], zeros[n_slots:-1], zeros[-1:]
    slots, twins, keys = cp.empty(n, cp.int32), cp.empty(n, cp.int32), cp.empty(n, cp.uint32)
    lists = Lists(graph.left_offsets, graph.left_members), Lists(graph.right_offsets, graph.right_members)
    table = Twins(hashes, firsts, slots, twins, multiplicities, keys, facts)
    launch_blocks(collapse_twins_warp_per_tile, n_blocks, THREADS, *lists, table, arrived)
    # A vertex left out has degree 0, and is before the others of its side in any case. The sort is stable, so rows have
    # the host's numbers, and tasks that the host made can run here.
    order = cp.argsort(keys if by_degree else (keys & ~DEGREE_MASK) | cp.minimum(keys & DEGREE_MASK, 1), kind="stable")
    by_side = cp.asnumpy(facts).reshape(2, FACTS_PER_SIDE)
    left = _Side(lists[0], 0, by_side[0])
    right = _Side(lists[1], graph.n_left, by_side[1])
    rows_are_left = bool(by_side[1, SQUARES] < by_side[0, SQUARES])
    rows, columns = (left, right) if rows_are_left else (right, left)
    sizes = ReducedSizes(
        n_vertices=n,
        n_rows=rows.n_alive,
        n_columns=columns.n_alive,
        n_edges=int(rows.facts[EDGES]),
        max_row_degree=int(rows.facts[LARGEST_DEGREE]),
        max_column_degree=int(columns.facts[LARGEST_DEGREE]),
        wedges=int(columns.facts[SQUARES]),
        is_sorted=sorts_columns
        and by_degree
        and int(rows.facts[LARGEST_DEGREE]) >= max(LONG_ROW, int(rows.facts[EDGES]) // LONG_SHARE),
    )
    if sizes.sorting_bytes > budget_bytes // _SORTING_SHARE:
        sizes = replace(sizes, is_sorted=False)
    return DeviceGraph(
        facts=sizes,
        rows_are_left=rows_are_left,
        _rows=rows,
        _columns=columns,
        _twins=twins,
        _multiplicities=multiplicities,
        _keys=keys,
        _order=order,
        # The hash table's slots are not needed any more.
        _numbers=slots,
        _n_blocks=n_blocks,
    )
