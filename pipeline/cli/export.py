"""`mbe export`: members as CSV, or the graph of a run's groups for another system."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from mbe_stage.pipeline.cli import console
from mbe_stage.pipeline.cli.publishing import set_up_logging
from mbe_stage.pipeline.publish.reading import run_with_bicliques
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import opened_run

log = logging.getLogger(__name__)

_OF_CSV, _OF_GRAPH = ("out", "min_left", "min_right", "limit", "groups"), ("edge_label", "split", "run_input")


def export_run_as(options: Mapping[str, Any]) -> None:
    """Export a run; `options` are those of `pipeline.cli.options.EXPORTING`."""
    _check(options)
    quiet = options["quiet"]
    with (
        console.ProgressDisplay(set_up_logging(quiet, options["verbose"]), quiet, "reading the run") as progress,
        opened_run(options["run_path"]) as run_dir,
    ):
        has_groups = (run_dir / "groups.parquet").is_file()
        if options["to"] is not None:
            from mbe_stage.pipeline.cases.graph_files import export_to
            from mbe_stage.pipeline.cli.show import tables_of_groups

            of_gnn = {name: options[name] for name in ("edge_label", "split")}
            with tables_of_groups(run_dir):
                place = export_to(run_dir, options["to"], options["directory"], source=options["run_input"], **of_gnn)
            log.info("%s written for %s: %s", address_of(run_dir), options["to"], place)
        elif options["groups"] or (has_groups and run_with_bicliques(run_dir) is None):
            _groups_as_csv(run_dir, options)
        else:
            from mbe_stage.pipeline.views.export import csv_output, export_run

            least = {name: options[name] or 1 for name in ("min_left", "min_right")}
            with csv_output(options["out"]) as output:
                found = export_run(run_dir, output, limit=options["limit"], on_progress=progress.exported, **least)
            log.info("%s bicliques of %s written as CSV", f"{found:,}", address_of(run_dir))


def _groups_as_csv(run_dir: Path, options: Mapping[str, Any]) -> None:
    from mbe_stage.pipeline.cases.looking import Looking
    from mbe_stage.pipeline.cli.show import tables_of_groups
    from mbe_stage.pipeline.views.export import csv_output, export_rows

    least = options["min_left"] or 1, options["min_right"] or 1
    with tables_of_groups(run_dir):
        view = Looking(run_dir, options["run_path"]).top(options["limit"], None, least)
    with csv_output(options["out"]) as output:
        export_rows(view.records, output)
    log.info("%s groups of %s written as CSV", f"{len(view.values['groups']):,}", address_of(run_dir))


def _check(options: Mapping[str, Any]) -> None:
    """Refuse options that do not belong together."""
    to, directory = options["to"], options["directory"]
    if options["csv"] == (to is not None):
        raise typer.BadParameter("name one format: --csv or --to SYSTEM", param_hint="--csv")
    if (to is None) != (directory is None):
        raise typer.BadParameter(
            "--to needs a directory: mbe export RUN --to SYSTEM DIR" if to else "is for --to; name a file with --out",
            param_hint="DIR",
        )
    for name in _OF_GRAPH if to is None else _OF_CSV:
        if options[name] not in (None, False):
            option = "--with" if name == "run_input" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"is for {'--to' if to is None else '--csv'}; leave it out", param_hint=option)
