"""What `mbe groups` does: groups of an input, without its bicliques on the disk, or of a published run's bicliques."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

import pipeline
from pipeline.cli_options import GROUPING, configuration, options_of, settings_given
from pipeline.cli_publishing import UNCHANGED, set_up_logging
from pipeline.console import ProgressDisplay
from pipeline.groups import show
from pipeline.groups.of_run import regroup
from pipeline.io.sources import joined_names
from pipeline.job import RunResult
from pipeline.stores.places import holds_runs

__all__ = ["make_groups"]

_GROUPS_ALONE = {"output": {"bicliques": False}, "groups": {}}
# Of a published run nothing is read, asked or enumerated: these are not options of its groups.
_OF_INPUTS = ("input.", "query.", "execution.")
_OF_BOTH = ("input.path", "execution.threads")


def make_groups(options: Mapping[str, Any]) -> None:
    """Publish a run of groups and show them.

    Parameters
    ----------
    options : mapping
        What the command was called with, by the names of `pipeline.cli_options.GROUPING`.
    """
    source, stderr = options["source"], set_up_logging(options["quiet"], options["verbose"])
    of_run = len(source) == 1 and holds_runs(source[0])
    _check(options, of_run)
    with ProgressDisplay(stderr, options["quiet"], "reading the input") as progress:
        if of_run:
            result = _of_run(source[0], options, progress)
        else:
            result = pipeline.run(
                configuration(GROUPING, options, given=_GROUPS_ALONE),
                on_progress=progress.enumerated,
                on_compile=progress.compiled,
                if_changed=options["if_changed"],
                resume=options["resume"],
            )
    show.published(result, options["as_json"])
    if result.unchanged:
        raise typer.Exit(UNCHANGED)


def _of_run(source: str, options: Mapping[str, Any], progress: ProgressDisplay) -> RunResult:
    asked = settings_given([each for each in GROUPING if each.name != "source"], options)
    if options["run_input"] is not None:
        asked["input"] = {"path": options["run_input"]}
    return regroup(
        source,
        asked,
        on_share=lambda share: progress.working("reading the bicliques back", share),
        on_progress=progress.enumerated,
        on_compile=progress.compiled,
    )


def _check(options: Mapping[str, Any], of_run: bool) -> None:
    """Refuse what was given and does not go with the source."""
    if not of_run:
        if options["run_input"] is not None:
            raise typer.BadParameter(
                f"says where the input of a published run is now; {joined_names(options['source'])} is no run: "
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
                f"is for an INPUT; the bicliques of the run {options['source'][0]} are read back as they are: leave it "
                "out",
                param_hint=options_of(parameter)[0],
            )
