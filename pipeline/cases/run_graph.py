"""The graph of a run with groups: accounts, items, groups and cases as nodes, and the edges between them.

Accounts are the left vertices, items the right ones. Nodes are numbered: accounts, items (those of shifted buckets
last), groups by rank, and cases by their first group. Edges between accounts and items are those within groups, because
a run does not keep the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.cases.key_columns import distinct_names, key_columns, split_keys
from mbe_stage.pipeline.cases.published import table_of
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.views.listed_groups import check_groups

Library = Literal["pandas", "polars", "cudf"]
ACCOUNT, ITEM, GROUP, CASE = LABELS = ("Account", "Item", "Group", "Case")
SIDES = {ACCOUNT: "left", ITEM: "right"}

# Columns that are not properties: for a member, they name the edge's ends.
_ENDS = ("side", "vertex", "group_key")
_OF_FRAMES = ("node", "id", "type", "key", "labels", "nodeId", "tried_key", "best_rank")


@dataclass(frozen=True, slots=True)
class EdgeKind:
    """Edges of one type between nodes of two labels."""

    source: str
    name: str
    target: str

    @property
    def file_name(self) -> str:
        """A name such as ``account_member_of_group``."""
        return f"{self.source}_{self.name}_{self.target}".lower()


EDGE_KINDS = (
    EdgeKind(ACCOUNT, "ACTS_ON", ITEM),
    EdgeKind(ACCOUNT, "MEMBER_OF", GROUP),
    EdgeKind(ITEM, "MEMBER_OF", GROUP),
    EdgeKind(GROUP, "PART_OF", CASE),
)


class RunGraph:
    """The nodes and edges of a run, read into memory.

    `keys` are the keys of all nodes as text. `nodes`, by label, have ``node``, ``key``, the columns of keys of several
    columns, and scores or columns of the groups. `edges` have ``source`` and ``target``, which are numbers of nodes,
    and properties.
    """

    def __init__(self, run_path: str | Path) -> None:
        self._run_path = check_groups(run_path)
        with reading(run_path):
            self._groups = table_of(self._run_path, "groups")
            tables = [self._vertices(ACCOUNT), self._vertices(ITEM), self._of_groups(), self._of_cases()]
            first = np.cumsum([0, *map(len, tables)]).tolist()
            self._first = dict(zip(LABELS, first, strict=False))
            numbered = [
                table.add_column(0, "node", pa.array(np.arange(len(table)) + n))
                for table, n in zip(tables, first, strict=False)
            ]
            self.nodes = dict(zip(LABELS, numbered, strict=True))
            self.keys = pa.chunked_array(
                [chunk for table in tables for chunk in table["key"].chunks], pa.large_string()
            )
            self.edges = {kind: self._edges(kind) for kind in EDGE_KINDS}

    def prefixed(self, label: str, nodes: pa.ChunkedArray) -> pa.Array:
        """Return ids that are unique among all nodes, such as ``account:KEY``."""
        prefix, nothing = (pa.scalar(text, pa.large_string()) for text in (f"{label.lower()}:", ""))
        return pc.binary_join_element_wise(prefix, self.keys.take(nodes), nothing)

    def _has(self, table: str) -> bool:
        return (self._run_path / f"{table}.parquet").is_file()

    def _vertices(self, label: str) -> pa.Table:
        scores = table_of(self._run_path, "vertex_scores")
        rows = scores.filter(pc.equal(scores["side"], SIDES[label]))
        if label == ITEM and self._has("half_later_vertices"):
            later = pq.read_table(self._run_path / "half_later_vertices.parquet", columns=["vertex", "key", "degree"])
            rows = pa.concat_tables([rows, later], promote_options="permissive")
        if not np.array_equal(rows["vertex"].to_numpy(), np.arange(len(rows))):
            raise pa.ArrowInvalid("vertex_scores has other vertices than 0, 1, 2 and so on")
        manifest = read_manifest(self._run_path)
        names = key_columns(manifest.config, SIDES[label], manifest.input.columns)
        keys, properties = rows["key"].cast(pa.large_string()), rows.drop_columns([*_ENDS, "key"])
        parts = split_keys(keys, names).columns if len(names) > 1 else []
        # In a frame or file shared with groups, each column has one meaning.
        taken = [*properties.column_names, *self._groups.column_names, *_OF_FRAMES]
        return beside({"key": keys, **dict(zip(distinct_names(names, taken), parts, strict=False))}, properties)

    def _of_groups(self) -> pa.Table:
        properties = self._groups.drop_columns(["group_key", "case"])
        if "core_key" in properties.column_names:
            # As text, because other systems' numbers would lose digits.
            at = properties.schema.get_field_index("core_key")
            properties = properties.set_column(at, "core_key", properties["core_key"].cast(pa.string()))
        # `key` is the group's own key; this column names the tried key.
        names = ["tried_key" if name == "key" else name for name in properties.column_names]
        keys = self._groups["group_key"].cast(pa.large_string())
        return beside({"key": keys}, properties.rename_columns(names))

    def _of_cases(self) -> pa.Table:
        found = self._groups.group_by("case", use_threads=False).aggregate([("rank", "min"), ("rank", "count")])
        keys = found["case"].cast(pa.large_string())
        return pa.table({"key": keys, "best_rank": found["rank_min"], "n_groups": found["rank_count"]})

    def _edges(self, kind: EdgeKind) -> pa.Table:
        if kind.target == ITEM:
            return self._acts()
        if kind.target == CASE:
            of_case = pc.index_in(
                self._groups["case"].cast(pa.large_string()), self.nodes[CASE]["key"].combine_chunks()
            )
            return pa.table({"source": self.nodes[GROUP]["node"], "target": self._node(CASE, of_case)})
        every = table_of(self._run_path, "group_members")
        rows = every.filter(pc.equal(every["side"], SIDES[kind.source]))
        group = pc.index_in(rows["group_key"], self._groups["group_key"].combine_chunks())
        ends = {"source": self._node(kind.source, rows["vertex"]), "target": self._node(GROUP, group)}
        return beside(ends, rows.drop_columns([*_ENDS, "key"]))

    def _acts(self) -> pa.Table:
        """Return the distinct edges of all groups, by account, then by item."""
        # Earlier versions have no edges of bicliques, or none at all.
        ends = (
            table_of(self._run_path, "group_edges")
            if self._has("group_edges")
            else pa.table({"left": pa.array([], pa.int64()), "right": pa.array([], pa.int64())})
        )
        left, items = (self._node(label, ends[SIDES[label]]).to_numpy() for label in SIDES)
        n = max(1, len(self.keys))
        left, items = np.divmod(np.unique(left * n + items), n)
        return pa.table({"source": left, "target": items})

    def _node(self, label: str, ids: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the numbers of nodes for a column of ids, if every id is a node."""
        most = pc.min_max(ids).as_py()
        n = len(self.nodes[label])
        if ids.null_count or (len(ids) and not (most["min"] >= 0 and most["max"] < n)):
            raise pa.ArrowInvalid(f"an id beyond the {n} rows that it is one of")
        return pc.add(ids.cast(pa.int64()), self._first[label])


def graph_frames(run_path: str | Path, library: str = "pandas") -> tuple[Any, Any]:
    """Return the nodes and the edges of a run's groups as frames; vertices without a group are left out.

    Parameters and errors are those of `RunResult.graph`.
    """
    if library not in get_args(Library):
        raise InvalidArgument(f"library is {library!r}; expected one of {', '.join(get_args(Library))}")
    try:
        imported = importlib.import_module(library)
    except ImportError as error:
        raise InvalidArgument(f"{library} cannot be imported ({error}); expected an installation of it") from error
    graph = RunGraph(run_path)
    ends, edges, nodes = ["source", "target"], [], []
    for kind, rows in graph.edges.items():
        ids = {end: graph.prefixed(getattr(kind, end), rows[end]) for end in ends}
        edges.append(beside({**ids, "type": pa.repeat(kind.name, len(rows))}, rows.drop_columns(ends)))
    drawn = pa.chunked_array([rows[end].combine_chunks() for rows in graph.edges.values() for end in ends])
    for label, rows in graph.nodes.items():
        shown = rows.filter(pc.is_in(rows["node"], drawn)) if label in SIDES else rows
        first = {"id": graph.prefixed(label, shown["node"]), "type": pa.repeat(label, len(shown))}
        nodes.append(beside(first, shown.drop_columns("node")))
    tables = (pa.concat_tables(each, promote_options="permissive") for each in (nodes, edges))
    if library == "pandas":
        found = [table.to_pandas() for table in tables]
    else:
        convert = imported.from_arrow if library == "polars" else imported.DataFrame.from_arrow
        found = [convert(table) for table in tables]
    return found[0], found[1]


def beside(first: Mapping[str, Any], others: pa.Table) -> pa.Table:
    """Return a table of `first`, followed by the columns of `others`."""
    return pa.table([*first.values(), *others.columns], [*first, *others.column_names])
