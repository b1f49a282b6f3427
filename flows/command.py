"""`python -m flows.enumerate`: run the flow once, or serve it on a schedule."""

from __future__ import annotations

import os
import signal
import sys
import zoneinfo
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, cast
from uuid import UUID

import typer
from prefect.client.schemas.schedules import CronSchedule
from prefect.logging.configuration import setup_logging
from prefect.schedules import Cron, Schedule
from prefect.settings import PREFECT_LOGGING_SETTINGS_PATH
from pydantic import ValidationError

from flows.enumerate import configure, enumerate_bicliques_flow
from flows.lost_signals import sighup_is_sigterm, sigterm_is_heard
from flows.server import DEFAULT_PORT, api_of_one_run, scheduling_api
from flows.serving import serve
from flows.transcript import transcript
from mbe_stage.errors import StageError
from pipeline import show
from pipeline.errors import INTERRUPTED, ConfigError, exit_code
from pipeline.ingest import ingest
from pipeline.installed_publications import reading_of
from pipeline.manifest import read_manifest
from pipeline.publish import RunStore
from pipeline.terminal import say, visible_lines
from pipeline.verify import verify_run

__all__ = ["app", "cron_schedule", "main"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_DATE_FORMAT = "PREFECT_LOGGING_FORMATTERS_STANDARD_DATEFMT"


def main() -> None:
    """Entry of `python -m flows.enumerate`."""
    _date_log_lines()
    app()


def _date_log_lines() -> None:
    """Have Prefect's log lines, here and in the processes that are started, carry the date, as those of `mbe` do.

    Prefect's default is the time alone. Whoever has set this format, or has a logging configuration, keeps it.
    """
    if _DATE_FORMAT in os.environ or PREFECT_LOGGING_SETTINGS_PATH.value().exists():
        return
    os.environ[_DATE_FORMAT] = "%Y-%m-%d %H:%M:%S"
    setup_logging(incremental=False)


@app.command()
def enumerate_command(
    config: Annotated[Path | None, typer.Argument(help="YAML configuration; without it every default holds.")] = None,
    input_path: Annotated[str | None, typer.Option("--input", help="The edges, instead of input.path.")] = None,
    output: Annotated[str | None, typer.Option("--out", help="Where runs are published.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="section.key=value", help="Override one key; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run even if nothing changed since the latest run.")] = False,
    show_it: Annotated[
        bool, typer.Option("--show", help="Print the run's tasks and artifacts, and verify what was published.")
    ] = False,
    serve_it: Annotated[bool, typer.Option("--serve", help="Stay, and run on the schedule of --cron.")] = False,
    cron: Annotated[str | None, typer.Option("--cron", help='With --serve: when to run, e.g. "0 6 * * *".')] = None,
    timezone: Annotated[str, typer.Option("--timezone", help="With --serve: the zone of --cron.")] = "UTC",
    name: Annotated[str, typer.Option("--name", help="With --serve: the deployment's name.")] = "scheduled",
    port: Annotated[
        int, typer.Option("--port", help="With --serve: port of the server it starts when PREFECT_API_URL is unset.")
    ] = DEFAULT_PORT,
) -> None:
    """Enumerate the maximal bicliques of a graph, or what else is asked for, as a flow, once or on a schedule."""
    parameters: dict[str, Any] = {
        "config_path": None if config is None else str(config.absolute()),
        "input_path": None if input_path is None else str(Path(input_path).absolute()),
        "output_directory": None if output is None else str(Path(output).absolute()),
        "overrides": list(overrides or ()),
    }
    try:
        # A mistake must show now, not when the schedule first fires.
        checked = configure(**parameters)
        parameters["force"] = force
        if serve_it:
            _serve(name, cron_schedule(cron, timezone), port, parameters)
        else:
            _run_once(parameters, show_it)
    except StageError as error:
        say(f"error: {error}", sys.stderr)
        raise typer.Exit(exit_code(error)) from None
    except KeyboardInterrupt:
        # Prefect may have been at work for a run that is published already.
        latest = RunStore(checked.output.directory).latest()
        # Where the terminal has gone, nobody is there to be told.
        with suppress(OSError):
            say(f"interrupted; the latest published run: {latest or 'none'}", sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def cron_schedule(cron: str | None, timezone: str) -> Schedule:
    """The schedule of `--cron` and `--timezone`, checked.

    Raises
    ------
    ConfigError
        No expression, not five fields, or an unknown time zone.
    """
    if cron is None:
        raise ConfigError('--serve: no schedule given; expected five cron fields; for example --cron "0 6 * * *"')
    if timezone not in zoneinfo.available_timezones():
        raise ConfigError(f"--timezone {timezone!r}: unknown; expected a name such as UTC or Europe/Berlin")
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValidationError:
        raise ConfigError(
            f'--cron {cron!r}: no cron expression; expected five fields; for example "0 6 * * *" is daily at 6'
        ) from None
    return Cron(cron, timezone=timezone)


def _run_once(parameters: dict[str, Any], show_it: bool) -> None:
    # As Ctrl-C: ended by SIGTERM alone, this process would leave its server and its staging behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sighup_is_sigterm()
    with sigterm_is_heard(), api_of_one_run():
        state = enumerate_bicliques_flow(**parameters, return_state=True)
        if show_it:
            print(visible_lines(transcript(cast(UUID, state.state_details.flow_run_id))))
    result = cast(dict[str, Any], state.result())
    say(state.message)
    say(result["run"])
    if show_it:
        # Against the edges as they are in the file, by code that shares none with engines and writers.
        run_dir = Path(result["run"])
        show.verification(verify_run(run_dir, ingest(reading_of(read_manifest(run_dir).config))), as_json=False)


def _serve(name: str, schedule: Schedule, port: int, parameters: dict[str, Any]) -> None:
    # From the first moment: ended by SIGTERM alone, this process would leave the server behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sighup_is_sigterm()
    with scheduling_api(port) as url:
        say(f"Prefect server: {url}; this process runs {enumerate_bicliques_flow.name}/{name}; Ctrl-C ends both")
        serve(enumerate_bicliques_flow, name, schedule, parameters)
