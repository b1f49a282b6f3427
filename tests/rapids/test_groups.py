"""Groups on the tier ``rapids``: the tables of the CPU tier, from blocks that stay in device memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import Config, run
from pipeline.errors import DeviceMemoryExhausted
from pipeline.ingest import ingest
from pipeline.installed_publications import reading_of
from pipeline.verify import verify_run
from tests.pipeline.groups_support import EDGES, planted, settings
from tests.pipeline.test_groups_times import NAMED, SOURCE

pytestmark = pytest.mark.gpu

KINDS = ("short_list", "grown_cover")


def tables_of(run_dir: Path) -> dict[str, pa.Table]:
    """Every table of the run that groups have."""
    names = ("groups", "group_members", "group_edges", "group_times", "vertex_scores")
    return {name: pq.read_table(path) for name in names if (path := run_dir / f"{name}.parquet").is_file()}


def published(out: Path, engine: str, edges: object, **sections: dict):
    return run(settings(out / engine, engine, **sections), edges)


def assert_same(one, other) -> None:
    ours, theirs = tables_of(one.run_dir), tables_of(other.run_dir)
    assert ours.keys() == theirs.keys()
    for name, table in theirs.items():
        assert ours[name].schema == table.schema, name
        assert ours[name].equals(table), name
    assert one.manifest.derived == other.manifest.derived
    assert one.manifest.config_fingerprint == other.manifest.config_fingerprint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_tiers_publish_the_same(tmp_path, kind, seed):
    edges = planted(seed)
    sections = {"groups": {"kind": kind}}
    cpu = published(tmp_path, "cpu", edges, **sections)
    assert cpu.manifest.derived["groups"]["groups"] > 0
    for engine in ("cuda", "rapids", "auto"):
        result = published(tmp_path, engine, edges, **sections)
        assert result.manifest.engine == ("cuda" if engine == "cuda" else "rapids")
        assert_same(result, cpu)
        verify_run(result.run_dir, ingest(Config().input, edges))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_times_are_the_same(tmp_path, kind):
    sections = {"groups": {"kind": kind}, "input": NAMED}
    cpu, rapids = (published(tmp_path, engine, SOURCE, **sections) for engine in ("cpu", "rapids"))
    assert rapids.manifest.engine == "rapids"
    assert_same(rapids, cpu)
    assert pq.read_table(rapids.run_dir / "group_times.parquet").num_rows > 0
    assert rapids.manifest.input.events_fingerprint == cpu.manifest.input.events_fingerprint
    verify_run(rapids.run_dir, ingest(reading_of(rapids.manifest.config), SOURCE))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["marvel", "ucforum", "youtube"])
def test_real_graphs(tmp_path, data_dir, name, kind):
    with np.load(data_dir / f"{name}.npz") as arrays:
        edges = pa.table({"l": arrays["u"], "r": arrays["v"]})
    sections = {"groups": {"kind": kind}, "query": {"min_left": 2, "min_right": 2}}
    cpu = published(tmp_path, "cpu", edges, **sections)
    # A small limit, so that there are many blocks, and pieces of them.
    for limit in (None, 4 << 30):
        result = published(tmp_path / str(limit), "rapids", edges, execution={"device_memory": limit}, **sections)
        assert_same(result, cpu)
    assert cpu.manifest.derived["groups"]["groups"] > 0


def test_nothing_significant_is_a_result(tmp_path):
    edges = pa.table({"l": [0, 1, 2], "r": [0, 1, 2]})
    cpu, rapids = (published(tmp_path, engine, edges) for engine in ("cpu", "rapids"))
    assert_same(rapids, cpu)
    assert rapids.manifest.derived["groups"]["groups"] == 0


def test_too_little_memory_is_one_refusal_and_auto_goes_on(tmp_path):
    sections = {"execution": {"device_memory": 1 << 20}}
    with pytest.raises(DeviceMemoryExhausted, match="raise it"):
        published(tmp_path, "rapids", EDGES, **sections)
    result = published(tmp_path, "auto", EDGES, **sections)
    assert result.manifest.engine in ("cuda", "cpu")
    assert result.manifest.warnings
    assert_same(result, published(tmp_path, "cpu", EDGES))
