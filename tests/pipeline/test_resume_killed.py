"""Runs killed or told to end at random moments and resumed: the published run equals an undisturbed one."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.pipeline import Config, RunStore, read_manifest, run
from mbe_stage.pipeline.errors import INTERRUPTED
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from tests.patience import PATIENCE
from tests.pipeline.nursery_support import RunNursery
from tests.pipeline.output_support import assert_nothing_staged
from tests.pipeline.resume_support import (
    IN_ROUNDS,
    SORTED_TOO,
    assert_as_undisturbed,
    config_for,
    edges,
    ended_after,
    in_rounds,
    is_sorted,
    noted,
    output_of_run,
    undisturbed,
    values,
    whatever_they_cost,
)

__all__ = ["edges", "undisturbed", "whatever_they_cost"]

# Seconds: a whole run takes somewhat longer; resumed runs get shorter and shorter.
LONGEST_DELAY = 0.8
# Delays of a signal during the search, and of one that follows it.
LONGEST_IN_SEARCH, LONGEST_BETWEEN = 0.4, 0.05
# Exit code of the command before it handles signals.
LEFT = 128 + signal.SIGTERM
# Extra rounds if the tested event has not happened by then.
MOST_MORE = 10


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory, edges: Path) -> Iterator[RunNursery]:
    nursery = RunNursery(values(tmp_path_factory.mktemp("nobody"), edges))
    yield nursery
    nursery.end()


def settings_for(out: Path, edges: Path, undisturbed: Path, **execution: Any) -> dict[str, Any]:
    execution = {"block_bytes": 5_000, **execution}
    return values(out, edges, output=output_of_run(undisturbed), execution=execution)


def kill_and_resume(nursery: RunNursery, out: Path, edges: Path, undisturbed: Path, rounds: int) -> None:
    """Kill -9 runs at random moments, resumed runs too, until one finishes."""
    seed = random.randrange(10**6)
    dice, n_killed, n_resumed = random.Random(seed), 0, 0
    for attempt in range(rounds):
        directory, delay = out / str(attempt), LONGEST_DELAY
        settings = settings_for(directory, edges, undisturbed)
        with noted(attempt, seed):
            while (latest := RunStore(directory).latest()) is None:
                n_resumed += sum(each.n_found for each in list_unfinished(directory)) > 0
                nursery.begin(settings)
                # Most runs are killed while they search or publish, some while they read the input and saved results.
                if dice.random() < 0.8:
                    nursery.wait_for("running")
                time.sleep(dice.random() * delay)
                code = nursery.ended_by(signal.SIGKILL)
                assert code in (0, -signal.SIGKILL)
                n_killed += code != 0
                # Runs have to finish on a slow machine too.
                delay *= 1.1
            assert_as_undisturbed(latest, undisturbed, edges, same_bytes=is_sorted(undisturbed))
            # A run killed while it published may leave its staging directory, which cannot be resumed.
            assert RunStore(directory).unfinished() == []
    assert n_killed, f"no run was killed: the delays are too long; seed {seed}"
    assert n_resumed, f"no run saved a checkpoint: checkpoints come too late; seed {seed}"


@SORTED_TOO
@IN_ROUNDS
def test_killed_at_random_moments_and_resumed(nursery, tmp_path, edges, undisturbed, rounds) -> None:
    kill_and_resume(nursery, tmp_path, edges, undisturbed, rounds)


def told_to_end(nursery: RunNursery, settings: dict[str, Any], dice: random.Random, n_signals: int) -> int:
    """Start a run and send it SIGTERM at some moment; return its exit code."""
    nursery.begin(settings)
    if n_signals == 2 or dice.random() < 0.8:
        nursery.wait_for("running")
    time.sleep(dice.random() * LONGEST_IN_SEARCH)
    nursery.send(signal.SIGTERM)
    if n_signals == 2:
        time.sleep(dice.random() * LONGEST_BETWEEN)
        nursery.send(signal.SIGTERM)
    return nursery.ended()


def end_and_resume(
    nursery: RunNursery, out: Path, edges: Path, undisturbed: Path, grace_seconds: float, dice: random.Random
) -> bool:
    """One round: send a run SIGTERM at some moment, once or twice; return whether a last checkpoint was awaited."""
    settings = settings_for(out, edges, undisturbed, grace_seconds=grace_seconds)
    if is_last := dice.random() < 0.7:
        # There are no other checkpoints.
        settings["output"]["checkpoint_seconds"] = 3600
    n_signals = dice.choice([1, 1, 2])
    code = told_to_end(nursery, settings, dice, n_signals)
    kept, has_waited = list_unfinished(out), any("saving a last checkpoint" in line for line in nursery.said)
    assert code in (0, INTERRUPTED, LEFT)
    assert RunStore(out).runs() == [] or code == 0
    assert not has_waited or grace_seconds > 0
    if code == INTERRUPTED and has_waited and grace_seconds == PATIENCE:
        # Everything found so far is saved; a second signal so soon counts as the first one.
        (found,) = (int(line.split()[1]) for line in nursery.said if line.startswith("interrupted"))
        assert [each.n_found for each in kept] == [found]
        assert found > 0
    elif is_last and not has_waited:
        assert kept == []
    result = run(Config.from_mapping(settings), resume=True)
    assert any("and resumed:" in text for text in result.manifest.warnings) == bool(kept)
    for each in RunStore(out).runs():
        assert_as_undisturbed(each, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(out)
    return has_waited and code == INTERRUPTED


@IN_ROUNDS
def test_sigterm_at_random_moments_with_grace_time(nursery, tmp_path, edges, undisturbed, rounds) -> None:
    """A long grace time, a short one that ends before or after the checkpoint, and none."""
    seed = random.randrange(10**6)
    dice, n_waited, attempt = random.Random(seed), 0, 0
    while attempt < rounds or (not n_waited and attempt < rounds + MOST_MORE):
        grace_seconds = [PATIENCE, dice.random() * 0.05, PATIENCE, 0.0][attempt % 4]
        with noted(attempt, seed):
            out = tmp_path / str(attempt)
            has_waited = end_and_resume(nursery, out, edges, undisturbed, grace_seconds, dice)
        n_waited += has_waited and grace_seconds == PATIENCE
        attempt += 1
    assert n_waited, f"no last checkpoint was waited for, seed {seed}"


def begin_and_wait_for_a_checkpoint(nursery: RunNursery, settings: dict[str, Any]) -> None:
    nursery.begin(settings)
    begun_at = time.monotonic()
    while not list_unfinished(settings["output"]["directory"]):
        assert time.monotonic() - begun_at < PATIENCE
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signalled_run_keeps_its_results(nursery, tmp_path, edges, undisturbed, number) -> None:
    settings = settings_for(tmp_path, edges, undisturbed)
    begin_and_wait_for_a_checkpoint(nursery, settings)
    assert nursery.ended_by(number) == INTERRUPTED
    (kept,) = list_unfinished(tmp_path)
    assert not kept.is_running
    assert RunStore(tmp_path).runs() == []
    result = run(Config.from_mapping(settings), resume=True)
    assert any(f"{kept.n_found:,} results" in text for text in result.manifest.warnings)
    assert_as_undisturbed(result.run_dir, undisturbed, edges, same_bytes=is_sorted(undisturbed))


def test_ctrl_c_waits_for_no_last_checkpoint(nursery, tmp_path, edges, undisturbed) -> None:
    settings = settings_for(tmp_path, edges, undisturbed, grace_seconds=PATIENCE)
    settings["output"]["checkpoint_seconds"] = 3600
    nursery.begin(settings)
    nursery.wait_for("running")
    # Some more blocks of a hundredth of a second each, so there are results to save.
    time.sleep(0.1)
    assert nursery.ended_by(signal.SIGINT) == INTERRUPTED
    assert RunStore(tmp_path).runs() == []
    assert_nothing_staged(tmp_path)


def several_at_once(nursery: RunNursery, out: Path, edges: Path, undisturbed: Path, dice: random.Random) -> None:
    """One round: two or three runs with `--resume` in a directory that may hold an interrupted run."""
    settings = settings_for(out, edges, undisturbed)
    n_kept = 0
    if dice.random() < 0.5:
        ended_after(1, config_for(out, edges, output=output_of_run(undisturbed)))
        (n_kept,) = (each.n_found for each in list_unfinished(out))
    after = [dice.random() * dice.choice([0.02, LONGEST_DELAY]) for _ in range(dice.choice([2, 3]))]
    nursery.begin(settings, after)
    assert [nursery.ended() for _ in after] == [0] * len(after), nursery.said
    published = RunStore(out).runs()
    assert len(published) == len(after)
    warnings = [text for each in published for text in read_manifest(each).warnings]
    # One run resumes the saved results, and the others start over.
    assert [f"and resumed: {n_kept:,} results" in text for text in warnings] == [True] * (n_kept > 0)
    for each in published:
        assert_as_undisturbed(each, undisturbed, edges, same_bytes=is_sorted(undisturbed))
    assert_nothing_staged(out)


@IN_ROUNDS
def test_several_runs_at_once_in_one_directory(nursery, tmp_path, edges, undisturbed, rounds) -> None:
    in_rounds(rounds, tmp_path, lambda out, dice: several_at_once(nursery, out, edges, undisturbed, dice))
