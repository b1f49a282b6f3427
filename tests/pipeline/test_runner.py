"""A run whose search a Dask cluster does publishes what a run of this process does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mbe_stage.errors import ClusterLost, EngineUnavailable
from pipeline.config import Config
from pipeline.errors import ConfigError, exit_code
from pipeline.job import run
from pipeline.manifest import read_manifest
from tests.mbe_stage import graphs

dask = pytest.importorskip("dask", reason="needs Dask: pip install 'mbe-stage[dask]'")


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edges") / "edges.csv"
    left, right = graphs.from_matrix(graphs.random_matrix(3, 40, 60, 0.3)).edges()
    path.write_text("".join(f"{u},{v}\n" for u, v in zip(left.tolist(), right.tolist(), strict=True)))
    return path


def settings(out: Path, edges: Path, **execution: Any) -> Config:
    return Config.model_validate(
        {
            "input": {"path": str(edges)},
            "execution": {"engine": "cpu", "threads": 1, **execution},
            "output": {"directory": str(out), "sort": True, "members": True},
        }
    )


def test_the_published_tables_are_the_same(tmp_path: Path, edges: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="pipeline.runner"):
        cluster = run(settings(tmp_path / "cluster", edges, runner="dask", workers=2))
    alone = run(settings(tmp_path / "alone", edges))
    ours, theirs = read_manifest(alone.run_dir), read_manifest(cluster.run_dir)
    assert theirs.content_fingerprint == ours.content_fingerprint
    assert theirs.counts == ours.counts
    assert {file.path: file.sha256 for file in theirs.files if file.path.endswith(".parquet")} == {
        file.path: file.sha256 for file in ours.files if file.path.endswith(".parquet")
    }
    assert "Dask worker" in theirs.device
    assert "leases, busy" in caplog.text


def test_what_does_not_fit_together_is_refused(tmp_path: Path, edges: Path) -> None:
    for execution, message in (
        ({"workers": 2}, "execution.workers is about execution.runner dask"),
        ({"cluster": "tcp://host:8786"}, "execution.cluster is about execution.runner dask"),
        ({"runner": "dask", "cluster": "tcp://host:1", "workers": 2}, "leave one of them out"),
        ({"runner": "dask", "engine": "rapids"}, "keeps all of a run on one device"),
    ):
        with pytest.raises((ConfigError, ValueError), match=message):
            settings(tmp_path, edges, **execution)


def test_no_scheduler_there_publishes_nothing(tmp_path: Path, edges: Path) -> None:
    soon = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with soon, pytest.raises(ClusterLost, match=r"tcp://127\.0\.0\.1:1: no scheduler answers there") as caught:
        run(settings(tmp_path / "out", edges, runner="dask", cluster="tcp://127.0.0.1:1"))
    assert exit_code(caught.value) == 4
    assert not (tmp_path / "out" / "latest").exists()


def test_without_dask_the_extra_is_named(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("No module named 'distributed'")

    monkeypatch.setattr("mbe_stage.runners.dask_runner._distributed", missing)
    with pytest.raises(EngineUnavailable, match=r"pip install 'mbe-stage\[dask\]'"):
        run(settings(tmp_path, edges, runner="dask"))
