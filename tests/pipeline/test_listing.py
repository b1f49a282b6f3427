"""Lists of runs: in the order of publication, with their queries, including damaged runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mbe_stage.pipeline import PublishError, RunStore, read_manifest
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.publish.listing import list_runs, query_settings
from tests.pipeline.output_support import edge_data, publish, random_pairs, settings


def mbe(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Three runs: of everything, of large bicliques, and a truncated one."""
    edges = edge_data(random_pairs(1))
    for sections in (
        {},
        {"query": {"min_left": 2, "containing_left": ["person 1"]}, "execution": {"threads": 3}},
        {"execution": {"max_bicliques": 2}},
    ):
        publish(edges, settings(tmp_path, **sections))
    return tmp_path


def test_runs_in_the_order_of_publication(out: Path) -> None:
    found = list_runs(out)
    assert [run.run_dir for run in found] == RunStore(out).runs()
    assert [run.is_latest for run in found] == [False, False, True]
    assert [run.damage for run in found] == [None] * 3
    assert [query_settings(run.manifest.config) for run in found if run.manifest] == [
        {},
        {"min_left": 2, "containing_left": ["person 1"]},
        {"max_bicliques": 2},
    ]


def test_the_command_shows_and_prints_json(out: Path) -> None:
    result = mbe("runs", out)
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if line.startswith("│ 2")]
    for run, line in zip(RunStore(out).runs(), lines, strict=True):
        assert run.name in line
    assert "latest" in lines[-1]
    text = " ".join(result.stdout.replace("│", " ").split())
    assert "min_left=2" in text
    assert "INCOMPLETE" in text
    answer = json.loads(mbe("runs", out, "--json").stdout)
    assert answer["directory"] == str(out)
    assert [run["run"] for run in answer["runs"]] == [str(run) for run in RunStore(out).runs()]
    for run in answer["runs"]:
        manifest = read_manifest(run["run"])
        assert run["bicliques"] == manifest.counts.bicliques
        assert run["truncated"] == manifest.truncated
        assert run["seconds"] == manifest.seconds["total"]
        assert run["created_at"] == manifest.created_at
        assert run["input"]["n_edges"] == manifest.input.n_edges
        assert run["content_fingerprint"] == manifest.content_fingerprint
        assert run["damaged"] is None
    assert [run["latest"] for run in answer["runs"]] == [False, False, True]


def test_damaged_runs_are_listed_as_such(out: Path) -> None:
    lost, cut, unread = RunStore(out).runs()
    (lost / "left_vertices.parquet").unlink()
    path = cut / "size_histogram.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    (unread / "manifest.json").write_text("{")
    bare = out / "runs" / "20200101T000000Z-000000"
    bare.mkdir()
    found = list_runs(out)
    assert [run.run_dir for run in found] == [bare, lost, cut, unread]
    damages = [str(run.damage) for run in found]
    for damage, said in zip(damages, ("cannot be read", "left_vertices", "size_histogram", "not JSON"), strict=True):
        assert said in damage
    result = mbe("runs", out)
    assert result.exit_code == 0
    assert result.stdout.count("DAMAGED") == 4
    answer = json.loads(mbe("runs", out, "--json").stdout)
    assert [run["damaged"] for run in answer["runs"]] == damages
    assert answer["runs"][3]["latest"] is True


def test_directories_without_runs(out: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = mbe("runs", tmp_path / "empty")
    assert (empty.exit_code, empty.stdout) == (0, f"{tmp_path / 'empty'}: no published run\n")
    assert json.loads(mbe("runs", tmp_path / "empty", "--json").stdout)["runs"] == []
    run = RunStore(out).runs()[0]
    for path, said in ((run, "is a run"), (run / "manifest.json", "is a file"), (out / "no", "does not exist")):
        with pytest.raises(PublishError, match=said):
            list_runs(path)
        assert mbe("runs", path).exit_code == 3
