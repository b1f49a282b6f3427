"""Resume interrupted runs of the tier `rapids`: there, on another tier, or from another tier."""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.edge_table import edges_as_parquet
from mbe_stage import run_limits
from mbe_stage.pipeline import Config, RunStore, run
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.search.cuda import barriers
from tests.mbe_stage.processes import run_module
from tests.pipeline.emulated_resume import MARKERS, PATIENCE, noting, planned
from tests.pipeline.resume_support import Killed

on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def emulated(directory: Path, part: str) -> dict[str, dict[str, Any]]:
    """Return the cases of one part by name; each has published what an uninterrupted run does."""
    lines = run_module("tests.rapids.emulated_resume", str(directory), part).splitlines()
    cases = {line.pop("case"): line for line in map(json.loads, lines)}
    assert all(0 < case["kept"] < case["of"] for case in cases.values()), cases
    return cases


@on_the_emulator
def test_state_saved_on_the_device_is_resumed(tmp_path: Path) -> None:
    cases = emulated(tmp_path, "some")
    assert len(cases) == 5
    assert [name for name, case in cases.items() if case["sorted on the host"]] == ["sorted in less memory than before"]


@pytest.mark.slow
@on_the_emulator
def test_any_tier_can_resume(tmp_path: Path) -> None:
    assert len(emulated(tmp_path, "others")) == 10


def use_short_quanta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make both searches reach barriers early, and do not delay checkpoints by their cost."""
    for name in ("mbe_stage.bicliques.cuda.search", "mbe_stage.cliques.cuda.session"):
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "plan_memory", planned(module.plan_memory, {"quantum_seconds": 0.005}))
    # The clique search ends before any deadline.
    monkeypatch.setattr(barriers, "_TAKEN_SLOWLY", 0.0)
    monkeypatch.setattr(barriers, "_PART_SECONDS", 0.2)
    monkeypatch.setattr(run_limits, "_TIMES_ITS_COST", 0.0)
    monkeypatch.setattr(run_limits, "_SHARE_OF_TIME", 0.0)
    monkeypatch.setattr(run_limits.Checkpoints, "note", noting(run_limits.Checkpoints.note))
    MARKERS.clear()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("sections", "begun_on", "resumed_on"),
    [
        pytest.param({"output": {"members": True}}, "rapids", "rapids", id="as found"),
        pytest.param({"output": {"sort": True}}, "rapids", "rapids", id="sorted"),
        pytest.param({"output": {"sort": True}}, "rapids", "cuda", id="sorted, resumed on the host"),
        pytest.param({}, "cuda", "rapids", id="started on the host"),
        pytest.param(
            {"groups": {"chance_copies": 0}, "output": {"bicliques": False}}, "rapids", "rapids", id="groups only"
        ),
        pytest.param({"problem": "cliques"}, "rapids", "rapids", id="cliques"),
    ],
)
def test_ended_and_resumed(
    tmp_path: Path,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    sections: dict[str, Any],
    begun_on: str,
    resumed_on: str,
) -> None:
    """A real graph, ended after a checkpoint and resumed, is published as by an uninterrupted run."""
    use_short_quanta(monkeypatch)
    edges = cliques_of(data_dir, tmp_path) if "problem" in sections else edges_as_parquet("bookcrossing", tmp_path)

    def config(engine: str, out: str, checkpoint_seconds: float | None) -> Config:
        output = {"directory": str(tmp_path / out), "report": False, "checkpoint_seconds": checkpoint_seconds}
        means = {"engine": engine, "device_memory": "8GiB"}
        # Large results are enough.
        query = {} if "problem" in sections else {"query": {"min_left": 5, "min_right": 8}}
        base = {"input": {"path": str(edges)}, "execution": means, **query}
        return Config.from_mapping({**base, **sections, "output": output | sections.get("output", {})})

    def on_progress(_: object) -> None:
        # A thread next to the search records it.
        until = time.perf_counter() + PATIENCE
        while MARKERS and time.perf_counter() < until:
            staging_dirs = RunStore(tmp_path / "out").unfinished()
            if staging_dirs and read_journal(staging_dirs[-1])[1]:
                raise Killed
            time.sleep(0.01)

    with pytest.raises(Killed):
        run(config(begun_on, "out", 0.001), on_progress=on_progress)
    MARKERS.clear()
    resumed = run(config(resumed_on, "out", 0.5), resume=True)
    undisturbed = run(config("rapids", "undisturbed", None))
    assert any("and resumed:" in text for text in resumed.manifest.warnings)
    assert resumed.manifest.content_fingerprint == undisturbed.manifest.content_fingerprint
    assert resumed.manifest.counts == undisturbed.manifest.counts
    for path in sorted(undisturbed.run_dir.glob("*.parquet")):
        assert pq.read_table(resumed.run_dir / path.name).equals(pq.read_table(path)), path.name
    for data_set in ("bicliques", "cliques", "members"):
        if (undisturbed.run_dir / data_set).exists():
            assert _summed_up(resumed.run_dir / data_set) == _summed_up(undisturbed.run_dir / data_set), data_set


def cliques_of(data_dir: Path, directory: Path) -> Path:
    """Write the edges of a graph with ten million cliques to Parquet."""
    with np.load(data_dir / "uni_follow_flickr.npz") as arrays:
        table = pa.table({"one": arrays["src"].astype(np.int64), "other": arrays["dst"].astype(np.int64)})
    pq.write_table(table, directory / "edges.parquet")
    return directory / "edges.parquet"


def _summed_up(data_set: Path) -> tuple[Any, ...]:
    """Return row count and sums of keys, sizes and members, in any order."""
    table = pq.read_table(data_set)
    numbers = {
        name: pc.list_flatten(column) if pa.types.is_list(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name != "side"
    }
    sums = {name: int(column.to_numpy().astype("uint64").sum()) for name, column in numbers.items()}
    return table.num_rows, sums, len(pc.unique(table.columns[0]))
