"""Compare the groups of two runs by their left members: new, grown, shrunk, changed, the same or gone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
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
"""Kinds of listed differences, in the order of the list."""
_NOTHING = "nothing: both have the same groups"


def compared(old: Path, new: Path, limit: int, out: Path | None) -> View:
    """Return the differences between the groups of two runs, at most `limit` per status, including muted groups.

    All differences are written to the new or empty directory `out`, if given.
    """
    before, after = read_group_rows(old), read_group_rows(new)
    changes = since_last(before, after)
    keys, gone = after.keys.tolist(), set(before.keys[changes.gone].tolist())
    status_of = dict(zip(keys, changes.words, strict=True))
    rows_before = with_members(old, group_rows(old))
    partners = {key: rows_before[at] for key, at in zip(keys, changes.partners.tolist(), strict=True) if at >= 0}
    different = [row for row in group_rows(new) if status_of[row["group_key"]] != "same"]
    found = [
        _row(status_of[row["group_key"]], row, partners.get(row["group_key"])) for row in with_members(new, different)
    ]
    found += [_row("gone", row, None) for row in rows_before if row["group_key"] in gone]
    by_status = {status: [row for row in found if row["status"] == status] for status in STATUSES}
    counts = {status: len(rows) for status, rows in by_status.items() if rows}
    sizes = {"old": before.keys.size, "new": after.keys.size, "same": changes.words.count("same")}
    summary: dict[str, Any] = {
        "old": address_of(old),
        "new": address_of(new),
        "remarks": list(comparability(old, new, read_manifest(old), read_manifest(new)).remarks),
        "counts": counts,
        "groups": sizes,
    }
    if out is not None:
        with new_directory(out, summary) as growing:
            table = pa.Table.from_pylist(found, _schema(new))
            pq.write_table(table, growing / "differences.parquet")
    listed = {status: by_status[status][:limit] for status in counts}
    rows = plain([row for rows in listed.values() for row in rows])
    lines = [
        *(("NOTE", remark) for remark in summary["remarks"]),
        ("old", f"{summary['old']}: {plural(sizes['old'], 'group')}"),
        ("new", f"{summary['new']}: {plural(sizes['new'], 'group')}, {sizes['same']:,} of them as before"),
        ("different", ", ".join(f"{n:,} {status}" for status, n in counts.items()) or _NOTHING),
        *([] if out is None else [("written", str(out))]),
    ]
    case = next((["--case", row["case"]] for row in rows if row["status"] != "gone"), [])
    command = shlex.join(["mbe", "show", summary["new"], *case])
    values = {**summary, "differences": rows, "out": None if out is None else str(out)}
    tables = [_table(status, rows, counts[status]) for status, rows in listed.items() if rows]
    return View(values, lines, tables, [], command)


def _table(status: str, rows: Sequence[Mapping[str, Any]], n: int) -> Table:
    """Return the listed differences of a status."""
    columns = ("rank", "case", "size", "left members", "right members", "came", "went")
    cells = [
        (
            row["rank"],
            row["case"],
            f"{row['n_left']:,} x {row['n_right']:,}",
            *(first_keys(row[name]) for name in ("left", "right", "came", "went") if row[name] is not None),
        )
        for row in rows
    ]
    title = f"{status}, {len(rows):,} of {n:,}" if len(rows) < n else status
    return Table(title, columns[: len(cells[0])], cells, rows)


def _schema(run: Path) -> pa.Schema:
    # A run of an earlier version may lack columns, so all may be null.
    columns = [field.with_nullable(True) for field in pq.read_schema(run / "groups.parquet")]
    keys = [pa.field(side, pa.list_(pa.string())) for side in ("left", "right", "came", "went")]
    return pa.schema([pa.field("status", pa.string()), *columns, *keys])


def _row(status: str, row: Mapping[str, Any], partner: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a row of `groups` with its status, the members' own keys as text, and the left ones that came and went."""
    about = {name: value for name, value in row.items() if name not in ("core_left", "core_right")}
    left, right = (list(map(str, row[side])) for side in ("left", "right"))
    came, went = None, None
    if partner is not None:
        last = dict.fromkeys(map(str, partner["left"]))
        came, went = [key for key in left if key not in last], [key for key in last if key not in {*left}]
    return {"status": status, **about, "left": left, "right": right, "came": came, "went": went}
