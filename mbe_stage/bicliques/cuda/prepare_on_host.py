"""Prepare a small graph on the host: launches, a sort and a wait on the device would take longer than its search."""

from __future__ import annotations

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cpu.layout import subgraph_parts
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.collapse_twins import DeviceGroups
from mbe_stage.bicliques.cuda.memory_plan import ReducedSizes
from mbe_stage.bicliques.cuda.root_order import RootOrder
from mbe_stage.bicliques.ordering import arranged
from mbe_stage.bicliques.reduction import Core
from mbe_stage.device.arrays import sent, upload
from mbe_stage.graphs.bipartite import BipartiteCSR


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
        _, row_offsets, column_offsets, row_members, _, end = subgraph_parts(n_rows, n_columns, n_edges)
        self._node = node = made.node[:end]
        # The pool has the offsets of the columns' ids and the ids, in place of weights and starts.
        node[: n_columns + 1] = numbers = np.arange(n_columns + 1, dtype=np.int32)
        node[n_columns + 1 : 2 * n_columns + 1] = numbers[:-1]
        starts = node[row_offsets : row_offsets + n_rows]
        of_rows = np.diff(node[row_offsets:column_offsets])
        of_columns = np.diff(node[column_offsets:row_members])
        self._paths = np.add.reduceat(of_columns[node[row_members : row_members + n_edges]], starts, dtype=np.int64)
        self.facts = ReducedSizes(
            n_vertices=graph.n_left + graph.n_right,
            n_rows=n_rows,
            n_columns=n_columns,
            n_edges=n_edges,
            max_row_degree=int(of_rows.max()),
            max_column_degree=int(of_columns.max()),
            wedges=int(self._paths.sum()),
        )

    def write(self, ints: cp.ndarray, nodes: cp.ndarray) -> RootOrder:
        """See `DeviceGraph`, as for the other methods."""
        facts, fields = self.facts, np.zeros(layout.NODE_FIELDS, np.int64)
        fields[[layout.NODE_COLUMNS, layout.NODE_IDS]] = facts.n_columns
        fields[[layout.NODE_ROWS, layout.NODE_END]] = facts.n_rows
        fields[[layout.NODE_EDGES, layout.NODE_SIZE]] = facts.n_edges, self._node.size
        upload(self._node, ints[: self._node.size])
        upload(fields, nodes[0])
        return RootOrder(*sent(np.argsort(-self._paths).astype(np.int32), self._paths))

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
