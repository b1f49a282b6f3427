"""A flow whose task runner has a Dask cluster searches on it."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mbe_stage.flows import enumerate as flow_module
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.publish.manifest import read_manifest


def settings(**execution: Any) -> Config:
    return Config.model_validate({"input": {"path": "edges.csv"}, "execution": execution})


@pytest.fixture
def of_flow(monkeypatch: pytest.MonkeyPatch) -> Any:
    runner = SimpleNamespace(client=SimpleNamespace(scheduler=SimpleNamespace(address="tcp://flow:1")))
    monkeypatch.setattr(flow_module, "FlowRunContext", SimpleNamespace(get=lambda: SimpleNamespace(task_runner=runner)))
    return runner


def test_the_cluster_of_the_flow_is_the_default(of_flow: Any) -> None:
    for execution, address in (
        ({"runner": "dask"}, "tcp://flow:1"),
        ({"runner": "dask", "cluster": "tcp://other:1"}, "tcp://other:1"),
        ({"runner": "dask", "workers": 2}, None),
        ({}, None),
    ):
        assert flow_module.with_cluster_of_flow(settings(**execution)).execution.cluster == address
    del of_flow.client
    assert flow_module.with_cluster_of_flow(settings(runner="dask")).execution.cluster is None


def test_without_a_flow_there_is_no_cluster() -> None:
    asked = settings(runner="dask")
    assert flow_module.with_cluster_of_flow(asked) == asked


def test_a_flow_without_an_address_starts_a_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an address the run starts a local cluster, as every Dask run does."""
    prefect_dask = pytest.importorskip("prefect_dask", reason="needs prefect-dask: pip install 'mbe-stage[flows-dask]'")
    from mbe_stage.flows import on_cluster

    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    made = importlib.reload(on_cluster).enumerate_on_cluster_flow.task_runner
    assert not isinstance(made, prefect_dask.DaskTaskRunner)
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tls://scheduler:8786")
    made = importlib.reload(on_cluster).enumerate_on_cluster_flow.task_runner
    assert (type(made), made.address) == (prefect_dask.DaskTaskRunner, "tls://scheduler:8786")


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_flow_publishes_the_results_of_its_cluster(tmp_path: Path) -> None:
    prefect_dask = pytest.importorskip("prefect_dask", reason="needs prefect-dask: pip install 'mbe-stage[flows-dask]'")
    from mbe_stage.flows.on_cluster import enumerate_on_cluster_flow

    (tmp_path / "edges.csv").write_text("".join(f"{u},{v}\n" for u in range(12) for v in range(12) if u != v))
    small = prefect_dask.DaskTaskRunner(cluster_kwargs={"n_workers": 1, "threads_per_worker": 1})
    state = enumerate_on_cluster_flow.with_options(task_runner=small)(
        input_path=str(tmp_path / "edges.csv"),
        output_directory=str(tmp_path / "out"),
        overrides=["execution.runner=dask", "execution.engine=cpu"],
        return_state=True,
    )
    result = state.result()
    # The maximal bicliques of a crown of 12 with two non-empty sides.
    assert result["bicliques"] == 2**12 - 2
    manifest = read_manifest(result["run"])
    assert manifest.config.execution.cluster.startswith("tcp://")
    assert manifest.ranks is not None
    assert sum(rank.found for rank in manifest.ranks.each) == manifest.n_found
