"""Warnings of a run, about deviations from its settings and skipped checks: in the manifest, report and command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from mbe_stage.pipeline import count, read_manifest, run
from mbe_stage.pipeline.cli import json_or_text as show
from mbe_stage.pipeline.execution import tiers
from mbe_stage.pipeline.execution.edge_files import load_edges, save_edges
from mbe_stage.pipeline.execution.job import RunResult
from mbe_stage.pipeline.execution.steps import enumerate_to, finish
from tests.mbe_stage import small_gpu
from tests.pipeline.output_support import crown_pairs, edge_data, settings

UNCHECKED = "p.parquet was read without <page> checks"


def staged(directory: Path, **sections: dict) -> RunResult:
    """A run whose input could not be checked."""
    edges = edge_data(crown_pairs(4))
    config = settings(directory, **sections)
    run_dir = directory / "a-run"
    run_dir.mkdir(parents=True)
    input_facts = replace(edges.facts, warnings=(UNCHECKED,))
    facts = enumerate_to(edges, config, run_dir).model_copy(update={"warnings": ("cpu took over",)})
    return RunResult(run_dir, finish(run_dir, input_facts, config, facts))


def test_the_manifest_has_warnings_of_input_and_enumeration(tmp_path):
    result = staged(tmp_path)
    assert result.manifest.warnings == (UNCHECKED, "cpu took over")
    manifest = read_manifest(result.run_dir)
    assert manifest == result.manifest
    assert manifest.input.warnings == (UNCHECKED,)


def test_a_manifest_without_warnings_is_read(tmp_path):
    run_dir = staged(tmp_path).run_dir
    path = run_dir / "manifest.json"
    values = json.loads(path.read_text())
    del values["warnings"], values["input"]["warnings"]
    path.write_text(json.dumps(values))
    assert read_manifest(run_dir).warnings == ()
    assert read_manifest(run_dir).input.warnings == ()


def test_the_report_shows_warnings(tmp_path):
    page = (staged(tmp_path, output={"directory": str(tmp_path), "report": True}).run_dir / "report.html").read_text()
    assert "p.parquet was read without &lt;page&gt; checks" in page
    assert "cpu took over" in page


def test_the_command_line_shows_warnings(tmp_path, capsys):
    result = staged(tmp_path)
    show.run(result, as_json=False)
    assert f"\nwarning    {UNCHECKED}\nwarning    cpu took over\n" in capsys.readouterr().out
    show.run(result, as_json=True)
    assert json.loads(capsys.readouterr().out)["warnings"] == [UNCHECKED, "cpu took over"]


def test_warnings_survive_between_the_steps_of_a_flow(tmp_path):
    edges = edge_data(crown_pairs(4))
    edges = replace(edges, facts=replace(edges.facts, warnings=(UNCHECKED,)))
    assert load_edges(save_edges(edges, tmp_path)).facts == edges.facts


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_an_engine_fallback_is_a_warning(tmp_path, monkeypatch, capsys, engine):
    small_gpu.install(monkeypatch)
    monkeypatch.setattr(tiers, "rapids_unavailable_reason", lambda *_: "not here")
    left, right = zip(*crown_pairs(4), strict=True)
    edges, config = pa.table({"left": left, "right": right}), settings(tmp_path, execution={"engine": engine})
    manifest = read_manifest(run(config, edges).run_dir)
    assert len(manifest.warnings) == (engine == "auto")
    assert all("and cpu takes over" in warning for warning in manifest.warnings)
    counted = count(config, edges)
    assert counted.warnings == manifest.warnings
    show.count(counted, as_json=False)
    assert ("\nwarning    engine auto: cuda refused" in capsys.readouterr().out) == (engine == "auto")
    show.count(counted, as_json=True)
    assert json.loads(capsys.readouterr().out)["warnings"] == list(manifest.warnings)
