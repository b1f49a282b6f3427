"""Processes that are killed while they hold a GPU; their runs are resumed on the same device.

Run with `make test-gpu`: a hundred rounds; ``pytest -m "gpu and not slow"`` runs ten of them.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.pipeline import Config, RunStore, run
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from tests.pipeline.nursery_support import RunNursery
from tests.pipeline.resume_support import assert_as_undisturbed, in_rounds, values

pytestmark = pytest.mark.gpu

ROUNDS = 10
# Seconds; a run holds the device for two.
LONGEST_DELAY = 1.5
# A run killed before its next checkpoint repeats the same work, so the run after these kills may finish.
MOST_KILLED = 3


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifteen separate graphs: 600 roots, so that checkpoints are saved, and 12,000 bicliques that are large enough."""
    dice = random.Random(7)
    path = tmp_path_factory.mktemp("input") / "edges.csv"
    pairs = [(n, u, v) for n in range(15) for u in range(80) for v in range(40) if dice.random() < 0.5]
    path.write_text("left,right\n" + "".join(f"{n}u{u},{n}v{v}\n" for n, u, v in pairs))
    return path


def settings_for(out: Path, edges: Path, engine: str, **output: Any) -> dict[str, Any]:
    execution = {"engine": engine, "device_memory": "2GiB", "block_bytes": 100_000}
    query = {"min_left": 7, "min_right": 6}
    return values(out, edges, execution=execution, query=query, output={"members": True, **output})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, edges: Path) -> Path:
    """A run of another engine."""
    out = tmp_path_factory.mktemp("undisturbed")
    return run(Config.from_mapping(settings_for(out, edges, "cpu", checkpoint_seconds=None))).run_dir


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory, edges: Path) -> Iterator[RunNursery]:
    # Load what is compiled for the host ahead, without using the device.
    settings = settings_for(tmp_path_factory.mktemp("nobody"), edges, "cpu")
    nursery = RunNursery(settings, script="gpu_nursery.py")
    yield nursery
    nursery.end()


# Ten rounds in each of ten tests, which processes share.
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 10))])
def test_killed_while_it_holds_a_device_and_resumed(
    nursery: RunNursery, tmp_path: Path, edges: Path, undisturbed: Path, part: int
) -> None:
    n_killed = n_kept = 0

    def kill_and_resume(out: Path, dice: random.Random) -> None:
        nonlocal n_killed, n_kept
        settings, delays = settings_for(out, edges, "cuda"), [LONGEST_DELAY * dice.random() for _ in range(MOST_KILLED)]
        while (latest := RunStore(out).latest()) is None:
            n_kept += sum(each.n_found for each in list_unfinished(out)) > 0
            nursery.begin(settings)
            nursery.wait_for("holding")
            if not delays:
                assert nursery.ended() == 0
                assert RunStore(out).latest() is not None
                continue
            time.sleep(delays.pop())
            code = nursery.ended_by(signal.SIGKILL)
            assert code in (0, -signal.SIGKILL)
            n_killed += code != 0
        assert_as_undisturbed(latest, undisturbed, edges)
        # A run killed while it published may leave its staging directory, which cannot be resumed.
        assert RunStore(out).unfinished() == []

    in_rounds(ROUNDS, tmp_path, kill_and_resume)
    assert n_killed, f"part {part}: no run was killed, the delays are too long"
    assert n_kept, f"part {part}: no run saved a checkpoint, checkpoints come too late"
