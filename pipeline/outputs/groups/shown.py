"""The groups of a run as rows of plain values, for whoever shows a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["largest"]

_MEMBERS = 12


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """The first groups, best first, with their members' own keys.

    `group_key` is text: a browser would round an int64.

    Parameters
    ----------
    run_path : Path
    limit : int
        Most rows.
    """
    groups = pq.read_table(run_path / "groups.parquet").slice(0, limit)
    of_groups = pc.field("group_key").isin(groups["group_key"].combine_chunks())
    keys: dict[tuple[int, str], list[str]] = {}
    columns = ["group_key", "side", "key"]
    for row in pq.read_table(run_path / "group_members.parquet", columns=columns, filters=of_groups).to_pylist():
        keys.setdefault((row["group_key"], row["side"]), []).append(str(row["key"]))
    return [
        {
            "rank": group["rank"],
            "explanation": group["explanation"],
            "left": _listed(keys[group["group_key"], "left"]),
            "right": _listed(keys[group["group_key"], "right"]),
            "surprise": round(group["surprise"], 1),
            "group_key": str(group["group_key"]),
        }
        for group in groups.to_pylist()
    ]


def _listed(keys: list[str]) -> str:
    text = ", ".join(keys[:_MEMBERS])
    return text if len(keys) <= _MEMBERS else f"{text} and {len(keys) - _MEMBERS:,} more"
