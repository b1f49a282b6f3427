"""The input rows behind a case, with all their columns and row numbers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.cases.key_columns import distinct_names
from mbe_stage.pipeline.cases.published import Case, table_of
from mbe_stage.pipeline.clean.cleaning import clean
from mbe_stage.pipeline.clean.events import Events
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError, PublishError
from mbe_stage.pipeline.io import read_edges
from mbe_stage.pipeline.io.further import KEPT, is_further
from mbe_stage.pipeline.io.raw import RawEdges
from mbe_stage.pipeline.io.sources import at_hand
from mbe_stage.pipeline.problems.groups.tried_keys import PLAIN, keys_of, narrowing
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.manifest import Manifest

log = logging.getLogger(__name__)

OWN = ("row", "groups")
"""The first columns of the result: the row's number in the input, from 1, and the ranks of the groups with its edge."""

Pairs = dict[tuple[int, int], str | None]


def rows_behind(run_path: Path, manifest: Manifest, case: Case, source: Any = None) -> pa.Table:
    """Return the rows behind the edges of a case in the order of the input: `OWN`, then the input's columns.

    `source` is the input, by default at its original place. Its rows may be in another order than in the run; they are
    numbered as in `source`. Delimited text and Parquet keep all columns, other formats only those of the edges. Another
    input raises an `InputError`, a run without edges of groups (of earlier versions) a `PublishError`.
    """
    config = reading_of(manifest.config, **({} if source is None else {"path": source}))
    raw, edges = _read(config)
    check_same(run_path, manifest, edges)
    ranks: dict[int, list[int]] = {}
    for group, rows in _rows_of_groups(run_path, manifest, case, edges):
        for row in rows.tolist():
            ranks.setdefault(row, []).append(group["rank"])
    numbers = np.array(sorted(ranks), np.int64)
    roles = [role for role in raw.table.column_names if role.startswith(f"{KEPT} ")]
    roles = roles or [role for role in raw.table.column_names if not is_further(role)]
    names = distinct_names([raw.names[role] for role in roles], OWN)
    columns = [raw.table.column(role).take(pa.array(numbers)) for role in roles]
    groups = [" ".join(map(str, ranks[row])) for row in numbers.tolist()]
    return pa.table([pa.array(numbers + 1), pa.array(groups), *map(_decoded, columns)], names=[*OWN, *names])


def _read(config: InputConfig) -> tuple[RawEdges, EdgeData]:
    """Read all columns and, from the same rows, the edges."""
    with at_hand(config.path) as (places, named), run_state.at_part():
        try:
            raw = read_edges(config.keeping_rows(), places)
        except InputError as error:
            # A column that the run has not read may be unreadable.
            raw = read_edges(config, places)
            log.warning("only the columns of the edges are exported: %s", error)
        rows = raw.with_roles([role for role in raw.names if not role.startswith(f"{KEPT} ")])
        edges: Any = clean(named(rows), config.keeping_rows(), ARROW)
        return raw, edges


def check_at_hand(run_path: Path, reads: InputConfig, source: object | None) -> None:
    """Refuse to read a run's input again if it was in memory and no other input is named."""
    if source is None and reads.path is None:
        remedy = "name it: --with INPUT"
        raise InputError.at(run_path, found="an input in memory", expected="the same input as a file", remedy=remedy)


def check_same(run_path: Path, manifest: Manifest, edges: EdgeData) -> None:
    """Refuse edges that differ from the run's input."""
    stated, found = manifest.input, edges.facts
    for name in ("fingerprint", "events_fingerprint"):
        if getattr(stated, name) != getattr(found, name):
            raise InputError.at(
                found.source,
                found=f"other rows (input.{name} {getattr(found, name)}) than the run {run_path.name} has read",
                expected=f"its input, of {getattr(stated, name)}",
                remedy="name the file as it was on that day: --with INPUT",
            )


def _rows_of_groups(
    run_path: Path, manifest: Manifest, case: Case, edges: EdgeData
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield each group with the places of the rows behind its edges."""
    pairs: dict[int, Pairs] = {group["group_key"]: {} for group in case.groups}
    for edge in table_of(run_path, "group_edges", list(pairs)).to_pylist():
        pairs[edge["group_key"]][edge["left"], edge["right"]] = edge.get("key_value")
    for group in case.groups:
        wanted, is_narrowed = pairs[group["group_key"]], group.get("key") not in (None, PLAIN)
        if len(wanted) != group["n_edges"]:
            raise PublishError(
                f"{run_path}: group_edges has {len(wanted):,} edges of the group {group['group_key']}; expected "
                f"{group['n_edges']:,}; make the groups again: mbe groups"
            )
        events, first_right = edges.events, 0
        if group.get("half_later") and not is_narrowed and edges.half_later is not None:
            events, first_right = edges.half_later.events, manifest.input.n_right
        assert events is not None
        assert events.rows is not None
        codes = np.array([left << 32 | right - first_right for left, right in wanted], np.int64)
        places = np.flatnonzero(np.isin(events.left.astype(np.int64) << 32 | events.right, codes))
        if is_narrowed:
            values = _values(events, places, manifest, group)
            ends = zip(events.left[places].tolist(), events.right[places].tolist(), strict=True)
            places = places[[wanted[end] == value for end, value in zip(ends, values, strict=True)]]
        yield group, events.rows[places]


def _values(events: Events, places: np.ndarray, manifest: Manifest, group: dict[str, Any]) -> list[str]:
    """Return the part that a group's key adds to the item of each row, as in `key_value`."""
    key = next(key for key in keys_of(events, manifest.config) if key.name == group["key"])
    parts = narrowing(events.take(places), key, half_later=group["half_later"])
    columns = (values.take(pa.array(codes)).to_pylist() for codes, values in parts)
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in zip(*columns, strict=True)]


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
