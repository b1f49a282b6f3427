"""Several devices on the tier `rapids` publish the tables of one."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.edge_table import edges_as_parquet
from benchmarks.tier_tables import differences
from mbe_stage import BicliqueQuery, Execution
from mbe_stage.errors import DeviceLost, MemoryBudgetExceeded
from mbe_stage.pipeline import Config, RunResult, count, run
from mbe_stage.pipeline.verify import verify_run
from tests.mbe_stage import graphs
from tests.mbe_stage.processes import run_module

on_the_emulator = pytest.mark.skipif(
    importlib.util.find_spec("greenlet") is None, reason="greenlet, of the group dev, is missing"
)


def emulated(directory: Path, part: str) -> dict[str, dict[str, Any]]:
    """Return the cases of one part by name; each has published what the host does."""
    lines = run_module("tests.rapids.emulated_devices", str(directory), part).splitlines()
    return {line.pop("case"): line for line in map(json.loads, lines)}


@on_the_emulator
def test_two_devices_publish_what_the_host_does(tmp_path: Path) -> None:
    (case,) = emulated(tmp_path, "first").values()
    assert case["ranks"] == 2
    assert case["blocks"] > 2


@pytest.mark.slow
@on_the_emulator
def test_other_cases_of_several_devices(tmp_path: Path) -> None:
    cases = emulated(tmp_path, "others")
    assert len(cases) == 9
    assert 0 < cases["gone on with"]["kept"] < cases["gone on with"]["of"]
    assert min(cases[name]["blocks"] for name in ("sorted", "one twice", "none that holds the tables")) > 2
    # The roots it had started are searched again on the others.
    assert (cases["lost"]["ranks"], cases["lost"]["warned"]) == (2, 1)
    assert "gpu:1 (emulated) was lost" in cases["lost too late"]["told"]
    assert "more device memory holds more back" in cases["lost too late"]["told"]
    assert cases["few"]["rows"] == 20 < cases["few"]["of"]
    assert cases["interrupted"]["threads"] == []


def two_devices() -> list[int]:
    """Return the first two devices, or the only one twice."""
    cupy = pytest.importorskip("cupy")
    return [0, 1] if cupy.cuda.runtime.getDeviceCount() > 1 else [0, 0]


def published(edges: Path, out: Path, devices: Sequence[int] | str | None, **sections: dict[str, Any]) -> RunResult:
    """Return a run on the tier, sorted and with the long form."""
    asked = {
        "input": {"path": str(edges)},
        "execution": {"engine": "rapids", "devices": devices, "device_memory": "6GiB"},
        "output": {"directory": str(out), "sort": True, "members": True, "report": False},
    }
    for name, keys in sections.items():
        asked[name] = asked.get(name, {}) | keys
    return run(Config.from_mapping(asked))


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """Return a graph with some ten thousand bicliques."""
    left, right = graphs.random_matrix(3, 120, 90, 0.2).nonzero()
    pq.write_table(pa.table({"left": pa.array(left), "right": pa.array(right)}), tmp_path / "edges.parquet")
    return tmp_path / "edges.parquet"


@pytest.mark.gpu
def test_two_devices_publish_what_one_does(tmp_path: Path, edges: Path) -> None:
    alone = published(edges, tmp_path / "alone", None)
    together = published(edges, tmp_path / "together", two_devices())
    # Bytes may differ: nvCOMP compresses equal rows differently each time, even on one device.
    assert differences(alone, together) == []
    manifest = together.manifest
    assert manifest.ranks is not None
    assert [rank.name for rank in manifest.ranks.each] == [f"gpu:{number}" for number in two_devices()]
    assert sum(rank.found for rank in manifest.ranks.each) == manifest.counts.bicliques
    assert (manifest.engine, manifest.truncated) == ("rapids", None)
    assert verify_run(together.run_dir).n_bicliques == manifest.counts.bicliques


@pytest.mark.gpu
@pytest.mark.parametrize(
    "sections",
    [{"output": {"members": False}}, {}, {"output": {"bicliques": False, "members": False}, "groups": {}}],
    ids=str,
)
def test_unsorted_rows(tmp_path: Path, edges: Path, sections: dict[str, Any]) -> None:
    asked = {**sections, "output": {"sort": False, **sections.get("output", {})}}
    alone = published(edges, tmp_path / "alone", None, **asked)
    together = published(edges, tmp_path / "together", two_devices(), **asked)
    assert together.manifest.content_fingerprint == alone.manifest.content_fingerprint
    assert together.manifest.counts == alone.manifest.counts
    for name in ("left_vertices.parquet", "right_vertices.parquet", "size_histogram.parquet"):
        assert pq.read_table(together.run_dir / name).equals(pq.read_table(alone.run_dir / name))


@pytest.mark.gpu
def test_a_device_without_the_tables(tmp_path: Path, edges: Path) -> None:
    alone = published(edges, tmp_path / "alone", None)
    last = published(edges, tmp_path / "last", [two_devices()[-1]])
    assert differences(alone, last) == []


@pytest.mark.gpu
def test_a_real_graph_within_little_memory(tmp_path: Path, data_dir: Path) -> None:  # noqa: ARG001 - skips without
    edges = edges_as_parquet("marvel", tmp_path)
    alone = published(edges, tmp_path / "alone", None)
    together = published(edges, tmp_path / "together", two_devices(), execution={"device_memory": "3GiB"})
    assert differences(alone, together) == []
    assert together.manifest.peak_device_memory_bytes is not None
    assert together.manifest.peak_device_memory_bytes <= 3 << 30


@pytest.mark.gpu
def test_groups_and_limits(tmp_path: Path, edges: Path) -> None:
    alone = published(edges, tmp_path / "alone", None, groups={})
    together = published(edges, tmp_path / "together", two_devices(), groups={})
    for name in ("groups.parquet", "group_members.parquet", "vertex_scores.parquet"):
        assert pq.read_table(together.run_dir / name).equals(pq.read_table(alone.run_dir / name))
    few = published(edges, tmp_path / "few", two_devices(), execution={"max_bicliques": 17})
    assert few.manifest.counts.bicliques == 17
    assert few.manifest.truncated == "stopped at max_bicliques = 17"
    assert verify_run(few.run_dir).n_bicliques == 17


@pytest.mark.gpu
def test_counting(tmp_path: Path, edges: Path) -> None:
    execution = {"engine": "rapids", "devices": two_devices(), "device_memory": "6GiB"}
    asked = {"input": {"path": str(edges)}, "output": {"directory": str(tmp_path / "out")}}
    counted = [count(Config.from_mapping(asked | {"execution": means})) for means in (execution, {"engine": "cpu"})]
    assert counted[0].n_bicliques == counted[1].n_bicliques
    assert counted[0].engine == "rapids"


@pytest.mark.gpu
def test_a_lost_device(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from mbe_stage.bicliques.cuda.search import SharedSearch

    alone, work = published(edges, tmp_path / "alone", None), SharedSearch.work

    def failing(self: Any, block_bytes: int) -> Any:
        if threading.current_thread().name == f"gpu-{two_devices()[1]}-1":
            raise MemoryBudgetExceeded("the memory of this device has an error")
        return work(self, block_bytes)

    monkeypatch.setattr(SharedSearch, "work", failing)
    together = published(edges, tmp_path / "together", two_devices())
    assert differences(alone, together) == []
    assert "was lost (the memory of this device has an error)" in together.manifest.warnings[0]
    monkeypatch.setattr(SharedSearch, "work", _failing_behind(work))
    with pytest.raises(DeviceLost, match="more device memory holds more back"):
        published(edges, tmp_path / "late", two_devices(), execution={"time_limit_seconds": 1000.0})


def _failing_behind(work: Any) -> Any:
    """Fail on the second device after the results of its first quantum were passed on."""
    import threading

    def failing(self: Any, block_bytes: int) -> Any:
        yield from work(self, block_bytes)
        if threading.current_thread().name == f"gpu-{two_devices()[1]}-1":
            raise MemoryBudgetExceeded("the memory of this device has an error")

    return failing


@pytest.mark.gpu
def test_blocks_come_to_the_device_that_is_current() -> None:
    cp = pytest.importorskip("cupy")
    from mbe_stage.bicliques import engine_cpu
    from mbe_stage.bicliques.results import Detail
    from mbe_stage.device.graph import on_device
    from mbe_stage.runners.devices import DeviceRunner

    graph = graphs.from_matrix(graphs.random_matrix(5, 90, 70, 0.25))
    wanted = sum(map(len, engine_cpu.run(graph, BicliqueQuery(), Execution(), Detail.COUNT)))
    runner, n_found = DeviceRunner(two_devices(), options={"sizes": {"n_blocks": 2, "quantum_seconds": 0.002}}), 0
    means = Execution(device_memory_bytes=4 << 30)
    asked = ("bicliques", "cuda", on_device(graph), BicliqueQuery(), means, Detail.MEMBERS)
    for block in runner.run(*asked, on_device=True):
        n_found += len(block)
        assert {block.left_members.device.id, block.left_offsets.device.id} == {cp.cuda.Device().id}
        assert int(block.left_offsets[-1]) == block.left_members.size
    assert n_found == wanted
    assert min(rank.n_found for rank in runner.ranks) > 0
