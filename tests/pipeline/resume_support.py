"""Runs ended early at a chosen moment, and checks of the runs that resume them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mbe_stage import run_limits
from mbe_stage.pipeline import Config, RunStore, read_manifest, run
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.verify import verify_run
from mbe_stage.pipeline.verify.fields import standing_notes
from tests.pipeline.output_support import assert_sound, published_rows

__all__ = [
    "IN_ROUNDS",
    "SORTED_TOO",
    "Killed",
    "assert_as_undisturbed",
    "config_for",
    "edges",
    "ended_after",
    "in_rounds",
    "is_sorted",
    "noted",
    "output_of_run",
    "undisturbed",
    "values",
    "whatever_they_cost",
]

VERTICES = ("left_vertices.parquet", "right_vertices.parquet", "size_histogram.parquet")


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some thousand bicliques below 18 roots; no root has most of them."""
    path = tmp_path_factory.mktemp("input") / "edges.csv"
    path.write_text("left,right\n" + "".join(f"u{u},v{v}\n" for u, v in random_pairs()))
    return path


def random_pairs(n_left: int = 40, n_right: int = 18) -> list[tuple[int, int]]:
    dice = random.Random(7)
    return [(u, v) for u in range(n_left) for v in range(n_right) if dice.random() < 0.55]


def values(out: Path, edges: Path, **sections: dict) -> dict:
    # Workers of a cluster read Parquet, and keep its edges if two-hop degrees are not counted.
    is_text = edges.suffix == ".csv"
    base = {
        "input": {"path": str(edges), "header": True if is_text else None},
        "execution": {"engine": "cpu", "threads": 2, "block_bytes": 2000},
        "output": {"directory": str(out), "report": False, "checkpoint_seconds": 0.003}
        | ({} if is_text else {"two_hop_steps": 0}),
    }
    return {name: {**keys, **sections.get(name, {})} for name, keys in {"query": {}, **base}.items()}


def config_for(out: Path, edges: Path, **sections: dict) -> Config:
    return Config.from_mapping(values(out, edges, **sections))


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["as found", "sorted"])
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, edges: Path) -> Path:
    """An uninterrupted run, with the long form; sorted in slow tests and where `SORTED_TOO` says so."""
    output = {"sort": request.param, "members": True, "checkpoint_seconds": None}
    return run(config_for(tmp_path_factory.mktemp("undisturbed"), edges, output=output)).run_dir


SORTED_TOO = pytest.mark.parametrize("undisturbed", [False, True], ids=["as found", "sorted"], indirect=True)


@pytest.fixture(autouse=True)
def whatever_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save checkpoints at any cost, so a small run has many."""
    monkeypatch.setattr(run_limits, "_TIMES_ITS_COST", 0.0)
    monkeypatch.setattr(run_limits, "_SHARE_OF_TIME", 0.0)


class Killed(BaseException):
    """Ends a run as Ctrl-C does, at a moment chosen by the test."""


@contextmanager
def noted(round_: int, seed: int) -> Iterator[None]:
    """Add the round and the seed to a failure, so it can be repeated."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"round {round_}, seed {seed}")
        raise


IN_ROUNDS = pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=pytest.mark.slow)])
"""One round; fifty in slow tests."""


def in_rounds(rounds: int, out: Path, one: Callable[[Path, random.Random], object]) -> None:
    """Repeat an action, each time in a directory of its own and with reproducible random numbers."""
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    for number in range(rounds):
        with noted(number, seed):
            one(out / str(number), dice)


def ended_after(n_records: int, config: Config) -> Path:
    """Start a run and end it once `n_records` are on the disk; return its staging directory."""

    def on_progress(_: object) -> None:
        time.sleep(0.002)
        staging_dirs = RunStore(config.output.directory).unfinished()
        if staging_dirs and len(read_journal(staging_dirs[-1])[1]) >= n_records:
            raise Killed

    with pytest.raises(Killed):
        run(config, on_progress=on_progress)
    return RunStore(config.output.directory).unfinished()[-1]


def assert_as_undisturbed(run_dir: Path, undisturbed: Path, edges: Path, *, same_bytes: bool = False) -> None:
    assert_sound(run_dir)
    found, expected = read_manifest(run_dir), read_manifest(undisturbed)
    assert found.content_fingerprint == expected.content_fingerprint
    assert found.counts == expected.counts
    for name in VERTICES:
        assert pq.read_table(run_dir / name).equals(pq.read_table(undisturbed / name)), name
    keys = [row["biclique_key"] for row in published_rows(run_dir)]
    assert len(keys) == len(set(keys)) == expected.counts.bicliques
    if same_bytes:
        for part in sorted(path.relative_to(undisturbed) for path in undisturbed.glob("*/part-*.parquet")):
            assert (run_dir / part).read_bytes() == (undisturbed / part).read_bytes(), part
    edges_read = ingest(expected.config.input.model_copy(update={"path": str(edges)}))
    assert verify_run(run_dir, edges_read).not_checked == standing_notes(found)


def is_sorted(undisturbed: Path) -> bool:
    return read_manifest(undisturbed).config.output.sort


def output_of_run(undisturbed: Path) -> dict:
    return {"sort": is_sorted(undisturbed), "members": True}
