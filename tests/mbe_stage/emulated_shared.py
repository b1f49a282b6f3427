"""Several devices on the emulator share searches for cliques or (p, q)-counts.

They hand roots and nodes over, get lost at random moments, reach barriers, and refuse what only one device can do.

As a script, with the problem and one of `PARTS`, prints a JSON line per case.
"""

from __future__ import annotations

import contextlib
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
from mbe_stage.cliques.results import Detail
from mbe_stage.errors import DeviceLost, InvalidArgument, MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cpu
from mbe_stage.pq_counts.results import Detail as PqDetail
from mbe_stage.pq_counts.results import PqSink
from mbe_stage.runners.devices import DeviceRunner
from mbe_stage.search.cpu.pool import Barrier
from tests.mbe_stage import graphs
from tests.mbe_stage.cliques import emulated_cliques, undirected_graphs
from tests.mbe_stage.emulated_devices import deal_all_to_the_first, fake_devices
from tests.mbe_stage.pq_counts import emulated_counts

Asked = tuple[Any, Any, Any]


class Cliques:
    name = "cliques"
    tiny = emulated_cliques.TINY

    def __init__(self) -> None:
        self.launcher = emulated_cliques.use_the_emulator()
        from mbe_stage.cliques import engine_cuda
        from mbe_stage.cliques.cuda import frame_walk

        frame_walk._LOOK_EVERY = 2
        self.cuda = engine_cuda
        self.small = emulated_cliques.SMALL | {"n_blocks": 1}

    def few_roots(self, seed: int) -> Asked:
        """Return a dense graph whose cliques are below few roots."""
        sparse = undirected_graphs.random_graph(np.random.default_rng(seed), 24, 0.14)
        return undirected_graphs.complement(sparse), CliqueQuery(), Detail(2 - 2 * (seed % 2))

    def asked(self, seed: int) -> Asked:
        """Return a random graph, a query and a detail."""
        shapes = [*emulated_cliques.SHAPES, *emulated_cliques.BARRIER_SHAPES[:2]]
        # Members of all cliques, with others and alone; and two that are no clique in most graphs.
        queries = [*emulated_cliques.QUERIES, CliqueQuery(containing=(0, 1)), CliqueQuery(containing=(0, 1, 2))]
        graph = undirected_graphs.random_graph(np.random.default_rng(seed), *shapes[seed % len(shapes)])
        return graph, queries[seed // 2 % len(queries)], Detail(2 - seed % 3)

    def many_roots(self, seed: int) -> Asked:
        """Return a sparse graph, for barriers."""
        graph = undirected_graphs.random_graph(np.random.default_rng(seed), 70, 0.09)
        return graph, emulated_cliques.BARRIER_QUERIES[seed % 3], Detail(2 - seed % 3)

    def specified(self, graph: Any, query: Any, detail: Any, tasks: Any = None) -> Counter[Any]:
        return emulated_cliques.as_counted(emulated_cliques.below(graph, query, tasks), detail)

    def found(self, blocks: list[Any], _query: Any, detail: Any) -> Counter[Any]:
        return emulated_cliques.counted_blocks(blocks, detail)


class Counts:
    name = "pq_counts"
    tiny = emulated_counts.TINY

    def __init__(self) -> None:
        self.launcher = emulated_counts.use_the_emulator()
        from mbe_stage.pq_counts import engine_cuda
        from mbe_stage.pq_counts.cuda import frame_walk

        frame_walk._LOOK_EVERY = 2
        self.cuda = engine_cuda
        self.small: dict[str, Any] = {"n_blocks": 1}

    def few_roots(self, seed: int) -> Asked:
        """Return a dense graph of few rows."""
        return graphs.from_matrix(graphs.random_matrix(seed, 10, 20, 0.75)), PqQuery(1, 5, 1, 5), PqDetail.COUNTS

    def asked(self, seed: int) -> Asked:
        """Return a random graph and a query."""
        queries = [query for query in emulated_counts.QUERIES if 2 not in (query.max_p, query.max_q)]
        queries += [PqQuery(1, 4, 2, 3, (3,)), PqQuery.of(3, 3)]
        shape, density = emulated_counts.SHAPES[seed % len(emulated_counts.SHAPES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        return graph, queries[seed // 2 % len(queries)], PqDetail.COUNTS

    def many_roots(self, seed: int) -> Asked:
        """Return a sparse graph, for barriers."""
        graph = graphs.from_matrix(graphs.random_matrix(seed, 40, 50, 0.12))
        return graph, (PqQuery(1, 3, 1, 3), PqQuery.of(3, 3), PqQuery(2, 4, 2, 5))[seed % 3], PqDetail.COUNTS

    def specified(self, graph: Any, query: Any, detail: Any, tasks: Any = None) -> Counter[Any]:
        if tasks is None:
            return Counter(emulated_counts.specified(graph, query))
        return self.found(list(engine_cpu.run(graph, query, Execution(threads=1), detail, tasks)), query, detail)

    def found(self, blocks: list[Any], query: Any, detail: Any) -> Counter[Any]:
        sink = PqSink(query, detail)
        for block in blocks:
            sink.accept(block)
        return Counter(sink.counts())


def runner_of(problem: Any, n: int, sizes: dict[str, Any], epoch_seconds: float = 5.0) -> DeviceRunner:
    options = {"sizes": problem.small | {"quantum_seconds": 0.005} | sizes}
    return DeviceRunner(range(n), options=options, epoch_seconds=epoch_seconds)


def searched(runner: DeviceRunner, problem: Any, asked: Asked, **others: Any) -> list[Any]:
    """Return all blocks; check that shares never fall and that the devices' results add up."""
    graph, query, detail = asked
    execution = others.pop("execution", Execution(block_bytes=200))
    blocks = list(runner.run(problem.name, "cuda", graph, query, execution, detail, **others))
    shares = [block.work_done for block in blocks]
    assert shares == sorted(shares), shares
    assert shares[-1] == 1.0
    assert sum(map(len, blocks)) == sum(rank.n_found for rank in runner.ranks)
    return blocks


def deal_to_the_first(is_so: Any) -> contextlib.AbstractContextManager[None]:
    """Deal all roots to the first device, or not."""
    return deal_all_to_the_first() if is_so else contextlib.nullcontext()


@contextlib.contextmanager
def nodes_given() -> Iterator[list[int]]:
    """Record the numbers of nodes handed over."""
    from mbe_stage.runners.device_exchange import Exchange

    hand_over, given = Exchange.hand_over, [0]

    def noted(self: Any, k: int, generation: int, transfers: Any) -> None:
        given[0] += sum(len(each.nodes) for _, each in transfers if each.nodes is not None)
        hand_over(self, k, generation, transfers)

    Exchange.hand_over = noted  # type: ignore[method-assign]
    yield given
    Exchange.hand_over = hand_over  # type: ignore[method-assign]


def few_cases(problem: Any) -> Iterator[dict[str, Any]]:
    """Two roots on one device: the other devices get nodes."""
    for seed in range(2):
        asked, problem.launcher.seed = problem.few_roots(seed), seed
        tasks = problem.cuda.tasks_of(*asked[:2], 100)
        tasks = tuple(sorted(tasks, key=lambda task: -task.cost)[:2])
        wanted = problem.specified(*asked, tasks)
        runner = runner_of(problem, 2 + seed, {"narrow": (64, 6)[seed]})
        with deal_all_to_the_first(), nodes_given() as nodes:
            found = problem.found(searched(runner, problem, asked, tasks=tasks), *asked[1:])
        found_by = [rank.n_found for rank in runner.ranks]
        yield {"case": "few", "same": found == wanted, "nodes": nodes[0], "found_by": found_by}


def random_cases(problem: Any, seeds: range) -> Iterator[dict[str, Any]]:
    """Random graphs, queries, details and work areas; sometimes a few tasks at a time.

    Nodes are handed over early, and devices that have answered rest for less.
    """
    from mbe_stage.runners import device_exchange
    from mbe_stage.search.cuda import shared

    device_exchange._REST_SECONDS, device_exchange._LONG_REST_SECONDS = 0.002, 0.02
    for seed in seeds:
        asked, problem.launcher.seed = problem.asked(seed), seed
        shared._MUCH_OF_THE_WORK = (0.25, 2.0)[seed // 2 % 2]
        parts: list[Any] = [None]
        if seed % 4 == 3:
            tasks = problem.cuda.tasks_of(*asked[:2], 5)
            parts = [tuple(tasks[::2]), tuple(tasks[1::2])]
        blocks = []
        with deal_to_the_first(seed % 2), nodes_given() as nodes:
            for tasks in parts:
                runner = runner_of(problem, 2 + seed // 2 % 2, problem.tiny[seed // 3 % len(problem.tiny)])
                blocks += searched(runner, problem, asked, tasks=tasks)
        wanted = problem.specified(*asked)
        found = problem.found(blocks, *asked[1:])
        yield {"case": f"random {seed}", "same": found == wanted, "n": sum(wanted.values()), "nodes": nodes[0]}


@contextlib.contextmanager
def failing(left: dict[str, int]) -> Iterator[None]:
    """Make devices on the named threads fail after some parts of their work."""
    from mbe_stage.search.cuda.shared import SharedSearch

    work = SharedSearch.work

    def failing_work(self: Any, block_bytes: int) -> Iterator[list[Any]]:
        name = threading.current_thread().name
        for part in work(self, block_bytes):
            left[name] = left.get(name, 1 << 30) - 1
            if left[name] < 0:
                raise MemoryBudgetExceeded("the memory of this device has an error")
            yield part

    SharedSearch.work = failing_work  # type: ignore[method-assign]
    yield
    SharedSearch.work = work  # type: ignore[method-assign]


def lost_cases(problem: Any, seeds: range) -> Iterator[dict[str, Any]]:
    """Two of three devices fail at random moments, in any epoch; and one whose results were passed on."""
    for seed in seeds:
        asked, problem.launcher.seed = (problem.asked, problem.few_roots)[seed % 2](seed), seed
        dice = random.Random(seed)
        runner = runner_of(problem, 3, {}, epoch_seconds=(1e9, 0.0, 0.05)[seed % 3])
        with failing({f"gpu-{k}-{k}": dice.randrange(6) for k in (1, 2)}), deal_to_the_first(seed % 4 == 1):
            found = problem.found(searched(runner, problem, asked), *asked[1:])
        yield {
            "case": f"lost {seed}",
            "same": found == problem.specified(*asked),
            "warned": len(runner.warnings),
        }
    try:
        with failing({"gpu-1-1": 2}):
            limited = Execution(time_limit_seconds=1e6)
            searched(runner_of(problem, 2, {}, 1e9), problem, problem.few_roots(0), execution=limited)
    except DeviceLost as error:
        yield {"case": "handed on", "same": "gpu:1" in str(error)}


def barrier_cases(problem: Any, seeds: range) -> Iterator[dict[str, Any]]:
    """The results before a barrier, and the rest by the reference or the engine `cpu`, are complete."""
    from mbe_stage.search.cuda import barriers

    for seed in seeds:
        asked = graph, query, detail = problem.many_roots(seed)
        problem.launcher.seed, barriers.MOST_RANGES = seed, (1024, 3)[seed % 2]
        wanted, case = problem.specified(*asked), {"case": f"barriers {seed}", "same": True, "markers": 0, "between": 0}
        dice, barrier, blocks = random.Random(seed), Barrier(), []
        runner = runner_of(problem, 2 + seed % 2, {"quantum_seconds": 0.003}, epoch_seconds=0.1 * (seed % 3))
        barrier.ask()
        means = Execution(block_bytes=200)
        for block in runner.run(problem.name, "cuda", graph, query, means, detail, barrier=barrier):
            blocks.append(block)
            if block.remaining is not None:
                before, rest = problem.found(blocks, query, detail), problem.specified(*asked, block.remaining)
                case["markers"] += 1
                case["between"] += 0 < before.total() < wanted.total()
                case["same"] &= before + rest == wanted
                case["same"] &= len(block) == 0 and len(block.remaining) <= barriers.MOST_RANGES
            if dice.random() < 0.6:
                barrier.ask()
        case["same"] &= problem.found(blocks, query, detail) == wanted
        yield case


def refused_cases(problem: Any) -> Iterator[dict[str, Any]]:
    """Requests that only one device supports."""
    if problem.name == "cliques":
        return
    graph, _, _ = problem.few_roots(0)
    for query, detail, what in (
        (PqQuery.of(3, 3), PqDetail.VERTICES, "(local counts)"),
        (PqQuery.of(3, 3), PqDetail.EDGES, "(local counts)"),
        (PqQuery(2, 2, 2, 6), PqDetail.COUNTS, "(wedges)"),
        (PqQuery(2, 6, 1, 2), PqDetail.COUNTS, "(wedges)"),
    ):
        try:
            searched(runner_of(problem, 2, {}), problem, (graph, query, detail))
        except InvalidArgument as error:
            is_told = what in str(error) and "leave devices out" in str(error)
            yield {"case": f"refused {query} {detail}", "same": is_told}
    from mbe_stage.pq_counts.cuda import searches

    searches.preparation_bytes = searches.peeling_bytes = lambda _graph: 1 << 40
    try:
        searched(runner_of(problem, 2, {}), problem, problem.few_roots(0))
    except MemoryBudgetExceeded as error:
        yield {"case": "in parts", "same": "raise device_memory_bytes, or leave devices out" in str(error)}


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "few": few_cases,
    "random": lambda problem: random_cases(problem, range(48)),
    "more random": lambda problem: random_cases(problem, range(48, 400)),
    "lost": lambda problem: lost_cases(problem, range(12)),
    "more lost": lambda problem: lost_cases(problem, range(12, 100)),
    "barriers": lambda problem: barrier_cases(problem, range(6)),
    "more barriers": lambda problem: barrier_cases(problem, range(6, 60)),
    "refused": refused_cases,
}


def main(name: str, part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    fake_devices()
    problem = {"cliques": Cliques, "pq_counts": Counts}[name]()
    problem.cuda.unavailable_reason = lambda: None
    for case in PARTS[part](problem):
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
