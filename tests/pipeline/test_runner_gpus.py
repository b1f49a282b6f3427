"""A local cluster has a worker for each GPU if the engine runs on GPUs; here with a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mbe_stage.errors import EngineUnavailable
from mbe_stage.pipeline.config.model import ExecutionConfig
from mbe_stage.pipeline.execution import steps
from mbe_stage.runners import closed_nodes, clusters
from mbe_stage.runners.dask_runner import DaskRunner

pytest.importorskip("distributed", reason="needs Dask: pip install 'mbe-stage[dask]'")


class Made:
    """Stands in for a cluster and for its client."""

    def __init__(self, *_: object, **given: Any) -> None:
        self.given = given

    def __enter__(self) -> Made:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, *_: object) -> None: ...


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Record which clusters are made, and with which arguments."""
    found: list[tuple[str, dict[str, Any]]] = []

    def maker(name: str) -> Any:
        return lambda **given: (found.append((name, given)), Made())[1]

    own = SimpleNamespace(LocalCluster=maker("cores"), Client=Made, Security=SimpleNamespace(temporary=lambda: "own"))
    monkeypatch.setattr(clusters, "_distributed", lambda: own)
    monkeypatch.setattr(closed_nodes, "without_http", lambda kind: kind)
    monkeypatch.setattr(clusters, "_dask_cuda", lambda: SimpleNamespace(LocalCUDACluster=maker("gpus")))
    monkeypatch.setattr(DaskRunner, "load", lambda _, problem: found.append(("loaded", {"problem": problem})))
    return found


@pytest.mark.parametrize(
    ("engine", "has_gpu", "workers", "expected"),
    [
        ("cuda", True, None, ("gpus", None)),
        ("cuda", True, 2, ("gpus", 2)),
        ("auto", True, None, ("gpus", None)),
        ("auto", False, 3, ("cores", 3)),
        ("cpu", True, 3, ("cores", 3)),
    ],
)
def test_workers_match_the_hardware_of_the_engine(
    made: list[tuple[str, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    has_gpu: bool,
    workers: int | None,
    expected: tuple[str, int | None],
) -> None:
    auto = "cuda" if has_gpu else "cpu"
    monkeypatch.setattr(steps, "choose_engine", lambda _, name: (auto if name == "auto" else name, None))
    execution = ExecutionConfig(runner="dask", workers=workers)
    with steps.opened_runner(execution, "bicliques", engine) as runner:
        assert isinstance(runner, DaskRunner)
        assert runner.shares_machine
    (kind, given), *loaded = made
    assert (kind, given.get("n_workers")) == expected
    assert (given["security"], given["worker_class"]) == ("own", closed_nodes.ClosedNanny)
    assert loaded == ([] if kind == "gpus" else [("loaded", {"problem": "bicliques"})])
    if kind == "gpus":
        assert given["threads_per_worker"] == 1


def test_without_dask_cuda_it_is_refused_with_the_remedy(
    made: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError("No module named 'dask_cuda'")

    monkeypatch.setattr(clusters, "_dask_cuda", missing)
    with (
        pytest.raises(EngineUnavailable, match=r"\(No module named 'dask_cuda'\): pip install dask-cuda; or take"),
        clusters.dask_cluster(gpus=True),
    ):
        pass
    assert not made


def test_a_cluster_at_an_address_has_its_own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    @contextmanager
    def connected(address: str) -> Iterator[Made]:
        asked.append(address)
        yield Made()

    monkeypatch.setattr(clusters, "_connected", connected)
    execution = ExecutionConfig(runner="dask", cluster="tcp://host:1", threads=2)
    with steps.opened_runner(execution, "bicliques", "cuda") as runner:
        assert isinstance(runner, DaskRunner)
        assert not runner.shares_machine
    assert asked == ["tcp://host:1"]
