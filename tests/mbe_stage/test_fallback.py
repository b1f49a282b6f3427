"""Fallback of a run whose engine was chosen by `auto` and refuses the graph. No GPU is needed here."""

from __future__ import annotations

import logging

import pytest

from mbe_stage import (
    BipartiteCSR,
    CountSink,
    Execution,
    MemoryBudgetExceeded,
    TableSink,
    enumerate_bicliques,
    enumerate_into,
)
from mbe_stage.bicliques import engine_cpu, reference
from mbe_stage.bicliques.results import Sink
from mbe_stage.tasks import OpenWork, Roots
from tests.mbe_stage import graphs
from tests.mbe_stage.small_gpu import SmallGpu, install


@pytest.fixture(name="small_gpu")
def _small_gpu(monkeypatch: pytest.MonkeyPatch) -> SmallGpu:
    return install(monkeypatch)


WANTED = reference.maximal_bicliques(graphs.crown(6))
REFUSAL = "the CUDA engine needs [0-9,]+ bytes of device memory to prepare a graph"


@pytest.mark.usefixtures("small_gpu")
@pytest.mark.parametrize("device_memory_bytes", [None, 1000])
def test_the_cpu_takes_over_and_logs_it(device_memory_bytes: int | None, caplog: pytest.LogCaptureFixture) -> None:
    sink, execution = TableSink(), Execution(device_memory_bytes=device_memory_bytes, memory_budget_bytes=1 << 28)
    facts = enumerate_into(sink, graphs.crown(6), None, execution)
    assert sink.table().as_set() == WANTED
    assert (facts.n_bicliques, facts.truncated) == (62, None)
    assert (facts.engine, facts.device) == ("cpu", engine_cpu.device(execution))
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "cuda refused the graph" in warning
    assert "cpu takes over, within its own memory budget of 268,435,456 bytes" in warning
    assert "What cuda said, of its budget of device memory: the CUDA engine needs" in warning
    assert all(isinstance(each, str) for record in caplog.records for each in record.args or ())


@pytest.mark.usefixtures("small_gpu")
def test_the_table_of_the_plain_function_is_complete() -> None:
    assert enumerate_bicliques(graphs.crown(6)).as_set() == WANTED


@pytest.mark.usefixtures("small_gpu")
def test_a_large_enough_budget_keeps_the_gpu(caplog: pytest.LogCaptureFixture) -> None:
    facts = enumerate_into(CountSink(), graphs.crown(6), None, Execution(device_memory_bytes=1 << 30))
    assert (facts.engine, facts.device, facts.n_bicliques) == ("cuda", "cuda, a small one", 62)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.usefixtures("small_gpu")
def test_an_earlier_choice_of_auto_is_replaced_too() -> None:
    assert enumerate_into(CountSink(), graphs.crown(6), engine="cuda", chosen_by_auto=True).engine == "cpu"


@pytest.mark.usefixtures("small_gpu")
def test_saved_work_stays_with_its_engine() -> None:
    work = OpenWork(Roots("bicliques", 6, 1), "bicliques, cuda 1, mode 0", {})
    with pytest.raises(MemoryBudgetExceeded, match=REFUSAL):
        enumerate_into(CountSink(), graphs.crown(6), engine="cuda", chosen_by_auto=True, tasks=[work])


@pytest.mark.usefixtures("small_gpu")
def test_a_named_engine_is_not_replaced() -> None:
    with pytest.raises(MemoryBudgetExceeded, match=REFUSAL):
        enumerate_into(CountSink(), graphs.crown(6), engine="cuda")


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_there_is_no_fallback_after_the_first_block(
    small_gpu: SmallGpu, n_blocks: int, caplog: pytest.LogCaptureFixture
) -> None:
    small_gpu._n_blocks = n_blocks
    sink = TableSink()
    with pytest.raises(MemoryBudgetExceeded, match=REFUSAL):
        enumerate_into(sink, graphs.crown(6), None, Execution(block_bytes=200))
    assert 0 < len(sink.table().as_set()) < 62
    assert "takes over" not in caplog.text


@pytest.mark.usefixtures("small_gpu")
def test_there_is_no_fallback_on_the_device() -> None:
    class OnDevice(TableSink):
        on_device = True

    sink: Sink = OnDevice()
    with pytest.raises(MemoryBudgetExceeded, match=REFUSAL):
        enumerate_into(sink, graphs.crown(6))


@pytest.mark.usefixtures("small_gpu")
def test_a_graph_on_the_device_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class DeviceArray:
        """Like CuPy's: no NumPy array."""

    graph = graphs.crown(6)
    run = SmallGpu.run
    monkeypatch.setattr(SmallGpu, "run", lambda self, _graph, *rest: run(self, graph, *rest))
    arrays = [DeviceArray() for _ in range(4)]
    with pytest.raises(MemoryBudgetExceeded, match=REFUSAL):
        enumerate_into(CountSink(), BipartiteCSR(graph.n_left, graph.n_right, *arrays))  # type: ignore[arg-type]


@pytest.mark.usefixtures("small_gpu")
def test_the_cpu_may_refuse_too() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(1, 400, 400, 0.3))
    with pytest.raises(MemoryBudgetExceeded, match=r"the CPU engine needs .* raise the memory budget to at least"):
        enumerate_into(CountSink(), graph, None, Execution(memory_budget_bytes=50_000, threads=1))


def test_a_sink_error_is_not_a_refusal(small_gpu: SmallGpu) -> None:
    class Full(TableSink):
        def accept(self, block) -> None:  # noqa: ARG002
            raise MemoryBudgetExceeded("the sink is full")

    small_gpu._n_blocks = 1
    with pytest.raises(MemoryBudgetExceeded, match="the sink is full"):
        enumerate_into(Full(), graphs.crown(6))
