"""The groups of a run as rows of plain values, in the order in which somebody who saw the last run reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.groups.listed import group_rows, with_members
from pipeline.report.markdown import first_keys

__all__ = ["largest"]


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """Groups with their members' own keys: those of new cases first, then new and otherwise changed ones, by rank.

    A case is new when all its groups are. Without a run to compare with, the order is the rank. What is muted is left
    out. `group_key` is text: a browser would round an int64.

    Parameters
    ----------
    run_path : Path
    limit : int
        Most rows.
    """
    groups = [group for group in group_rows(run_path) if not group["is_muted"]]
    known_cases = {group["case"] for group in groups if group["since"] not in ("new", None)}

    def order(group: dict[str, Any]) -> tuple[bool, bool, int]:
        is_compared = group["since"] is not None
        return (is_compared and group["case"] in known_cases, group["since"] == "same", group["rank"])

    return [
        {
            "rank": group["rank"],
            "since": group["since"] or "",
            "case": group["case"],
            "explanation": group["explanation"],
            "left": first_keys(group["left"]),
            "right": first_keys(group["right"]),
            "surprise": round(group["surprise"], 1),
            "group_key": str(group["group_key"]),
        }
        for group in with_members(run_path, sorted(groups, key=order)[:limit])
    ]
