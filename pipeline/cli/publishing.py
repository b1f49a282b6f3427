"""The common part of `mbe run`, `mbe enumerate` and the commands of other packages' problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from mbe_stage import pipeline

if TYPE_CHECKING:
    from rich.console import Console

    from mbe_stage.pipeline.config.model import Config

UNCHANGED = 5


def publish(config: Config, options: Mapping[str, Any]) -> None:
    """Do the whole job; `options` are those outside the configuration, which control publishing and printing."""
    from mbe_stage.pipeline import run_state
    from mbe_stage.pipeline.cli import console, metrics
    from mbe_stage.pipeline.cli import json_or_text as show
    from mbe_stage.pipeline.problems.result_text import passing

    if_changed, count_only, as_json, quiet = (
        options[name] for name in ("if_changed", "count_only", "as_json", "quiet")
    )
    if if_changed and count_only:
        raise typer.BadParameter(
            "compares with a published run; --count-only publishes none", param_hint="--if-changed"
        )
    resume = options["resume"]
    if resume and count_only:
        raise typer.BadParameter("resumes a run to publish; --count-only publishes none", param_hint="--resume")
    stderr = set_up_logging(quiet, options["verbose"])
    run_state.state.problem = config.problem
    display = console.ProgressDisplay(stderr, quiet, "reading the input", passing(config.problem))
    with metrics.updated(), display as progress:
        if count_only:
            counted = pipeline.count(config, on_progress=progress.enumerated, on_compile=progress.compiled)
        else:
            published = pipeline.run(
                config,
                on_progress=progress.enumerated,
                on_compile=progress.compiled,
                if_changed=if_changed,
                resume=resume,
            )
    if count_only:
        show.count(counted, as_json)
    else:
        show.run(published, as_json)
        if published.unchanged:
            raise typer.Exit(UNCHANGED)


def set_up_logging(quiet: bool, verbose: bool) -> Console:
    """Call `pipeline.cli.console.set_up_logging` with the two options."""
    from mbe_stage.pipeline.cli import console

    if quiet and verbose:
        raise typer.BadParameter("and --quiet were both given; expected one of them", param_hint="--verbose")
    return console.set_up_logging(quiet, verbose)
