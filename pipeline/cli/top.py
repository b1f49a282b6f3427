"""`mbe top`: the largest bicliques of a run, the groups of a run without bicliques, or another problem's results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from mbe_stage.pipeline.cli.tables import largest
from mbe_stage.pipeline.config.plugin_sections import OURS
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.publish.reading import problem_of, run_with_bicliques
from mbe_stage.pipeline.stores.open_store import opened_run
from mbe_stage.pipeline.views.near_copies import Distinct, largest_distinct
from mbe_stage.pipeline.views.top import Conditions, Measure, find_vertex, largest_bicliques


def show_top(options: Mapping[str, Any]) -> None:
    """Show the first results of a run; `options` are those of `pipeline.cli.options.TOP`."""
    vertex, side, limit, csv, as_json = (options[name] for name in ("vertex", "side", "limit", "csv", "as_json"))
    if side is not None and vertex is None:
        raise typer.BadParameter("gives the side of --vertex; name the vertex too", param_hint="--side")
    if csv and as_json:
        raise typer.BadParameter("and --json are two formats: choose one", param_hint="--csv")
    with opened_run(options["run_path"]) as run_dir:
        if problem_of(run_dir) != OURS:
            from mbe_stage.pipeline.cli.json_or_text import show_by_problem

            names = ("by", "side", "min_left", "min_right", "copies", "csv")
            given = {f"--{name.replace('_', '-')}": options[name] not in (None, False) for name in names}
            given["--copies"] = options["copies"] is not None
            if show_by_problem(run_dir, limit, vertex, as_json, given):
                return
        if run_with_bicliques(run_dir) is None and (run_dir / "groups.parquet").is_file():
            _groups(run_dir, options)
            return
        where, vertex_id = (None, None) if vertex is None else find_vertex(run_dir, vertex, side)
        conditions = Conditions(where, vertex_id, *_smallest(options))
        # CSV and JSON include near copies by default, because data should be complete.
        by: Measure = options["by"] or "edges"
        copies = options["copies"]
        if csv or as_json if copies is None else copies:
            found = Distinct(largest_bicliques(run_dir, limit, by, conditions), 0)
        else:
            found = largest_distinct(run_dir, limit, by, conditions)
        if csv:
            from mbe_stage.pipeline.views.export import csv_output, export_bicliques

            with csv_output(None) as output:
                export_bicliques(found.bicliques, output)
        else:
            largest(run_dir, by, found, as_json)


def _groups(run_dir: Path, options: Mapping[str, Any]) -> None:
    """Show the groups of a run without bicliques."""
    from mbe_stage.pipeline.cases.looking import Looking
    from mbe_stage.pipeline.cli.show import STDOUT, print_view, tables_of_groups

    if options["copies"] is not None:
        raise ConfigError(
            f"command line: --copies: only applies to bicliques, but {run_dir} holds only groups; leave it out"
        )
    member = None if options["vertex"] is None else (options["vertex"], options["side"])
    with tables_of_groups(run_dir):
        looking = Looking(run_dir, options["run_path"])
        view = looking.top(options["limit"], options["by"], _smallest(options), member)
    print_view(view, options["as_json"], STDOUT if options["csv"] else None)


def _smallest(options: Mapping[str, Any]) -> tuple[int, int]:
    return options["min_left"] or 1, options["min_right"] or 1
