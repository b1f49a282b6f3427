"""`mbe groups`: groups of an input, without writing its bicliques, or of a published run; and its result on stdout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import typer

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.cases.looking import plain
from mbe_stage.pipeline.cli import json_or_text as show
from mbe_stage.pipeline.cli import metrics
from mbe_stage.pipeline.cli.console import ProgressDisplay
from mbe_stage.pipeline.cli.options import GROUPING, configuration, options_of, settings_given
from mbe_stage.pipeline.cli.publishing import UNCHANGED, set_up_logging
from mbe_stage.pipeline.cli.tables import keys, results_console, table
from mbe_stage.pipeline.cli.terminal import print_json, say
from mbe_stage.pipeline.config.plugin_sections import OURS
from mbe_stage.pipeline.execution.job import RunResult, run
from mbe_stage.pipeline.io.sources import joined_names
from mbe_stage.pipeline.stores.open_store import holds_runs
from mbe_stage.pipeline.views.listed_groups import chance_text, listed_groups, nothing_significant
from mbe_stage.pipeline.views.regroup import regroup
from mbe_stage.pipeline.wording import bound_text, group_key_text, has_parts, key_text

# Number of groups in the table; the run and its report have more.
_SHOWN = 20
# Columns of the table; some only appear if a group has a value.
_COLUMNS: dict[str, Callable[[dict[str, Any]], object]] = {
    "rank": lambda group: group["rank"],
    "since": lambda group: group["since"] or "",
    "key": group_key_text,
    "why": lambda group: f"{group['explanation']}.",
    "p": lambda group: "" if group.get("p_bound") is None else bound_text(group["p_bound"]),
    "core": lambda group: _core(group),
    "known": lambda group: "" if group["n_known"] is None else group["n_known"],
    "left members": lambda group: keys(group["left"]),
    "right members": lambda group: keys(group["right"]),
}
_WHERE_KNOWN = "since", "key", "p", "core", "known"

_GROUPS_ALONE = {"output": {"bicliques": False}, "groups": {}}
# Groups of a published run read, query and enumerate nothing, so these options do not apply.
_OF_INPUTS = ("input.", "query.", "execution.")
_OF_BOTH = ("input.path", "execution.threads")


def published(result: RunResult, as_json: bool) -> None:
    """Show a run as `mbe enumerate` does, and its groups, the best first."""
    if as_json:
        print_json({**show.run_facts(result), "groups": plain(listed_groups(result.place))})
        return
    show.run(result, as_json=False, is_all=False)
    counts = result.manifest.derived["groups"]
    n_muted = counts.get("muted", 0)
    n_groups = counts["groups"] - n_muted
    if not counts["groups"]:
        say(f"groups     nothing significant: {nothing_significant(result.place, result.manifest)}")
    shown = [group for group in listed_groups(result.place, _SHOWN + n_muted) if not group["is_muted"]][:_SHOWN]
    of_parts = has_parts(result.manifest.config)
    shown = [
        {**group, "right": [key_text(key) for key in group["right"]]}
        if of_parts or group.get("key") not in (None, "items")
        else group
        for group in shown
    ]
    if shown:
        results_console().print(_table(shown))
    if chance := chance_text(result.place):
        say(f"chance     {chance}")
    if n_muted:
        say(f"muted      {n_muted:,} known good or labelled fine{'' if shown else ': no other is significant'}")
    if n_groups > len(shown):
        say(f"groups     {n_groups - len(shown):,} more in {result.address}/groups.parquet")
    show.next_command(result)


def _table(groups: list[dict[str, Any]]) -> Any:
    columns = {
        name: value
        for name, value in _COLUMNS.items()
        if name not in _WHERE_KNOWN or any(value(group) != "" for group in groups)
    }
    rows = [[value(group) for value in columns.values()] for group in groups]
    return table(list(columns), rows, unbroken=("since",))


def _core(group: dict[str, Any]) -> str:
    """Return the size of the complete group inside a grown one."""
    has_core = group["core_left"] and group["kind"] == "grown_cover"
    return f"{len(group['core_left']):,} x {len(group['core_right']):,}" if has_core else ""


def make_groups(options: Mapping[str, Any]) -> None:
    """Publish a run of groups and show them.

    Parameters
    ----------
    options : mapping
        The command's options, by the names of `pipeline.cli.options.GROUPING`.
    """
    source, stderr = options["source"], set_up_logging(options["quiet"], options["verbose"])
    of_run = len(source) == 1 and holds_runs(source[0])
    _check(options, of_run)
    run_state.state.problem = OURS
    with metrics.updated(), ProgressDisplay(stderr, options["quiet"], "reading the input") as progress:
        if of_run:
            result = _of_run(source[0], options, progress)
        else:
            result = run(
                configuration(GROUPING, options, given=_GROUPS_ALONE),
                on_progress=progress.enumerated,
                on_compile=progress.compiled,
                if_changed=options["if_changed"],
                resume=options["resume"],
            )
    published(result, options["as_json"])
    if result.unchanged:
        raise typer.Exit(UNCHANGED)


def _of_run(source: str, options: Mapping[str, Any], progress: ProgressDisplay) -> RunResult:
    sections = settings_given([each for each in GROUPING if each.name != "source"], options)
    if options["run_input"] is not None:
        sections["input"] = {"path": options["run_input"]}
    return regroup(
        source,
        sections,
        on_share=lambda share: progress.working("reading the bicliques back", share),
        on_progress=progress.enumerated,
        on_compile=progress.compiled,
    )


def _check(options: Mapping[str, Any], of_run: bool) -> None:
    """Refuse options that do not fit the source."""
    if not of_run:
        if options["run_input"] is not None:
            raise typer.BadParameter(
                f"gives the input's new place for a published run; {joined_names(options['source'])} is not a run: "
                "leave it out",
                param_hint="--input",
            )
        return
    for parameter in GROUPING:
        of_inputs = parameter.key.startswith(_OF_INPUTS) and parameter.key not in _OF_BOTH
        if (of_inputs or parameter.name in ("if_changed", "resume")) and options[parameter.name] not in (
            None,
            False,
            [],
        ):
            raise typer.BadParameter(
                f"is for an INPUT; the bicliques of the run {options['source'][0]} are read unchanged: leave it out",
                param_hint=options_of(parameter)[0],
            )
