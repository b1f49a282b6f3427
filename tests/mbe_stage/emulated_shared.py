"""Several devices on the emulator share searches for cliques, or (p, q)-counts: they hand roots and nodes over, are lost
at random moments, and come to barriers.

Run as a script, with the problem and one of `PARTS`: prints a JSON line per case.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mbe_stage import CliqueQuery, Execution, PqQuery
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.pq_counts.results import Detail as PqDetail
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.search.cpu.pool import Barrier
from tests.mbe_stage import graphs
from tests.mbe_stage.cliques import emulated_cliques, undirected_graphs
from tests.mbe_stage.emulated_devices import all_to_the_first, made_up_devices
from tests.mbe_stage.pq_counts import emulated_counts

Found = Counter[Any]


class Cliques:
    """Sets of cliques."""

    name = "cliques"
    few = (CliqueQuery(), emulated_cliques.Detail.MEMBERS)
    tiny = emulated_cliques.TINY

    def __init__(self) -> None:
        self.launcher = emulated_cliques.use_the_emulator()
        from mbe_stage.cliques import engine_cpu, engine_cuda

        self.cpu, self.cuda = engine_cpu, engine_cuda
        self.small = emulated_cliques.SMALL | {"n_blocks": 1}

    def dense(self, seed: int) -> Any:
        """Few roots with deep subtrees."""
        return undirected_graphs.two_densities(np.random.default_rng(seed), 40, 26, 0.7)

    def asked(self, seed: int) -> tuple[Any, Any, Any]:
        """A random graph, query and detail."""
        rng, shapes = np.random.default_rng(seed), [*emulated_cliques.SHAPES, *emulated_cliques.BARRIER_SHAPES[:2]]
        queries = [*emulated_cliques.QUERIES, CliqueQuery(1, None, (0, 1))]
        graph = undirected_graphs.random_graph(rng, *shapes[seed % len(shapes)])
        return graph, queries[seed // 2 % len(queries)], emulated_cliques.Detail(2 - seed % 3)

    def specified(self, graph: Any, query: Any, detail: Any) -> Found:
        return emulated_cliques.as_counted(emulated_cliques.below(graph, query, None), detail)

    def found(self, blocks: list[Any], _query: Any, detail: Any) -> Found:
        return emulated_cliques.counted_blocks(blocks, detail)


class Counts:
    """Numbers of bicliques, cell by cell."""

    name = "pq_counts"
    few = (PqQuery(1, 5, 1, 5), PqDetail.COUNTS)
    tiny = emulated_counts.TINY

    def __init__(self) -> None:
        self.launcher = emulated_counts.use_the_emulator()
        from mbe_stage.pq_counts import engine_cpu, engine_cuda

        self.cpu, self.cuda = engine_cpu, engine_cuda
        self.small = {"n_blocks": 1}

    def dense(self, seed: int) -> Any:
        """Few roots with deep subtrees."""
        return graphs.from_matrix(graphs.random_matrix(seed, 13, 26, 0.75))

    def asked(self, seed: int) -> tuple[Any, Any, Any]:
        """A random graph, query and detail."""
        shapes = [*emulated_counts.SHAPES, ((60, 50), 0.1)]
        queries = [query for query in emulated_counts.QUERIES if 2 not in (query.max_p, query.max_q)]
        queries += [PqQuery(1, 4, 2, 3, (3,)), PqQuery(3, 3, 3, 3)]
        shape, density = shapes[seed % len(shapes)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        return graph, queries[seed // 2 % len(queries)], PqDetail.COUNTS

    def specified(self, graph: Any, query: Any, _detail: Any) -> Found:
        return Counter(emulated_counts.specified(graph, query))

    def found(self, blocks: list[Any], query: Any, detail: Any) -> Found:
        sink = PqSink(query, detail)
        for block in blocks:
            sink.accept(block)
        return Counter(sink.counts())


def searched(problem: Any, n: int, graph: Any, query: Any, detail: Any, **options: Any) -> tuple[list[Any], Any]:
    """The blocks of several devices, and their runner."""
    from mbe_stage.runners.devices import DeviceRunner

    sizes = problem.small | {"quantum_seconds": 0.01} | options.pop("sizes", {})
    runner = DeviceRunner(range(n), options={"sizes": sizes}, epoch_seconds=options.pop("epoch_seconds", 5.0))
    execution = options.pop("execution", Execution(block_bytes=200))
    blocks, shares = [], [0.0]
    for block in runner.run(problem.name, "cuda", graph, query, execution, detail, **options):
        blocks.append(block)
        shares.append(block.work_done)
    assert shares == sorted(shares), shares
    assert shares[-1] == 1.0
    assert sum(map(len, blocks)) == sum(rank.n_found for rank in runner.ranks)
    return blocks, runner


def few_cases(problem: Any) -> Iterator[dict[str, Any]]:
    """All roots are dealt to one device: what others find was handed over."""
    query, detail = problem.few
    given = Nodes()
    for seed in range(2):
        graph = problem.dense(seed)
        problem.launcher.seed = seed
        with all_to_the_first():
            blocks, runner = searched(problem, 2 + seed, graph, query, detail)
        is_same = problem.found(blocks, query, detail) == problem.specified(graph, query, detail)
        yield {"case": f"few {seed}", "same": is_same, "nodes": given.n, "givers": givers(runner)}


class Nodes:
    """Counts the nodes that devices take in."""

    def __init__(self) -> None:
        from mbe_stage.search.cuda.session import PoolSession

        self.n, take_in = 0, PoolSession.take_in

        def counted(session: Any, transfer: Any) -> None:
            # One of the rehearsal does not count.
            self.n += 0 if transfer.nodes is None or threading.current_thread().name == "rehearsal" else len(transfer.nodes)
            take_in(session, transfer)

        PoolSession.take_in = counted  # type: ignore[method-assign]
        PoolSession.rehearse = lambda _session: None  # type: ignore[method-assign]


def givers(runner: Any) -> int:
    return sum(rank.n_given > 0 for rank in runner.ranks)


def random_cases(problem: Any, seeds: range) -> Iterator[dict[str, Any]]:
    """Random graphs, queries, details, and sizes of what the search works in; now and then some tasks only."""
    from mbe_stage.runners.device_exchange import Exchange

    deal = Exchange._deal
    for seed in seeds:
        graph, query, detail = problem.asked(seed)
        problem.launcher.seed = seed
        sizes = problem.tiny[seed // 3 % len(problem.tiny)]
        parts: list[Any] = [None]
        if seed % 4 == 3:
            tasks = problem.cuda.tasks_of(graph, query, 5)
            parts = [tuple(tasks[::2]), tuple(tasks[1::2])]
        blocks, n_given = [], 0
        for part in parts:
            if seed % 2:
                with all_to_the_first():
                    some, runner = searched(problem, 2 + seed % 2, graph, query, detail, sizes=sizes, tasks=part)
            else:
                some, runner = searched(problem, 2 + seed % 2, graph, query, detail, sizes=sizes, tasks=part)
            blocks += some
            n_given += sum(rank.n_given for rank in runner.ranks)
        assert Exchange._deal is deal
        wanted = problem.specified(graph, query, detail)
        is_same = problem.found(blocks, query, detail) == wanted
        yield {"case": f"random {seed}", "same": is_same, "n": sum(wanted.values()), "given": n_given}


def lost_cases(problem: Any, seeds: range) -> Iterator[dict[str, Any]]:
    """Devices that fail after random numbers of quanta: all but one."""
    from mbe_stage.search.cuda.shared import SharedSearch

    work = SharedSearch.work
    for seed in seeds:
        graph, query, detail = problem.asked(seed)
        dice, problem.launcher.seed = random.Random(seed), seed
        left = {f"gpu-{k}-{k}": dice.randrange(1, 6) for k in (1, 2)}

        def failing(self: Any, block_bytes: int, left: dict[str, int] = left) -> Iterator[list[Any]]:
            name = threading.current_thread().name
            for part in work(self, block_bytes):
                left[name] = left.get(name, 1 << 30) - 1
                if left[name] < 0:
                    raise MemoryBudgetExceeded("the memory of this device has an error")
                yield part

        SharedSearch.work = failing  # type: ignore[method-assign]
        options = {"epoch_seconds": (1e9, 0.0, 0.05)[seed % 3], "sizes": {"quantum_seconds": 0.003}}
        with all_to_the_first() if seed % 2 else problem.nothing():
            blocks, runner = searched(problem, 3, graph, query, detail, **options)
        SharedSearch.work = work  # type: ignore[method-assign]
        is_same = problem.found(blocks, query, detail) == problem.specified(graph, query, detail)
        yield {"case": f"lost {seed}", "same": is_same, "warned": len(runner.warnings)}


def barrier_cases(problem: Any, seeds: range) -> Iterator[dict[str, Any]]:
    """What comes before a barrier, and what the engine `cpu` finds below the remaining roots, is all."""
    from mbe_stage.search.cuda import barriers

    for seed in seeds:
        graph, query, detail = problem.asked(seed)
        problem.launcher.seed, barriers.MOST_RANGES = seed, (1024, 3)[seed % 2]
        wanted = problem.specified(graph, query, detail)
        told: dict[str, Any] = {"same": True, "markers": 0}
        dice, barrier, blocks = random.Random(seed), Barrier(), []

        class Watched(list):  # type: ignore[type-arg]
            """Looks at each block as it comes."""

        barrier.ask()
        from mbe_stage.runners.devices import DeviceRunner

        sizes = problem.small | {"quantum_seconds": 0.003}
        runner = DeviceRunner(range(2 + seed % 2), options={"sizes": sizes}, epoch_seconds=0.1 * (seed % 3))
        means = Execution(block_bytes=200)
        for block in runner.run(problem.name, "cuda", graph, query, means, detail, barrier=barrier):
            blocks.append(block)
            if block.remaining is not None:
                rest = list(problem.cpu.run(graph, query, Execution(threads=1), detail, block.remaining))
                told["markers"] += 1
                told["same"] &= problem.found(blocks + rest, query, detail) == wanted
                told["same"] &= len(block.remaining) <= barriers.MOST_RANGES
            if dice.random() < 0.6:
                barrier.ask()
        told["same"] &= problem.found(blocks, query, detail) == wanted
        yield {"case": f"barriers {seed}"} | told


def main(problem_name: str, part: str) -> None:
    pass


if __name__ == "__main__":
    main(*sys.argv[1:])
