"""The groups of two runs compared by their left members: which are new, grown, shrunk, changed, the same or gone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.cases.looking import Table, View, plain
from mbe_stage.pipeline.cases.published import SINCE
from mbe_stage.pipeline.problems.groups.group_changes import read_group_rows, since_last
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.new_directory import new_directory
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.views.diff.remarks import comparability
from mbe_stage.pipeline.views.listed_groups import group_rows, with_members
from mbe_stage.pipeline.wording import first_keys, plural

STATUSES = (*SINCE[:-1], "gone")
"""What a listed difference may be, in the order of the list."""


def compared(old: Path, new: Path, limit: int, out: Path | None) -> View:
    """Return the differences between the groups of two runs; muted groups count like others.

    So many of each status are listed. All are written to the directory `out`, which is new or empty.
    """
    before, after = read_group_rows(old), read_group_rows(new)
    changes = since_last(before, after)
    status_of = dict(zip(after.keys.tolist(), changes.words, strict=True))
    gone = set(before.keys[changes.gone].tolist())
    found = [
        (status_of[row["group_key"]], new, row) for row in group_rows(new) if status_of[row["group_key"]] != "same"
    ]
    found += [("gone", old, row) for row in group_rows(old) if row["group_key"] in gone]
    pairs = zip(after.keys.tolist(), changes.partners.tolist(), strict=True)
    partners = {key: int(before.keys[at]) for key, at in pairs if at >= 0}
    counts = {status: sum(one == status for one, _, _ in found) for status in STATUSES}
    listed = []
    for status in STATUSES:
        listed += [each for each in found if each[0] == status][:limit]
    summary: dict[str, Any] = {
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
    rows, n = plain(_rows(listed, old, partners)), summary["groups"]
    words = ", ".join(f"{number:,} {status}" for status, number in summary["counts"].items())
    lines = [
        *(("NOTE", remark) for remark in summary["remarks"]),
        ("old", f"{summary['old']}: {plural(n['old'], 'group')}"),
        ("new", f"{summary['new']}: {plural(n['new'], 'group')}, {n['same']:,} of them as before"),
        ("different", words or "nothing: both have the same groups"),
        *([] if out is None else [("written", str(out))]),
    ]
    case = next((["--case", row["case"]] for row in rows if row["status"] != "gone"), [])
    command = shlex.join(["mbe", "show", summary["new"], *case])
    values = {**summary, "differences": rows, "out": None if out is None else str(out)}
    return View(values, lines, _tables(summary["counts"], rows), [], command)


def _tables(counts: dict[str, int], differences: list[dict[str, Any]]) -> list[Table]:
    """Return the listed differences, a table for each status."""
    tables = []
    for status, number in counts.items():
        rows = [each for each in differences if each["status"] == status]
        title = f"{status}, {len(rows):,} of {number:,}" if len(rows) < number else status
        cells = [
            (
                row["rank"],
                row["case"],
                f"{row['n_left']:,} x {row['n_right']:,}",
                first_keys(row["left"]),
                first_keys(row["right"]),
                *([] if row["came"] is None else [first_keys(row["came"]), first_keys(row["went"])]),
            )
            for row in rows
        ]
        if cells:
            columns = ("rank", "case", "size", "left members", "right members", "came", "went")[: len(cells[0])]
            tables.append(Table(title, columns, cells, rows))
    return tables


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
