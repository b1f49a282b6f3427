"""Prepare a small graph on the host: launches, a sort and a wait on the device would take longer than its search."""

from __future__ import annotations

import cupy as cp
import numpy as np
from numba import int64

from mbe_stage.bicliques import ordering
from mbe_stage.bicliques.cpu.layout import subgraph_parts
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.collapse_twins import DeviceGroups
from mbe_stage.bicliques.cuda.memory_plan import ReducedSizes
from mbe_stage.bicliques.cuda.root_order import RootOrder
from mbe_stage.bicliques.ordering import arranged, parts
from mbe_stage.bicliques.reduction import Core
from mbe_stage.device.arrays import sent, upload
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, compiled, steps_of


@compiled(INTS, int64, int64, int64, seconds=1.0)
def _as_in_pool(node, n_rows, n_columns, n_edges):
    """Write offsets of the columns' ids and the ids, as the pool has them, in place of weights and starts.

    Returns
    -------
    paths : (n_rows,) int64
        Two-step paths from each row.
    max_row_degree, max_column_degree, wedges : int
    """
    _, row_offsets, column_offsets, row_members, _, _ = parts(n_rows, n_columns, n_edges)
    most_of_rows = most_of_columns = wedges = int64(0)
    node[n_columns] = n_columns
    for column in range(n_columns):
        node[column] = node[n_columns + 1 + column] = column
        most_of_columns = max(most_of_columns, node[column_offsets + column + 1] - node[column_offsets + column])
    paths = np.zeros(n_rows, np.int64)
    for row in range(n_rows):
        start, stop = node[row_offsets + row], node[row_offsets + row + 1]
        most_of_rows = max(most_of_rows, stop - start)
        for k in range(row_members + start, row_members + stop):
            place = column_offsets + node[k]
            paths[row] += node[place + 1] - node[place]
        wedges += paths[row]
    return paths, most_of_rows, most_of_columns, wedges


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile what the host prepares."""
    return (*ordering.compile_steps(), *steps_of(_as_in_pool))


class HostGraph:
    """A reduced graph on the host, with the members of `prepare.DeviceGraph`; its columns are not sorted.

    Parameters
    ----------
    graph : BipartiteCSR
        With at least one edge, on the host.
    """

    def __init__(self, graph: BipartiteCSR) -> None:
        vertices = (np.arange(n, dtype=np.int32) for n in (graph.n_left, graph.n_right))
        made = arranged(Core(graph, *vertices))
        self._rows, self._columns, self.rows_are_left = made.rows, made.columns, made.rows_are_left
        n_rows, n_columns = made.rows.n, made.columns.n
        n_edges = (made.node.size - subgraph_parts(n_rows, n_columns, 0)[-1] - n_columns) // 2
        end = subgraph_parts(n_rows, n_columns, n_edges)[-1]
        self._node = made.node[:end]
        self._paths, row_degree, column_degree, wedges = _as_in_pool(self._node, n_rows, n_columns, n_edges)
        self.facts = ReducedSizes(
            n_vertices=graph.n_left + graph.n_right,
            n_rows=n_rows,
            n_columns=n_columns,
            n_edges=n_edges,
            max_row_degree=row_degree,
            max_column_degree=column_degree,
            wedges=wedges,
        )

    def write(self, ints: cp.ndarray, nodes: cp.ndarray) -> RootOrder:
        """See `DeviceGraph`, as for the other methods."""
        facts, fields = self.facts, np.zeros(layout.NODE_FIELDS, np.int64)
        fields[[layout.NODE_COLUMNS, layout.NODE_IDS]] = facts.n_columns
        fields[[layout.NODE_ROWS, layout.NODE_END]] = facts.n_rows
        fields[[layout.NODE_EDGES, layout.NODE_SIZE]] = facts.n_edges, self._node.size
        upload(self._node, ints[: self._node.size])
        upload(fields, nodes[0])
        (order,) = sent(np.argsort(-self._paths).astype(np.int32))
        return RootOrder(order, self._paths)

    def write_sizes(self, ints: cp.ndarray) -> None:
        """Let the offsets of the columns' ids count the user's vertices."""
        upload(self._columns.offsets.astype(np.int32), ints[: self.facts.n_columns + 1])

    def first_vertices(self) -> np.ndarray:
        """Smallest of the user's vertices of each row."""
        return self._rows.first_members

    def multiplicities(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Number of the user's vertices of each row and column."""
        rows, columns = sent(self._rows.multiplicities, self._columns.multiplicities)
        return rows, columns

    def groups(self) -> tuple[DeviceGroups, DeviceGroups]:
        """The user's vertices of the rows and of the columns."""
        each = (self._rows, self._columns)
        alone = (np.where(groups.multiplicities == 1, groups.first_members, np.int32(-1)) for groups in each)
        arrays = [(groups.offsets, groups.members, single) for groups, single in zip(each, alone, strict=True)]
        copies = sent(*arrays[0], *arrays[1])
        return DeviceGroups(*copies[:3]), DeviceGroups(*copies[3:])
