"""The groups of two runs compared by their left members: which are new, grown, shrunk, changed, the same or gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.looking import plain
from mbe_stage.pipeline.cases.published import SINCE
from mbe_stage.pipeline.problems.groups.group_changes import read_group_rows, since_last
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.new_directory import new_directory
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.views.diff.remarks import comparability
from mbe_stage.pipeline.views.listed_groups import group_rows, with_members

STATUSES = (*SINCE[:-1], "gone")
"""What a listed difference may be, in the order of the list."""


def compared(old: Path, new: Path, limit: int, out: Path | None) -> dict[str, Any]:
    """Return the differences between the groups of two runs; muted groups count like others.

    It is what `pipeline.problems.base.DerivedPublication.diff` returns.

    Parameters
    ----------
    limit : int
        Number of groups to list of each status.
    out : Path, optional
        A new or empty directory for all differences: `differences.parquet` and `summary.json`.

    Raises
    ------
    PublishError
        A run is damaged, or the directory cannot be written.
    """
    before, after = read_group_rows(old), read_group_rows(new)
    changes = since_last(before, after)
    words = dict(zip(after.keys.tolist(), changes.words, strict=True))
    gone = set(before.keys[changes.gone].tolist())
    found = [(words[row["group_key"]], new, row) for row in group_rows(new) if words[row["group_key"]] != "same"]
    found += [("gone", old, row) for row in group_rows(old) if row["group_key"] in gone]
    pairs = zip(after.keys.tolist(), changes.partners.tolist(), strict=True)
    partners = {key: int(before.keys[at]) for key, at in pairs if at >= 0}
    counts = {status: sum(one == status for one, _, _ in found) for status in STATUSES}
    listed = []
    for status in STATUSES:
        listed += [each for each in found if each[0] == status][:limit]
    summary = {
        "old": address_of(old),
        "new": address_of(new),
        "remarks": list(comparability(old, new, read_manifest(old), read_manifest(new)).remarks),
        "counts": {status: n for status, n in counts.items() if n},
        "groups": {"old": before.keys.size, "new": after.keys.size, "same": changes.words.count("same")},
    }
    if out is not None:
        with new_directory(out, summary) as growing:
            table = pa.Table.from_pylist(_rows(found, old, partners), _schema(new))
            pq.write_table(table, growing / "differences.parquet")
    return summary | {"differences": plain(_rows(listed, old, partners)), "out": None if out is None else str(out)}


def _schema(run: Path) -> pa.Schema:
    # A run of an earlier version may lack columns, so all may be null.
    columns = [field.with_nullable(True) for field in pq.read_schema(run / "groups.parquet")]
    keys = [pa.field(side, pa.list_(pa.string())) for side in ("left", "right", "came", "went")]
    return pa.schema([pa.field("status", pa.string()), *columns, *keys])


def _rows(
    found: list[tuple[str, Path, dict[str, Any]]], old: Path, partners: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return rows of `groups` with their status, the members' own keys as text, and the left ones that came and went.

    `partners` has the group of the old run for groups of the new one.
    """
    needed = dict.fromkeys(partners[row["group_key"]] for _, _, row in found if row["group_key"] in partners)
    lefts = {row["group_key"]: row["left"] for row in with_members(old, [{"group_key": key} for key in needed])}
    rows = []
    for run in dict.fromkeys(run for _, run, _ in found):
        statuses = {row["group_key"]: status for status, of_run, row in found if of_run == run}
        for row in with_members(run, [row for _, of_run, row in found if of_run == run]):
            texts: dict[str, list[str] | None] = {side: list(map(str, row[side])) for side in ("left", "right")}
            last = lefts.get(partners.get(row["group_key"]))
            texts |= {"came": _without(row["left"], last), "went": _without(last, row["left"])}
            about = {name: value for name, value in row.items() if name not in ("core_left", "core_right")}
            rows.append({"status": statuses[row["group_key"]], **about, **texts})
    return rows


def _without(keys: list[Any] | None, others: list[Any] | None) -> list[str] | None:
    """Return the keys that are not among the others; None if there is nothing to compare."""
    if keys is None or others is None:
        return None
    known = set(map(str, others))
    return [str(key) for key in keys if str(key) not in known]
