"""`mbe show` and `mbe accounts`, and `mbe top` for runs with groups: views of a run as text, JSON or CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from mbe_stage.errors import StageError
from mbe_stage.pipeline.cases.looking import Looking, View
from mbe_stage.pipeline.cases.verdicts import Verdicts
from mbe_stage.pipeline.cli.tables import results_console, table
from mbe_stage.pipeline.cli.terminal import print_json, say
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.reading import reading
from mbe_stage.pipeline.stores.open_store import opened_run
from mbe_stage.pipeline.views.export import csv_output, export_rows

STDOUT = Path("-")
"""The name of standard output, where a file is expected."""


def show_run(options: Mapping[str, Any]) -> None:
    """Show the finding of a run, or a case, group or member; `options` are those of `pipeline.cli.options.SHOWING`."""
    chosen = [name for name in ("case", "group", "vertex") if options[name] is not None]
    if len(chosen) > 1:
        raise typer.BadParameter(f"and --{chosen[0]} are two views: choose one", param_hint=f"--{chosen[1]}")
    if options["side"] is not None and chosen != ["vertex"]:
        raise typer.BadParameter("gives the side of --vertex; name the vertex too", param_hint="--side")

    def view(looking: Looking) -> View:
        if not chosen:
            return looking.finding()
        if chosen == ["vertex"]:
            return looking.vertex(options["vertex"], looking.side_named(options["side"]))
        return looking.case(options["case"]) if chosen == ["case"] else looking.group(options["group"])

    show_view(options, view)


def show_accounts(options: Mapping[str, Any]) -> None:
    """Show the members with the highest scores; `options` are those of `pipeline.cli.options.ACCOUNTS`."""
    show_view(options, lambda looking: looking.accounts(options["top"], looking.side_named(options["side"]) or "left"))


def show_view(
    options: Mapping[str, Any],
    view: Callable[[Looking], View],
    verdicts_of: Callable[[Path], Verdicts | None] = lambda _: None,
) -> None:
    """Print a view of the run `run_path` in the format of the options `as_json` and `csv`."""
    if options["as_json"] and options["csv"] is not None:
        raise typer.BadParameter("and --json are two formats: choose one", param_hint="--csv")
    with opened_run(options["run_path"]) as run_dir:
        with tables_of_groups(run_dir):
            found = view(Looking(run_dir, options["run_path"], verdicts_of(run_dir)))
        print_view(found, options["as_json"], options["csv"])


@contextmanager
def opened_groups(run_path: str) -> Iterator[Path]:
    """Open a run as `opened_run`, with the errors of `tables_of_groups`."""
    with opened_run(run_path) as run_dir, tables_of_groups(run_dir):
        yield run_dir


@contextmanager
def tables_of_groups(run_dir: Path) -> Iterator[None]:
    """Turn errors from tables with unexpected columns or values into an error that names the run."""
    try:
        with reading(run_dir):
            yield
    except StageError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise PublishError(
            f"{run_dir}: its tables of groups cannot be read ({type(error).__name__}: {error}); expected those of a "
            "published run; see mbe verify, or publish it again"
        ) from error


def print_view(view: View, as_json: bool, csv: Path | None) -> None:
    """Print a view as text, as JSON, or as CSV into a file; ``-`` is standard output."""
    if as_json:
        print_json(dict(view.values))
        return
    if csv is not None:
        with csv_output(None if csv == STDOUT else csv) as output:
            export_rows(view.records, output)
        if csv == STDOUT:
            return
        say(f"written    {csv}")
    else:
        for label, text in view.lines:
            say(f"{label:10} {text}")
        for each in view.tables:
            rows, unbroken = [list(row) for row in each.rows], ("case", "first", "last", "group_key")
            results_console().print(table(list(each.columns), rows, each.title or None, unbroken))
    say(f"next       {view.next_command}")
