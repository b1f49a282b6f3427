"""The graph of a run for other systems, and the members of groups as CSV for spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.cases.fraud_gnn import write_fraud_gnn
from mbe_stage.pipeline.cases.key_columns import distinct_names, key_columns, key_parts, split_keys, value_columns
from mbe_stage.pipeline.cases.neo4j import write_neo4j
from mbe_stage.pipeline.cases.neptune import write_neptune
from mbe_stage.pipeline.cases.run_graph import RunGraph
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.new_directory import new_directory
from mbe_stage.pipeline.publish.reading import key_type, reading
from mbe_stage.pipeline.views.export import csv_writer, harmless
from mbe_stage.pipeline.views.listed_groups import group_rows

System = Literal["neo4j", "neptune", "fraud-gnn"]

_ROWS = 1 << 16
_FIRST = ("group", "group_key", "case", "since", "side")
_NUMBERS, _OF_MEMBER = ("n_edges", "edge_share", "is_core"), ("member_edges", "edge_share", "is_core", "label")
_OF_GROUP = ("n_left", "n_right", "n_edges", "surprise")


def export_to(
    run_path: str | Path,
    system: System,
    directory: str | Path,
    *,
    source: object | None = None,
    edge_label: str | None = None,
    split: str | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Path:
    """Write the graph of a run's groups for another system, into a directory that appears in one step.

    Parameters
    ----------
    system : {"neo4j", "neptune", "fraud-gnn"}
        Neo4j, Amazon Neptune, or NVIDIA's Financial Fraud Training 3.0.
    directory : path
        A new or empty directory.
    source : object, optional
        The input of the run, for ``fraud-gnn``; by default at its original place.
    edge_label, split : str
        For ``fraud-gnn`` only, which needs both: the column of the labels, and the first moment of the test part.
    on_progress : callable
        Called with the share done.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    InvalidArgument
        `edge_label` or `split` is missing, or is not for this system.
    PublishError
        The run has no groups or cannot be read, or the directory cannot be written.
    InputError
        As `mbe_stage.pipeline.cases.fraud_gnn.write_fraud_gnn`.
    """
    given = {"--edge-label": edge_label, "--split": split}
    missing = [name for name, value in given.items() if value is None]
    if system != "fraud-gnn" and (len(missing) < len(given) or source is not None):
        raise InvalidArgument(f"--edge-label, --split and --with are for fraud-gnn, not {system}: leave them out")
    graph = RunGraph(run_path)
    if system == "fraud-gnn" and (edge_label is None or split is None):
        raise InvalidArgument(
            f"fraud-gnn learns which edges are fraud, and is tested on later ones: {' and '.join(missing)} missing; "
            "expected a column of 0 and 1 (--edge-label COL), and the first moment of the test part (--split TIME)"
        )
    with new_directory(directory) as growing:
        if edge_label is not None and split is not None:
            write_fraud_gnn(graph, growing, source=source, edge_label=edge_label, split=split, on_progress=on_progress)
        else:
            (write_neo4j if system == "neo4j" else write_neptune)(graph, growing, on_progress)
    return Path(directory)


def export_groups(
    run_path: str | Path, output: IO[bytes], *, min_left: int = 1, min_right: int = 1, limit: int | None = None
) -> int:
    """Write the members of a run's groups as CSV, by rank; return the number of groups.

    Each column of a key is a column: those of left members are empty in rows of right ones, and the reverse. A group
    whose key adds to the items has further columns, such as `rating` and `time_bucket`.

    Parameters
    ----------
    min_left, min_right : int
        Minimum members of a side.
    limit : int, optional
        Maximum number of groups.

    Raises
    ------
    PublishError
        The run has no groups, or cannot be read.
    """
    rows = [row for row in group_rows(run_path) if row["n_left"] >= min_left and row["n_right"] >= min_right][:limit]
    export_members(run_path, rows, output)
    return len(rows)


def export_members(run_path: str | Path, rows: list[dict[str, Any]], output: IO[bytes]) -> None:
    """Write the members of some groups, given by their rows of `groups`, in the format of `export_groups`."""
    groups = pa.Table.from_pylist(rows, pq.read_schema(Path(run_path) / "groups.parquet"))
    manifest = read_manifest(run_path)
    of_sides = [key_columns(manifest.config, side, manifest.input.columns) for side in ("left", "right")]
    added = [value_columns(key) for key in groups["key"].to_pylist()] if "key" in groups.column_names else []
    are_integers = [pa.types.is_integer(key_type(run_path, side)) for side in ("left", "right")]
    columns = _Columns(groups, of_sides, added, are_integers)
    with reading(run_path), pq.ParquetFile(Path(run_path) / "group_members.parquet", pre_buffer=False) as file:
        first = columns.of(file.schema_arrow.empty_table())
        with csv_writer(output, first.schema) as write:
            for batch in file.iter_batches(_ROWS):
                write(columns.of(pa.Table.from_batches([batch])).cast(first.schema))


class _Columns:
    """The columns of the CSV.

    Parameters
    ----------
    groups : pa.Table
        The rows of the groups to write.
    of_sides : list of tuple of str
        The columns of the keys of both sides.
    added : list of tuple of str
        The columns that each group's key adds.
    are_integers : list of bool
        Whether the keys of each side are integers, which no spreadsheet takes for a formula.
    """

    def __init__(
        self,
        groups: pa.Table,
        of_sides: list[tuple[str, ...]],
        added: list[tuple[str, ...]],
        are_integers: list[bool],
    ) -> None:
        self._groups, self._of_sides, self._added, self._are_integers = groups, of_sides, added, are_integers
        self._more = tuple(dict.fromkeys(name for names in added for name in names))
        taken = [*_FIRST, *_OF_MEMBER, *_OF_GROUP]
        self._names = distinct_names([*of_sides[0], *of_sides[1], *self._more], taken)

    def of(self, members: pa.Table) -> pa.Table:
        """Return the rows of `group_members` as rows of the CSV."""
        at = pc.index_in(members["group_key"], self._groups["group_key"].combine_chunks())
        members, at = members.filter(pc.is_valid(at)), pc.drop_null(at)
        groups = self._groups.take(at)
        found = [
            groups["rank"].cast(pa.int64()),
            groups["group_key"],
            *(harmless(column) for column in (groups["case"], groups["since"], members["side"])),
            *self._keys(members),
            *self._values(members, at),
            *(members[name] if name in members.column_names else pa.nulls(len(at)) for name in _NUMBERS),
            harmless(members["label"]),
            *(groups[name] for name in _OF_GROUP),
        ]
        names = [*_FIRST, *self._names, *_OF_MEMBER, *_OF_GROUP]
        return pa.table(found, names=harmless(pa.array(names)).to_pylist())

    def _keys(self, members: pa.Table) -> Iterator[pa.ChunkedArray]:
        for side, names, are_integers in zip(("left", "right"), self._of_sides, self._are_integers, strict=True):
            keys = pc.if_else(pc.equal(members["side"], side), members["key"], pa.scalar(None, members["key"].type))
            if are_integers:
                yield keys.cast(pa.int64())
            else:
                yield from map(harmless, split_keys(keys, names).columns)

    def _values(self, members: pa.Table, groups: pa.Array) -> Iterator[pa.Array]:
        """Yield the columns that keys of groups add, which only right members have."""
        if not self._more:
            return
        rows: list[Mapping[str, str]] = []
        for value, group in zip(members["key_value"].to_pylist(), groups.to_pylist(), strict=True):
            names = self._added[group]
            rows.append({} if value is None else dict(zip(names, key_parts(value, len(names)), strict=True)))
        for name in self._more:
            texts = pa.array([row.get(name) for row in rows], pa.large_string())
            # A rating of -5 is no formula.
            yield pc.if_else(pc.match_substring_regex(texts, "^-?[0-9]+$"), texts, harmless(texts))
