"""While a runner waits for its first results: progress, limits, and fallback to another engine."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mbe_stage import CountSink, Execution, MemoryBudgetExceeded, enumerate_into
from mbe_stage.bicliques import engine_cpu
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.run_limits import EmptyBlock, LimitWatch, RunLimits
from mbe_stage.stream import Progress, pulled, stream
from tests.mbe_stage import graphs
from tests.mbe_stage.small_gpu import install


class Runner:
    """Reports that it waits, and then the next result."""

    shares_machine = True

    def __init__(self, n_waiting: int, then: Callable[..., Iterator[Any]]) -> None:
        self.n_waiting, self.then = n_waiting, then
        self.n_asked = 0

    def device(self) -> str:
        return "a runner"

    def run(self, _problem: str, engine: str, graph: Any, query: Any, execution: Execution, detail: Any, *_: Any):
        for number in range(self.n_waiting):
            self.n_asked += 1
            yield EmptyBlock(number / 10)
        yield from self.then(engine, graph, query, execution, detail)


def found(_engine: str, graph: Any, query: Any, _execution: Any, detail: Any) -> Iterator[Any]:
    return engine_cpu.run(graph, query, Execution(), detail)


def found_by_cpu_alone(engine: str, *asked: Any) -> Iterator[Any]:
    if engine == "cuda":
        raise MemoryBudgetExceeded("too little memory", needed_bytes=1)
    return found(engine, *asked)


def never(*_: Any) -> Iterator[Any]:
    pytest.fail("the search should have ended")


def test_progress_is_shown_from_the_start() -> None:
    told: list[Progress] = []
    facts = enumerate_into(
        CountSink(), graphs.crown(6), None, Execution(runner=Runner(3, found)), "cpu", on_progress=told.append
    )
    assert [(each.n_found, each.work_done) for each in told[:3]] == [(0, 0.0), (0, 0.1), (0, 0.2)]
    assert all(each.engine == "cpu" and each.seconds >= 0 for each in told)
    assert told[-1].n_found == facts.n_bicliques == 62


def test_another_engine_still_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    told: list[Progress] = []
    runner = Runner(2, found_by_cpu_alone)
    facts = enumerate_into(CountSink(), graphs.crown(6), None, Execution(runner=runner), on_progress=told.append)
    assert (facts.engine, facts.n_bicliques, len(facts.warnings)) == ("cpu", 62, 1)
    assert [each.engine for each in told[:5]] == ["cuda", "cuda", "cpu", "cpu", "cpu"]


@pytest.mark.parametrize("by_time", [True, False], ids=["time", "caller"])
def test_a_search_can_end_before_its_first_result(by_time: bool) -> None:
    runner = Runner(100, never)
    execution = Execution(runner=runner, time_limit_seconds=0.02 if by_time else None)
    run_limits = RunLimits() if by_time else RunLimits(ended=lambda: "told to end" if runner.n_asked == 3 else None)
    facts = stream(
        PROBLEM,
        CountSink(),
        graphs.crown(6),
        BicliqueQuery(),
        execution,
        "cpu",
        on_progress=lambda _: time.sleep(0.01),
        run_limits=run_limits,
    )
    assert facts.n_found == 0
    assert facts.truncated == ("stopped at time_limit_seconds = 0.02" if by_time else "told to end")
    assert runner.n_asked < 100


def test_pulling_yields_results_only() -> None:
    execution = Execution(runner=Runner(3, found))
    asked = (PROBLEM, graphs.crown(6), BicliqueQuery(), execution, CountSink().detail, "cpu")
    assert sum(len(block) for block in pulled(*asked)) == 62


class Found:
    """A block whose release is observable."""


def test_each_block_is_released_before_the_next() -> None:
    """It may be memory of a device, which the next block needs."""
    made: list[weakref.ref[Found]] = []

    def block() -> Found:
        of_device = Found()
        made.append(weakref.ref(of_device))
        return of_device

    def blocks() -> Iterator[Found]:
        for _ in range(3):
            assert not any(each() for each in made)
            yield block()

    for each in LimitWatch(PROBLEM, RunLimits(), None, None).until_memory_ends(blocks()):
        del each
    assert len(made) == 3
