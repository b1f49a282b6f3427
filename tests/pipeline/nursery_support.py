"""Processes that start at once, forked from one that has loaded everything: the tests' side."""

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
    """A process that forks a child for each JSON line it reads and reports on the children.

    Attributes
    ----------
    said : list of str
        Lines read since the last request.
    """

    def __init__(self, *command: object) -> None:
        # A pipe that is not read until the end would fill up.
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        self.process = begun(
            command,
            stdin=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            # Child processes can import whatever the tests can.
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        )
        self.said: list[str] = []
        self.wait_for("ready")

    def wait_for(self, *words: str) -> str:
        """Read up to the line that begins with one of these words; return it."""
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
        """Wait until the nursery and its children have ended."""
        output_of(self.process)
        self.log.close()


class RunNursery(Nursery):
    """Runs by `nursery.py`, one at a time or several at once.

    Parameters
    ----------
    settings : dict
        A configuration; its compiled code is loaded before the first run.
    within : sequence of str
        Prefix of the command, such as one that creates a namespace.
    script : str
        The nursery's file in this directory.

    Attributes
    ----------
    pid : int
        Process id of the last run that was started.
    """

    def __init__(self, settings: dict[str, Any], within: Sequence[str] = (), script: str = "nursery.py") -> None:
        super().__init__(*within, sys.executable, Path(__file__).with_name(script), json.dumps(settings))
        self.pid = self.n_running = 0

    def begin(self, settings: dict[str, Any], after: Sequence[float] = (0.0,), **beside: Any) -> None:
        """Start one or more runs, each after a delay in seconds."""
        while self.n_running:
            # A failed test has not waited for its runs.
            self.ended()
        self.ask({"config": settings, "after": list(after), **beside})
        for _ in after:
            self.pid = int(self.wait_for("begun").split()[1])
            self.n_running += 1

    def send(self, number: signal.Signals) -> None:
        # The process may have ended; its number is not reused so soon.
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait for a run to end; return its exit code."""
        code = int(self.wait_for("ended").split()[1])
        self.n_running -= 1
        return code

    def ended_by(self, number: signal.Signals) -> int:
        """Send the run a signal and wait for it to end; return its exit code."""
        self.send(number)
        return self.ended()


class SchedulerNursery(Nursery):
    def __init__(self) -> None:
        super().__init__(sys.executable, Path(__file__).with_name("scheduler_nursery.py"))

    def begin(self, room: Path, seconds: float) -> tuple[int, Path]:
        """Start a scheduler whose worker takes `seconds` per block; return its process id and scheduler file."""
        self.ask({"room": str(room), "seconds": seconds})
        scheduler = int(self.wait_for("begun").split()[1])
        address, until = room / "scheduler.json", time.monotonic() + PATIENCE
        while not address.exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        return scheduler, address
