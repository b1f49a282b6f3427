"""Progress and log lines of the command line, on stderr."""

from __future__ import annotations

import errno
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, cast

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from mbe_stage.bicliques.enumerate import Progress as Standing
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.cli.json_log import is_json
from mbe_stage.pipeline.cli.terminal import TIME, VisibleFormatter, visible
from mbe_stage.pipeline.wording import found_text, left_text, percent_text
from mbe_stage.repeating import repeated
from mbe_stage.runtime.compile_ahead import CompileProgress, log_lines
from mbe_stage.stream import Listener

log = logging.getLogger("mbe_stage.pipeline.cli.console")

# Seconds between progress lines if stderr is not a terminal: at first, while a user may be watching, and later.
_WATCHED_EVERY = 2.0
_WATCHED_FOR = 30.0
_LOG_EVERY = 10.0
_LOOK_EVERY = 0.5


def set_up_logging(quiet: bool, verbose: bool = False) -> Console:
    """Send the package's log lines to stderr, above the progress bar on a terminal; return that console."""
    stream, shows_bar = cast(IO[str], _WhileItLasts(sys.stderr)), False if is_json() else None
    console = Console(file=stream, markup=False, highlight=False, force_terminal=shows_bar)
    handler: logging.Handler
    if is_json():
        handler = logging.NullHandler()  # the root logger has one
    elif console.is_terminal:
        handler = RichHandler(
            console=console,
            show_path=False,
            show_level=False,
            markup=False,
            highlighter=None,
            omit_repeated_times=False,
            log_time_format=TIME,
        )
        handler.setFormatter(VisibleFormatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(VisibleFormatter("%(asctime)s %(message)s", TIME))
    logger = logging.getLogger("mbe_stage")
    logger.handlers = [handler]
    logger.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
    return console


class _WhileItLasts:
    """A stream to a terminal that may go away: failing to show output must not end the work.

    Closing a terminal also sends SIGHUP, which ends the command, or is ignored under `nohup`.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _unless_it_has_gone():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _unless_it_has_gone():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _unless_it_has_gone() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise


class _AtRendering:
    """Text that is made when it is shown, because the work may not report in the meantime."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text()

    def __format__(self, form: str) -> str:
        return format(str(self), form)


class _ShareColumn(TextColumn):
    """The finished share of the work; Rich's own column says 100 % too early."""

    def render(self, task: Task) -> Text:
        return Text(percent_text(task.completed / task.total, 0) if task.total else "", style="progress.percentage")


class ProgressDisplay:
    """Share, results, rate, time and time left: a bar on a terminal, else regular log lines.

    There is a line every two seconds at first and every ten later, even if the work does not report.

    Parameters
    ----------
    console : Console
        A console on stderr.
    quiet : bool
        Show nothing.
    first : str
        The activity before the work begins.
    counted : str
        Plural noun for the results.

    Attributes
    ----------
    enumerated : Listener
        Receives the progress of an enumeration; requests a forecast unless nothing is shown.
    """

    def __init__(self, console: Console, quiet: bool, first: str, counted: str = "bicliques") -> None:
        self._counted = counted
        self._bar: Progress | None = None
        self.enumerated = Listener(self._enumerated, wants_outlook=not quiet)
        self._logs = not quiet and not console.is_terminal
        named = visible(first)
        self._first = _AtRendering(lambda: run_state.part_text() or named)
        self._what: object = self._first
        self._found: object = _AtRendering(run_state.reading_text)
        self._compile_lines = log_lines()
        self._start = time.perf_counter()
        # Starting Python has already taken a moment.
        self._last_line = self._start - _WATCHED_EVERY / 2
        self._stack = ExitStack()
        if console.is_terminal and not quiet:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.fields[what]}", markup=False),
                BarColumn(),
                _ShareColumn(""),
                TextColumn("{task.fields[found]}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=None, what=self._what, found=self._found)

    def _enumerated(self, standing: Standing) -> None:
        rate = f"{standing.n_found / standing.seconds if standing.seconds > 0 else 0.0:,.0f}/s"
        what = f"enumerating {standing.search}".rstrip()
        if standing.work_done == 1.0 or standing.has_stopped:
            what = "stopped, finishing" if standing.has_stopped else "all found, finishing"
            self._show(what, None, f"{standing.n_found:,} {self._counted}, {rate}")
            return
        text = found_text(standing.n_found, self._counted, standing.expected, standing.share)
        found = f"{text}, {standing.status or rate}"
        if standing.expected is None:
            self._show(f"{what} (share: a guess)", standing.work_done, found)
        else:
            left = standing.seconds_left
            end = time.perf_counter() + (left or 0.0)
            # No block arrives while a slow sink works, so the time left is computed at rendering. A narrow terminal
            # cuts off the end.
            with_left = _AtRendering(lambda: f"{left_text(max(0.0, end - time.perf_counter()))}, {found}")
            self._show(what, standing.share, found if left is None else with_left)

    def compiled(self, standing: CompileProgress) -> None:
        """Show the progress of compilation before the work begins."""
        if self._bar is None:
            self._compile_lines(standing)
            self._last_line = time.perf_counter()
        elif standing.is_over:
            self._update(self._first, None)
        else:
            self._update(str(standing), standing.total, standing.done)

    def verified(self, share: float) -> None:
        """Show the progress of a verification."""
        self._show("verifying", share)

    def exported(self, share: float) -> None:
        """Show the progress of an export."""
        self._show("exporting", share)

    def working(self, what: str, share: float) -> None:
        """Show the progress of any other work, by its name."""
        self._show(what, share)

    def _show(self, what: str, share: float | None, found: object = "") -> None:
        done = "" if share is None else f": {percent_text(share, 1)} of the work"
        self._what, self._found = f"{what}{done}", found
        self._update(what, None if share is None else 1.0, share or 0.0)

    def _update(self, what: object, total: float | None, done: float = 0.0) -> None:
        if self._bar is not None:
            # Rich ignores a total of None, and stops the clock of completed tasks.
            self._bar.tasks[0].total, self._bar.tasks[0].finished_time = total, None
            self._bar.update(self._task, completed=done, what=what, found=self._found)

    @property
    def _standing(self) -> str:
        """The current state as text."""
        found = str(self._found)
        return f"{self._what}, {found}" if found else str(self._what)

    def _say(self) -> None:
        """Log the current state, unless there was a line a moment ago."""
        now = time.perf_counter()
        if now - self._last_line >= (_WATCHED_EVERY if now - self._start < _WATCHED_FOR else _LOG_EVERY):
            self._last_line = now
            seconds = now - self._start
            log.info("%s, %.0f s", self._standing, seconds, extra={**run_state.counts(), "seconds": round(seconds, 3)})

    def __enter__(self) -> ProgressDisplay:
        if self._bar is not None:
            self._stack.enter_context(self._bar)
        elif self._logs:
            self._stack.enter_context(repeated(self._say, _LOOK_EVERY))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()
