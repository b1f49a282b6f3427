"""Whole runs on the RAPIDS tier, compared with the CPU tier."""

import json
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.edge_table import edges_as_parquet
from benchmarks.tier_tables import differences, publish_with
from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.errors import DeviceMemoryExhausted, InputError, PublishError
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.verify import verify_run
from tests.patience import completed
from tests.pipeline.output_support import assert_nothing_staged, assert_sound, crown_pairs

pytestmark = pytest.mark.gpu

REAL = ["southern_women", "corporate_leadership", "club_membership", "moreno_crime", "unicodelang", "ucforum", "marvel"]


def made(name: str) -> list[tuple[object, object]]:
    """Graphs with keys of every kind."""
    dice = random.Random(name)
    if name == "crown":
        return list(crown_pairs(11))
    if name == "one edge":
        return [("a", "b")]
    if name == "odd text":
        names = [" ", " a", "a", "7", "007", "ü", "é", "日本", "x" * 70_000, "😀", "a\nb", '"']
        return [(dice.choice(names), f"{dice.choice(names)}!") for _ in range(60)]
    if name == "wide integers":
        return [(dice.choice([-(2**63), 2**63 - 1, 2**31, 0]), dice.randrange(2**40)) for _ in range(40)]
    return [(dice.randrange(60), dice.randrange(50)) for _ in range(700)]


@pytest.fixture
def edges(request, tmp_path, data_dir) -> Path:  # noqa: ARG001 - skips where there are no real graphs
    name = request.param
    if name in REAL:
        return edges_as_parquet(name, tmp_path)
    return written(made(name), tmp_path / "edges.parquet")


def written(pairs: list, path: Path) -> Path:
    left, right = zip(*pairs, strict=True)
    pq.write_table(pa.table({"left": pa.array(left), "right": pa.array(right)}), path)
    return path


@pytest.mark.parametrize("edges", [*REAL, "crown", "one edge", "odd text", "wide integers", "random"], indirect=True)
def test_the_tiers_publish_the_same(edges, tmp_path):
    cpu, rapids = (publish_with(tier, edges, tmp_path / tier) for tier in ("cpu", "rapids"))
    assert differences(cpu, rapids) == []
    manifest = rapids.manifest
    assert (manifest.engine, manifest.truncated) == ("rapids", None)
    assert manifest.input.fingerprint == cpu.manifest.input.fingerprint
    assert manifest.peak_device_memory_bytes > 0
    assert cpu.manifest.peak_device_memory_bytes is None
    assert {"cudf", "cugraph", "cupy"} <= set(manifest.versions)
    assert {"read", "graph", "enumerate", "name", "write", "two_hop", "tables", "checksums"} <= set(manifest.seconds)
    assert all(seconds >= 0 for seconds in manifest.seconds.values())
    assert_sound(rapids.run_dir)
    assert verify_run(rapids.run_dir).n_bicliques == manifest.counts.bicliques


@pytest.fixture
def random_edges(tmp_path) -> Path:
    return written(made("random"), tmp_path / "edges.parquet")


def config(edges: Path, out: Path, **sections: dict) -> Config:
    values = {"input": {"path": str(edges)}, "execution": {"engine": "rapids"}, "output": {"directory": str(out)}}
    for section, keys in sections.items():
        values[section] = {**values.get(section, {}), **keys}
    return Config.from_mapping(values)


@pytest.mark.parametrize(
    "query",
    [
        {"min_left": 3, "min_right": 2},
        {"max_left": 2, "min_edges": 4},
        {"containing_left": [7], "containing_right": [3]},
        {"min_left": 59, "min_right": 49},
    ],
    ids=str,
)
def test_queries_publish_the_same(random_edges, tmp_path, query):
    for tier in ("cpu", "rapids"):
        asked = config(
            random_edges,
            tmp_path / tier,
            query=query,
            execution={"engine": tier},
            output={"sort": True, "members": True, "report": False},
        )
        run(asked)
    cpu, rapids = (RunStore(tmp_path / tier).latest() for tier in ("cpu", "rapids"))
    for name in ("bicliques/part-00000", "size_histogram", "left_vertices", "right_vertices"):
        assert pq.read_table(rapids / f"{name}.parquet").equals(pq.read_table(cpu / f"{name}.parquet"))


def test_a_run_with_its_report_verifies_against_the_input(random_edges, tmp_path):
    from mbe_stage.pipeline.execution.ingest import ingest

    asked = config(random_edges, tmp_path / "out")
    result = run(asked)
    report = verify_run(result.run_dir, ingest(asked.input))
    assert report.n_against_input == result.manifest.counts.bicliques
    assert "peak device memory" in (result.run_dir / "report.html").read_text()


def test_a_limit_truncates_exactly(random_edges, tmp_path):
    result = run(config(random_edges, tmp_path / "out", execution={"max_bicliques": 17}))
    assert result.manifest.counts.bicliques == 17
    assert result.manifest.truncated == "stopped at max_bicliques = 17"
    assert verify_run(result.run_dir).n_bicliques == 17


def test_counting_stores_nothing(random_edges, tmp_path):
    counted = [count(config(random_edges, tmp_path / "out", execution={"engine": e})) for e in ("rapids", "cpu")]
    assert counted[0].n_bicliques == counted[1].n_bicliques
    assert counted[0].engine == "rapids"
    assert counted[0].peak_device_memory_bytes > 0
    assert counted[1].peak_device_memory_bytes is None
    assert not (tmp_path / "out").exists()


def test_edges_in_memory(tmp_path):
    result = run(config(Path("unused"), tmp_path / "out"), (["ann", "bob", "ann", "bob"], [1, 1, 2, 2]))
    assert result.manifest.counts.bicliques == 1


def test_too_little_memory_and_then_a_small_run(tmp_path):
    """One clear error, nothing published, and the process stays usable."""
    dice = np.random.default_rng(5)
    edges = tmp_path / "large.parquet"
    table = {"left": dice.integers(0, 2**40, 4_000_000), "right": dice.integers(0, 2**40, 4_000_000)}
    pq.write_table(pa.table(table), edges)
    out = tmp_path / "out"
    with pytest.raises(DeviceMemoryExhausted, match=r"64 MiB \(execution\.device_memory\).*raise it"):
        run(config(edges, out, execution={"device_memory": "64MiB"}))
    assert RunStore(out).runs() == []
    small = written(made("random"), tmp_path / "small.parquet")
    result = run(config(small, out))
    assert_sound(result.run_dir)
    assert_nothing_staged(out)


def test_files_are_encoded_on_the_host_if_no_encoder_fits(random_edges, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("mbe_stage.pipeline.backends.cudf.writing.encoder_bytes", lambda *_: None)
    asked = [
        config(random_edges, tmp_path / e, execution={"engine": e}, output={"sort": True, "members": True})
        for e in ("rapids", "cpu")
    ]
    with caplog.at_level("INFO", logger="mbe_stage.pipeline"):
        published = [run(each) for each in asked]
    assert "encoding on the host" in caplog.text
    assert differences(*published) == []


@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "as found"])
def test_a_small_limit_holds(data_dir, tmp_path, sort):
    """With a limit for few encoders the result is written in pieces and sorted on the host."""
    edges = edges_as_parquet("youtube", tmp_path) if (data_dir / "youtube.npz").is_file() else pytest.skip("no youtube")
    limit = 1 << 30
    asked = config(edges, tmp_path / "out", execution={"device_memory": limit}, output={"sort": sort, "report": False})
    manifest = run(asked).manifest
    assert manifest.counts.bicliques == 1_826_587
    assert manifest.peak_device_memory_bytes <= limit


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a defect")], ids=repr)
def test_an_interrupted_run_leaves_nothing(random_edges, tmp_path, error):
    out = tmp_path / "out"
    before = run(config(random_edges, out)).run_dir

    def interrupt(_progress) -> None:
        raise error

    with pytest.raises(type(error)):
        run(config(random_edges, out), on_progress=interrupt)
    assert RunStore(out).runs() == [before]
    assert_nothing_staged(out)
    assert RunStore(out).latest() == before


def test_a_corrupt_file_is_refused_as_on_the_host(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    for tier in ("rapids", "cpu"):
        with pytest.raises(InputError, match=r"broken\.parquet"):
            run(config(broken, tmp_path / "out", execution={"engine": tier}))


def test_an_output_that_cannot_be_written(random_edges, tmp_path):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(PublishError, match="in the way"):
        run(config(random_edges, tmp_path / "out"))


def test_the_manifest_is_json_with_device_memory(random_edges, tmp_path):
    run_dir = run(config(random_edges, tmp_path / "out")).run_dir
    values = json.loads((run_dir / "manifest.json").read_text())
    assert values["peak_device_memory_bytes"] > 0


def test_the_engines_do_not_know_the_tier():
    from mbe_stage.engines import get_engine

    with pytest.raises(InvalidArgument, match="engine is 'rapids'"):
        get_engine("bicliques", "rapids")


def test_kernels_of_the_tier_are_compiled_ahead_for_the_types_that_they_are_launched_with():
    command = [sys.executable, "-m", "tests.mbe_stage.launched_as_stated", "--rapids"]
    completed(command, cwd=Path(__file__).parents[2], check=True)


@pytest.mark.parametrize(
    ("problem", "asked"),
    [
        ("itemsets", {"min_count": 6, "min_confidence": 0.5}),
        ("itemsets", {"min_count": 6, "maximal": True}),
        ("shared_neighbours", {"side": "right", "min_shared": 2}),
        ("shared_neighbours", {"top": 50, "by": "jaccard"}),
        ("best", {"by": "balance", "k": 20}),
    ],
)
def test_problems_with_host_tables_publish_the_same_as_on_the_cpu(random_edges, tmp_path, problem, asked):
    runs = []
    for engine in ("cpu", "cuda", "auto"):
        output = {"directory": str(tmp_path / engine), "sort": True, "report": False}
        sections = {"input": {"path": str(random_edges)}, "execution": {"engine": engine}, "output": output}
        runs.append(run(Config.from_mapping({**sections, "problem": problem, problem: asked})))
        assert verify_run(runs[-1].run_dir).n_found > 0
    assert [each.manifest.engine for each in runs] == ["cpu", "cuda", "cuda"]
    names = [sorted(str(path.relative_to(each.run_dir)) for path in each.run_dir.rglob("*.parquet")) for each in runs]
    assert names[0] == names[1] == names[2]
    for name in names[0]:
        first, *others = (pq.read_table(each.run_dir / name) for each in runs)
        assert all(first.equals(other) for other in others)
