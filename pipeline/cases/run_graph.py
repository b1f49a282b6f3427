"""The graph of a run with groups, in batches: accounts, items, groups and cases as nodes, and the edges between them.

Accounts are the left vertices, items the right ones. Nodes are numbered: accounts first, then items (those of buckets
shifted by half behind the others), groups by rank, and cases by their first group. Edges of accounts and items are
those of the groups, because a run does not keep the other ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.key_columns import distinct_names, key_columns, split_keys
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import reading, vertex_keys

ACCOUNT, ITEM, GROUP, CASE = LABELS = ("Account", "Item", "Group", "Case")


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
SIDES = {ACCOUNT: "left", ITEM: "right"}
OF_LABELS = ("association", "n_known", "known_share", "known_p_value", "label", "verdict", "is_muted")
"""Columns that carry labels, or decisions about cases."""

_ROWS = 1 << 16
# Of a member: what the edge itself says; of a vertex: its edges to groups say the rest.
_ENDS = ("side", "vertex", "key", "group_key")
_LATER = "half_later_vertices"
_OF_FRAMES = ("node", "id", "type", "key", "labels", "nodeId", "tried_key", "best_rank")


class RunGraph:
    """The nodes and edges of a run.

    Parameters
    ----------
    run_path : path
        A run directory.

    Raises
    ------
    PublishError
        The run has no groups, or its tables cannot be read.
    """

    def __init__(self, run_path: str | Path) -> None:
        self.run_path = Path(run_path)
        if not self._path("groups").is_file():
            raise PublishError(f"{run_path}: has no groups; expected a run with groups; make them: mbe groups")
        self.manifest = read_manifest(self.run_path)
        with reading(run_path):
            self.groups = pq.read_table(self._path("groups"))
            cases = self.groups["case"].combine_chunks()
            later = [pq.read_table(self._path(_LATER), columns=["key"])["key"]] if self._has(_LATER) else []
        keys = [vertex_keys(run_path, "left"), vertex_keys(run_path, "right"), *later]
        self._cases = cases.unique()
        self.n_later = len(later[0]) if later else 0
        sizes = len(keys[0]), sum(map(len, keys[1:])), len(self.groups), len(self._cases)
        ends = np.cumsum(sizes).tolist()
        self.n_nodes = dict(zip(LABELS, sizes, strict=True))
        self.first = dict(zip(LABELS, [0, *ends[:-1]], strict=True))
        every = [*keys, self.groups["group_key"], pa.chunked_array([cases.unique()])]
        self.keys = pa.chunked_array([chunk for each in every for chunk in each.cast(pa.large_string()).chunks])

    def columns_of_key(self, label: str) -> tuple[str, ...]:
        """Return the names of the columns that make a node's key; of groups and cases their own."""
        if label not in SIDES:
            return ("group_key",) if label == GROUP else ("case",)
        return key_columns(self.manifest.config, SIDES[label], self.manifest.input.columns)

    def nodes(self, label: str) -> Iterator[pa.Table]:
        """Yield the nodes of a label: ``node``, ``key`` as the input writes it, and their properties; at least once.

        Properties of accounts and items are their scores, and the columns of a key that has several.
        """
        with reading(self.run_path):
            if label in SIDES:
                yield from self._vertices(label)
            else:
                yield self._groups() if label == GROUP else self._of_cases()

    def edges(self, kind: EdgeKind) -> Iterator[pa.Table]:
        """Yield the edges of a kind: ``source``, ``target``, both numbers of nodes, and properties; at least once."""
        with reading(self.run_path):
            if kind.target == ITEM:
                yield from self._acts()
            elif kind.target == GROUP:
                yield from self._members(kind.source)
            else:
                yield pa.table({"source": self._numbers(GROUP), "target": self._cases_of(self.groups)})

    def tried_keys(self) -> list[str]:
        """Return the keys that were searched beside that of the items."""
        with reading(self.run_path):
            return pq.read_table(self._path("group_keys"))["key"].to_pylist() if self._has("group_keys") else []

    def prefixed(self, label: str, keys: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return ids that are distinct among all nodes, such as ``account:KEY``."""
        prefix, nothing = (pa.scalar(text, pa.large_string()) for text in (f"{label.lower()}:", ""))
        return pc.binary_join_element_wise(prefix, keys.cast(pa.large_string()), nothing)

    def prefixed_nodes(self, label: str, nodes: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the ids of `prefixed` for numbers of nodes."""
        return self.prefixed(label, self.keys.take(nodes))

    def _path(self, table: str) -> Path:
        return self.run_path / f"{table}.parquet"

    def _has(self, table: str) -> bool:
        return self._path(table).is_file()

    def _batches(self, table: str) -> Iterator[pa.Table]:
        """Yield a table in batches, at least one."""
        with pq.ParquetFile(self._path(table), pre_buffer=False) as file:
            yield file.schema_arrow.empty_table()
            for batch in file.iter_batches(_ROWS):
                yield pa.Table.from_batches([batch])

    def _numbers(self, label: str) -> pa.Array:
        first = self.first[label]
        return pa.array(np.arange(first, first + self.n_nodes[label]))

    def _vertices(self, label: str) -> Iterator[pa.Table]:
        for rows in self._batches("vertex_scores"):
            of_side = rows.filter(pc.equal(rows["side"], SIDES[label]))
            n_vertices = self.n_nodes[label] - (self.n_later if label == ITEM else 0)
            nodes = self._node(label, _checked(of_side["vertex"], n_vertices))
            properties = of_side.drop_columns(_ENDS)
            yield self._with_key(label, nodes, of_side["key"], properties)
        if label == ITEM and self.n_later:
            more = pq.read_table(self._path(_LATER))
            nodes = self._node(label, _checked(more["vertex"], self.n_nodes[label]))
            known = {name: more[name] for name in ("degree",)}
            columns = [known.get(field.name, pa.nulls(len(more), field.type)) for field in properties.schema]
            yield self._with_key(label, nodes, more["key"], pa.table(columns, schema=properties.schema))

    def _with_key(self, label: str, nodes: pa.Array, keys: pa.ChunkedArray, properties: pa.Table) -> pa.Table:
        found = pa.table({"node": nodes, "key": keys})
        names = self.columns_of_key(label)
        if len(names) > 1:
            parts = split_keys(keys, names)
            for name, of_type in zip(names, self._part_types, strict=True):
                found = found.append_column(name, parts[name].cast(of_type))
            # In one frame or file with groups, a column has one meaning.
            taken = [*properties.column_names, *self.groups.column_names, *_OF_FRAMES]
            found = found.rename_columns(["node", "key", *distinct_names(names, taken)])
        for name in properties.column_names:
            found = found.append_column(name, properties[name])
        return found

    @cached_property
    def _part_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of an item's key, if it has several: integers if all parts are, else text."""
        names = self.columns_of_key(ITEM)
        are_integers = np.ones(len(names), np.bool_)
        for start in range(self.first[ITEM], self.first[GROUP], _ROWS):
            some = self.keys.slice(start, min(_ROWS, self.first[GROUP] - start))
            are_integers &= [pa.types.is_integer(column.type) for column in split_keys(some, names).columns]
        return tuple(pa.int64() if is_integer else pa.string() for is_integer in are_integers)

    def _node(self, label: str, ids: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.add(ids.cast(pa.int64()), self.first[label])

    def _groups(self) -> pa.Table:
        properties = self.groups.drop_columns(["group_key", "case"])
        if "core_key" in properties.column_names:
            # As a number of another system it would lose digits.
            at = properties.schema.get_field_index("core_key")
            properties = properties.set_column(at, "core_key", properties["core_key"].cast(pa.string()))
        # `key` is the group's own; this one says what its items agree in.
        names = ["tried_key" if name == "key" else name for name in properties.column_names]
        properties = properties.rename_columns(names)
        return self._with_key(GROUP, self._numbers(GROUP), self.groups["group_key"], properties)

    def _of_cases(self) -> pa.Table:
        found = self.groups.group_by("case", use_threads=False).aggregate([("rank", "min"), ("rank", "count")])
        properties = found.rename_columns(["case", "best_rank", "n_groups"]).select(["best_rank", "n_groups"])
        return self._with_key(CASE, self._cases_of(found), found["case"], properties)

    def _cases_of(self, rows: pa.Table) -> pa.ChunkedArray:
        return self._node(CASE, pc.index_in(rows["case"], self._cases))

    def _groups_of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the position of each row's group."""
        found = pc.index_in(rows["group_key"], self.groups["group_key"].combine_chunks())
        return _checked(found, len(self.groups))

    def _acts(self) -> Iterator[pa.Table]:
        """Yield the distinct edges of all groups, by account, then by item."""
        codes = [np.empty(0, np.int64)]
        if self._has("group_edges"):
            for rows in self._batches("group_edges"):
                left = _checked(rows["left"], self.n_nodes[ACCOUNT]).cast(pa.int64()).to_numpy()
                items = _checked(rows["right"], self.n_nodes[ITEM]).to_numpy()
                codes.append(np.unique(left * self.n_nodes[ITEM] + items))
        distinct = np.unique(np.concatenate(codes))
        for start in range(0, max(1, distinct.size), _ROWS):
            left, items = np.divmod(distinct[start : start + _ROWS], max(1, self.n_nodes[ITEM]))
            yield pa.table({"source": left, "target": items + self.first[ITEM]})

    def _members(self, label: str) -> Iterator[pa.Table]:
        for every in self._batches("group_members"):
            rows = every.filter(pc.equal(every["side"], SIDES[label]))
            source = self._node(label, _checked(rows["vertex"], self.n_nodes[label]))
            found = rows.drop_columns(_ENDS).add_column(0, "target", self._node(GROUP, self._groups_of(rows)))
            yield found.add_column(0, "source", source)


def _checked(ids: pa.ChunkedArray, n: int) -> pa.ChunkedArray:
    """Return ids of rows of another table, if all are."""
    most = pc.min_max(ids).as_py()
    if ids.null_count or (len(ids) and not (most["min"] >= 0 and most["max"] < n)):
        raise pa.ArrowInvalid(f"an id beyond the {n} rows that it is one of")
    return ids
