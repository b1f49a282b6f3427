"""The groups of a run on stdout: a table to read, or one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline import show
from pipeline.console import print_json, results_console, table
from pipeline.listed_groups import listed_groups
from pipeline.terminal import say

if TYPE_CHECKING:
    from pipeline.job import RunResult

__all__ = ["published"]

# Groups that the table has; the run and its report have more.
_SHOWN = 20


def published(result: RunResult, as_json: bool) -> None:
    """A run as `mbe enumerate` shows it, and its groups, the best first."""
    if as_json:
        print_json({**show.run_facts(result), "groups": listed_groups(result.run_dir)})
        return
    show.run(result, as_json=False)
    n_groups = result.manifest.derived["groups"]["groups"]
    if not n_groups:
        say("groups     nothing significant: the degrees of the vertices explain what there is")
        return
    n_muted = result.manifest.derived["groups"].get("muted", 0)
    rows: list[list[object]] = [
        [group["rank"], f"{group['explanation']}.", show.keys(group["left"]), show.keys(group["right"])]
        for group in listed_groups(result.run_dir, _SHOWN + n_muted)
        if not group["is_muted"]
    ][:_SHOWN]
    results_console().print(table(["rank", "why", "left members", "right members"], rows))
    if n_muted:
        say(f"muted      {n_muted:,} of what is known good alone")
    if n_groups - n_muted > len(rows):
        say(f"groups     {n_groups - n_muted - len(rows):,} more in {result.run_dir / 'groups.parquet'}")
