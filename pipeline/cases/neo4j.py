"""The graph of a run for Neo4j: Parquet for graph analytics, CSV for `neo4j-admin database import`.

::

    nodes.parquet           nodeId, labels, and numbers as properties; NaN where a label has no such property
    relationships.parquet   sourceNodeId, targetNodeId, relationshipType, and numbers
    keys.parquet            nodeId, label, key: what a number stands for
    csv/accounts.csv ...    a file for each label and each kind of relationship, with ID spaces
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.run_graph import EDGE_KINDS, LABELS, EdgeKind, RunGraph
from mbe_stage.pipeline.cases.typed_csv import write_csv

_TYPES = {"integer": "long", "number": "double", "truth": "boolean", "time": "datetime", "text": "string"}

Parts = list[Callable[[], Iterator[pa.Table]]]


def write_neo4j(graph: RunGraph, directory: Path, on_progress: Callable[[float], None] = lambda _: None) -> None:
    """Write the files into an empty directory; `on_progress` gets the share done."""
    nodes: Parts = [partial(_nodes, graph, label) for label in LABELS]
    keys: Parts = [partial(_keys, graph, label) for label in LABELS]
    relationships: Parts = [partial(_relationships, graph, kind) for kind in EDGE_KINDS]
    for done, (name, parts) in enumerate([("nodes", nodes), ("keys", keys), ("relationships", relationships)]):
        on_progress(done / 4)
        _write_parquet(directory / f"{name}.parquet", parts)
    on_progress(3 / 4)
    (directory / "csv").mkdir()
    for label in LABELS:
        _write_nodes_csv(graph, label, directory / "csv" / f"{label.lower()}s.csv")
    for kind in EDGE_KINDS:
        _write_relationships_csv(graph, kind, directory / "csv" / f"{kind.file_name}.csv")
    on_progress(1.0)


def _write_parquet(path: Path, parts: Parts) -> None:
    """Write tables with different numbers as one file; NaN where a part has no such column."""
    schema = pa.unify_schemas([next(part()).schema for part in parts])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in parts:
            for table in part():
                nothing = pa.repeat(float("nan"), len(table))
                columns = [table[name] if name in table.column_names else nothing for name in schema.names]
                writer.write_table(pa.table(columns, schema=schema))


def _nodes(graph: RunGraph, label: str) -> Iterator[pa.Table]:
    for rows in graph.nodes(label):
        labels = pa.repeat(label, len(rows))
        yield pa.table({"nodeId": rows["node"], "labels": labels, **_numbers(rows, {"node", "key"})})


def _keys(graph: RunGraph, label: str) -> Iterator[pa.Table]:
    for rows in graph.nodes(label):
        keys = rows["key"].cast(pa.large_string())
        yield pa.table({"nodeId": rows["node"], "label": pa.repeat(label, len(rows)), "key": keys})


def _relationships(graph: RunGraph, kind: EdgeKind) -> Iterator[pa.Table]:
    for rows in graph.edges(kind):
        ends = {"sourceNodeId": rows["source"], "targetNodeId": rows["target"]}
        numbers = _numbers(rows, {"source", "target"})
        yield pa.table({**ends, "relationshipType": pa.repeat(kind.name, len(rows)), **numbers})


def _numbers(rows: pa.Table, ends: set[str]) -> dict[str, pa.ChunkedArray]:
    """Return the columns of numbers and truth values as float64, NaN where there is no value."""
    found = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if pa.types.is_boolean(column.type):
            column, is_number = column.cast(pa.int8()), True
        if is_number and name not in ends:
            found[name] = pc.fill_null(column.cast(pa.float64()), float("nan"))
    return found


def _write_nodes_csv(graph: RunGraph, label: str, path: Path) -> None:
    name = {"Group": "group_key", "Case": "case"}.get(label, "key")

    def tables() -> Iterator[pa.Table]:
        for rows in graph.nodes(label):
            properties = rows.drop_columns(["node", "key"])
            labels = pa.repeat(label, len(rows))
            ids = rows["key"].cast(pa.large_string())
            yield properties.add_column(0, ":LABEL", labels).add_column(0, f"{name}:ID({label})", ids)

    write_csv(path, tables(), _TYPES, first=2)


def _write_relationships_csv(graph: RunGraph, kind: EdgeKind, path: Path) -> None:
    def tables() -> Iterator[pa.Table]:
        for rows in graph.edges(kind):
            properties = rows.drop_columns(["source", "target"])
            ends = {
                f":START_ID({kind.source})": graph.keys.take(rows["source"]),
                f":END_ID({kind.target})": graph.keys.take(rows["target"]),
                ":TYPE": pa.repeat(kind.name, len(rows)),
            }
            yield pa.table({**ends, **dict(zip(properties.column_names, properties.columns, strict=True))})

    write_csv(path, tables(), _TYPES, first=3)
