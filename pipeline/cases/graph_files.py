"""The graph of a run as files for other systems; `fraud_gnn` writes those for NVIDIA's.

Neo4j: Parquet for graph analytics, with numbers only (NaN where a label has no such property), and CSV with ID spaces
for `neo4j-admin database import`.

Amazon Neptune's bulk loader: files of vertices and of edges in its Gremlin CSV format. Ids begin with the kind of the
vertex, because an account and an item may share a key. The id of an edge is a hash of its ends, so loading the same run
twice adds nothing.

CSV is UTF-8 by RFC 4180 with a header of names and types. Unlike CSV for spreadsheets it has no guard against formulas,
because a database would store the guard as a part of a key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.cases import System
from mbe_stage.pipeline.cases.fraud_gnn import write_fraud_gnn
from mbe_stage.pipeline.cases.input_rows import check_at_hand, check_same
from mbe_stage.pipeline.cases.key_columns import distinct_names
from mbe_stage.pipeline.cases.run_graph import RunGraph, beside
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.io.cxt import Context, write_cxt
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.new_directory import new_directory
from mbe_stage.pipeline.views.listed_groups import check_groups

_NEO4J = {"integer": "long", "number": "double", "truth": "boolean", "time": "datetime", "text": "string"}
_NEPTUNE = {"integer": "Long", "number": "Double", "truth": "Bool", "time": "Date", "text": "String"}
_NAMES_OF_KEYS = {"Group": "group_key", "Case": "case"}
_ID_DIGITS = 32
# Maximum cells of a context; a cell takes a byte in memory and in the file.
_MOST_CELLS = 1 << 28


def export_to(
    run_path: str | Path,
    system: System,
    directory: str | Path,
    *,
    source: object | None = None,
    edge_label: str | None = None,
    split: str | None = None,
) -> Path:
    """Write the graph of a run's groups for another system, into a new or empty directory; return it.

    The directory appears in one step. ``cxt`` writes the edges of `source` as a formal context in Burmeister's format;
    groups are not needed. ``fraud-gnn`` reads `source`, the input of the run, by default at its original
    place. It needs `edge_label`, the column of the labels (0 or 1; a name or a position), and `split`, the first moment
    of the test part.
    """
    given = {"--edge-label": edge_label, "--split": split}
    missing = [name for name, value in given.items() if value is None]
    if system != "fraud-gnn" and (len(missing) < len(given) or (source is not None and system != "cxt")):
        raise InvalidArgument(f"--edge-label, --split and --with are for fraud-gnn, not {system}: leave them out")
    if system == "cxt":
        context = _context(Path(run_path), source)
        with new_directory(directory) as growing:
            write_cxt(context, growing / "context.cxt")
        return Path(directory)
    check_groups(run_path)
    if system == "fraud-gnn" and (edge_label is None or split is None):
        raise InvalidArgument(
            f"fraud-gnn learns which edges are fraud, and is tested on later ones: {' and '.join(missing)} missing; "
            "expected a column of 0 and 1 (--edge-label COL), and the first moment of the test part (--split TIME)"
        )
    with new_directory(directory) as growing:
        if edge_label is not None and split is not None:
            write_fraud_gnn(Path(run_path), growing, source=source, edge_label=edge_label, split=split)
        else:
            (write_neo4j if system == "neo4j" else write_neptune)(RunGraph(run_path), growing)
    return Path(directory)


def _context(run: Path, source: object | None) -> Context:
    manifest = read_manifest(run)
    check_at_hand(run, manifest.config.input, source)
    edges = ingest(reading_of(manifest.config), source)
    check_same(run, manifest, edges)
    shape = len(edges.left_keys), len(edges.right_keys)
    if shape[0] * shape[1] > _MOST_CELLS:
        raise InvalidArgument(
            f"the context has {shape[0]:,} x {shape[1]:,} cells: expected at most {_MOST_CELLS:,}, since a .cxt file "
            "has a character for each; export fewer edges"
        )
    incidence = np.zeros(shape, np.bool_)
    incidence[edges.left_ids, edges.right_ids] = True
    objects, attributes = (tuple(map(str, keys.to_pylist())) for keys in (edges.left_keys, edges.right_keys))
    return Context(objects, attributes, incidence)


def write_neo4j(graph: RunGraph, directory: Path) -> None:
    """Write the files into an empty directory."""
    nodes, keys, relationships = [], [], []
    (directory / "csv").mkdir()
    for label, rows in graph.nodes.items():
        labels = pa.repeat(label, len(rows))
        nodes.append(beside({"nodeId": rows["node"], "labels": labels}, _numbers(rows.drop_columns(["node", "key"]))))
        keys.append(pa.table({"nodeId": rows["node"], "label": labels, "key": rows["key"]}))
        ends = {f"{_NAMES_OF_KEYS.get(label, 'key')}:ID({label})": rows["key"], ":LABEL": labels}
        table = beside(ends, rows.drop_columns(["node", "key"]))
        write_csv(directory / "csv" / f"{label.lower()}s.csv", table, _NEO4J, first=2)
    for kind, rows in graph.edges.items():
        names, properties = pa.repeat(kind.name, len(rows)), rows.drop_columns(["source", "target"])
        numbered = {"sourceNodeId": rows["source"], "targetNodeId": rows["target"], "relationshipType": names}
        relationships.append(beside(numbered, _numbers(properties)))
        source, target = (graph.keys.take(rows[end]) for end in ("source", "target"))
        ends = {f":START_ID({kind.source})": source, f":END_ID({kind.target})": target, ":TYPE": names}
        write_csv(directory / "csv" / f"{kind.file_name}.csv", beside(ends, properties), _NEO4J, first=3)
    for name, parts in (("nodes", nodes), ("relationships", relationships), ("keys", keys)):
        joined = pa.concat_tables(parts, promote_options="default")
        columns = [
            pc.fill_null(each, float("nan")) if pa.types.is_floating(each.type) else each for each in joined.columns
        ]
        pq.write_table(pa.table(columns, joined.column_names), directory / f"{name}.parquet", compression="zstd")


def write_neptune(graph: RunGraph, directory: Path) -> None:
    """Write the files into an empty directory."""
    for label, rows in graph.nodes.items():
        first = {"~id": graph.prefixed(label, rows["node"]), "~label": pa.repeat(label, len(rows))}
        path = directory / f"vertices_{label.lower()}s.csv"
        write_csv(path, beside(first, rows.drop_columns("node")), _NEPTUNE, first=2)
    for kind, rows in graph.edges.items():
        source, target = graph.prefixed(kind.source, rows["source"]), graph.prefixed(kind.target, rows["target"])
        # An item may be in a group several times, with different values of the group's key.
        values = rows["key_value"] if "key_value" in rows.column_names else pa.nulls(len(rows))
        parts = zip(source.to_pylist(), target.to_pylist(), values.to_pylist(), strict=True)
        ends = (json.dumps((kind.name, *each)).encode() for each in parts)
        ids = pa.array([hashlib.sha256(each).hexdigest()[:_ID_DIGITS] for each in ends], pa.string())
        first = {"~id": ids, "~from": source, "~to": target, "~label": pa.repeat(kind.name, len(rows))}
        table = beside(first, rows.drop_columns(["source", "target"]))
        write_csv(directory / f"edges_{kind.file_name}.csv", table, _NEPTUNE, first=4)


def write_csv(path: Path, table: pa.Table, types: Mapping[str, str], *, first: int) -> None:
    """Write a table as one file.

    The first `first` columns are not properties, and their names are the header as they are. Other columns appear as
    ``name:type``, with the database's name of the type.
    """
    fields = [*table.column_names[:first]]
    # Property names are letters, digits and underscores, so the header needs no escapes.
    names = distinct_names([re.sub(r"\W+", "_", name) or "_" for name in table.column_names[first:]])
    for name, column in zip(names, table.columns[first:], strict=True):
        fields.append(f"{name}:{types[_kind(column.type)]}")
    # Text is in quotes, which distinguishes empty text from a missing value.
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    with path.open("wb") as file:
        file.write((",".join(fields) + "\n").encode())
        pyarrow.csv.write_csv(pa.table([_written(column) for column in table.columns], fields), file, options)


def _numbers(rows: pa.Table) -> pa.Table:
    """Return the numeric and boolean columns as float64."""
    kinds = {name: _kind(rows[name].type) for name in rows.column_names}
    names = [name for name, kind in kinds.items() if kind in ("integer", "number", "truth")]
    columns = [rows[name].cast(pa.int8() if kinds[name] == "truth" else rows[name].type) for name in names]
    return pa.table([column.cast(pa.float64()) for column in columns], names)


def _kind(of_type: pa.DataType) -> str:
    if pa.types.is_boolean(of_type):
        return "truth"
    if pa.types.is_integer(of_type):
        return "integer"
    if pa.types.is_floating(of_type):
        return "number"
    return "time" if pa.types.is_timestamp(of_type) else "text"


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in the form of the file: times as ISO-8601 in UTC, and nulls for NaN."""
    kind = _kind(column.type)
    if kind == "time":
        seconds = pc.floor_temporal(column, unit="second").cast(pa.timestamp("s"))
        return pc.strftime(seconds, format="%Y-%m-%dT%H:%M:%SZ")
    if kind == "number":
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
    return column.cast(pa.large_string()) if kind == "text" else column
