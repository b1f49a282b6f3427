"""`mbe`: the command line. Commands are thin and import their code when called.

Nothing heavy is imported at the top, so `mbe --help` answers at once. For the same reason annotations are objects here,
not text: Typer would compile the text of each.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from mbe_stage.pipeline.cli import cases, json_log
from mbe_stage.pipeline.cli import options as opt
from mbe_stage.pipeline.cli.early_exit import ENDINGS, leave_at_signals, nothing_more_to_say
from mbe_stage.pipeline.cli.help import Command, command_line, write_example, write_options
from mbe_stage.pipeline.cli.problems import ProblemCommand, command_named, commands_of_problems
from mbe_stage.pipeline.cli.publishing import UNCHANGED, publish, set_up_logging
from mbe_stage.pipeline.config.setting_names import setting, settings_called

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config

__all__ = ["INTERNAL_ERROR", "UNCHANGED", "app", "main"]

INTERNAL_ERROR = 70
_OUT_OF_MEMORY = 4

_EXIT_CODES = (
    "Exit codes: 0 done; 1 verification failed, or runs differ (diff --exit-code); "
    "2 input, configuration or option cannot be used; 3 output cannot be written, or is not a run; "
    "4 engine unavailable or not enough memory; 5 unchanged, nothing done (--if-changed); "
    "70 a defect of mbe itself; 129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM."
)


# Characters of a command's description in the list: enough for all of it.
_ABOUT = 200
# Errors of writing to standard output, which have no file name.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


# Made commands by name, each as a Typer of one command.
_APPS: dict[str, typer.Typer] = {}


class _Commands(Mapping[str, Any]):
    """Our commands by name, each made on first use, because making the options of all of them takes a while."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = typer.main.get_command(_APPS[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_APPS)

    def __len__(self) -> int:
        return len(_APPS)


def _command(name: str = "", cls: type[Command] = Command) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a function that is a command, by default with the function's name."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        holder = _APPS[name or function.__name__] = command_line(add_completion=False)
        return holder.command(name=name or None, cls=cls)(function)

    return add


class _Group(TyperGroup):
    """A command group that turns errors into one line and an exit code, for the real command and for tests."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(Any, _Commands())

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments; the list of commands may need other packages."""
        if args != ["--version"]:
            json_log.choose(args)
            _log_safely()
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if not json_log.is_json() or not hasattr(error, "format_message"):
                raise
            raise typer.Exit(_report(error)) from None

    def invoke(self, ctx: Any) -> Any:
        from mbe_stage.pipeline import run_state
        from mbe_stage.pipeline.cli import metrics

        run_state.begin(next(iter((*ctx._protected_args, *ctx.args)), ""))
        metrics.write_to(None)
        # The command is only known when it is invoked.
        with metrics.reported(), settings_called(lambda key: opt.option_of(key, self._invoked(ctx))):
            return self._invoke(ctx)

    def list_commands(self, _ctx: Any) -> list[str]:
        """List our commands, then those of other packages' problems."""
        names = list(self.commands)
        place = names.index("enumerate") + 1
        return [*names[:place], *commands_of_problems(self.commands), *names[place:]]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write every command with the first sentence of its help."""
        write_options(self, ctx, formatter)
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(_ABOUT)) for name, command in commands])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write an example, and the exit codes."""
        write_example("mbe", formatter)
        super().format_epilog(ctx, formatter)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; other packages are only asked for names that are not ours."""
        return super().get_command(ctx, cmd_name) or command_named(cmd_name, self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Refuse an unknown name with the nearest command, including those of other packages' problems."""
        if self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0], commands_of_problems(self.commands), n=1)
            if near and not get_close_matches(args[0], self.commands):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def _invoked(self, ctx: Any) -> Any:
        name = ctx.invoked_subcommand
        command = None if name is None else self.get_command(ctx, name)
        return command.whole if isinstance(command, ProblemCommand) else command

    def _publishes(self, ctx: Any) -> bool:
        name = ctx.invoked_subcommand
        return name is not None and (
            name in ("run", "groups") or isinstance(self.get_command(ctx, name), ProblemCommand)
        )

    def _invoke(self, ctx: Any) -> Any:
        from mbe_stage.pipeline.execution.signals import ended_by, signals_are_heard

        wants_json = "--json" in (*ctx._protected_args, *ctx.args)
        try:
            with signals_are_heard():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(_end(interrupt, self._publishes(ctx))) from None
        except MemoryError:
            raise typer.Exit(_out_of_memory()) from None
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the last line of defence: it reports, and leaves with a code
            behind = ended_by(error)
            code = _report(error) if behind is None else _end(behind, self._publishes(ctx))
            settings = getattr(error, "settings", ())
            if settings and wants_json:
                from mbe_stage.pipeline.cli.terminal import print_json

                print_json({"error": str(error), "settings": settings})
            raise typer.Exit(code) from None


app = command_line(name="mbe", cls=_Group, no_args_is_help=True, epilog=_EXIT_CODES)


def main() -> None:
    """Run the `mbe` command (`pipeline.cli.entry`)."""
    leave_at_signals()
    try:
        app(prog_name="mbe")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
        nothing_more_to_say(code)
        if code == _OUT_OF_MEMORY:
            # Shutdown of libraries may need memory too: Arrow sometimes aborts the process without it.
            os._exit(code)
        raise


def _log_safely() -> None:
    """Format early log lines like later ones, with dates and without control characters.

    They may quote text of other packages, which Python would write to stderr unchanged.
    """
    from mbe_stage.pipeline.cli.terminal import TIME, VisibleFormatter

    logger = logging.getLogger("mbe_stage")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(VisibleFormatter("%(asctime)s %(message)s", TIME))
        logger.addHandler(handler)


def _end(interrupt: KeyboardInterrupt, publishes: bool) -> int:
    """Print that a signal ended the command; return the exit code."""
    from mbe_stage.pipeline.errors import interruption
    from mbe_stage.pipeline.execution.signals import signal_of

    code = 128 + signal_of(interrupt)
    _say(interruption(interrupt) if publishes else ENDINGS[signal_of(interrupt)], code)
    return code


def _output_is_full(error: OSError) -> int:
    # Python would try to write the rest of its buffer at exit, and fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    reason = os.strerror(error.errno or 0)
    _say(f"error: standard output: cannot be written ({reason}); free some space, or redirect it", 3)
    return 3


def _report(error: Exception) -> int:
    """Print what went wrong; return the exit code. Typer's own errors and exits pass through."""
    from mbe_stage.pipeline.cli.terminal import visible

    if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
        if hasattr(error, "message") and hasattr(error, "format_message"):
            # Typer puts pydantic's prefix before the message.
            error.message = visible(error.message.removeprefix("Value error, "))
            if json_log.is_json():
                _say(error.format_message(), error.exit_code)
                return int(error.exit_code)
        raise error
    from mbe_stage.errors import StageError
    from mbe_stage.pipeline.errors import exit_code

    if isinstance(error, StageError):
        _say(f"error: {error}", exit_code(error))
        return exit_code(error)
    if isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
        return _output_is_full(error)
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _out_of_memory()
    defect = f"error: this is a defect of mbe: {type(error).__name__}; please report it with the lines above"
    _say(defect, INTERNAL_ERROR, error)
    return INTERNAL_ERROR


def _out_of_memory() -> int:
    """Report lack of memory; return the exit code."""
    import resource

    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    limit = "raise the limit of the address space (ulimit -v), " if is_limited else ""
    _say(
        f"error: out of memory: {limit}ask for larger groups ({setting('query.min_left')}, "
        f"{setting('query.min_right')}), or lower {setting('execution.memory_budget')}",
        _OUT_OF_MEMORY,
    )
    return _OUT_OF_MEMORY


def _say(message: str, code: int, error: BaseException | None = None) -> None:
    # If the terminal is gone, the exit code still tells.
    with suppress(OSError):
        json_log.complain(message, code, error)


def _version(wanted: bool) -> None:
    if wanted:
        from mbe_stage.pipeline.package_files import version_line

        print(version_line())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version and commit, and exit."),
    ] = False,
) -> None:
    """Every maximal biclique of a bipartite graph, as published tables and a report."""


@_command()
def run(
    config: Annotated[Path, typer.Argument(help="YAML file; configs/default.yaml shows every key.")],
    override: opt.Override = None,
    if_changed: opt.IfChanged = False,
    resume: opt.Resume = False,
    count_only: opt.CountOnly = False,
    metrics: opt.Metrics = None,  # noqa: ARG001 - its callback takes it
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Run a configuration: read, enumerate, publish."""
    from mbe_stage.pipeline.config.model import load_config

    given = {"if_changed": if_changed, "resume": resume, "count_only": count_only}
    publish(load_config(config, override or ()), {**given, "as_json": as_json, "quiet": quiet, "verbose": verbose})


_ENUMERATING = (*opt.publishing(opt.QUERY, max_bicliques=True, members=True), *opt.GROUPS)


@_command("enumerate", ProblemCommand)
@opt.taking(_ENUMERATING)
def enumerate_(**options: Any) -> None:
    """Enumerate the maximal bicliques of one input, by options."""
    publish(opt.configuration(_ENUMERATING, options), options)


@_command()
@opt.taking(opt.GROUPING)
def groups(**options: Any) -> None:
    """Rank the significant groups of an input or of a published run, with a reason for each."""
    from mbe_stage.pipeline.cli.groups import make_groups

    make_groups(options)


@_command()
@opt.taking(opt.SHOWING)
def show(**options: Any) -> None:
    """Show the finding of a run and its cases; or a case, a group or a member. Publishes nothing."""
    from mbe_stage.pipeline.cli.show import show_run

    show_run(options)


@_command()
@opt.taking(opt.ACCOUNTS)
def accounts(**options: Any) -> None:
    """List the members of a side by score, the highest first."""
    from mbe_stage.pipeline.cli.show import show_accounts

    show_accounts(options)


_APPS["cases"] = cases.APP


@_command()
@opt.taking(opt.INSPECTING)
def inspect(**options: Any) -> None:
    """Inspect a graph: sizes, degrees, and the expected number of bicliques, seconds and bytes."""
    from mbe_stage.pipeline.cli.inspect import look

    if not isfinite(options["trial"]):
        raise typer.BadParameter("is not a number of seconds; 0 skips the trial", param_hint="--trial")
    look(_inspected(options), options)


@_command()
@opt.taking(opt.TOP)
def top(**options: Any) -> None:
    """Show the largest results of a run, or the largest with a vertex; without bicliques, its groups by rank."""
    from mbe_stage.pipeline.cli.top import show_top

    show_top(options)


@_command("explore")
def explore_(
    run_path: Annotated[str, typer.Argument(metavar="RUN", help="Run, or output directory: its latest run.")],
    verdicts: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File of verdicts; by default verdicts.sqlite beside the runs."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 takes a free one.")] = 0,
) -> None:
    """Explore the cases of a run in a browser of this machine, and decide on them; Ctrl-C ends it."""
    from mbe_stage.pipeline.cli.explore import explore

    explore(run_path, verdicts, port)


@_command()
def runs(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Output directory.")],
    as_json: opt.Json = False,
) -> None:
    """List the runs of an output directory, the newest last, and the resumable ones."""
    from mbe_stage.pipeline.cli import json_or_text as show
    from mbe_stage.pipeline.execution.unfinished import list_unfinished
    from mbe_stage.pipeline.publish.listing import list_runs

    show.runs(directory, list_runs(directory), list_unfinished(directory), as_json)


@_command()
def clean(
    directory: Annotated[
        str | None, typer.Argument(metavar="DIR", help="Output directory.", show_default=False)
    ] = None,
    cache: Annotated[bool, typer.Option("--cache", help="Remove all compiled code of mbe instead.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Remove the files of interrupted runs, including resumable ones; or compiled code."""
    from contextlib import closing

    from mbe_stage.pipeline.cli import json_or_text as show
    from mbe_stage.pipeline.stores.open_store import store_at

    if (directory is None) != cache:
        raise typer.BadParameter("name either an output directory or --cache", param_hint="DIR")
    if directory is None:
        from mbe_stage.pipeline.cli.compile import clear_cache

        show.cleaned(None, clear_cache(), as_json)
        return
    with closing(store_at(directory)) as store:
        removed = store.clean()
        if not removed:
            # A directory with nothing but the files of interrupted runs is an output directory, too.
            store.check_listed()
        show.cleaned(directory, removed, as_json)


@_command()
@opt.taking(opt.EXPORTING)
def export(**options: Any) -> None:
    """Export members with their own keys as CSV, or the graph of groups for another system."""
    from mbe_stage.pipeline.cli.export import export_run_as

    export_run_as(options)


@_command()
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Run, or output directory: its latest run.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="As OLD; `latest`: the latest run next to OLD.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write all differences to this directory as Parquet; new or empty."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show the N largest of each kind.")] = 5,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if the runs differ.")] = False,
    threads: opt.Threads = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare two runs: bicliques that are new, gone, grown, shrunk or changed; without bicliques groups."""
    from mbe_stage.pipeline.cli.diff import compare, compare_groups
    from mbe_stage.pipeline.cli.json_or_text import compared_by_problem
    from mbe_stage.pipeline.stores.open_store import opened_runs
    from mbe_stage.pipeline.views.diff.job import resolve_both

    with opened_runs(old, new) as places:
        both = resolve_both(*places)
        differ = compare_groups(*both, out, limit, as_json)
        if differ is None:
            differ = compared_by_problem(*both, out, limit, as_json)
        if differ is None:
            differ = compare(*both, out, limit, threads or 0, as_json, quiet)
    if differ and exit_code:
        raise typer.Exit(1)


@_command()
def verify(
    run_path: Annotated[str, typer.Argument(metavar="RUN", help="Run, or output directory: its latest run.")],
    source: Annotated[
        str | None, typer.Option("--input", metavar="INPUT", help="The run's input; by default at its original place.")
    ] = None,
    file_format: opt.Format = None,
    sample: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Number of bicliques to check against the graph (5 million).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random sample.")] = 0,
    threads: opt.Threads = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Check a run independently of the code that made it: complete, maximal, distinct, tables, checksums."""
    from mbe_stage.pipeline.cli.verify import check

    given = {key: value for key, value in {"path": source, "format": file_format}.items() if value is not None}
    check(run_path, given, sample, seed, threads or 0, as_json, quiet, verbose)


@_command("compile")
def compile_(
    engine: opt.Tier = None,
    problem: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the engines of this problem, such as pq_counts.")
    ] = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Compile all code ahead of time, for images and read-only installations."""
    from mbe_stage.pipeline.cli import console
    from mbe_stage.pipeline.cli import json_or_text as show

    with console.ProgressDisplay(set_up_logging(quiet, verbose), quiet, "looking for compiled code") as progress:
        from mbe_stage.pipeline.cli.compile import compile_everything

        found = compile_everything(engine or "auto", progress.compiled, problem)
    show.compiled(found, as_json)


@_command()
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for inputs and runs.")] = Path("out"),
) -> None:
    """Find the maximal bicliques of two real graphs: tables, reports and the largest groups."""
    from mbe_stage.pipeline.demo.job import show_demo

    show_demo(out)


def _inspected(options: dict[str, Any]) -> "Config":
    """Return the configuration of `mbe inspect`: a file and options, or a configuration that options override."""
    first, *others = map(Path, options["source"])
    overrides = options["override"] or ()
    if others or first.suffix.lower() not in (".yaml", ".yml"):
        return opt.configuration(opt.INSPECTING, options, None, overrides)
    return opt.configuration(opt.INSPECTING, options | {"source": None}, first, overrides)
