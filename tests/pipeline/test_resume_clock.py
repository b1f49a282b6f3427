"""A clock that jumps during and between runs: saved results stay unless they then look expired."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mbe_stage.pipeline import RunStore, run
from mbe_stage.pipeline.execution import journal, steps
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.publish import run_files, staging
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import (
    IN_ROUNDS,
    assert_as_undisturbed,
    config_for,
    edges,
    ended_after,
    in_rounds,
    is_sorted,
    output_of_run,
    undisturbed,
    whatever_they_cost,
)

__all__ = ["edges", "undisturbed", "whatever_they_cost"]

DAY = 86_400.0
# Days: around the limit for unfinished runs, and years.
JUMPS = (10.0, 4000.0)
KEPT_DAYS = run_files.KEPT_DAYS


class Clock:
    """The time of the machine plus a number of days, as this process sees it.

    Attributes
    ----------
    off : callable
        Returns the days; called whenever the time is read.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.off: Callable[[], float] = float
        self.now = time.time
        clock = self

        class JumpingTime(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:
                assert tz is UTC
                return datetime.fromtimestamp(clock.now(), UTC) + timedelta(days=clock.off())

        monkeypatch.setattr(time, "time", lambda: self.now() + DAY * self.off())
        for module in (journal, staging, steps):
            monkeypatch.setattr(module, "datetime", JumpingTime)

    def jumps(self, dice: random.Random) -> None:
        """Jump back and forth whenever the time is read."""
        self.off = lambda: some_days(dice)

    def is_off(self, days: float) -> None:
        self.off = lambda: days


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def some_days(dice: random.Random) -> float:
    return dice.uniform(-1.0, 1.0) * dice.choice(JUMPS)


def jump_and_resume(out: Path, edges: Path, undisturbed: Path, clock: Clock, dice: random.Random) -> None:
    """One round: the clock jumps during a run, before another run begins, and during the resumed run."""
    config = config_for(out, edges, output=output_of_run(undisturbed))
    clock.jumps(random.Random(dice.random()))
    staging_dir = ended_after(2, config)
    (n_kept,) = (each.n_found for each in list_unfinished(out))
    written, looked = some_days(dice), some_days(dice)
    os.utime(staging_dir / JOURNAL_NAME, (clock.now() + DAY * written,) * 2)
    others = []
    if dice.random() < 0.6:
        clock.is_off(looked)
        others = [run(config_for(out, edges, query={"min_left": 2})).run_dir]
    # Only runs that look expired are removed, and only by a run that starts over.
    is_removed = bool(others) and looked - written >= KEPT_DAYS
    assert RunStore(out).unfinished() == ([] if is_removed else [staging_dir])
    clock.jumps(random.Random(dice.random()))
    result = run(config, resume=True)
    told = [f"and resumed: {n_kept:,} results" in text for text in result.manifest.warnings]
    assert told == ([] if is_removed else [True])
    # Names sort in the order of publication.
    assert RunStore(out).runs() == [*others, result.run_dir]
    assert RunStore(out).latest() == result.run_dir
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(out)


@IN_ROUNDS
def test_a_clock_that_jumps(tmp_path, edges, undisturbed, clock, rounds) -> None:
    in_rounds(rounds, tmp_path, lambda out, dice: jump_and_resume(out, edges, undisturbed, clock, dice))
