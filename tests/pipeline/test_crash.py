"""Runs that are killed, interrupted, out of disk or in each other's way leave published runs unchanged."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mbe_stage.pipeline import InputConfig, RunStore, read_manifest, run
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.verify.fields import standing_notes
from tests.pipeline.nursery_support import RunNursery
from tests.pipeline.output_support import assert_nothing_staged, assert_sound, crown_pairs, settings

CROWN = 14
N_BICLIQUES = 2**CROWN - 2


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunNursery]:
    nobody = tmp_path_factory.mktemp("nobody")
    nursery = RunNursery(config_for(nobody, nobody).model_dump(mode="json"))
    yield nursery
    nursery.end()


def begin(nursery: RunNursery, out: Path, edges: Path, *options: str, at_once: int = 1, **sections: dict) -> None:
    config = config_for(out, edges, **sections).model_dump(mode="json")
    nursery.begin(config, [0.0] * at_once, options=options)


@pytest.fixture
def edges(tmp_path):
    path = tmp_path / "crown.csv"
    path.write_text("left,right\n" + "".join(f"u{left},v{right}\n" for left, right in crown_pairs(CROWN)))
    return path


def config_for(out: Path, edges: Path, **sections: dict):
    values = {"input": {"path": str(edges), "header": True}, "execution": {"block_bytes": 20_000}, "output": {}}
    return settings(out, **{name: {**values.get(name, {}), **keys} for name, keys in {**values, **sections}.items()})


def assert_published(run_dir: Path) -> None:
    assert_sound(run_dir)
    assert read_manifest(run_dir).counts.bicliques == N_BICLIQUES


def crash_many_times(nursery: RunNursery, out: Path, edges: Path, attempts: int, seed: int) -> None:
    """Kill runs at moments spread over a run, every second one while it publishes to a slow disk."""
    dice = random.Random(seed)
    started = time.perf_counter()
    first = run(config_for(out, edges)).run_dir
    whole = time.perf_counter() - started
    killed_early = killed_late = 0
    left_behind = set()
    for attempt in range(attempts):
        before = RunStore(out).latest()
        output = {"sort": attempt % 4 > 1, "members": True}
        begin(nursery, out, edges, *(["slow-sync"] if attempt % 2 else []), output=output)
        begun_at = time.perf_counter()
        if attempt % 2:
            nursery.wait_for("publishing")
        window = 0.2 if attempt % 2 else whole
        time.sleep(window * (attempt + dice.random()) / attempts)
        code = nursery.ended_by(signal.SIGKILL)
        assert code in (-signal.SIGKILL, 0), f"attempt {attempt}, seed {seed}: exit code {code}"
        killed_early += code != 0 and attempt % 2 == 0
        killed_late += code != 0 and attempt % 2 == 1
        said = f"attempt {attempt}, seed {seed}, killed {time.perf_counter() - begun_at:.3f} s after the start"
        left_behind |= {path.name for path in (out / ".staging").glob("2*")}
        latest = RunStore(out).latest()
        assert latest is not None, said
        for seen in {first, before, latest, *RunStore(out).runs()}:
            assert_published(seen)
    assert killed_early, "no run was killed before it published: the delays are too long"
    assert killed_late, "no run was killed while it published: the delays are too long"
    last = run(config_for(out, edges)).run_dir
    assert RunStore(out).latest() == last
    edges_read = ingest(InputConfig(path=str(edges), header=True))
    for run_dir in (first, last):
        assert_published(run_dir)
        assert verify_run(run_dir, edges_read).not_checked == standing_notes(read_manifest(run_dir))
    assert left_behind, "no killed run left anything to clean up"
    assert_nothing_staged(out)


def test_killed_at_random_moments(nursery, tmp_path, edges):
    crash_many_times(nursery, tmp_path / "out", edges, attempts=4, seed=random.randrange(10**6))


@pytest.mark.slow
def test_killed_fifty_times(nursery, tmp_path, edges):
    crash_many_times(nursery, tmp_path / "out", edges, attempts=50, seed=random.randrange(10**6))


def slow(pair: tuple[object, object]) -> object:
    """A case that adds little to the cases with either of its values."""
    return pytest.param(*pair, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("sort", "moment"),
    [(False, "running"), (True, "publishing"), *map(slow, [(False, "publishing"), (True, "running")])],
)
def test_ctrl_c_leaves_nothing_half_written(nursery, tmp_path, edges, moment, sort):
    out = tmp_path / "out"
    slow = "slow-blocks" if moment == "running" else "slow-sync"
    begin(nursery, out, edges, slow, output={"sort": sort})
    nursery.wait_for(moment)
    time.sleep(0.01)
    assert nursery.ended_by(signal.SIGINT) == 130
    assert RunStore(out).latest() is None
    assert RunStore(out).runs() == []
    assert_nothing_staged(out)


@pytest.mark.parametrize(
    ("remedy", "option"),
    [
        ("run", "killed-before-lock"),
        ("clean", "killed-before-removal"),
        *map(slow, [("clean", "killed-before-lock"), ("run", "killed-before-removal")]),
    ],
)
def test_killed_between_two_calls_to_the_system(nursery, tmp_path, edges, option, remedy):
    """Between creating a staging directory and its lock, and between renaming an old run and removing it."""
    out = tmp_path / "out"
    first = run(config_for(out, edges)).run_dir
    begin(nursery, out, edges, option, output={"keep_runs": 1})
    assert nursery.ended() == -signal.SIGKILL
    left = [path for path in (out / ".staging").iterdir() if path.name != ".lock"]
    if option == "killed-before-lock":
        assert [list(path.iterdir()) for path in left] == [[]]
        assert RunStore(out).runs() == [first]
    else:
        assert out / f".staging/{first.name}-expired" in left
    if remedy == "clean":
        assert sorted(RunStore(out).clean()) == sorted(map(str, left))
    else:
        run(config_for(out, edges))
    assert_nothing_staged(out)
    for each in RunStore(out).runs():
        assert_published(each)


def test_two_runs_at_once_into_one_directory(nursery, tmp_path, edges):
    out = tmp_path / "out"
    begin(nursery, out, edges, "slow-blocks", "slow-sync", at_once=2)
    while sum(line.startswith("running") for line in nursery.said) < 2:
        nursery.wait_for("running")
    assert len([path for path in (out / ".staging").iterdir() if path.name != ".lock"]) == 2, "they do not overlap"
    assert [nursery.ended() for _ in range(2)] == [0, 0]
    runs = sorted(Path(line.split()[1]) for line in nursery.said if line.startswith("done"))
    assert RunStore(out).runs() == runs
    assert RunStore(out).latest() in runs
    for run_dir in runs:
        assert_published(run_dir)
    assert len({read_manifest(run_dir).content_fingerprint for run_dir in runs}) == 1
    assert_nothing_staged(out)


@pytest.mark.parametrize("sort", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_file_size_limit_is_reported_and_nothing_published(nursery, tmp_path, edges, sort):
    out = tmp_path / "out"
    n_before = os.fstat(nursery.log.fileno()).st_size
    begin(nursery, out, edges, "file-limit=50000", output={"compression": "none", "sort": sort})
    refused = nursery.wait_for("refused 3")
    assert refused.strip().endswith(
        "(File too large); nothing was published; the file size limit is reached: "
        "raise it (ulimit -f), or choose another output directory"
    )
    assert nursery.ended() == 3
    assert RunStore(out).runs() == []
    assert_nothing_staged(out)
    assert os.fstat(nursery.log.fileno()).st_size == n_before, "a failure is reported once"
