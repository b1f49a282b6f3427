"""Several devices on the emulator, one thread each: they share roots, hand work over, get lost, reach barriers.

As a script, with one of `PARTS`, prints a JSON line per case.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import types as python_types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution, TableSink
from mbe_stage.bicliques import engine_cpu, reference
from mbe_stage.errors import DeviceLost, MemoryBudgetExceeded
from mbe_stage.search.cpu.pool import Barrier
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import install_emulator

EVERYTHING = BicliqueQuery()
ONE_BLOCK = {"n_blocks": 1, "quantum_seconds": 0.1}


def fake_devices() -> None:
    """Pretend that there are as many devices as requested."""
    selection = python_types.ModuleType("mbe_stage.device.selection")
    selection.device_numbers = lambda asked: (0, 1) if asked == "all" else tuple(asked)
    selection.selected = lambda _number: contextlib.nullcontext()
    selection.free_bytes = lambda _number: 1 << 30
    selection.current_number = lambda: 0
    selection.name_of = lambda _number: "emulated"
    sys.modules[selection.__name__] = selection


def install_devices() -> Any:
    """Do the same with the engine on the emulator; return the launcher."""
    fake_devices()
    launcher = install_emulator()
    from mbe_stage.bicliques import engine_cuda

    engine_cuda.unavailable_reason = lambda: None
    engine_cuda.compile_steps = lambda *_: ()
    return launcher


def runner_of(n: int, sizes: dict[str, Any], **others: Any) -> Any:
    from mbe_stage.runners.devices import DeviceRunner

    return DeviceRunner(range(n), options={"sizes": ONE_BLOCK | sizes}, **others)


def wanted_of(graph: BipartiteCSR, query: BicliqueQuery = EVERYTHING) -> set:
    return {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}


def searched(runner: Any, graph: BipartiteCSR, query: BicliqueQuery, detail: Detail, **others: Any) -> tuple[int, set]:
    """Return the number of bicliques and, with members, their set; check that none is repeated."""
    execution = others.pop("execution", Execution())
    sink, n = TableSink(), 0
    for block in runner.run("bicliques", "cuda", graph, query, execution, detail, **others):
        n += len(block)
        if detail == Detail.MEMBERS:
            sink.accept(block)
    found = sink.table().as_set()
    assert len(found) == len(sink.table()), "a biclique came twice"
    return n, found


def compared(runner: Any, graph: BipartiteCSR, query: BicliqueQuery = EVERYTHING, **others: Any) -> dict[str, Any]:
    """Count and search; return the handovers of both, and the number of busy devices."""
    wanted = wanted_of(graph, query)
    n, found = searched(runner, graph, query, Detail.MEMBERS, **others)
    same = found == wanted and n == len(wanted) == sum(rank.n_found for rank in runner.ranks)
    given = [rank.n_given for rank in runner.ranks]
    counted, _ = searched(runner, graph, query, Detail.COUNT, **others)
    same = same and counted == len(wanted)
    given = [before + rank.n_given for before, rank in zip(given, runner.ranks, strict=True)]
    busy = runner.busy
    assert all(0.0 <= each <= 1.0 for each in busy), busy
    return {"same": same, "wanted": len(wanted), "given": sum(given), "givers": sum(map(bool, given))}


@contextlib.contextmanager
def deal_all_to_the_first() -> Iterator[None]:
    """Deal all roots to the first device: all work of the others was handed over."""
    from mbe_stage.runners.device_exchange import Exchange

    deal = Exchange._deal

    def deal_to_one(self: Any, ordered: np.ndarray, works: Any = ()) -> None:
        deal(self, ordered, works)
        first, *others = self._members.values()
        first.rows = ordered
        for other in others:
            other.rows = ordered[:0]

    Exchange._deal = deal_to_one
    yield
    Exchange._deal = deal


def few_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    launcher.seed = 1
    stacks = graphs.from_matrix(graphs.random_matrix(1, 11, 13, 0.7))
    nodes = graphs.from_matrix(graphs.random_matrix(7, 60, 7, 0.6))
    with deal_all_to_the_first():
        yield {"case": "stacks"} | compared(runner_of(2, {"quantum_seconds": 0.02}), stacks, BicliqueQuery(min_left=2))
        yield {"case": "nodes"} | compared(runner_of(3, {"quantum_seconds": 0.02}), nodes)


def many_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    everywhere: list[dict[str, Any]] = [
        {},
        {"nodes": 4, "pool_extra": 4096},
        {"words": 64},
        {"members": 64, "descriptors": 64, "chunk_members": 16},
    ]
    twins = np.repeat(np.repeat(graphs.random_matrix(3, 10, 10, 0.6), 2, 0), 3, 1)
    made = [
        graphs.crown(9),
        graphs.from_matrix(twins),
        graphs.half_graph(30),
        graphs.from_matrix(graphs.random_matrix(7, 110, 9, 0.6)),
        graphs.from_matrix(graphs.random_matrix(3, 60, 50, 0.08)),
        graphs.from_matrix(graphs.random_matrix(4, 12, 24, 0.7)),
        graphs.from_matrix(graphs.random_matrix(5, 40, 40, 0.2)),
        BipartiteCSR.from_edges([], [], 2, 2),
    ]
    for number, graph in enumerate(made):
        launcher.seed = number
        n = (2, 3, 8)[number % 3]
        sizes = everywhere[number % 4]
        with deal_all_to_the_first() if number % 2 else contextlib.nullcontext():
            yield {"case": f"{number} on {n}"} | compared(runner_of(n, sizes), graph)


def lost_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """A device that fails in the first epoch and later; all of them; one that is left out."""
    from mbe_stage.bicliques.cuda import search

    launcher.seed = 2
    graph = graphs.from_matrix(graphs.random_matrix(6, 30, 30, 0.25))
    work = search.SharedSearch.work

    def failing(after: int, which: str) -> None:
        n_quanta = 0

        def failing_work(self: Any, block_bytes: int) -> Any:
            nonlocal n_quanta
            import threading

            if threading.current_thread().name in which.split():
                n_quanta += 1
                if n_quanta > after:
                    raise MemoryBudgetExceeded("the memory of this device has an error")
            return work(self, block_bytes)

        search.SharedSearch.work = failing_work

    for after, epoch_seconds in ((1, 1e9), (4, 0.0)):
        failing(after, "gpu-1-1")
        runner = runner_of(3, {"quantum_seconds": 0.03}, epoch_seconds=epoch_seconds)
        yield (
            {"case": f"lost after {after}"}
            | compared(runner, graph)
            | {
                "warned": len(runner.warnings),
                "left": len(runner.ranks),
            }
        )
    failing(1, "gpu-0-0 gpu-1-1")
    yield _ended("all lost", graph, Detail.MEMBERS, Execution())
    failing(2, "gpu-1-1")
    yield _ended("handed on", graph, Detail.MEMBERS, Execution(memory_budget_bytes=1))
    failing(2, "gpu-1-1")
    yield _ended("limited", graph, Detail.COUNT, Execution(time_limit_seconds=1e6))
    search.SharedSearch.work = work
    yield from _left_out(graph)


def _ended(case: str, graph: BipartiteCSR, detail: Detail, execution: Execution) -> dict[str, Any]:
    """Return the error that ends a search of two devices."""
    try:
        searched(
            runner_of(2, {"quantum_seconds": 0.003}, epoch_seconds=1e9), graph, EVERYTHING, detail, execution=execution
        )
    except (MemoryBudgetExceeded, DeviceLost) as error:
        return {"case": case, "error": type(error).__name__, "told": str(error)}
    return {"case": case, "error": None}


def _left_out(graph: BipartiteCSR) -> Iterator[dict[str, Any]]:
    """A device with too little memory: refused if named, left out if all were requested."""
    import threading

    from mbe_stage.bicliques import engine_cuda
    from mbe_stage.runners.devices import DeviceRunner

    original = engine_cuda.device_search

    def too_small(*arguments: Any, **others: Any) -> Any:
        if threading.current_thread().name == "gpu-1-1":
            raise MemoryBudgetExceeded("the CUDA engine needs 77 bytes of device memory", needed_bytes=77)
        return original(*arguments, **others)

    engine_cuda.device_search = too_small
    runner = DeviceRunner("all", options={"sizes": ONE_BLOCK})
    yield {"case": "left out"} | compared(runner, graph) | {"warned": len(runner.warnings), "left": len(runner.ranks)}
    try:
        searched(runner_of(2, {}), graph, EVERYTHING, Detail.COUNT)
    except MemoryBudgetExceeded as error:
        yield {"case": "refused", "error": type(error).__name__, "told": str(error)}
    engine_cuda.device_search = original


def barrier_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    from mbe_stage.search.cuda import barriers

    graph = graphs.from_matrix(graphs.random_matrix(2, 60, 50, 0.06))
    wanted = wanted_of(graph)
    for seed, (n, detail) in enumerate(((2, Detail.MEMBERS), (3, Detail.COUNT), (2, Detail.COUNT))):
        launcher.seed, barriers.MOST_RANGES = seed, 3 if seed else 1024
        dice, barrier, sink, counted, markers, same = random.Random(seed), Barrier(), TableSink(), 0, 0, True
        barrier.ask()
        runner = runner_of(n, {"quantum_seconds": 0.02}, epoch_seconds=0.3 * seed)
        for block in runner.run("bicliques", "cuda", graph, EVERYTHING, Execution(), detail, barrier=barrier):
            counted += len(block)
            if detail == Detail.MEMBERS:
                sink.accept(block)
            if block.remaining is not None:
                markers += 1
                rest = TableSink()
                for each in engine_cpu.run(graph, EVERYTHING, Execution(threads=1), Detail.MEMBERS, block.remaining):
                    rest.accept(each)
                same &= len(block) == 0 and counted + len(rest.table()) == len(wanted)
                same &= len(block.remaining) <= barriers.MOST_RANGES
                if detail == Detail.MEMBERS:
                    same &= sink.table().as_set() | rest.table().as_set() == wanted
            if dice.random() < 0.5:
                barrier.ask()
        yield {"case": f"barriers {seed}", "same": same and counted == len(wanted), "markers": markers}


def limit_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Through the library: a limit, some roots, closed at once."""
    from mbe_stage import CountSink, enumerate_into

    launcher.seed = 3
    graph = graphs.from_matrix(graphs.random_matrix(6, 25, 25, 0.25))
    n = len(wanted_of(graph))
    sink = TableSink()
    runner = runner_of(2, {"quantum_seconds": 0.02})
    facts = enumerate_into(sink, graph, None, Execution(runner=runner, max_bicliques=20), "cuda")
    yield {"case": "limit", "same": len(sink.table()) == 20 and facts.truncated is not None, "device": facts.device}
    tasks = engine_cpu.tasks_of(graph, EVERYTHING, 6)
    counts = []
    for part in (tasks[::2], tasks[1::2]):
        enumerate_into(counter := CountSink(), graph, None, Execution(runner=runner), "cuda", tasks=part)
        counts.append(counter.n_bicliques)
    yield {"case": "some roots", "same": sum(counts) == n and min(counts) > 0}
    blocks = runner.run("bicliques", "cuda", graph, EVERYTHING, Execution(), Detail.COUNT)
    next(blocks)
    blocks.close()
    yield {"case": "closed", "same": True}


def saved_cases(launcher: Any, n: int) -> Iterator[dict[str, Any]]:
    """Giant roots on one to three devices, ended in the middle, lost at random moments, and continued on others."""
    from mbe_stage.bicliques.cuda import search
    from mbe_stage.runners import device_exchange

    ends, end_if_saved = 0, device_exchange.Exchange._end_if_saved
    work = search.SharedSearch.work

    def counted(self: Any) -> None:
        nonlocal ends
        before = self._is_closing
        end_if_saved(self)
        ends += before and not self._is_closing

    device_exchange.Exchange._end_if_saved = counted  # type: ignore[method-assign]
    for seed in range(n):
        launcher.seed, dice, n_before = seed, random.Random(seed), ends
        graph = graphs.from_matrix(
            np.concatenate([graphs.random_matrix(seed, 90, 7, 0.65), np.ones((90, 1), bool)], axis=1)
            if seed % 2
            else graphs.random_matrix(seed, 12, 20, 0.7)
        )
        wanted, sink, remaining, said = wanted_of(graph), TableSink(), None, []
        while True:
            n_devices, barrier = dice.randrange(1, 4), Barrier(takes_open_work=True)
            lost = ("gpu-1-1", dice.randrange(1, 5)) if n_devices > 1 and dice.random() < 0.6 else ("", 0)
            search.SharedSearch.work = failing_after(work, *lost)
            runner = runner_of(n_devices, {"quantum_seconds": 0.02}, epoch_seconds=dice.choice((0.0, 0.1)))
            asked = ("bicliques", "cuda", graph, EVERYTHING, Execution(), Detail.MEMBERS)
            stop = dice.randrange(6)
            for number, block in enumerate(runner.run(*asked, remaining, barrier)):
                if number >= stop and dice.random() < 0.5:
                    barrier.ask()
                if block.remaining is not None and dice.random() < 0.5:
                    remaining = block.remaining
                    break
                sink.accept(block)
            else:
                break
            said += runner.warnings
        found = sink.table()
        same = found.as_set() == wanted and len(found) == len(wanted)
        yield {"case": f"saved {seed}", "same": same, "saved": ends - n_before, "lost": len(said + runner.warnings)}
    search.SharedSearch.work = work


def failing_after(work: Any, name: str, n_quanta: int) -> Any:
    """Return a device's `work` that fails on the named thread after some quanta."""
    import threading

    n_done = 0

    def failing(self: Any, block_bytes: int) -> Any:
        nonlocal n_done
        if threading.current_thread().name == name:
            n_done += 1
            if n_done > n_quanta:
                raise MemoryBudgetExceeded("the memory of this device has an error")
        return work(self, block_bytes)

    return failing


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "few": few_cases,
    "many": many_cases,
    "lost": lost_cases,
    "barriers": barrier_cases,
    "limits": limit_cases,
    "saved": lambda launcher: saved_cases(launcher, 2),
    "saved, many": lambda launcher: saved_cases(launcher, 100),
}


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for case in PARTS[part](install_devices()):
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
