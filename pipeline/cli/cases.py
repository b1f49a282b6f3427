"""`mbe cases`: list the cases of a run, export them with the rows behind them, and label them.

Like `pipeline.cli.app`, this imports nothing heavy, and its annotations are objects.
"""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from mbe_stage.pipeline.cli import options as opt
from mbe_stage.pipeline.cli.help import Command, command_line

APP = command_line(
    name="cases",
    help="List, export and label the cases of a run.",
    add_completion=False,
    no_args_is_help=True,
)

_Run = Annotated[str, typer.Argument(metavar="RUN", help="Run, or output directory: its latest run.")]
_Case = Annotated[str, typer.Argument(metavar="ID", help="The case with this id, or the only one that begins so.")]
_VerdictsFile = Annotated[
    str | None,
    typer.Option("--verdicts", metavar="FILE", help="File of verdicts; by default verdicts.sqlite beside the runs."),
]


@APP.command("list", cls=Command)
def list_(
    run_path: _Run,
    verdicts: _VerdictsFile = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per case; - for stdout.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """List the cases of a run with the verdicts of today."""
    from mbe_stage.pipeline.cases.deciding import current_verdicts
    from mbe_stage.pipeline.cli.show import show_view

    show_view(
        {"run_path": run_path, "csv": csv, "as_json": as_json},
        lambda looking: looking.finding(has_muted=True),
        lambda run_dir: current_verdicts(run_dir, verdicts),
    )


@APP.command(cls=Command)
def export(
    run_path: _Run,
    case: _Case,
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new or empty directory.")],
    source: Annotated[
        str | None,
        typer.Option("--with", metavar="INPUT", help="The run's input; by default at its original place."),
    ] = None,
    verdicts: _VerdictsFile = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Export a case: the rows of the input behind it, its members, and a report of one page."""
    from mbe_stage.bicliques import keys
    from mbe_stage.pipeline.cases.case_export import export_case
    from mbe_stage.pipeline.cases.deciding import current_verdicts
    from mbe_stage.pipeline.cli.console import ProgressDisplay
    from mbe_stage.pipeline.cli.publishing import set_up_logging
    from mbe_stage.pipeline.cli.show import opened_groups
    from mbe_stage.pipeline.cli.terminal import print_json, say
    from mbe_stage.runtime.compile_ahead import compile_ahead

    with ProgressDisplay(set_up_logging(quiet, verbose), quiet, "reading the input") as progress:
        compile_ahead(keys.compile_steps(), progress.compiled)
        with opened_groups(run_path) as run_dir:
            made = export_case(run_dir, run_path, case, out, source, current_verdicts(run_dir, verdicts))
    if as_json:
        print_json({**made, "out": str(out)})
        return
    members = f"{made['case']['n_left']:,} x {made['case']['n_right']:,} members"
    say(f"case       {made['case']['case']}: {made['input']['rows']:,} rows of the input, {members}")
    say(f"out        {out}")
    say(f"next       {shlex.join(['mbe', 'cases', 'label', run_path, made['case']['case'], 'fraud'])}")


@APP.command(cls=Command)
def label(
    run_path: _Run,
    case: _Case,
    verdict: Annotated[
        Literal["fraud", "fine", "open"],
        typer.Argument(metavar="fraud|fine|open", help="Your decision; open takes an earlier one back."),
    ],
    note: Annotated[str, typer.Option(metavar="TEXT", help="The reason.", show_default=False)] = "",
    who: Annotated[str | None, typer.Option(metavar="NAME", help="The author; by default your user name.")] = None,
    verdicts: _VerdictsFile = None,
    as_json: opt.Json = False,
) -> None:
    """Record a verdict on a case. The next run shows it, and mutes cases that are fine while they stay the same."""
    from mbe_stage.pipeline.cases.deciding import verdicts_of_run
    from mbe_stage.pipeline.cases.published import case_of, cases_of
    from mbe_stage.pipeline.cli.show import opened_groups
    from mbe_stage.pipeline.cli.terminal import print_json, say
    from mbe_stage.pipeline.publish.manifest import read_manifest

    with opened_groups(run_path) as run_dir:
        found, manifest = case_of(run_dir, case, cases_of(run_dir)), read_manifest(run_dir)
        decisions = verdicts_of_run(run_dir, verdicts)
        before = next(reversed(decisions.history(found.id)), None)
        made = decisions.label(found, manifest.run_id, verdict, note, who)
    if as_json:
        print_json({**made, "before": before, "verdicts": str(decisions.path)})
        return
    was = "" if before is None else f" (it was {before['verdict']}, by {before['who']})"
    say(f"verdict    {made['verdict']} for the case {found.id}, by {made['who']}{was}")
    say(f"file       {decisions.path}")
    say(f"next       {shlex.join(['mbe', 'cases', 'list', run_path])}")
