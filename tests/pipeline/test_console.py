"""Messages of the command line besides its result, and how many there are."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from mbe_stage.bicliques import engine_cuda
from mbe_stage.bicliques.enumerate import Progress
from mbe_stage.forecast import Outlook
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.backend import ARROW
from mbe_stage.pipeline.cli import app, console
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.stream import wants_outlook

DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text("left,right\na,x\nb,x\n")
    return path


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: "numba-cuda is not installed: install it")


def mbe(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def test_missing_packages_are_reported_only_with_verbose(edges: Path) -> None:
    said = mbe("enumerate", edges, "--count-only").stderr
    assert "not installed" not in said
    assert "auto" not in said
    assert "read " in said
    asked = mbe("enumerate", edges, "--count-only", "--verbose").stderr
    assert "tier auto: cpu" in asked
    assert "engine auto: cpu; not cuda: numba-cuda is not installed" in asked


def test_a_missing_package_is_reported_if_its_engine_is_requested(edges: Path) -> None:
    refused = mbe("enumerate", edges, "--count-only", "--engine", "cuda")
    assert refused.exit_code == 4
    assert "numba-cuda is not installed" in refused.stderr


def test_quiet_and_verbose_exclude_each_other(edges: Path) -> None:
    refused = mbe("enumerate", edges, "--count-only", "--verbose", "--quiet")
    assert refused.exit_code == 2
    assert "--quiet were both given" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("terminal", [True, False])
def test_every_line_has_its_date(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    if terminal:
        monkeypatch.setattr(
            console, "Console", lambda **_: Console(file=stderr, force_terminal=True, color_system=None)
        )
    console.set_up_logging(quiet=False)
    for _ in range(2):
        logging.getLogger("mbe_stage.pipeline.test_console").info("read it")
    assert all(re.fullmatch(rf"\[?{DATE}\]? read it *", line) for line in stderr.getvalue().splitlines())
    assert stderr.getvalue().count("read it") == 2


def display_of(stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch, quiet: bool) -> console.ProgressDisplay:
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(console, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(console, "_WATCHED_EVERY", 0.05)
    return console.ProgressDisplay(console.set_up_logging(quiet), quiet, "reading the input")


def test_work_without_reports_still_logs_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    with display_of(stderr, monkeypatch, quiet=False) as display:
        for first in ("reading the input, ", "enumerating (share: a guess): 25.0 % of the work, 3 bicliques, 2/s, "):
            n_before = len(stderr.getvalue().splitlines())
            while len(lines := stderr.getvalue().splitlines()) < n_before + 2:
                time.sleep(0.01)
            assert all(re.fullmatch(rf"{DATE} {re.escape(first)}\d+ s", line) for line in lines[-2:]), lines
            display.enumerated(Progress(3, 0.25, 1.5))
            # A line that was already started may end after it.
            time.sleep(0.1)
        display.enumerated(Progress(4, 1.0, 2.0))
        while "all found, finishing, 4 bicliques, 2/s, " not in stderr.getvalue():
            time.sleep(0.01)
    said = stderr.getvalue()
    time.sleep(0.2)
    assert stderr.getvalue() == said


@pytest.mark.parametrize(
    ("standing", "percentage", "said"),
    [
        (Progress(300, 0.9, 10.0), 90.0, "enumerating (share: a guess): 90.0 % of the work, 300 bicliques, 30/s"),
        (
            Progress(300, 0.9, 10.0, "cpu", Outlook(950, 1012, 1100), 0.25, 130.0),
            25.0,
            "enumerating: 25.0 % of the work, 2 min left, 300 of about 1,000 bicliques, 30/s",
        ),
        (
            Progress(300, 0.9, 10.0, "cpu", Outlook(950, 5000, None)),
            None,
            "enumerating, 300 of at least 950 bicliques (total unknown), 30/s",
        ),
        (
            Progress(300, 0.9, 10.0, "cpu", Outlook(300, 5000, None)),
            None,
            "enumerating, 300 bicliques (total not known yet), 30/s",
        ),
        (
            Progress(300, 0.9, 10.0, "cpu", Outlook(900, 5000, 9000)),
            None,
            "enumerating, 300 of 900 to 9,000 bicliques, 30/s",
        ),
        # A block reports that all is done; others may be queued behind it.
        (Progress(300, 0.999, 10.0), 99.9, "enumerating (share: a guess): 99.9 % of the work, 300 bicliques, 30/s"),
        (
            Progress(300, 1.0, 10.0, "cpu", Outlook.exactly(300), 1.0, 0.0),
            None,
            "all found, finishing, 300 bicliques, 30/s",
        ),
        (
            Progress(300, 0.9, 10.0, "cpu", Outlook(950, 1012, 1100), 0.25, 0.0, has_stopped=True),
            None,
            "stopped, finishing, 300 bicliques, 30/s",
        ),
        (Progress(0, 0.9, 10.0, "cpu", Outlook.exactly(0)), None, "enumerating, 0 of 0 bicliques, 0/s"),
        (
            Progress(300, 0.9, 10.0, search="what comes later"),
            90.0,
            "enumerating what comes later (share: a guess): 90.0 % of the work, 300 bicliques, 30/s",
        ),
    ],
    ids=[
        "a guess",
        "known",
        "open",
        "open and all found",
        "wide",
        "nearly done",
        "done",
        "stopped",
        "none at all",
        "another",
    ],
)
def test_share_and_time_left_on_a_terminal(standing: Progress, percentage: float | None, said: str) -> None:
    shown = Console(file=(stderr := io.StringIO()), force_terminal=True, color_system=None, width=200)
    with console.ProgressDisplay(shown, False, "reading the input") as display:
        display.enumerated(standing)
        assert display._bar is not None
        task = display._bar.tasks[0]
        assert (None if task.total is None else task.percentage) == pytest.approx(percentage)
        display._bar.refresh()
    # The log line says the same.
    assert display._standing == said
    for part in said.split(": ")[-1].partition(" % of the work, ")[2].split(", "):
        assert part in stderr.getvalue()


def test_the_time_left_decreases_during_a_slow_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [0.0]
    monkeypatch.setattr(console, "time", SimpleNamespace(perf_counter=lambda: moments[-1]))
    shown = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=200)
    display = console.ProgressDisplay(shown, False, "reading the input")
    display.enumerated(Progress(300, 0.9, 10.0, "cpu", Outlook(950, 1012, 1100), 0.25, 30.0))
    assert display._bar is not None
    for moment, left in ((0.0, "30 s left, "), (12.0, "18 s left, "), (100.0, "1 s left, ")):
        moments.append(moment)
        assert left in display._standing
        assert str(display._bar.tasks[0].fields["found"]).startswith(left)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_reading_shows_its_step_and_rate(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"u": list(range(100)), "v": ["x"] * 100})
    write = {"csv": csv.write_csv, "parquet": pq.write_table}[suffix]
    write(rows, path := tmp_path / f"edges.{suffix}")
    shown = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=200)
    said = []

    def seen(*arguments: Any) -> Any:
        said.append((display._standing, f"{display._bar.tasks[0].fields['found']}"))
        return distinct_pairs(*arguments)

    distinct_pairs, rank = ARROW.distinct_pairs, ARROW.ranked
    monkeypatch.setattr(ARROW, "distinct_pairs", seen)
    monkeypatch.setattr(ARROW, "ranked", lambda *keys: said.append(display._standing) or rank(*keys))
    with console.ProgressDisplay(shown, False, "reading the input") as display:
        ingest(InputConfig(path=str(path)))
        assert display._standing == "reading the input"
        with run_state.at_part("building the graph"):
            assert display._standing == f"{display._bar.tasks[0].fields['what']}" == "building the graph"
    reading, _, ordering = said
    assert re.fullmatch(r"reading the input, 100 edges, [\d,]+/s", reading)
    for shown_as, head in zip(ordering, ("reading the input, ", ""), strict=True):
        assert re.fullmatch(rf"{head}ordering 100 edges, [\d,]+/s", shown_as)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_quiet_command_wants_no_outlook(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wants_outlook(display_of(io.StringIO(), monkeypatch, quiet).enumerated) is not quiet


def test_a_closed_terminal_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    stderr = os.fdopen(theirs, "w")
    monkeypatch.setattr(sys, "stderr", stderr)
    shown = console.set_up_logging(quiet=False)
    assert shown.is_terminal
    with console.ProgressDisplay(shown, False, "reading the input") as display:
        os.close(ours)
        display.enumerated(Progress(3, 0.25, 1.5))
        logging.getLogger("mbe_stage.pipeline.test_console").info("read it")
        display.enumerated(Progress(4, 1.0, 2.0))
    # Closing retries the failed write.
    with suppress(OSError):
        stderr.close()


def test_a_quiet_command_says_nothing_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    with display_of(stderr, monkeypatch, quiet=True):
        time.sleep(0.2)
    assert stderr.getvalue() == ""
