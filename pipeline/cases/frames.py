"""The graph of a run as two frames of pandas, Polars or cuDF, as graphistry and other tools take them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.cases.run_graph import EDGE_KINDS, LABELS, SIDES, RunGraph

Library = Literal["pandas", "polars", "cudf"]


def graph_frames(run_path: str | Path, library: str = "pandas") -> tuple[Any, Any]:
    """Return the nodes and the edges of a run's groups; parameters and errors are those of `RunResult.graph`."""
    if library not in get_args(Library):
        raise InvalidArgument(f"library is {library!r}; expected one of {', '.join(get_args(Library))}")
    try:
        imported = importlib.import_module(library)
    except ImportError as error:
        raise InvalidArgument(f"{library} cannot be imported ({error}); expected an installation of it") from error
    nodes, edges = graph_tables(run_path)
    if library == "pandas":
        return nodes.to_pandas(), edges.to_pandas()
    convert = imported.from_arrow if library == "polars" else imported.DataFrame.from_arrow
    return convert(nodes), convert(edges)


def graph_tables(run_path: str | Path) -> tuple[pa.Table, pa.Table]:
    """Return the nodes, without vertices in no group, and the edges of a run's groups as tables."""
    graph = RunGraph(run_path)
    edges, ends = [], []
    for kind in EDGE_KINDS:
        for rows in graph.edges(kind):
            ends += [rows["source"], rows["target"]]
            sides = {
                "source": graph.prefixed_nodes(kind.source, rows["source"]),
                "target": graph.prefixed_nodes(kind.target, rows["target"]),
                "type": pa.repeat(kind.name, len(rows)),
            }
            properties = rows.drop_columns(["source", "target"])
            edges.append(pa.table({**sides, **dict(zip(properties.column_names, properties.columns, strict=True))}))
    drawn = pc.unique(pa.chunked_array([chunk for each in ends for chunk in each.chunks], pa.int64()))
    nodes = []
    for label in LABELS:
        for rows in graph.nodes(label):
            of_groups = rows.filter(pc.is_in(rows["node"], drawn)) if label in SIDES else rows
            named = of_groups.set_column(1, "key", of_groups["key"].cast(pa.large_string()))
            named = named.set_column(0, "id", graph.prefixed(label, named["key"]))
            nodes.append(named.add_column(1, "type", pa.repeat(label, len(named))))
    joined = [pa.concat_tables(each, promote_options="permissive") for each in (nodes, edges)]
    return joined[0], joined[1]
