"""The graph of a run for NVIDIA's Financial Fraud Training 3.0, which predicts which edges are fraud.

A node is the position of a row in `nodes`, and `keys` has its key. `test_gnn` has the same files for the rows from the
split on, with their own numbers.

Groups and scores are those of the run, so it must have seen exactly the rows before the split. Accounts and items that
only occur in the test part get zeros. Columns that carry labels are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.cases.input_rows import check_at_hand
from mbe_stage.pipeline.cases.key_columns import value_columns
from mbe_stage.pipeline.cases.published import table_of
from mbe_stage.pipeline.clean.events import NO_TIME, Events
from mbe_stage.pipeline.clean.facts import InputFacts
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.reading import reading

ACTS, MEMBER = "account_acts_item", "account_member_group"
_MICROSECONDS = 1_000_000
_NODES = {"left": "account", "right": "item"}
OF_LABELS = ("association", "n_known", "known_share", "known_p_value", "label", "verdict", "is_muted")
"""Columns that carry labels, or decisions about cases."""
# Features leave out ids and a group's rank; other columns say why the group is listed.
_NO_FEATURES = ("vertex", "key", "group_key", "core_key", "rank", *OF_LABELS)


def write_fraud_gnn(run_path: Path, directory: Path, *, source: object | None, edge_label: str, split: str) -> None:
    """Write the files into an empty directory; parameters are those of `graph_files.export_to`."""
    run = _Run(run_path)
    reads = run.manifest.config.input
    _check(reads, run_path, source)
    before: dict[str, Any] = {"time_until": split}
    from_split: dict[str, Any] = {"time_from": split, "time_until": None}
    for below, window in ((directory, before), (directory / "test_gnn", from_split)):
        part = _labelled(reads.model_copy(update=window), source, edge_label)
        if window is before:
            _check_same(run, part.edges.facts, split)
            _check_not_tried(run, part.label_names)
        _write_part(run, below, part)


class _Run:
    """The tables of a run that go into the files."""

    def __init__(self, path: Path) -> None:
        self.path, self.manifest = path, read_manifest(path)
        self.groups, self.members = table_of(path, "groups"), table_of(path, "group_members")
        self.scores, tried = table_of(path, "vertex_scores"), path / "group_keys.parquet"
        with reading(path):
            self.tried_keys = pq.read_table(tried)["key"].to_pylist() if tried.is_file() else []


def _check(reads: InputConfig, run: Path, source: object | None) -> None:
    """Refuse runs whose rows cannot be split, or cannot be read with their labels."""
    refused = None
    check_at_hand(run, reads, source)
    if reads.timestamp is None:
        remedy = "make it again: mbe groups with --timestamp and --time-until"
        refused = "no column of times", "a run with times, which the split needs", remedy
    elif reads.min_weight is not None:
        found = f"rows of a weight below {reads.min_weight} are left out"
        expected = "a run of all rows before the split, because labels are read in place of weights"
        refused = found, expected, "filter the input, and make the run again without --min-weight"
    if refused:
        found, expected, remedy = refused
        raise InputError.at(run, found=found, expected=expected, remedy=remedy)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The rows of the train or test part, their labels ((n,) int8), and the possible names of the label column."""

    edges: EdgeData
    events: Events
    labels: np.ndarray
    label_names: set[str]


def _labelled(reads: InputConfig, source: object | None, edge_label: str) -> _Part:
    """Read the rows of a window twice, the second time with the labels as weights."""
    edges = ingest(reads.keeping_events(), source)
    try:
        labels = ingest(reads.model_copy(update={"weight": edge_label}).keeping_events(), source)
    except InputError as error:
        # The reader calls the label column the weight.
        error.args = tuple(str(text).replace(setting("input.weight"), "--edge-label") for text in error.args)
        raise
    events, again = edges.events, labels.events
    # The windows need times, so there are events.
    assert events is not None
    assert again is not None
    given = again.weights
    is_odd = np.ones(events.left.size, np.bool_) if given is None else ~np.isin(given, (0.0, 1.0))
    if is_odd.any():
        found = "no numbers" if given is None else f"{int(is_odd.sum())} other or missing values"
        remedy = "correct them, or name another column with --edge-label"
        place = labels.facts.source
        raise InputError.at(place, column=str(edge_label), found=found, expected="0 or 1 in every row", remedy=remedy)
    if not (np.array_equal(events.left, again.left) and np.array_equal(events.right, again.right)):
        expected, remedy = "an input that stays as it is", "try again when nothing writes to it"
        raise InputError.at(labels.facts.source, found="other rows when read again", expected=expected, remedy=remedy)
    names = {column.name for column in labels.facts.columns if column.setting == "weight" and column.name is not None}
    return _Part(edges, events, given.astype(np.int8), names | {edge_label})


def _check_same(run: _Run, found: InputFacts, split: str) -> None:
    of_run = run.manifest.input
    n_rows = [facts.n_edges + facts.duplicate_edges for facts in (found, of_run)]
    if found.fingerprint == of_run.fingerprint and n_rows[0] == n_rows[1]:
        return
    until = run.manifest.config.input.time_until
    raise InputError.at(
        run.path,
        found=f"a run of {n_rows[1]} rows{'' if until is None else f' before {until}'}, while {found.source} has "
        f"{n_rows[0]} before {split}, or others",
        expected="a run of the rows before the split and no others, so that groups know nothing of the test",
        remedy=f"make it from the same input: mbe groups with --time-until {split}",
    )


def _check_not_tried(run: _Run, label_names: set[str]) -> None:
    """Refuse runs that tried the label as a part of the right key, because groups and scores would depend on it."""
    tried = sorted(label_names & {name for key in run.tried_keys for name in value_columns(key)})
    if tried:
        raise InputError.at(
            run.path,
            found=f"the run tried {tried[0]!r}, which is the label, as a part of the right key",
            expected="groups that know no label",
            remedy="make the run with --keys plain, or call the column label or fraud",
        )


def _write_part(run: _Run, below: Path, part: _Part) -> None:
    for name in ("nodes", "edges", "keys"):
        (below / name).mkdir(parents=True)
    _write_edges(below / "edges", part.events, part.labels)
    for side, keys in (("left", part.edges.left_keys), ("right", part.edges.right_keys)):
        own = run.scores.filter(pc.equal(run.scores["side"], side))
        # Integers and text are compared as text, as they are written. The position of a vertex is its number.
        vertices = pc.index_in(keys.cast(pa.large_string()), own["key"].combine_chunks().cast(pa.large_string()))
        _write_nodes(below, _NODES[side], keys, own.take(vertices))
        if side == "left":
            accounts = vertices
    if len(run.groups):
        _write_nodes(below, "group", run.groups["group_key"], run.groups)
        members = run.members.filter(pc.equal(run.members["side"], "left"))
        # Keep the group members in the test part, with their positions in it.
        position = pc.index_in(members["vertex"], accounts.cast(members["vertex"].type))
        group = pc.index_in(members["group_key"], run.groups["group_key"].combine_chunks())
        table = pa.table({"src": position, "dst": group}).filter(pc.is_valid(position))
        _write(below / "edges" / f"{MEMBER}.csv", table)


def _write_nodes(below: Path, name: str, keys: Any, rows: pa.Table) -> None:
    """Write the features of nodes, and the keys at their positions."""
    features = {}
    for field in rows.schema:
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if is_number and field.name not in _NO_FEATURES:
            features[field.name] = pc.fill_null(rows[field.name].cast(pa.float64()), 0.0)
    _write(below / "nodes" / f"{name}.csv", pa.table(features))
    named = pa.table({"row": np.arange(len(keys)), "key": keys})
    pq.write_table(named, below / "keys" / f"{name}.parquet")


def _write_edges(below: Path, events: Events, labels: np.ndarray) -> None:
    assert events.times is not None
    hours = np.where(events.times == NO_TIME, 0, events.times) // (3600 * _MICROSECONDS)
    attributes = {} if events.weights is None else {"weight": np.nan_to_num(events.weights)}
    # The first of January 1970 was a Thursday; Monday is 0.
    attributes |= {"hour": hours % 24, "weekday": (hours // 24 + 3) % 7}
    _write(below / f"{ACTS}.csv", pa.table({"src": events.left, "dst": events.right}))
    _write(below / f"{ACTS}_label.csv", pa.table({"fraud": labels}))
    _write(below / f"{ACTS}_attr.csv", pa.table(attributes))


def _write(path: Path, table: pa.Table) -> None:
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="none"))
