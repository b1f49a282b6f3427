"""A derived output on both backends: device blocks and host blocks give the same."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, TableSink
from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.base import Collecting
from mbe_stage.pipeline.problems.installed import derived_of
from mbe_stage.pipeline.verify import verify_run
from tests.mbe_stage import small_gpu
from tests.pipeline import small_rapids
from tests.pipeline.output_support import edge_data, random_pairs
from tests.rapids.on_numpy import imported

pytestmark = pytest.mark.usefixtures("installed")

PAIRS = random_pairs(3, n_left=40, n_right=30)
EDGES = pa.table({"l": [str(left) for left, _ in PAIRS], "r": pa.array([right for _, right in PAIRS])})


def settings(out: Path, engine: str, **sections: dict) -> Config:
    values = {"execution": {"engine": engine}, "output": {"directory": str(out), "sort": True}, "smaller_sides": {}}
    return Config.from_mapping({**values, **sections})


def rows(run_dir: Path) -> list[dict]:
    return pq.read_table(run_dir / "smaller_sides.parquet").to_pylist()


def test_device_blocks_give_what_host_blocks_give(tmp_path, monkeypatch):
    blocks = imported("mbe_stage.bicliques.cuda.blocks", monkeypatch)
    monkeypatch.setattr(np, "asnumpy", np.asarray, raising=False)
    edges = edge_data(PAIRS)
    sink = TableSink()
    enumerate_into(sink, edges.graph(), engine="cpu")
    whole = sink.table()
    host = BicliqueBlock(
        len(whole),
        np.diff(whole.left_offsets).astype(np.int32),
        np.diff(whole.right_offsets).astype(np.int32),
        whole.left_members,
        whole.right_members,
    )
    device = blocks.DeviceBlock(whole.left_offsets, whole.left_members, whole.right_offsets, whole.right_members)
    keys = biclique_keys(host, key_hashes(edges.left_keys, "left"), key_hashes(edges.right_keys, "right"))
    config = settings(tmp_path, "cpu")
    (output,) = derived_of(config)
    collecting = Collecting(tmp_path, config, edges, edges.graph(), SimpleNamespace(xp=np))
    made = []
    for name, parts in (
        ("host", [host.first(100), None]),
        ("device", [device.part(0, 100), device.part(100, len(whole))]),
    ):
        (tmp_path / name).mkdir()
        collector = output.collector(replace(collecting, run_path=tmp_path / name))
        start = 0
        for part in parts:
            block = part or BicliqueBlock(len(whole) - 100, host.left_sizes[100:], host.right_sizes[100:])
            collector.accept(block, keys[start : start + len(block)])
            start += len(block)
        assert collector.finish()["bicliques"] == start == len(whole)
        made.append(rows(tmp_path / name))
    assert made[0] == made[1]
    assert len(made[0]) > 3


def test_the_fallback_tier_makes_it(tmp_path, monkeypatch):
    expected = run(settings(tmp_path / "cpu", "cpu"), EDGES)
    small_gpu.install(monkeypatch)
    small_rapids.install(monkeypatch, "enumerate")
    sections = {"engine": "auto", "device_memory": 1 << 20}
    result = run(settings(tmp_path / "auto", "auto", execution=sections), EDGES)
    # From the tier to the CUDA engine, and then to the CPU.
    assert (result.manifest.engine, len(result.manifest.warnings)) == ("cpu", 2)
    assert rows(result.run_dir) == rows(expected.run_dir)
    assert result.manifest.derived == expected.manifest.derived


@pytest.mark.gpu
def test_the_backends_publish_the_same(tmp_path):
    runs = [run(settings(tmp_path / engine, engine), EDGES) for engine in ("cpu", "cuda", "rapids")]
    assert [each.manifest.engine for each in runs] == ["cpu", "cuda", "rapids"]
    for each in runs[1:]:
        assert rows(each.run_dir) == rows(runs[0].run_dir)
        assert each.manifest.derived == runs[0].manifest.derived
        assert each.manifest.config_fingerprint == runs[0].manifest.config_fingerprint
        verify_run(each.run_dir, ingest(Config().input, EDGES))


@pytest.mark.gpu
def test_a_problem_without_device_tables_runs_on_the_gpu_with_host_tables(tmp_path):
    def config(engine: str) -> Config:
        values = {"execution": {"engine": engine}, "output": {"directory": str(tmp_path / engine)}}
        return Config.from_mapping({**values, "problem": "butterflies"})

    runs = {engine: run(config(engine), EDGES) for engine in ("cpu", "cuda", "auto")}
    assert {engine: each.manifest.engine for engine, each in runs.items()} == {
        "cpu": "cpu",
        "cuda": "cuda",
        "auto": "cuda",
    }
    assert len({each.manifest.content_fingerprint for each in runs.values()}) == 1
    for each in runs.values():
        verify_run(each.run_dir, ingest(Config().input, EDGES))
