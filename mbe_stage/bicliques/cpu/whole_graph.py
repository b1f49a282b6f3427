"""What a walk starts from: the whole graph in the layout of a subgraph."""

from __future__ import annotations

import numpy as np

from mbe_stage.bicliques.cpu.layout import subgraph_parts
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR


def as_subgraph(graph: BipartiteCSR) -> np.ndarray:
    """The whole graph in the layout that the tree walk reads, rows being the right side."""
    row_ids, row_offsets, column_offsets, row_members, column_members, column_ids = subgraph_parts(
        graph.n_right, graph.n_left, graph.n_edges
    )
    end = column_ids + graph.n_left
    if end >= 2**31:
        raise InvalidArgument(
            f"the graph has {graph.n_edges:,} edges after reduction: the CPU engine takes about {2**30:,} at most; "
            "use minimum sizes, which remove edges before the search"
        )
    node = np.empty(end, np.int32)
    node[:row_ids] = np.arange(graph.n_left + 1)
    node[row_ids:row_offsets] = np.arange(graph.n_right)
    node[row_offsets:column_offsets] = graph.right_offsets
    node[column_offsets:row_members] = graph.left_offsets
    node[row_members:column_members] = graph.right_members
    node[column_members:column_ids] = graph.left_members
    node[column_ids:] = np.arange(graph.n_left)
    return node
