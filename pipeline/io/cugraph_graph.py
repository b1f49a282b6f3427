"""The edges of a cuGraph graph, whose vertices are all of one kind; and a loop for each vertex without one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config import InputConfig
from pipeline.errors import InputError

__all__ = ["read_graph"]


def read_graph(graph: Any, config: InputConfig) -> tuple[pa.Table, int]:
    """A table of `left`, `right` and the other columns of the graph's edge list; how many rows are no edges.

    These come last, each a loop that stands for a vertex without an edge.

    Raises
    ------
    InputError
        Edges between two sides are asked for, which such a graph does not tell.
    """
    if not config.is_undirected:
        raise InputError.at(
            "memory:cugraph",
            found="a cuGraph graph, which does not say on which side a vertex is",
            expected="a table of edges",
            remedy="pass its edges as a cuDF frame",
        )
    edges = graph.view_edge_list().to_arrow(preserve_index=False)
    first, second, *others = edges.columns
    nodes = graph.nodes().to_arrow()
    ends = pa.chunked_array([*first.chunks, *second.chunks], first.type)
    alone = nodes.filter(pc.invert(pc.is_in(nodes, value_set=ends.combine_chunks())))
    columns = {"left": _followed(first, alone), "right": _followed(second, alone)}
    for name, values in zip(edges.column_names[2:], others, strict=True):
        columns[name] = _followed(values, pa.nulls(len(alone), values.type))
    return pa.table(columns), len(alone)


def _followed(values: pa.ChunkedArray, more: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([*values.chunks, more.cast(values.type)], values.type)
