"""Runs of every problem and output, ended early and resumed: the published run equals the undisturbed one."""

from __future__ import annotations

import importlib.util
import json
import logging
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, PublishError, RunStore, read_manifest, run
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.execution.unfinished import list_unfinished
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.run_files import JOURNAL_NAME
from mbe_stage.pipeline.verify import verify_run
from tests.mbe_stage.processes import run_module
from tests.pipeline.nursery_support import RunNursery
from tests.pipeline.output_support import assert_nothing_staged, assert_sound
from tests.pipeline.resume_support import Killed, ended_after, whatever_they_cost

__all__ = ["whatever_they_cost"]

# The configuration, and whether result rows are files of the journal; otherwise there is one file of sums.
ASKED: dict[str, tuple[dict[str, Any], bool]] = {
    "cliques": ({"problem": "cliques"}, True),
    "cliques, sorted": ({"problem": "cliques", "output": {"sort": True}}, True),
    "counts": ({"problem": "pq_counts", "pq_counts": {"p": 5, "q": 6, "table": True}}, False),
    "counts of vertices and edges": ({"problem": "pq_counts", "pq_counts": {"p": 3, "q": 4, "local": "edges"}}, False),
    "itemsets": ({"problem": "itemsets", "itemsets": {"min_count": 2}}, True),
    "groups beside bicliques": ({"groups": {"chance_copies": 1}}, True),
    "groups alone": ({"groups": {"chance_copies": 1}, "output": {"bicliques": False}}, False),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Edges with some ten thousand bicliques, and a graph of one set of vertices for cliques."""
    dice, directory = random.Random(7), tmp_path_factory.mktemp("input")
    pairs = {
        "bicliques": [(f"u{u}", f"v{v}") for u in range(50) for v in range(22) if dice.random() < 0.55],
        "cliques": [(f"v{u}", f"v{v}") for u in range(60) for v in range(u) if dice.random() < 0.62],
    }
    for name, of_name in pairs.items():
        (directory / f"{name}.csv").write_text("a,b\n" + "".join(f"{one},{other}\n" for one, other in of_name))
    return {name: directory / f"{name}.csv" for name in pairs}


def config_for(out: Path, inputs: dict[str, Path], asked: dict[str, Any], **sections: dict[str, Any]) -> Config:
    source = inputs["cliques" if asked.get("problem") == "cliques" else "bicliques"]
    values: dict[str, Any] = {
        "input": {"path": str(source), "header": True},
        "execution": {"engine": "cpu", "threads": 2, "block_bytes": 2000},
        **asked,
    }
    output = {"directory": str(out), "report": False, "checkpoint_seconds": 0.002}
    values["output"] = {**output, **asked.get("output", {}), **sections.pop("output", {})}
    return Config.from_mapping({**values, **sections})


@pytest.fixture(params=ASKED, scope="module")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, inputs: dict[str, Path]) -> Any:
    """The configuration, whether its rows are saved, and an undisturbed run."""
    asked, has_rows = ASKED[request.param]
    out = tmp_path_factory.mktemp("undisturbed")
    return asked, has_rows, run(config_for(out, inputs, asked, output={"checkpoint_seconds": None})).run_dir


def assert_as(run_dir: Path, undisturbed: Path) -> None:
    assert_sound(run_dir)
    found, expected = read_manifest(run_dir), read_manifest(undisturbed)
    assert found.content_fingerprint == expected.content_fingerprint
    assert found.counts == expected.counts
    assert found.derived == expected.derived
    tables = sorted(path.name for path in undisturbed.glob("*.parquet"))
    assert tables == sorted(path.name for path in run_dir.glob("*.parquet"))
    for name in tables:
        assert pq.read_table(run_dir / name).equals(pq.read_table(undisturbed / name)), name
    if found.config.output.sort:
        for part in sorted(path.relative_to(undisturbed) for path in undisturbed.glob("*/part-*.parquet")):
            assert (run_dir / part).read_bytes() == (undisturbed / part).read_bytes(), part
    verify_run(run_dir, ingest(reading_of(found.config)))


def test_ended_and_resumed(tmp_path, inputs, case) -> None:
    asked, has_rows, undisturbed = case
    config = config_for(tmp_path, inputs, asked)
    staging_dir = ended_after(2 if has_rows else 1, config)
    (begun,) = list_unfinished(tmp_path)
    assert begun.n_found > 0
    assert 0 < begun.work_done < 1
    _, records = read_journal(staging_dir)
    assert has_rows or [len(record.files) for record in records] == [1]
    result = run(config, resume=True)
    assert any("and resumed:" in text for text in result.manifest.warnings)
    assert_as(result.run_dir, undisturbed)
    assert_nothing_staged(tmp_path)


@pytest.mark.slow
def test_resumed_runs_are_ended_and_resumed(tmp_path, inputs, case) -> None:
    asked, _, undisturbed = case
    config = config_for(tmp_path, inputs, asked)
    n_before = 0
    for _ in range(3):
        ended_again(config)
        (begun,) = list_unfinished(tmp_path)
        assert begun.n_found >= n_before > -1
        n_before = begun.n_found
    assert_as(run(config, resume=True).run_dir, undisturbed)


def ended_again(config: Config) -> None:
    """Resume a run and end it after the first checkpoint, or at its very end."""
    staging_dirs = RunStore(config.output.directory).unfinished()
    before = (staging_dirs[-1] / JOURNAL_NAME).read_bytes() if staging_dirs else b""

    def on_progress(progress: Any) -> None:
        time.sleep(0.002)
        now = RunStore(config.output.directory).unfinished()
        if (now and (now[-1] / JOURNAL_NAME).read_bytes() != before) or getattr(progress, "work_done", 0) == 1.0:
            raise Killed

    with pytest.raises(Killed):
        run(config, on_progress=on_progress, resume=bool(staging_dirs))


@pytest.mark.skipif(importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing")
@pytest.mark.parametrize(("problem", "n"), [pytest.param("cliques", 1, marks=pytest.mark.slow), ("pq_counts", 2)])
def test_runs_of_an_emulated_device_are_resumed(tmp_path, problem, n) -> None:
    """The engine `cuda` itself, with barriers between its quanta."""
    lines = run_module("tests.pipeline.emulated_resume", str(tmp_path), problem).splitlines()
    cases = [json.loads(line) for line in lines]
    assert len(cases) == n
    for case in cases:
        assert case["same"], case
        assert case["resumed"], case
        assert case["engine"] == "cuda"
        assert 0 < case["work_done"] < 1
    assert cases[0]["kept"] > 0
    # Local counts finish the begun roots.
    assert [case["has_open_work"] for case in cases] == [True, False][:n]


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory, inputs: dict[str, Path]) -> Iterator[RunNursery]:
    nursery = RunNursery(config_for(tmp_path_factory.mktemp("nobody"), inputs, {}).model_dump(mode="json"))
    yield nursery
    nursery.end()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rounds"), [(name, 4) for name in ASKED])
def test_killed_at_random_moments_and_resumed(nursery, tmp_path, inputs, name, rounds) -> None:
    asked, _ = ASKED[name]
    undisturbed = run(config_for(tmp_path / "undisturbed", inputs, asked, output={"checkpoint_seconds": None})).run_dir
    seed = random.randrange(10**6)
    dice, n_killed = random.Random(seed), 0
    for attempt in range(rounds):
        out, delay = tmp_path / str(attempt), 0.8
        settings = config_for(out, inputs, asked).model_dump(mode="json", exclude_defaults=True)
        while (latest := RunStore(out).latest()) is None:
            nursery.begin(settings)
            if dice.random() < 0.8:
                nursery.wait_for("running")
            time.sleep(dice.random() * delay)
            code = nursery.ended_by(signal.SIGKILL)
            assert code in (0, -signal.SIGKILL), f"round {attempt}, seed {seed}: exit code {code}"
            n_killed += code != 0
            delay *= 1.1
        assert_as(latest, undisturbed)
        assert RunStore(out).unfinished() == []
    assert n_killed, "no run was killed: the delays are too long"


@pytest.mark.parametrize("harm", ["flipped", "removed"])
def test_damaged_sums_are_recomputed(tmp_path, inputs, caplog, harm) -> None:
    asked, _ = ASKED["counts"]
    config = config_for(tmp_path, inputs, asked)
    staging_dir = ended_after(1, config)
    _, (record,) = read_journal(staging_dir)
    path = staging_dir / record.files[0].path
    if harm == "removed":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "mbe_stage.pipeline"):
        result = run(config, resume=True)
    assert any("are searched again" in text for text in caplog.messages)
    undisturbed = run(config_for(tmp_path / "other", inputs, asked, output={"checkpoint_seconds": None}))
    assert_as(result.run_dir, undisturbed.run_dir)


def test_old_sums_are_removed(tmp_path, inputs) -> None:
    """Each file of sums replaces the one before."""
    asked, _ = ASKED["groups alone"]
    names = set()

    def on_progress(_: object) -> None:
        time.sleep(0.002)
        for staging_dir in RunStore(tmp_path).unfinished():
            found = sorted(path.name for path in (staging_dir / "sums").glob("*"))
            assert len(found) <= 2
            names.update(found)

    run(config_for(tmp_path, inputs, asked), on_progress=on_progress)
    assert len(names) > 2
    assert_nothing_staged(tmp_path)


def test_other_files_beside_the_edges_are_refused(tmp_path, inputs) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("key,side\nu1,left\nu2,left\n")
    config = config_for(tmp_path / "out", inputs, {"groups": {"labels": str(labels)}})
    ended_after(1, config)
    labels.write_text("key,side\nu1,left\nu3,left\n")
    with pytest.raises(PublishError, match=r"beside\.groups\.labels was "):
        run(config, resume=True)


@pytest.mark.usefixtures("installed")
def test_an_output_without_sums_has_checkpoints_only_with_rows(tmp_path, inputs) -> None:
    """An output of another package reads the rows again."""
    asked = {"smaller_sides": {}}
    without = config_for(tmp_path / "without", inputs, {**asked, "output": {"bicliques": False}})
    seen = []
    undisturbed = run(without, on_progress=lambda _: seen.append(RunStore(tmp_path / "without").unfinished()))
    assert seen
    assert not any(seen)
    config = config_for(tmp_path / "with", inputs, asked)
    ended_after(1, config)
    assert run(config, resume=True).manifest.derived == undisturbed.manifest.derived


@pytest.mark.parametrize(
    ("name", "limit", "reason"),
    [
        ("cliques", {"max_cliques": 1000}, "stopped at max_cliques = 1000"),
        ("groups alone", {"max_bicliques": 5000}, "stopped at max_bicliques = 5000"),
        ("counts", {"time_limit_seconds": 1.5}, "stopped at time_limit_seconds = 1.5"),
    ],
)
def test_a_run_ended_by_a_limit_is_resumed(tmp_path, inputs, name, limit, reason) -> None:
    """Counts end by themselves; the results of the last checkpoint are saved."""
    asked, _ = ASKED[name]
    execution = {"engine": "cpu", "threads": 2, "block_bytes": 2000}
    limited = config_for(tmp_path, inputs, asked, execution={**execution, **limit})
    waits = [limit.get("time_limit_seconds", 0)]

    def on_progress(_: object) -> None:
        time.sleep(0.002)
        if waits and list_unfinished(tmp_path):
            time.sleep(waits.pop())

    cut = run(limited, on_progress=on_progress).manifest
    assert cut.truncated == reason
    (kept,) = list_unfinished(tmp_path)
    assert kept.n_found
    config = config_for(tmp_path, inputs, asked)
    result = run(config, resume=True)
    assert any("and resumed:" in text for text in result.manifest.warnings)
    assert_as(result.run_dir, run(config).run_dir)
    assert_nothing_staged(tmp_path)
