"""Processes that begin at once, forked from one that has loaded everything: the tests' side of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE, begun, output_of

__all__ = ["RunNursery", "SchedulerNursery"]

ROOT = Path(__file__).parents[2]


class Nursery:
    """A process that reads a line of JSON for each that it is to fork, and says what becomes of them.

    Attributes
    ----------
    said : list of str
        What was said since something was asked for last, line by line, as far as it was read.
    """

    def __init__(self, *command: object) -> None:
        # A pipe that nobody reads before the end is full some time.
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        self.process = begun(
            command,
            stdin=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            # Whatever the tests have imported from, their processes can.
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        )
        self.said: list[str] = []
        self.wait_for("ready")

    def wait_for(self, *words: str) -> str:
        """Read on to the line that begins with one of these words; the line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith(words):
                return line
            assert words == ("ended",) or not line.startswith("refused"), line
        self.log.seek(0)
        pytest.fail(f"never said {words}: {self.log.read()}")

    def ask(self, asked: object) -> None:
        assert self.process.stdin is not None
        self.said.clear()
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Wait for the end of all of it."""
        output_of(self.process)
        self.log.close()


class RunNursery(Nursery):
    """Runs by `nursery.py`, one at a time, or several of the same beside each other.

    Parameters
    ----------
    settings : dict
        A configuration: what it needs is loaded before the first run.
    within : sequence of str
        A command that starts another one, as in a namespace of its own.
    script : str
        A file beside this one: which nursery it is.

    Attributes
    ----------
    pid : int
        Of the run that was begun last.
    """

    def __init__(self, settings: dict[str, Any], within: Sequence[str] = (), script: str = "nursery.py") -> None:
        super().__init__(*within, sys.executable, Path(__file__).with_name(script), json.dumps(settings))
        self.pid = self.n_running = 0

    def begin(self, settings: dict[str, Any], after: Sequence[float] = (0.0,), **beside: Any) -> None:
        """Begin a run, or several, each after so many seconds."""
        while self.n_running:
            # A test that failed has not waited for them.
            self.ended()
        self.ask({"config": settings, "after": list(after), **beside})
        for _ in after:
            self.pid = int(self.wait_for("begun").split()[1])
            self.n_running += 1

    def send(self, number: signal.Signals) -> None:
        """Send the run a signal."""
        # It may have ended; its number is not used again so soon.
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait for the end of a run; its exit code."""
        code = int(self.wait_for("ended").split()[1])
        self.n_running -= 1
        return code

    def ended_by(self, number: signal.Signals) -> int:
        """Send the run a signal, and wait for its end; its exit code."""
        self.send(number)
        return self.ended()


class SchedulerNursery(Nursery):
    """Schedulers with a worker each, by `scheduler_nursery.py`."""

    def __init__(self) -> None:
        super().__init__(sys.executable, Path(__file__).with_name("scheduler_nursery.py"))

    def begin(self, room: Path, seconds: float) -> tuple[int, Path]:
        """The process of a scheduler whose worker takes so long for a block, and the file that says where it is."""
        self.ask({"room": str(room), "seconds": seconds})
        scheduler = int(self.wait_for("begun").split()[1])
        address, until = room / "scheduler.json", time.monotonic() + PATIENCE
        while not address.exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        return scheduler, address
