"""The groups of a run on stdout: a table to read, or one JSON object."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipeline import show
from pipeline.console import print_json, results_console, table
from pipeline.groups.listed import listed_groups
from pipeline.groups.nothing import nothing_significant
from pipeline.key_parts import has_parts, key_text
from pipeline.terminal import say

if TYPE_CHECKING:
    from pipeline.job import RunResult

__all__ = ["published"]

# Groups that the table has; the run and its report have more.
_SHOWN = 20
# Columns of the table: those of the second kind where some group has a value.
_COLUMNS: dict[str, Callable[[dict[str, Any]], object]] = {
    "rank": lambda group: group["rank"],
    "since": lambda group: group["since"] or "",
    "why": lambda group: f"{group['explanation']}.",
    "known": lambda group: "" if group["n_known"] is None else group["n_known"],
    "left members": lambda group: show.keys(group["left"]),
    "right members": lambda group: show.keys(group["right"]),
}
_WHERE_KNOWN = {"since": "since", "known": "n_known"}


def published(result: RunResult, as_json: bool) -> None:
    """A run as `mbe enumerate` shows it, and its groups, the best first."""
    if as_json:
        groups = [{name: _plain(value) for name, value in row.items()} for row in listed_groups(result.place)]
        print_json({**show.run_facts(result), "groups": groups})
        return
    show.run(result, as_json=False)
    counts = result.manifest.derived["groups"]
    n_muted = counts.get("muted", 0)
    n_groups = counts["groups"] - n_muted
    if not counts["groups"]:
        say(f"groups     nothing significant: {nothing_significant(result.place, result.manifest)}")
    shown = [group for group in listed_groups(result.place, _SHOWN + n_muted) if not group["is_muted"]][:_SHOWN]
    if has_parts(result.manifest.config):
        shown = [{**group, "right": [key_text(key) for key in group["right"]]} for group in shown]
    if shown:
        results_console().print(_table(shown))
    if n_muted:
        say(f"muted      {n_muted:,} of what is known good alone{'' if shown else ': no other is significant'}")
    if n_groups > len(shown):
        say(f"groups     {n_groups - len(shown):,} more in {result.address}/groups.parquet")


def _table(groups: list[dict[str, Any]]) -> Any:
    columns = {
        name: value
        for name, value in _COLUMNS.items()
        if name not in _WHERE_KNOWN or any(group[_WHERE_KNOWN[name]] is not None for group in groups)
    }
    rows = [[value(group) for value in columns.values()] for group in groups]
    return table(list(columns), rows, unbroken=("since",))


def _plain(value: Any) -> Any:
    """As JSON has it: times are UTC and written as ISO 8601 has them."""
    return f"{value.isoformat()}Z" if isinstance(value, datetime) else value
