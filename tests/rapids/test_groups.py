"""Groups on the tier ``rapids``: the tables of the CPU tier, from blocks in device memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage.pipeline import Config, run
from mbe_stage.pipeline.errors import DeviceMemoryExhausted
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline import test_groups_two_offsets
from tests.pipeline.groups_support import EDGES, planted, settings
from tests.pipeline.test_groups_times import NAMED, SOURCE

pytestmark = pytest.mark.gpu

KINDS = ("both", "short_list")


def tables_of(run_dir: Path) -> dict[str, pa.Table]:
    names = ("groups", "group_members", "group_edges", "group_halo", "group_times", "vertex_scores")
    names += ("group_keys", "half_later_vertices", "known_keys")
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
@pytest.mark.parametrize("seed", [1, 2])
def test_both_offsets_of_a_bucket_of_time_are_searched(tmp_path, kind, seed):
    source, heard = test_groups_two_offsets.events(seed), []
    sections = {
        "groups": {"kind": kind},
        "input": {"left": "l", "right": "r", "timestamp": "t", "time_bucket": "7d"},
    }
    cpu = published(tmp_path, "cpu", source, **sections)
    rapids = run(settings(tmp_path / "rapids", "rapids", **sections), source, on_progress=heard.append)
    assert rapids.manifest.engine == "rapids"
    assert_same(rapids, cpu)
    groups = pq.read_table(rapids.run_dir / "groups.parquet")
    assert set(groups["half_later"].to_pylist()) == {True, False}
    assert pq.read_table(rapids.run_dir / "half_later_vertices.parquet").num_rows > 0
    assert rapids.manifest.seconds["half_later"] > 0
    assert {(each.search, each.engine) for each in heard if each.search} == {("buckets shifted by half", "cuda")}
    n_later = rapids.manifest.derived["groups"]["half_later_bicliques"]
    assert [each.n_found for each in heard if each.search][-1] == n_later > 0
    report = verify_run(rapids.run_dir, ingest(reading_of(rapids.manifest.config), source))
    assert "half later bicliques" in {check.name for check in report.checks}


@pytest.mark.parametrize("buckets", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_known_cases_and_known_good_are_the_same(tmp_path, kind, buckets):
    (tmp_path / "labels.csv").write_text(
        "key,side,class\n"
        + "".join(f"ring{i},left,{'fraud' if i < 4 else 'good'}\n" for i in range(6))
        + "100,right,fraud\n"
    )
    (tmp_path / "allow.csv").write_text("key\n" + "".join(f"core{i}\n" for i in range(6)))
    source = test_groups_two_offsets.events(2)
    lists = {name: str(tmp_path / f"{name}.csv") for name in ("labels", "allow")}
    columns = {"left": "l", "right": "r", "timestamp": "t", "time_bucket": "7d" if buckets else None}
    sections = {"groups": {"kind": kind, **lists}, "input": columns}
    cpu, rapids = (published(tmp_path, engine, source, **sections) for engine in ("cpu", "rapids"))
    assert rapids.manifest.engine == "rapids"
    assert_same(rapids, cpu)
    assert rapids.manifest.derived_inputs == cpu.manifest.derived_inputs
    groups = pq.read_table(rapids.run_dir / "groups.parquet").to_pylist()
    assert sum(row["is_muted"] for row in groups) == rapids.manifest.derived["groups"]["muted"] == 1
    assert max(row["n_known"] for row in groups) >= 4
    assert pq.read_table(rapids.run_dir / "known_keys.parquet").num_rows == 13
    verify_run(rapids.run_dir, ingest(reading_of(rapids.manifest.config), source))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["marvel", "ucforum", "youtube"])
def test_real_graphs(tmp_path, data_dir, name, kind):
    with np.load(data_dir / f"{name}.npz") as arrays:
        edges = pa.table({"l": arrays["u"], "r": arrays["v"]})
    sections = {"groups": {"kind": kind}, "query": {"min_left": 2, "min_right": 2}}
    cpu = published(tmp_path, "cpu", edges, **sections)
    # A small limit gives many blocks, and pieces of them.
    for limit in (None, 4 << 30):
        result = published(tmp_path / str(limit), "rapids", edges, execution={"device_memory": limit}, **sections)
        assert_same(result, cpu)
    assert cpu.manifest.derived["groups"]["groups"] > 0


def test_nothing_significant_is_a_result(tmp_path):
    edges = pa.table({"l": [0, 1, 2], "r": [0, 1, 2]})
    cpu, rapids = (published(tmp_path, engine, edges) for engine in ("cpu", "rapids"))
    assert_same(rapids, cpu)
    assert rapids.manifest.derived["groups"]["groups"] == 0


def test_too_little_memory_is_one_refusal_and_auto_continues(tmp_path):
    sections = {"execution": {"device_memory": 1 << 20}}
    with pytest.raises(DeviceMemoryExhausted, match="raise it"):
        published(tmp_path, "rapids", EDGES, **sections)
    result = published(tmp_path, "auto", EDGES, **sections)
    assert result.manifest.engine in ("cuda", "cpu")
    assert result.manifest.warnings
    assert_same(result, published(tmp_path, "cpu", EDGES))
