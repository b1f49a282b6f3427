"""Runs, journals and configurations of earlier commits are read, resumed, or refused by name.

``earlier/<commit>.tar.xz`` holds what the commit wrote from ``edges.csv`` and ``more.csv``, with its configurations and
its shipped ones. 53d96ab is the last commit that trusted its input and directories; fae0f14 is the last one with the
packages ``pipeline`` and ``flows`` at the top. ``out/stopped`` is a run ended after two checkpoints.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mbe_stage.pipeline import ConfigError, PublishError, RunStore, read_manifest, run
from mbe_stage.pipeline.cli import app
from mbe_stage.pipeline.config.model import load_config
from mbe_stage.pipeline.execution import unfinished
from mbe_stage.pipeline.execution.journal import read_journal
from mbe_stage.pipeline.execution.unfinished import list_unfinished

ARCHIVES = sorted(Path(__file__).with_name("earlier").glob("*.tar.xz"))
PROBLEMS = {"bicliques": 7, "cliques": 9, "groups": 7, "pq_counts": 3}


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def earlier(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of one commit in the working directory, touched so that its interrupted run has not expired."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    for path in tmp_path.rglob("*"):
        path.touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app.app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_there_are_earlier_runs() -> None:
    assert [path.name for path in ARCHIVES] == ["53d96ab.tar.xz", "fae0f14.tar.xz"]


@pytest.mark.usefixtures("earlier")
@pytest.mark.parametrize("problem", PROBLEMS)
def test_runs_are_listed_and_verified(problem: str) -> None:
    out = f"out/{problem}"
    assert "latest" in said("runs", out)
    told = said("verify", out)
    assert "verified" in told
    assert ("groups: listed by the rules of an earlier version" in told) == (problem == "groups")


@pytest.mark.usefixtures("earlier")
def test_members_are_shown_and_exported() -> None:
    assert "bob" in said("top", "out/bicliques")
    assert "ann" in said("top", "out/cliques")
    assert "finding    No group is significant" in said("show", "out/groups")
    assert "ann" in said("accounts", "out/groups")
    assert "in no listed group" in said("show", "out/groups", "--vertex", "ann")
    assert len(said("export", "out/bicliques", "--csv").splitlines()) > PROBLEMS["bicliques"]


@pytest.mark.usefixtures("earlier")
def test_runs_are_compared() -> None:
    old, new = RunStore("out/bicliques").runs()
    assert "eve" in said("diff", str(old), str(new))


@pytest.mark.usefixtures("earlier")
@pytest.mark.parametrize("problem", ["bicliques", "pq_counts"])
def test_a_new_run_finds_the_results_of_the_earlier_one(problem: str) -> None:
    earlier_run = RunStore(f"out/{problem}").runs()[0]
    published = run(load_config(f"{problem}.yaml")).run_dir
    before, now = read_manifest(earlier_run), read_manifest(published)
    assert now.content_fingerprint == before.content_fingerprint
    assert now.config_fingerprint == before.config_fingerprint


@pytest.mark.usefixtures("earlier")
def test_an_interrupted_run_is_resumed_with_the_same_software(monkeypatch: pytest.MonkeyPatch) -> None:
    (kept,) = list_unfinished("out/stopped")
    begun, records = read_journal(kept.staging_dir)
    monkeypatch.setattr(unfinished, "software_versions", lambda: begun.versions)
    resumed = read_manifest(run(load_config("stopped.yaml"), resume=True).run_dir)
    assert any("resumed" in warning for warning in resumed.warnings)
    assert sum(record.n_found for record in records) > 100
    fresh = read_manifest(run(load_config("stopped.yaml", ["output.directory=fresh"])).run_dir)
    assert resumed.content_fingerprint == fresh.content_fingerprint


@pytest.mark.usefixtures("earlier")
def test_an_interrupted_run_is_refused_with_other_software(monkeypatch: pytest.MonkeyPatch) -> None:
    (kept,) = list_unfinished("out/stopped")
    begun, _ = read_journal(kept.staging_dir)
    monkeypatch.setattr(unfinished, "software_versions", lambda: begun.versions | {"mbe-stage": "0.2.0"})
    with pytest.raises(PublishError, match=r"mbe-stage was 0\.1\.0 and is 0\.2\.0; start over without --resume, or"):
        run(load_config("stopped.yaml"), resume=True)


def test_configurations_are_read(earlier: Path) -> None:
    files = sorted(earlier.rglob("*.yaml"))
    assert {path.name for path in files} >= {"default.yaml", "fraud_lockstep.yaml", "gpu.yaml"}
    for path in files:
        load_config(path, ["input.path=edges.csv"])


def test_a_removed_key_is_refused_by_name(earlier: Path) -> None:
    path = earlier / "bicliques.yaml"
    path.write_text(path.read_text() + "query: {min_lefts: 3}\n")
    with pytest.raises(ConfigError, match=r"query\.min_lefts: unknown key; .*min_left"):
        load_config(path)
