"""The sampler during an enumeration: its messages hold, it ends on time, and its errors stay its own.

No test depends on time: samplers are driven by hand, or wait for events.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf

import pytest

from mbe_stage import BicliqueQuery, BipartiteCSR, CountSink, Execution, enumerate_into, sampling, stream
from mbe_stage.bicliques import engine_cpu, enumerate
from mbe_stage.bicliques.estimation import growth, sampler
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.forecast import Outlook
from mbe_stage.graphs.bipartite import BipartiteCSR as Graph
from mbe_stage.runners import local
from mbe_stage.runtime.compile_ahead import compile_ahead
from mbe_stage.sampling import CORES_SHARE, outlook_beside, paced
from mbe_stage.stream import Listener
from tests.mbe_stage.graphs import crown, from_matrix, half_graph, random_matrix
from tests.mbe_stage.test_estimation import union_of_crowns
from tests.patience import PATIENCE

SIZES = BicliqueQuery(min_left=2, min_right=3)


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    compile_ahead((*engine_cpu.compile_steps(), *growth.compile_steps()))


def told(graph: BipartiteCSR, seed: int, query: BicliqueQuery | None = None) -> Iterator[Outlook]:
    return sampler.outlooks(graph, query or BicliqueQuery(), Execution(), lambda: True, seed)


@pytest.mark.parametrize(
    ("graph", "truth"),
    [
        (crown(16), 2**16 - 2),
        pytest.param(from_matrix(random_matrix(0, 60, 60, 0.5)), 286_676, marks=pytest.mark.slow),
        pytest.param(from_matrix(random_matrix(0, 60, 60, 0.7)), 29_467_928, marks=pytest.mark.slow),
        (half_graph(150), 150),
        pytest.param(union_of_crowns(20), 2 * (2**20 - 2), marks=pytest.mark.slow),
    ],
    ids=["crown", "density 0.5", "density 0.7", "half graph", "two crowns"],
)
def test_the_outlook_holds(graph: BipartiteCSR, truth: int) -> None:
    """At every look: early, at the end of the first round, and within the second."""
    by_seed = [list(itertools.islice(told(graph, seed), 22)) for seed in range(10)]
    for look in (0, 7, 15, 21):
        now = [outlooks[min(look, len(outlooks) - 1)] for outlooks in by_seed]
        holds = [outlook.low <= truth <= (inf if outlook.high is None else outlook.high) for outlook in now]
        assert sum(holds) >= 9, (look, now)
    last = [outlooks[-1] for outlooks in by_seed]
    assert sum(outlook.high is not None and outlook.high <= 4 * outlook.low for outlook in last) >= 9
    assert all(truth / 2 <= outlook.middle <= 2 * truth for outlook in last)


@pytest.mark.parametrize("query", [BicliqueQuery(), SIZES], ids=["counting", "collecting"])
@pytest.mark.parametrize("seed", range(8))
def test_a_walked_tree_is_counted(seed: int, query: BicliqueQuery) -> None:
    graph = from_matrix(random_matrix(seed, 8, 10, 0.7))
    n = sum(query.accepts(len(us), len(vs)) for us, vs in maximal_bicliques(graph))
    assert list(told(graph, seed, query)) == [Outlook.exactly(n)]


def test_both_walks_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = from_matrix(random_matrix(2, 60, 60, 0.6))
    n, outlooks = 0, []
    for collects in (False, True):
        monkeypatch.setattr(sampler, "_walk_that_is_compiled", lambda collects=collects: collects)
        outlooks.append(list(itertools.islice(told(graph, 5), 20))[-1])
    enumerate_into(sink := CountSink(), graph, None, Execution(threads=2), "cpu")
    n = sink.n_bicliques
    assert all(outlook.low <= n <= (outlook.high or 0) for outlook in outlooks)


def test_it_ends_during_a_descent() -> None:
    answers = iter([True] * 25)
    asked = sampler.outlooks(crown(60), BicliqueQuery(), Execution(), lambda: next(answers, False))
    assert list(asked) == []
    assert next(answers, None) is None


def test_the_sampler_does_not_compile(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mbe_stage")
    monkeypatch.setattr(sampler, "_is_compiled", lambda collects: collects)
    assert len(list(itertools.islice(told(crown(20), 0), 2))) == 2
    monkeypatch.setattr(sampler, "_is_compiled", lambda _: False)
    assert list(told(crown(20), 0)) == []
    assert "not compiled yet" in caplog.text


def test_a_graph_too_large_for_the_budget_is_not_sampled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mbe_stage")
    graph = crown(40)
    part = 6 * graph.nbytes
    assert sampler.memory_bytes(graph, Execution(memory_budget_bytes=4 * part)) == part
    budget = Execution(memory_budget_bytes=4 * part - 1)
    assert sampler.memory_bytes(graph, budget) == 0
    assert list(sampler.outlooks(crown(40), BicliqueQuery(), budget, lambda: True)) == []
    assert "budget of memory" in caplog.text


@pytest.mark.parametrize(("n_cores", "part"), [(1, 0.02), (2, 0.04), (16, 0.32), (64, 0.5)])
def test_it_rests_for_most_of_the_time(n_cores: int, part: float) -> None:
    worked, rested = 0.0, []

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            rested.append(timeout)
            return False

    goes_on = paced(n_cores, Over(), lambda: worked)
    for _ in range(2000):
        worked += 0.01
        assert goes_on()
    assert worked / (worked + sum(rested)) == pytest.approx(part, rel=0.01)
    assert part <= CORES_SHARE * n_cores


class Spy:
    """Replaces the problem's sampler: records its calls and does as told."""

    def __init__(self, sample: Callable[[Callable[[], bool]], Iterator[Outlook]]) -> None:
        self.asked: list[Graph] = []
        self.has_begun, self._sample = threading.Event(), sample

    def __call__(
        self, graph: Graph, _query: BicliqueQuery, _execution: Execution, goes_on: Callable[[], bool]
    ) -> Iterator[Outlook]:
        self.asked.append(graph)
        self.has_begun.set()
        return self._sample(goes_on)


class Waiting(CountSink):
    """Lets the enumeration continue after an event."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__()
        self._event = event

    def accept(self, block) -> None:
        assert self._event.wait(PATIENCE)
        super().accept(block)


def samplers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "outlook"]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Callable[[Spy], Spy]:
    """Replace the sampler by a spy that starts at once."""

    def put(spy: Spy) -> Spy:
        monkeypatch.setattr(sampling, "_FIRST_SECONDS", 0.0)
        monkeypatch.setattr(sampling, "CORES_SHARE", inf)
        monkeypatch.setattr(sampler, "outlooks", spy)
        return spy

    return put


def endless(goes_on: Callable[[], bool]) -> Iterator[Outlook]:
    yield Outlook(1, 2, None)
    while goes_on():
        threading.Event().wait(0.001)


def test_it_ends_with_the_enumeration(put: Callable[[Spy], Spy]) -> None:
    spy = put(Spy(endless))
    facts = enumerate_into(Waiting(spy.has_begun), crown(12), None, None, "cpu", Listener(lambda _: None))
    assert facts.n_bicliques == 2**12 - 2
    assert len(spy.asked) == 1
    assert not samplers()


def test_it_ends_with_an_interrupt(put: Callable[[Spy], Spy]) -> None:
    spy = put(Spy(endless))

    def interrupt(_progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enumerate_into(Waiting(spy.has_begun), crown(12), None, None, "cpu", Listener(interrupt))
    assert len(spy.asked) == 1
    assert not samplers()


def test_the_engine_stops_before_the_sampler_is_waited_for(
    put: Callable[[Spy], Spy], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_told, has_stopped = threading.Event(), threading.Event()
    orders: list[bool] = []

    def blocks(*_arguments: object, **_options: object) -> Iterator[BicliqueBlock]:
        try:
            while True:
                yield BicliqueBlock.empty(Detail.COUNT, work_done=0.5)
        finally:
            # Workers in mid-step get the stop before anything is waited for.
            orders.append(is_told.wait(20.0))
            has_stopped.set()

    def in_mid_step(goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        while goes_on():
            threading.Event().wait(0.001)
        is_told.set()
        orders.append(has_stopped.wait(20.0))
        yield from ()

    def interrupt(_progress: object) -> None:
        assert spy.has_begun.wait(PATIENCE)
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "_PATIENCE", PATIENCE)
    monkeypatch.setattr(local, "run", blocks)
    spy = put(Spy(in_mid_step))
    with pytest.raises(KeyboardInterrupt):
        enumerate_into(CountSink(), crown(12), None, None, "cpu", Listener(interrupt))
    assert orders == [True, True]
    assert not samplers()


def test_a_missing_sampler_thread_only_ends_the_share(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    caplog.set_level(logging.INFO, "mbe_stage")
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", NoThread)
        with outlook_beside(lambda _: iter(()), 1) as newest:
            assert newest() is None
    assert "can't start new thread" in caplog.text


def test_a_sampler_interrupted_at_its_start_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            raise KeyboardInterrupt

    monkeypatch.setattr(threading, "Thread", Interrupted)
    is_over = threading.Event()
    with pytest.raises(KeyboardInterrupt), outlook_beside(lambda _: iter(()), 1, PATIENCE, is_over):
        pass
    assert is_over.is_set()
    assert not samplers()


@pytest.mark.parametrize("n_answers", [0, 1, 2])
def test_it_ends_before_and_after_long_steps(n_answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the graph is prepared, after it, and before a pilot computes its start."""
    steps: list[str] = []
    prepare, begin = sampler.Walk, sampler.descend

    def noted(name: str, step: Callable[..., object], *arguments: object, **options: object) -> object:
        steps.append(name)
        return step(*arguments, **options)

    monkeypatch.setattr(sampler, "Walk", partial(noted, "prepare", prepare))
    monkeypatch.setattr(sampler, "descend", partial(noted, "descend", begin))
    answers = iter([True] * n_answers)
    assert list(sampler.outlooks(crown(60), BicliqueQuery(), Execution(), lambda: next(answers, False))) == []
    assert steps == ([] if n_answers == 0 else ["prepare"])


def test_a_search_stopped_by_a_limit_reports_it_once_at_the_end(put: Callable[[Spy], Spy]) -> None:
    is_told = threading.Event()

    def sampled(_goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        yield Outlook(8_000_000, 8_388_606, 8_800_000)
        is_told.set()

    put(Spy(sampled))
    seen: list[enumerate.Progress] = []
    limited = Execution(threads=2, max_bicliques=1000, block_bytes=1 << 12)
    facts = enumerate_into(Waiting(is_told), crown(23), None, limited, "cpu", Listener(seen.append))
    assert facts.truncated is not None
    assert [progress.has_stopped for progress in seen] == [False] * (len(seen) - 1) + [True]
    end = replace(seen[-2], seconds=seen[-1].seconds, seconds_left=0.0, has_stopped=True)
    assert seen[-1] == end
    assert end.share is not None
    assert end.work_done < 1.0


def test_a_time_limit_holds_at_a_block_that_reports_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other blocks may wait behind it; nothing follows the empty one at the end."""
    full = BicliqueBlock(5, work_done=1.0)
    empty = BicliqueBlock.empty(Detail.COUNT, work_done=1.0)
    for given, n_found, is_cut in (([full, full, empty], 5, True), ([empty], 0, False)):
        monkeypatch.setattr(local, "run", lambda *_, given=given, **__: (block for block in given))
        limited = Execution(time_limit_seconds=1e-9)
        facts = enumerate_into(CountSink(), crown(12), None, limited, "cpu")
        assert (facts.n_bicliques, facts.truncated is not None) == (n_found, is_cut)


def test_it_runs_during_a_slow_engine(put: Callable[[Spy], Spy]) -> None:
    spy = put(Spy(endless))
    enumerate_into(CountSink(), crown(8), None, None, "reference", Listener(lambda _: None))
    assert spy.asked == []


def test_a_failing_sampler_only_ends_the_share(put: Callable[[Spy], Spy], caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()

    def failing(_goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        yield Outlook(5000, 6000, 7000)
        failed.set()
        raise ZeroDivisionError("by nothing")

    caplog.set_level(logging.INFO, "mbe_stage")
    put(Spy(failing))
    seen: list[enumerate.Progress] = []
    facts = enumerate_into(Waiting(failed), crown(12), None, None, "cpu", Listener(seen.append))
    assert facts.n_bicliques == 2**12 - 2
    assert facts.truncated is None
    assert "ZeroDivisionError: by nothing" in caplog.text
    assert seen[0].expected == Outlook(5000, 6000, 7000)
    assert seen[-1] == replace(seen[-1], work_done=1.0, share=1.0, seconds_left=0.0, expected=Outlook.exactly(4094))


def test_a_sampler_that_ends_silently_leaves_the_guess(put: Callable[[Spy], Spy]) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def silent(_goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        begun.set()
        assert may_end.wait(PATIENCE)
        yield from ()

    put(Spy(silent))
    seen: list[enumerate.Progress] = []

    def tell(progress: enumerate.Progress) -> None:
        seen.append(progress)
        may_end.set()
        while samplers():
            threading.Event().wait(0.001)

    enumerate_into(Waiting(begun), crown(17), None, Execution(block_bytes=1 << 12), "cpu", Listener(tell))
    n = seen[0].n_bicliques
    assert seen[0].expected == Outlook(n, n, None)
    assert all(progress.expected is None for progress in seen[1:-1])
    assert len(seen) > 2


def test_nothing_is_sampled_without_a_listener(put: Callable[[Spy], Spy]) -> None:
    spy = put(Spy(endless))
    for listener in (None, lambda _: None, Listener(lambda _: None, wants_outlook=False)):
        enumerate_into(CountSink(), crown(12), None, None, "cpu", listener)
    tasks = engine_cpu.tasks_of(crown(12), BicliqueQuery(), 3)[:1]
    enumerate_into(CountSink(), crown(12), None, None, "cpu", Listener(lambda _: None), tasks=tasks)
    assert spy.asked == []


def test_it_starts_when_its_share_covers_the_preparation() -> None:
    spy = Spy(endless)
    with outlook_beside(lambda goes_on: spy(crown(3), BicliqueQuery(), Execution(), goes_on), 1, PATIENCE) as newest:
        assert len(samplers()) == 1
        assert newest() == Outlook.unknown()
    assert spy.asked == []
    assert not samplers()


def test_a_graph_on_the_device_is_not_sampled() -> None:
    class OnDevice:
        is_on_host = False

    asked = BicliqueQuery(), Execution(), None, Listener(print), 0.0
    assert stream._sampling(PROBLEM, "cpu", OnDevice(), *asked) is None
    assert stream._sampling(PROBLEM, "cuda", crown(3), *asked) is None
    sampling, _ = stream._sampling(PROBLEM, "cpu", crown(3), *asked)
    with sampling as newest:
        assert len(samplers()) == 1
        assert newest() == Outlook.unknown()
    assert not samplers()


def test_share_and_time_are_shown(put: Callable[[Spy], Spy]) -> None:
    is_told = threading.Event()

    def sampled(_goes_on: Callable[[], bool]) -> Iterator[Outlook]:
        yield Outlook(8_000_000, 8_388_606, 8_800_000)
        is_told.set()

    put(Spy(sampled))
    seen: list[enumerate.Progress] = []
    limited = Execution(threads=2, time_limit_seconds=PATIENCE)
    enumerate_into(Waiting(is_told), crown(23), None, limited, "cpu", Listener(seen.append))
    for progress in seen[:-1]:
        assert progress.work_done < 1.0
        assert progress.share is not None
        assert progress.share < 1.0
        if 0 < progress.n_bicliques < 6_000_000:
            assert progress.share == pytest.approx(progress.n_bicliques / 8_388_606, rel=1e-3)
            wanted = progress.seconds * (1 / progress.share - 1)
            assert progress.seconds_left == pytest.approx(min(wanted, PATIENCE - progress.seconds), rel=1e-9)
    assert (seen[-1].work_done, seen[-1].share, seen[-1].seconds_left) == (1.0, 1.0, 0.0)


def test_no_block_reports_completion() -> None:
    """A worker that finishes the last piece says so with its blocks, and others' may wait behind them."""
    for engine in ("cpu", "reference"):
        seen: list[enumerate.Progress] = []
        enumerate_into(CountSink(), crown(8), None, Execution(threads=2), engine, seen.append)
        assert all(progress.work_done < 1.0 for progress in seen[:-1])
        assert seen[-1].work_done == 1.0
        assert seen[-1].n_bicliques == 2**8 - 2
    seen.clear()
    enumerate_into(CountSink(), crown(8), None, Execution(max_bicliques=20), "reference", seen.append)
    assert seen[-1].work_done < 1.0
