"""Sinks of blocks in device memory: the same loop and limits for any source. No GPU is needed here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mbe_stage import BicliqueBlock, BipartiteCSR, Detail, EngineUnavailable, Execution, InvalidArgument, enumerate_into
from mbe_stage import engines as registry
from mbe_stage.bicliques import engine_cuda, reference
from tests.mbe_stage import graphs


class Kept:
    detail = Detail.MEMBERS
    on_device = True

    def __init__(self) -> None:
        self.blocks: list = []

    def accept(self, block) -> None:
        self.blocks.append(block)


class DeviceEngine:
    """The reference's bicliques in the form of the CUDA engine's device blocks."""

    closed = False

    def unavailable_reason(self) -> None:
        return None

    def compile_steps(self, _query: object = None, _detail: object = None) -> tuple[()]:
        return ()

    def device(self, _execution: Execution) -> str:
        return "none"

    def device_blocks(self, graph: BipartiteCSR, query, execution: Execution, tasks=None) -> Iterator[BicliqueBlock]:
        try:
            yield from reference.run(graph, query, execution, Detail.MEMBERS, tasks)
        finally:
            DeviceEngine.closed = True


@pytest.fixture
def device_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    load = registry._load
    engine = DeviceEngine()
    monkeypatch.setattr(registry, "_load", lambda problem, name: engine if name == "cuda" else load(problem, name))
    monkeypatch.setattr(DeviceEngine, "closed", False)


@pytest.mark.usefixtures("device_engine")
@pytest.mark.parametrize("engine", ["auto", "cuda"])
@pytest.mark.parametrize("limit", [None, 1, 5, 61])
def test_limits_are_those_of_every_sink(engine: str, limit: int | None) -> None:
    sink, shares = Kept(), []
    execution = Execution(max_bicliques=limit, block_bytes=200)
    facts = enumerate_into(sink, graphs.crown(6), None, execution, engine, lambda p: shares.append(p.work_done))
    assert facts.n_bicliques == sum(block.n_bicliques for block in sink.blocks) == (limit or 62)
    assert (facts.truncated is None) == (limit is None)
    assert facts.engine == "cuda"
    # The end is reported once more and, if present, that all is done.
    assert [share == 1.0 for share in shares] == [*[False] * len(sink.blocks), limit is None]
    assert DeviceEngine.closed


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_an_engine_of_the_host_is_refused(engine: str) -> None:
    with pytest.raises(InvalidArgument, match=f"engine is '{engine}', which finds bicliques in host memory"):
        enumerate_into(Kept(), graphs.crown(3), engine=engine)


def test_auto_gives_the_reason_for_having_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_cuda, "unavailable_reason", lambda: "no NVIDIA GPU is visible")
    with pytest.raises(EngineUnavailable, match="engine 'cuda' cannot run here: no NVIDIA GPU is visible"):
        enumerate_into(Kept(), graphs.crown(3))
