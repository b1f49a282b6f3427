"""Maximal cliques on both backends: device edges and host edges give the same tables."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mbe_stage import CliqueQuery, Execution, InvalidArgument
from mbe_stage.cliques import engine_cpu
from mbe_stage.cliques.results import CliqueTable, CliqueTableSink, Detail
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.pipeline import Config, count, run
from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.errors import ConfigError, DeviceMemoryExhausted, InputError
from mbe_stage.pipeline.execution.ingest import ingest
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.problems.installed import reading_of
from mbe_stage.pipeline.publish.run_store import RunStore
from mbe_stage.pipeline.verify import verify_run
from tests.pipeline.output_support import assert_nothing_staged, assert_sound

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(5)
ENDS = RNG.integers(0, 60, (2, 900))
EDGES = pa.table({"src": [f"v{u}" for u in ENDS[0]], "dst": [f"v{v}" for v in ENDS[1]]})
MIXED = pa.table({"src": pa.array(ENDS[0]), "dst": [str(v) for v in ENDS[1]]})
INTEGERS = pa.table({"src": pa.array(ENDS[0] - 2**40), "dst": pa.array(ENDS[1] - 2**40)})
LOOPS = pa.table({"src": ["c", "a", "b", "a"], "dst": ["c", "a", "b", "a"]})
SOME_LOOPS = pa.table({"src": ["ü", "a", "b", "z"], "dst": ["ü", "b", "c", "z"]})
TABLES = ("cliques", "vertices.parquet", "size_histogram.parquet")


def settings(out: Path | str, engine: str, **asked: Any) -> Config:
    """Return settings with sorted output, unless `asked` has another section `output`."""
    output = {"directory": str(out), "sort": True, **asked.pop("output", {})}
    execution = {"engine": engine, **asked.pop("execution", {})}
    return Config.from_mapping({"execution": execution, "output": output, "problem": "cliques", "cliques": asked})


def table(result: RunResult, name: str) -> pa.Table:
    """Return the table as it is if sorted, else sorted by key."""
    read = pq.read_table(result.run_dir / name)
    is_as_found = name == "cliques" and not result.manifest.config.output.sort
    return read.sort_by("clique_key") if is_as_found else read


def both(out: Path, source: pa.Table, **asked: Any) -> tuple[RunResult, RunResult]:
    """Return the runs of the CPU and the tier after checking that they published the same."""
    cudf = pytest.importorskip("cudf")
    cpu = run(settings(out / "cpu", "cpu", **asked), source)
    rapids = run(settings(out / "rapids", "rapids", **asked), cudf.DataFrame.from_arrow(source))
    assert [each.manifest.engine for each in (cpu, rapids)] == ["cpu", "rapids"]
    assert rapids.manifest.input.undirected == cpu.manifest.input.undirected
    assert rapids.manifest.input.fingerprint == cpu.manifest.input.fingerprint
    assert rapids.manifest.content_fingerprint == cpu.manifest.content_fingerprint
    assert rapids.manifest.counts == cpu.manifest.counts
    for name in TABLES:
        tables = [table(each, name) for each in (cpu, rapids)]
        assert tables[0].schema == tables[1].schema, name
        assert tables[0].equals(tables[1]), name
    return cpu, rapids


def parquet_schema(path: Path) -> list[str]:
    """As text, without the first line, which holds an address."""
    return str(pq.ParquetFile(path).schema).splitlines()[1:]


@pytest.mark.parametrize("source", [EDGES, MIXED, INTEGERS], ids=["text", "text and integers", "integers"])
@pytest.mark.parametrize("asked", [{}, {"min_size": 3}, {"project": "left", "min_shared": 4}], ids=str)
def test_the_backends_publish_the_same(tmp_path: Path, source: pa.Table, asked: dict[str, Any]) -> None:
    _, rapids = both(tmp_path, source, **asked)
    verify_run(rapids.run_dir, ingest(reading_of(rapids.manifest.config), source))
    assert_sound(rapids.run_dir)
    assert count(settings("out", "rapids", **asked), source).n_found == rapids.manifest.n_found
    assert {"read", "graph", "plan", "enumerate", "name", "write", "tables"} <= set(rapids.manifest.seconds)
    assert all(seconds >= 0 for seconds in rapids.manifest.seconds.values())
    assert rapids.manifest.peak_device_memory_bytes > 0


@pytest.mark.parametrize(
    "asked",
    [
        {"output": {"sort": False}},
        {"output": {"sort": False, "compression": "snappy"}, "max_size": 4},
        {"max_size": 3, "min_size": 2},
        {"containing": ["v7"]},
        {"containing": ["v7", "v9"], "output": {"sort": False}},
        {"project": "right"},
        {"project": "right", "min_shared": 3, "min_size": 2, "output": {"sort": False}},
        {"project": "left", "min_shared": 100},
        {"min_size": 40},
        {"min_size": 40, "output": {"sort": False}},
    ],
    ids=str,
)
def test_all_options(tmp_path: Path, asked: dict[str, Any]) -> None:
    _, rapids = both(tmp_path, EDGES, **asked)
    verify_run(rapids.run_dir, ingest(reading_of(rapids.manifest.config), EDGES))
    # An empty result is one readable part.
    assert list((rapids.run_dir / "cliques").iterdir())


@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "as found"])
@pytest.mark.parametrize("source", [LOOPS, SOME_LOOPS], ids=["loops alone", "loops too"])
def test_vertices_without_edges_are_cliques(tmp_path: Path, source: pa.Table, sort: bool) -> None:
    _, rapids = both(tmp_path, source, output={"sort": sort})
    alone = {row["key"] for row in table(rapids, "vertices.parquet").to_pylist() if row["largest_clique_size"] == 1}
    assert alone == ({"a", "b", "c"} if source is LOOPS else {"ü", "z"})
    verify_run(rapids.run_dir, ingest(reading_of(rapids.manifest.config), source))


def test_files_are_written_as_those_of_the_host(tmp_path: Path) -> None:
    cpu, rapids = both(tmp_path, EDGES)
    for name in ("cliques/part-00000.parquet", *TABLES[1:]):
        ours, theirs = rapids.run_dir / name, cpu.run_dir / name
        assert pq.read_schema(ours) == pq.read_schema(theirs)
        # Nullability and names for other readers, without Arrow's own schema.
        assert parquet_schema(ours) == parquet_schema(theirs)
    size = pq.read_metadata(rapids.run_dir / "cliques" / "part-00000.parquet").row_group(0).column(2)
    assert size.path_in_schema == "size"
    assert size.statistics.max == rapids.manifest.counts.max_size


def test_a_limit_truncates_exactly(tmp_path: Path) -> None:
    result = run(settings(tmp_path, "rapids", execution={"max_cliques": 17}), EDGES)
    assert result.manifest.counts.cliques == pq.read_table(result.run_dir / "cliques").num_rows == 17
    assert result.manifest.truncated == "stopped at max_cliques = 17"
    verify_run(result.run_dir, ingest(reading_of(result.manifest.config), EDGES))


@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "as found"])
def test_a_small_device_memory_limit_holds(tmp_path: Path, sort: bool) -> None:
    """If a device encoder does not fit, the host encodes the files; the tables are the same."""
    limit = 128 << 20
    _, rapids = both(tmp_path, EDGES, output={"sort": sort}, execution={"device_memory": limit})
    assert rapids.manifest.peak_device_memory_bytes <= limit


def test_too_little_memory_publishes_nothing_and_the_process_stays_usable(tmp_path: Path) -> None:
    with pytest.raises(DeviceMemoryExhausted, match=r"\(execution\.device_memory\)"):
        run(settings(tmp_path / "rapids", "rapids", execution={"device_memory": 4 << 20}), EDGES)
    assert RunStore(tmp_path / "rapids").runs() == []
    assert_nothing_staged(tmp_path / "rapids")
    both(tmp_path, EDGES)


@pytest.mark.parametrize("sort", [True, False], ids=["sorted", "as found"])
def test_a_limit_holds_for_a_large_result(data_dir: Path, tmp_path: Path, sort: bool) -> None:
    """459,002 cliques, in pieces."""
    if not (data_dir / "uni_wiki_Vote.npz").is_file():
        pytest.skip("no wiki_Vote")
    with np.load(data_dir / "uni_wiki_Vote.npz") as arrays:
        edges = pa.table({"src": arrays["src"], "dst": arrays["dst"]})
    limit = 256 << 20
    _, rapids = both(tmp_path, edges, output={"sort": sort, "report": False}, execution={"device_memory": limit})
    assert rapids.manifest.counts.cliques == 459_002
    assert rapids.manifest.peak_device_memory_bytes <= limit


# --- the sink -------------------------------------------------------------------------------------------------------


def random_cliques() -> tuple[UndirectedCSR, CliqueTable]:
    graph = UndirectedCSR.from_edges(*ENDS, n=60)
    sink = CliqueTableSink()
    for block in engine_cpu.run(graph, CliqueQuery(), Execution(), Detail.MEMBERS):
        sink.accept(block)
    return graph, sink.table()


def fed(run_path: Path, graph: UndirectedCSR, cliques: CliqueTable, plan: dict[str, int], sort: bool) -> Any:
    """Return the sink after some blocks of these cliques."""
    import cupy as cp

    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock
    from mbe_stage.pipeline.backends.cudf.block_writer import ParquetSink
    from mbe_stage.pipeline.backends.cudf.parquet import write_frame
    from mbe_stage.pipeline.backends.cudf.plan import WritingPlan
    from mbe_stage.pipeline.problems.cliques.cudf import Summary, rows_of
    from mbe_stage.pipeline.problems.cliques.schemas import CLIQUES

    hashes = cp.asarray(key_hashes(pa.array(np.arange(graph.n)), "left"))
    whole = DeviceCliqueBlock(cp.asarray(cliques.sizes, cp.int32), cp.asarray(cliques.members, cp.int32))
    cuts = np.linspace(0, len(cliques), 6).astype(int).tolist()
    write_file = functools.partial(write_frame, compression="zstd")
    rows, schemas = rows_of(hashes, Summary.of(hashes.size)), {"cliques": (CLIQUES, 1)}
    with ParquetSink(rows, run_path, schemas, WritingPlan(**plan), write_file, sort=sort) as sink:
        for first, stop in itertools.pairwise(cuts):
            sink.accept(whole.part(first, stop))
        sink.accept(DeviceCliqueBlock.empty(work_done=1.0))
    return sink


@pytest.mark.parametrize("piece_bytes", [1 << 10, 1 << 20])
@pytest.mark.parametrize("sort_bytes", [None, 0, 1 << 14, 1 << 30], ids=["as found", "spilled", "on the way", "sorted"])
def test_rows_and_sums_are_the_hosts(tmp_path: Path, piece_bytes: int, sort_bytes: int | None) -> None:
    from mbe_stage.pipeline.problems.cliques.arrow import ParquetSink as HostSink

    graph, cliques = random_cliques()
    hashes = key_hashes(pa.array(np.arange(graph.n)), "left")
    for name in ("host", "device"):
        (tmp_path / name).mkdir()
    with HostSink(tmp_path / "host", hashes, sort=True) as host:
        for block in engine_cpu.run(graph, CliqueQuery(), Execution(), Detail.MEMBERS):
            host.accept(block)
    plan = {"piece_bytes": piece_bytes, "sort_bytes": sort_bytes or 0, "n_writers": 2}
    device = fed(tmp_path / "device", graph, cliques, plan, sort_bytes is not None)
    assert str(device.summary.fingerprint) == str(host.summary.fingerprint)
    assert device.summary.members == host.summary.members == cliques.members.size
    for mine, theirs in zip(device.summary.sizes.sorted_rows(), host.summary.sizes.sorted_rows(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    mine, theirs = device.summary.vertex_statistics(), host.summary.vertex_statistics()
    for name in ("n_bicliques", "largest_edges", "largest_keys"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), name)
    found, wanted = (pq.read_table(tmp_path / name / "cliques") for name in ("device", "host"))
    assert (found if sort_bytes is not None else found.sort_by("clique_key")).equals(wanted)
    assert (len(list((tmp_path / "device" / "cliques").iterdir())) > 1) == (piece_bytes == 1 << 10)
    assert not (tmp_path / "device" / ".sort").exists()


# --- the library ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{}, {"min_size": 3, "max_size": 4}, {"project": "right", "min_shared": 3}], ids=str)
def test_frames_are_the_tables_of_a_run(tmp_path: Path, asked: dict[str, Any]) -> None:
    cudf = pytest.importorskip("cudf")
    from mbe_stage.pipeline.rapids.library import enumerate_cliques

    tables = enumerate_cliques(cudf.DataFrame.from_arrow(EDGES), "src", "dst", **asked)
    result = run(settings(tmp_path, "cpu", **asked), EDGES)
    found = tables.cliques.sort_values("clique_key", ignore_index=True).to_arrow(preserve_index=False)
    assert found.to_pylist() == table(result, "cliques").to_pylist()
    for name in ("vertices", "size_histogram"):
        of_run = table(result, f"{name}.parquet").to_pylist()
        assert getattr(tables, name).to_arrow(preserve_index=False).to_pylist() == of_run, name
    assert tables.n_cliques == len(tables.cliques) == result.manifest.counts.cliques > 10
    assert tables.truncated is None
    assert tables.input.source == "memory:cudf"


def test_frames_in_pieces_within_the_limit_of_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    cudf = pytest.importorskip("cudf")
    from mbe_stage.pipeline.backends.cudf import frame_sink
    from mbe_stage.pipeline.rapids.library import enumerate_cliques

    edges, pieces = cudf.DataFrame.from_arrow(INTEGERS), []
    taken, kept = enumerate_cliques(edges, on_frame=pieces.append), enumerate_cliques(edges)
    assert len(taken.cliques) == 0
    assert sum(map(len, pieces)) == taken.n_cliques == kept.n_cliques
    keys = [each["clique_key"].sort_values(ignore_index=True) for each in (cudf.concat(pieces), kept.cliques)]
    assert keys[0].equals(keys[1])
    monkeypatch.setattr(frame_sink, "MOST_CHILDREN", 100)
    with pytest.raises(InvalidArgument, match=r"more than 100 members.*on_frame.*min_size"):
        enumerate_cliques(edges)
    enumerate_cliques(edges, on_frame=pieces.append)


def test_limits_and_refusals_of_the_library() -> None:
    cudf = pytest.importorskip("cudf")
    from mbe_stage.pipeline.rapids.library import enumerate_cliques

    edges = cudf.DataFrame.from_arrow(EDGES)
    few = enumerate_cliques(edges, max_cliques=5)
    assert few.n_cliques == len(few.cliques) == 5
    assert few.truncated == "stopped at max_cliques = 5"
    none, everything = enumerate_cliques(edges, min_size=50), enumerate_cliques(edges)
    assert len(none.cliques) == none.n_cliques == len(none.size_histogram) == 0
    assert none.cliques.columns.tolist() == everything.cliques.columns.tolist()
    assert none.cliques.dtypes.tolist() == everything.cliques.dtypes.tolist()
    keys = everything.vertices["key"].to_arrow().to_pylist()
    with_v7 = enumerate_cliques(edges, containing=("v7",)).cliques["clique_key"].to_arrow().to_pylist()
    rows = everything.cliques.to_arrow(preserve_index=False).to_pylist()
    assert set(with_v7) == {row["clique_key"] for row in rows if keys.index("v7") in row["vertices"]}
    with pytest.raises(InputError, match="no vertex 'v99'"):
        enumerate_cliques(edges, containing=("v99",))
    with pytest.raises(ConfigError, match=r"below cliques\.min_size"):
        enumerate_cliques(edges, min_size=4, max_size=3)
    with pytest.raises(InputError, match="no column 'account'"):
        enumerate_cliques(edges, "account")


# --- graphs ---------------------------------------------------------------------------------------------------------


def test_a_graph_is_made_on_the_device() -> None:
    cp = pytest.importorskip("cupy")
    from mbe_stage.device.graph import undirected_from_edges

    graph = UndirectedCSR.from_edges(*ENDS, n=70)
    made = undirected_from_edges(*(cp.asarray(side) for side in ENDS), 70)
    assert made.n == graph.n
    assert cp.asnumpy(made.offsets).tolist() == graph.offsets.tolist()
    assert cp.asnumpy(made.members).tolist() == graph.members.tolist()
    alone = undirected_from_edges(cp.arange(3), cp.arange(3), 3)
    assert (cp.asnumpy(alone.offsets).tolist(), alone.members.size, alone.members.dtype) == ([0] * 4, 0, np.int32)


def test_graphs_of_cugraph(tmp_path: Path) -> None:
    cudf, cugraph = pytest.importorskip("cudf"), pytest.importorskip("cugraph")
    from mbe_stage.pipeline.rapids.library import enumerate_cliques

    graph = cugraph.Graph()
    edges = cudf.DataFrame({"src": [1, 2, 3], "dst": [2, 3, 1]})
    graph.from_cudf_edgelist(edges, "src", "dst", vertices=cudf.Series([1, 2, 3, 9]))
    result = run(settings(tmp_path, "cpu"), graph)
    assert result.manifest.counts.cliques == 2
    assert result.manifest.input.n_left == 4
    tables = enumerate_cliques(graph)
    assert tables.n_cliques == 2
    assert tables.vertices["key"].to_arrow().to_pylist() == [1, 2, 3, 9]
