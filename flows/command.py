"""The command of a flow, such as `python -m mbe_stage.flows.enumerate`: run it once or on a schedule."""

from __future__ import annotations

import os
import signal
import sys
import zoneinfo
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from uuid import UUID

import typer
from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import TerminationSignal
from prefect.logging.configuration import setup_logging
from prefect.schedules import Cron, Schedule
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_LOGGING_SETTINGS_PATH
from pydantic import ValidationError

from mbe_stage.errors import StageError
from mbe_stage.flows import enumerate as bicliques
from mbe_stage.flows import groups
from mbe_stage.flows.lost_signals import lost_signals_come_again, sighup_is_sigterm, what_ends_comes_out
from mbe_stage.flows.notify import PREFECT_ONLY, SECRET, Notify
from mbe_stage.flows.server import DEFAULT_PORT, api_of_one_run, scheduling_api, serve
from mbe_stage.flows.transcript import transcript
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.cli import json_or_text as show
from mbe_stage.pipeline.cli.json_log import LOG_FORMAT, JsonHandler, complain
from mbe_stage.pipeline.cli.options import METRICS, LogFormat, Metrics
from mbe_stage.pipeline.cli.terminal import say, visible_lines
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import INTERRUPTED, ConfigError, exit_code
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.signals import signals_are_heard
from mbe_stage.pipeline.problems.installed import derived_of, reading_of
from mbe_stage.pipeline.publish.manifest import read_manifest
from mbe_stage.pipeline.publish.staging import Store
from mbe_stage.pipeline.stores.address import STANDARD_INPUT, absolute_place
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.stores.open_store import opened_run, store_at
from mbe_stage.pipeline.verify import verify_run

__all__ = ["Module", "Runnable", "app_of", "cron_schedule", "main"]

Module = Literal["enumerate", "groups", "count_pq", "cliques", "itemsets", "project"]
"""A module of `flows` that has a flow."""

_CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS"
_DATE_FORMAT = "PREFECT_LOGGING_FORMATTERS_STANDARD_DATEFMT"


@dataclass(frozen=True, slots=True)
class Runnable:
    """A flow with the parts that its command needs.

    Attributes
    ----------
    flow : Flow
        Takes the configuration, the two paths, overrides and `force`; its result has ``run``.
    configure : callable
        Takes the parameters of the flow except `force`; returns its configuration or raises `ConfigError`.
    about : str
        The help of the command.
    tag : str
        Tag of the scheduled runs.
    """

    flow: Flow[..., Any]
    configure: Callable[..., Config]
    about: str
    tag: str


def main(module: Module) -> None:
    """Run the command of a flow: `python -m mbe_stage.flows.<module>`."""
    _date_log_lines()
    app_of(module)()


def app_of(module: Module) -> typer.Typer:
    """Make the command of a flow."""
    runnable = _RUNNABLE[module]()
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    settings = {"obj": runnable, "help_option_names": ["--help", "-h"]}
    example = f"Example: python -m mbe_stage.flows.{module} --input edges.csv --out out"
    app.command(help=runnable.about, context_settings=settings, epilog=example)(flow_command)
    return app


def _bicliques() -> Runnable:
    about = "Enumerate the maximal bicliques of a graph (or solve another problem) as a flow, once or on a schedule."
    return Runnable(bicliques.enumerate_bicliques_flow, bicliques.configure, about, "bicliques")


def _groups() -> Runnable:
    about = "Find the significant groups of a graph, ranked and explained, as a flow, once or on a schedule."
    return Runnable(groups.find_groups_flow, groups.configure, about, "groups")


def _of_problem(module: str, tag: str) -> Runnable:
    held = import_module(f"mbe_stage.flows.{module}")
    (made,) = (each for each in vars(held).values() if isinstance(each, Flow))
    about = str(made.description).partition(".")[0].removesuffix(", and publish them")
    return Runnable(made, held.configure, f"{about}, as a flow, once or on a schedule.", tag)


_RUNNABLE: dict[Module, Callable[[], Runnable]] = {
    "enumerate": _bicliques,
    "groups": _groups,
    "count_pq": lambda: _of_problem("count_pq", "counts"),
    "cliques": lambda: _of_problem("cliques", "cliques"),
    "itemsets": lambda: _of_problem("itemsets", "itemsets"),
    "project": lambda: _of_problem("project", "pairs"),
}


def _date_log_lines() -> None:
    """Add the date to Prefect's log lines, here and in child processes, as `mbe` does.

    Prefect's default is the time alone. A format or a logging configuration of the user is kept.
    """
    if _DATE_FORMAT in os.environ or PREFECT_LOGGING_SETTINGS_PATH.value().exists():
        return
    os.environ[_DATE_FORMAT] = "%Y-%m-%d %H:%M:%S"
    setup_logging(incremental=False)


def _monitor(log_format: str, metrics_file: Path | None) -> None:
    """Apply the two options here and in child processes, where scheduled runs happen."""
    run_state.begin("flow")
    if metrics_file is not None:
        os.environ[METRICS] = str(metrics_file)
    if log_format == "json":
        os.environ[LOG_FORMAT] = log_format
        os.environ[_CONSOLE] = f"{JsonHandler.__module__}.{JsonHandler.__qualname__}"
        setup_logging(incremental=False)


def flow_command(
    context: typer.Context,
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
    log_format: LogFormat = "text",
    metrics_file: Metrics = None,
    *,
    notify: Annotated[
        str | None, typer.Option("--notify", metavar="URL", help="Send a signed request for each new case.")
    ] = None,
    notify_keys: Annotated[bool, typer.Option("--notify-keys", help="Send the keys of members, too.")] = False,
    notify_secret: Annotated[
        str | None,
        typer.Option(
            "--notify-secret", metavar="BLOCK", help=f"Prefect block with the secret of --notify, instead of {SECRET}."
        ),
    ] = None,
) -> None:
    """Run the `Runnable` of the context."""
    _monitor(log_format, metrics_file)
    runnable: Runnable = context.obj
    try:
        parameters: dict[str, Any] = {
            "config_path": None if config is None else str(config.absolute()),
            "input_path": input_path if input_path in (None, STANDARD_INPUT) else absolute_place(input_path),
            "output_directory": None if output is None else absolute_place(output),
            "overrides": list(overrides or ()),
        }
        # Show mistakes now, not when the schedule first fires.
        checked = runnable.configure(**parameters)
        parameters |= {"force": force, **_notifying(checked, notify, notify_keys, notify_secret)}
        with what_ends_comes_out():
            if serve_it:
                _serve(runnable, name, cron_schedule(cron, timezone), port, parameters)
            else:
                _run_once(runnable.flow, parameters, show_it)
    except StageError as error:
        complain(f"error: {error}", exit_code(error))
        raise typer.Exit(exit_code(error)) from None
    except (KeyboardInterrupt, TerminationSignal):
        # The run may have been published before the interrupt.
        store = store_at(checked.output.directory)
        # The terminal may have gone.
        with suppress(OSError):
            complain(f"interrupted; the latest published run: {_latest(store)}", INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from None


def _notifying(config: Config, notify: str | None, notify_keys: bool, notify_secret: str | None) -> dict[str, Any]:
    """Check the options of notifications; return the parameter of the flow."""
    asked = Notify(notify, notify_keys, notify_secret)
    if asked == PREFECT_ONLY:
        return {}
    if all(derived.news is None for derived in derived_of(config)):
        raise ConfigError(
            "--notify: this run has no new cases to report; expected a configuration with groups; add the section "
            "groups, or leave the option out"
        )
    asked.check()
    return {"notify": asdict(asked)}


def _latest(store: Store) -> str:
    """Return the address of the latest run, or why it is unknown."""
    try:
        with closing(store):
            latest = store.latest()
            return "none" if latest is None else address_of(latest)
    except StageError as error:
        return f"unknown ({error})"


def cron_schedule(cron: str | None, timezone: str) -> Schedule:
    """Check `--cron` and `--timezone` and return the schedule.

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


def _run_once(flow: Flow[..., Any], parameters: dict[str, Any], show_it: bool) -> None:
    # Treat SIGTERM as Ctrl-C: its default action would leave the server and the staging directory behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sighup_is_sigterm()
    with lost_signals_come_again(), api_of_one_run():
        state = cast(State[dict[str, Any]], flow(**parameters, return_state=True))
        if show_it:
            print(visible_lines(transcript(cast(UUID, state.state_details.flow_run_id))))
    result = state.result()
    say(state.message)
    say(result["run"])
    if show_it:
        # Verify against the edges in the file, with code independent of engines and writers.
        with signals_are_heard(), opened_run(result["run"]) as run_dir:
            outcome = verify_run(run_dir, ingest(reading_of(read_manifest(run_dir).config)))
            show.verification(outcome, as_json=False)


def _serve(runnable: Runnable, name: str, schedule: Schedule, port: int, parameters: dict[str, Any]) -> None:
    # Treat SIGTERM as Ctrl-C from the start: its default action would leave the server behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sighup_is_sigterm()
    configured = PREFECT_API_AUTH_STRING.value()
    with scheduling_api(port) as url:
        say(f"Prefect server: {url}; this process runs {runnable.flow.name}/{name}; Ctrl-C ends both")
        if (secret := PREFECT_API_AUTH_STRING.value()) != configured:
            # Other users may be able to read log files.
            said = secret if sys.stdout.isatty() else "set PREFECT_API_AUTH_STRING to choose it"
            say(f"Its page asks for a secret: {said}")
        serve(runnable.flow, name, schedule, parameters, [runnable.tag])
