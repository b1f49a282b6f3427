"""The whole job: a file or an object in memory in, a published run out, read by common tools."""

from __future__ import annotations

import json
import sys
import threading

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mbe_stage import pipeline, stream
from mbe_stage.forecast import Outlook
from mbe_stage.pipeline import Config, InputError, PublishError, RunStore, count, read_manifest, run
from mbe_stage.pipeline.problems.query import to_query
from mbe_stage.pipeline.publish.manifest import config_fingerprint, peak_memory_bytes
from mbe_stage.stream import Listener, wants_outlook
from tests.pipeline.output_support import (
    assert_nothing_staged,
    assert_sound,
    crown_pairs,
    edge_data,
    expected_set,
    published_set,
    random_pairs,
    settings,
)


def table(pairs) -> pa.Table:
    left, right = zip(*pairs, strict=True)
    return pa.table({"left": list(left), "right": list(right)})


def test_run_publishes_what_the_reference_finds(tmp_path):
    pairs = random_pairs(3)
    seen = []
    result = run(settings(tmp_path), table(pairs), on_progress=seen.append)
    assert result.run_dir == RunStore(tmp_path).latest()
    assert read_manifest(result.run_dir) == result.manifest
    assert published_set(result.run_dir) == expected_set(edge_data(pairs))
    assert_sound(result.run_dir)
    assert_nothing_staged(tmp_path)
    assert seen[-1].n_bicliques == result.manifest.counts.bicliques
    assert seen[-1].work_done == 1.0


@pytest.mark.parametrize("job", [run, count])
@pytest.mark.parametrize("wants", [True, False])
def test_the_wish_for_an_outlook_reaches_the_engine(tmp_path, monkeypatch, job, wants):
    wishes, sampling = [], stream._sampling

    def noting(*arguments):
        wishes.extend(wants_outlook(argument) for argument in arguments if callable(argument))
        return sampling(*arguments)

    monkeypatch.setattr(stream, "_sampling", noting)
    job(settings(tmp_path), table(crown_pairs(4)), on_progress=Listener(lambda _: None, wants))
    assert wishes == [wants]


@pytest.mark.parametrize("job", [run, count])
def test_expected_results_reach_the_listener(tmp_path, job):
    seen = []
    job(settings(tmp_path), table(crown_pairs(4)), on_progress=seen.append)
    assert (seen[-1].expected, seen[-1].share, seen[-1].seconds_left) == (Outlook.exactly(14), 1.0, 0.0)


def test_run_from_a_file_with_a_report(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("who,what\n" + "".join(f"{left},{right}\n" for left, right in random_pairs(4)))
    config = settings(tmp_path / "out", input={"path": str(path), "header": True}, output={"report": True})
    result = run(config)
    assert published_set(result.run_dir) == expected_set(edge_data(random_pairs(4)))
    assert (result.run_dir / "report.html").stat().st_size > 0
    assert "report.html" in {entry.path for entry in result.manifest.files}
    assert_sound(result.run_dir)


def test_manifest_says_what_was_done(tmp_path):
    pairs = random_pairs(5)
    config = settings(tmp_path, query={"min_left": 2})
    manifest = run(config, table(pairs)).manifest
    plain = json.loads((tmp_path / "latest/manifest.json").read_text())
    assert manifest.config == config
    assert manifest.config_fingerprint == config_fingerprint(config)
    assert plain["schema_version"] == 2
    assert plain["input"]["n_edges"] == len(pairs)
    assert plain["counts"]["bicliques"] == sum(len(left) >= 2 for left, _ in expected_set(edge_data(pairs)))
    assert plain["content_fingerprint"].startswith(f"{plain['counts']['bicliques']}-")
    assert plain["engine"] == "reference"
    assert plain["truncated"] is None
    assert plain["versions"]["python"] == sys.version.split()[0]
    assert set(plain["versions"]) == {"python", "mbe-stage", "numba", "numpy", "pyarrow"}
    assert next(iter(plain["seconds"])) == "read"
    assert set(plain["seconds"]) - {"compile"} == {
        "read",
        "load",
        "graph",
        "enumerate",
        "write",
        "two_hop",
        "tables",
        "checksums",
        "compare",
        "total",
    }
    assert plain["seconds"]["total"] == pytest.approx(sum(plain["seconds"].values()) / 2)
    assert all(value >= 0 for value in plain["seconds"].values())
    assert 20 << 20 < plain["peak_memory_bytes"] <= peak_memory_bytes()
    assert [entry["path"] for entry in plain["files"]] == [
        "bicliques/part-00000.parquet",
        "left_vertices.parquet",
        "right_vertices.parquet",
        "size_histogram.parquet",
    ]


def test_the_same_edges_in_any_order_give_the_same_fingerprints(tmp_path):
    pairs = random_pairs(6)
    first = run(settings(tmp_path), table(pairs)).manifest
    second = run(settings(tmp_path), table(pairs[::-1] + pairs[:3])).manifest
    assert first.run_id != second.run_id
    assert second.input.duplicate_edges == 3
    assert first.input.fingerprint == second.input.fingerprint
    assert first.content_fingerprint == second.content_fingerprint


def test_if_changed_enumerates_only_if_something_changed(tmp_path):
    pairs = random_pairs(6)
    first = run(settings(tmp_path), table(pairs), if_changed=True)
    assert not first.unchanged
    before = sorted(tmp_path.rglob("*"))
    again = run(settings(tmp_path, execution={"threads": 2}), table(pairs[::-1] + pairs[:3]), if_changed=True)
    assert again.unchanged
    assert (again.run_dir, again.manifest) == (first.run_dir, first.manifest)
    assert sorted(tmp_path.rglob("*")) == before
    asked_else = run(settings(tmp_path, query={"min_left": 2}), table(pairs), if_changed=True)
    other_edges = run(settings(tmp_path, query={"min_left": 2}), table(pairs[1:]), if_changed=True)
    without = run(settings(tmp_path, query={"min_left": 2}), table(pairs[1:]))
    assert [r.unchanged for r in (asked_else, other_edges, without)] == [False] * 3
    assert RunStore(tmp_path).runs() == [r.run_dir for r in (first, asked_else, other_edges, without)]


def test_the_flow_and_the_command_ask_the_same_function():
    pytest.importorskip("prefect")
    from mbe_stage.flows import enumerate as flow
    from mbe_stage.pipeline.execution import job, steps

    assert flow.find_unchanged is job.find_unchanged is steps.find_unchanged


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    directory = tmp_path_factory.mktemp("readers")
    pairs = random_pairs(7)
    run(settings(directory, output={"members": True}), table(pairs))
    return directory / "latest", expected_set(edge_data(pairs))


def test_duckdb_reads_it(published):
    run_dir, expected = published
    rows = duckdb.sql(f'select "left", "right", n_left from \'{run_dir}/bicliques/*.parquet\'').fetchall()
    assert {(tuple(left), tuple(right)) for left, right, _ in rows} == expected
    counts = duckdb.sql(
        f"select v.vertex, v.n_bicliques, count(*) from '{run_dir}/left_vertices.parquet' v "
        f"join '{run_dir}/members/*.parquet' m on m.vertex = v.vertex and m.side = 'left' group by all"
    ).fetchall()
    assert counts
    assert all(stated == counted for _, stated, counted in counts)


def test_pandas_reads_it(published):
    run_dir, expected = published
    frame = pd.read_parquet(run_dir / "bicliques")
    assert {(tuple(left), tuple(right)) for left, right in zip(frame["left"], frame["right"], strict=True)} == expected
    assert list(pd.read_parquet(run_dir / "left_vertices.parquet")["key"]) == sorted({u for u, _ in random_pairs(7)})
    assert set(pd.read_parquet(run_dir / "members")["side"]) == {"left", "right"}


def test_polars_reads_it(published):
    run_dir, expected = published
    frame = pl.read_parquet(run_dir / "bicliques" / "*.parquet")
    assert {(tuple(left), tuple(right)) for left, right in frame.select("left", "right").iter_rows()} == expected
    histogram = pl.read_parquet(run_dir / "size_histogram.parquet")
    assert histogram["n_bicliques"].sum() == len(expected)


def test_count_stores_nothing(tmp_path):
    config = settings(tmp_path / "out")
    result = count(config, table(crown_pairs(8)))
    assert result.n_bicliques == 2**8 - 2
    assert result.truncated is None
    assert (result.engine, result.input.n_edges) == ("reference", 56)
    assert set(result.seconds) - {"compile"} == {"read", "load", "graph", "enumerate", "total"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", [None, pa.table({"left": [1], "other": [2]})])
def test_bad_input_creates_nothing(tmp_path, source):
    config = settings(tmp_path / "out", input={"path": str(tmp_path / "missing.csv"), "right": "right"})
    with pytest.raises(InputError):
        run(config, source)
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_output_is_refused_before_the_input_is_read(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(PublishError, match="Not a directory"):
        run(settings(tmp_path / "out", input={"path": str(tmp_path / "missing.csv")}))


def test_containing_finds_keys_as_text():
    edges = edge_data([("1", 10), ("x", 20), ("007", -5)])
    query = Config.from_mapping({"query": {"containing_left": [1, "x"], "containing_right": ["10", -5]}}).query
    translated = to_query(query, edges)
    assert translated.containing_left == (1, 2)
    assert translated.containing_right == (1, 0)


@pytest.mark.parametrize(
    ("side", "key"), [("left", "y"), ("left", 7), ("right", "ten"), ("right", "010"), ("right", 2**70)]
)
def test_containing_a_key_that_is_not_there(side, key):
    edges = edge_data([("1", 10), ("x", 20), ("007", -5)])
    query = Config.from_mapping({"query": {f"containing_{side}": [key]}}).query
    with pytest.raises(InputError, match=rf"no {side} vertex {key!r} \(query\.containing_{side}\); expected one of"):
        to_query(query, edges)


def test_containing_in_a_run(tmp_path):
    pairs = random_pairs(2)
    result = run(settings(tmp_path, query={"containing_left": ["person 3"]}), table(pairs))
    edges = edge_data(pairs)
    vertex = edges.left_keys.to_pylist().index("person 3")
    assert published_set(result.run_dir) == {pair for pair in expected_set(edges) if vertex in pair[0]} != set()


def test_everything_public_is_there():
    for name in pipeline.__all__:
        assert getattr(pipeline, name).__doc__, name


def test_interrupted_before_the_engine_starts_no_thread_stays(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mbe_stage.pipeline.backends.arrow.backend.ArrowBackend.graph_facts", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(Config.from_mapping({"output": {"directory": str(tmp_path)}}), (["a", "b"], [1, 1]))
    assert [thread.name for thread in threading.enumerate() if thread.name == "parquet-writer"] == []
    assert RunStore(tmp_path).runs() == []


@pytest.mark.parametrize(("cause", "raised"), [(KeyboardInterrupt(), KeyboardInterrupt), (ValueError(), SystemError)])
def test_ctrl_c_while_compiled_code_is_loaded(tmp_path, monkeypatch, cause, raised):
    """Ctrl-C may surface as a SystemError of Numba's call; a SystemError of another kind stays what it is."""

    def interrupted(*_arguments, **_options):
        raise SystemError("CPUDispatcher(...) returned a result with an exception set") from cause

    monkeypatch.setattr("mbe_stage.pipeline.execution.tiers.steps.enumerate_to", interrupted)
    with pytest.raises(raised):
        run(settings(tmp_path), table(random_pairs(3)))
    assert_nothing_staged(tmp_path)
    assert RunStore(tmp_path).latest() is None
