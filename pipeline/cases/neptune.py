"""The graph of a run for Amazon Neptune's bulk loader, in its Gremlin CSV format.

Files of vertices and of edges lie in one directory, ``vertices_accounts.csv`` and so on: upload it, and load it as
`csv`. Ids begin with the kind of the vertex, because an account and an item may share a key. The id of an edge is a
hash of its ends, so loading the same run twice adds nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from mbe_stage.pipeline.cases.run_graph import EDGE_KINDS, LABELS, EdgeKind, RunGraph
from mbe_stage.pipeline.cases.typed_csv import write_csv

_TYPES = {"integer": "Long", "number": "Double", "truth": "Bool", "time": "Date", "text": "String"}
_ID_DIGITS = 32


def write_neptune(graph: RunGraph, directory: Path, on_progress: Callable[[float], None] = lambda _: None) -> None:
    """Write the files into an empty directory; `on_progress` gets the share done."""
    n_files = len(LABELS) + len(EDGE_KINDS)
    for done, label in enumerate(LABELS):
        on_progress(done / n_files)
        path = directory / f"vertices_{label.lower()}s.csv"
        write_csv(path, _vertices(graph, label), _TYPES, first=2)
    for done, kind in enumerate(EDGE_KINDS, start=len(LABELS)):
        on_progress(done / n_files)
        write_csv(directory / f"edges_{kind.file_name}.csv", _edges(graph, kind), _TYPES, first=4)
    on_progress(1.0)


def _vertices(graph: RunGraph, label: str) -> Iterator[pa.Table]:
    for rows in graph.nodes(label):
        properties = rows.drop_columns(["node"])
        ids = graph.prefixed(label, rows["key"])
        yield properties.add_column(0, "~label", pa.repeat(label, len(rows))).add_column(0, "~id", ids)


def _edges(graph: RunGraph, kind: EdgeKind) -> Iterator[pa.Table]:
    for rows in graph.edges(kind):
        source = graph.prefixed_nodes(kind.source, rows["source"])
        target = graph.prefixed_nodes(kind.target, rows["target"])
        # An item may be in a group several times, with different values of the group's key.
        values = rows["key_value"] if "key_value" in rows.column_names else pa.nulls(len(rows))
        parts = zip(source.to_pylist(), target.to_pylist(), values.to_pylist(), strict=True)
        ids = pa.array([_edge_id(kind.name, *each) for each in parts], pa.string())
        ends = {"~id": ids, "~from": source, "~to": target, "~label": pa.repeat(kind.name, len(rows))}
        properties = rows.drop_columns(["source", "target"])
        yield pa.table({**ends, **dict(zip(properties.column_names, properties.columns, strict=True))})


def _edge_id(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_ID_DIGITS]
