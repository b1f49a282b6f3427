"""Runs that are killed at random moments or told to end, and resumed: what is published is what nothing happened to."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline import Config, RunStore, run
from pipeline.errors import INTERRUPTED
from pipeline.unfinished import list_unfinished
from tests.patience import PATIENCE, begun, output_of
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import (
    assert_as_undisturbed,
    edges,
    is_sorted,
    output_of_run,
    undisturbed,
    values,
    whatever_they_cost,
)

__all__ = ["edges", "undisturbed", "whatever_they_cost"]

NURSERY = Path(__file__).with_name("nursery.py")
# Seconds: a whole run takes somewhat longer; what is left of a resumed one is shorter and shorter.
LONGEST_DELAY = 0.8


class Nursery:
    """Runs in processes of their own that begin at once, one at a time."""

    def __init__(self, settings: dict) -> None:
        self.process = begun(
            [sys.executable, NURSERY, json.dumps(settings)],
            stdin=subprocess.PIPE,
            text=True,
            cwd=NURSERY.parents[2],
            env={**os.environ, "PYTHONPATH": str(NURSERY.parents[2])},
        )
        self.wait_for("ready")
        self.pid = 0

    def wait_for(self, *words: str) -> list[str]:
        """Read on to the line that begins with one of these words; it is given by its words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(words):
                return line.split()
            assert not line.startswith("refused"), line
        pytest.fail(f"never said {words}: {output_of(self.process)[1]}")

    def begin(self, settings: dict) -> None:
        """Begin a run."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(settings) + "\n")
        self.process.stdin.flush()
        self.pid = int(self.wait_for("begun")[1])

    def end(self, number: signal.Signals) -> int:
        """Send the run a signal, and wait for its end; returns the exit code."""
        # It may have ended; its number is not used again so soon.
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return int(self.wait_for("ended")[1])


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory, edges: Path) -> Iterator[Nursery]:
    nursery = Nursery(values(tmp_path_factory.mktemp("nobody"), edges))
    yield nursery
    output_of(nursery.process)


def kill_and_resume(nursery: Nursery, out: Path, edges: Path, undisturbed: Path, rounds: int, seed: int) -> None:
    """Kill -9 at random moments, the resumed runs too, until one comes to its end."""
    dice, n_killed, n_resumed = random.Random(seed), 0, 0
    settings = values(out, edges, output=output_of_run(undisturbed), execution={"block_bytes": 20_000})
    for attempt in range(rounds):
        directory = out / str(attempt)
        settings["output"]["directory"] = str(directory)
        delay = LONGEST_DELAY
        while (latest := RunStore(directory).latest()) is None:
            n_resumed += sum(each.n_found for each in list_unfinished(directory)) > 0
            nursery.begin(settings)
            # Most of them while they search or publish, some while they read the input and what was kept.
            if dice.random() < 0.8:
                nursery.wait_for("running")
            time.sleep(dice.random() * delay)
            code = nursery.end(signal.SIGKILL)
            assert code in (0, -signal.SIGKILL), f"round {attempt}, seed {seed}: exit code {code}"
            n_killed += code != 0
            # On a slow machine it has to come to its end too.
            delay *= 1.1
        assert_as_undisturbed(latest, undisturbed, edges, same_bytes=is_sorted(undisturbed))
        # Killed while it published, it may have left its room, which is nothing to go on with.
        assert RunStore(directory).unfinished() == []
    assert n_killed, "no run was killed: the delays are too long"
    assert n_resumed, "nothing was kept of any run: checkpoints come too late"


def test_killed_at_random_moments_and_resumed(nursery, tmp_path, edges, undisturbed) -> None:
    kill_and_resume(nursery, tmp_path, edges, undisturbed, rounds=5, seed=random.randrange(10**6))


@pytest.mark.slow
def test_killed_and_resumed_a_hundred_times(nursery, tmp_path, edges, undisturbed) -> None:
    kill_and_resume(nursery, tmp_path, edges, undisturbed, rounds=50, seed=random.randrange(10**6))


def begin_and_wait_until_something_is_kept(nursery: Nursery, settings: dict) -> None:
    nursery.begin(settings)
    begun_at = time.monotonic()
    while not list_unfinished(settings["output"]["directory"]):
        assert time.monotonic() - begun_at < PATIENCE
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_told_to_end_keeps_what_was_found(nursery, tmp_path, edges, undisturbed, number) -> None:
    settings = values(tmp_path, edges, output=output_of_run(undisturbed), execution={"block_bytes": 20_000})
    begin_and_wait_until_something_is_kept(nursery, settings)
    assert nursery.end(number) == INTERRUPTED
    (kept,) = list_unfinished(tmp_path)
    assert not kept.is_running
    assert RunStore(tmp_path).runs() == []
    result = run(Config.from_mapping(settings), resume=True)
    assert any(f"{kept.n_found:,} results" in text for text in result.manifest.warnings)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


@pytest.mark.parametrize(
    ("number", "grace_seconds"), [(signal.SIGTERM, PATIENCE), (signal.SIGTERM, 0), (signal.SIGINT, PATIENCE)], ids=str
)
def test_sigterm_waits_for_a_last_checkpoint(nursery, tmp_path, edges, undisturbed, number, grace_seconds) -> None:
    output = {**output_of_run(undisturbed), "checkpoint_seconds": 3600}
    execution = {"block_bytes": 20_000, "grace_seconds": grace_seconds}
    settings = values(tmp_path, edges, output=output, execution=execution)
    nursery.begin(settings)
    nursery.wait_for("running")
    # Some blocks more, each of which takes a hundredth of a second: there is something to keep.
    time.sleep(0.1)
    assert nursery.end(number) == INTERRUPTED
    kept = list_unfinished(tmp_path)
    assert RunStore(tmp_path).runs() == []
    assert [each.n_found > 0 for each in kept] == [True] * (number == signal.SIGTERM and grace_seconds > 0)
    if kept:
        result = run(Config.from_mapping(settings), resume=True)
        assert any(f"{kept[0].n_found:,} results" in text for text in result.manifest.warnings)
        assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_two_runs_at_once_in_one_directory(nursery, tmp_path, edges, undisturbed) -> None:
    settings = values(tmp_path, edges, output=output_of_run(undisturbed), execution={"block_bytes": 20_000})
    begin_and_wait_until_something_is_kept(nursery, settings)
    # Somebody is writing what could be resumed: this one begins anew.
    beside = run(Config.from_mapping(settings), resume=True)
    assert beside.manifest.warnings == ()
    assert nursery.wait_for("ended") == ["ended", "0"]
    both = RunStore(tmp_path).runs()
    assert len(both) == 2
    for each in both:
        assert_as_undisturbed(each, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(tmp_path)
