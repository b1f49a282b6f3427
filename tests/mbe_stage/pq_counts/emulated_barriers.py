"""Ask the counting CUDA engine on the emulator for barriers. As a script, with one of `PARTS`: a JSON line per case."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mbe_stage import Execution
from mbe_stage.pq_counts import engine_cpu
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail
from tests.mbe_stage import graphs
from tests.mbe_stage.pq_counts.asked_at_random import asked_at_random
from tests.mbe_stage.pq_counts.emulated_counts import TINY, refused_bytes, use_the_emulator

SHAPES = [((60, 50), 0.1), ((40, 90), 0.08), ((30, 30), 0.25), ((90, 40), 0.08), ((40, 24), 0.15)]
QUERIES = [PqQuery(1, 3, 1, 3), PqQuery.of(3, 3), PqQuery(2, 4, 2, 5), PqQuery(1, 4, 2, 3, (3,)), PqQuery.of(3, 2)]
SHORT: dict[str, Any] = {"quantum_seconds": 0.005}


def case(name: str, seed: int, query: PqQuery, detail: Detail, budget: int | None = None, **sizes: Any) -> Any:
    """Check a random graph; every fourth one with some of the tasks only."""
    from mbe_stage.search.cuda import barriers

    shape, density = SHAPES[seed % len(SHAPES)]
    graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
    barriers.MOST_RANGES = (1024, 2)[seed % 3 == 0]
    tasks = tuple(engine_cpu.tasks_of(graph, query, 4)[::2]) if seed % 4 == 3 else None
    if budget == 0:
        budget = refused_bytes(graph, query)
    execution = Execution(device_memory_bytes=budget)
    found = asked_at_random(graph, query, detail, tasks, seed, execution, sizes=SHORT | sizes)
    return {"case": f"{name} {seed}", "seed": seed} | found


def random_cases(launcher: Any, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """All search structures: nodes in a pool that runs short, and nodes that wait on the host."""
    for seed in seeds:
        launcher.seed = seed
        yield case("random", seed, QUERIES[seed % len(QUERIES)], Detail.COUNTS, **TINY[seed // 2 % len(TINY)])


def pair_cases(launcher: Any, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Bicliques of two rows, by wedges on the lists of a core."""
    from mbe_stage.pq_counts.cuda import as_given, searches, wedges

    as_given.as_given = lambda _job, **_: None
    searches.ROWS_PER_PATH = 1 << 30
    wedges.WINDOW, wedges._SMALL = 8, 4
    for seed in seeds:
        launcher.seed = seed
        yield case("pairs", seed, (PqQuery.of(2, 2), PqQuery(1, 2, 1, 4))[seed % 2], Detail.COUNTS)


def given_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """A search on unreduced lists has no barriers."""
    from mbe_stage.pq_counts.cuda import searches

    searches.ROWS_PER_PATH = 1 << 30
    launcher.seed = 1
    yield case("as given", 2, PqQuery.of(2, 2), Detail.COUNTS)


def part_cases(launcher: Any, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """A core in consecutive parts, within the budget that a refusal names."""
    from mbe_stage.pq_counts.cuda import memory_plan, searches

    before = searches.preparation_bytes, searches.peeling_bytes, memory_plan._LEAST_NODES
    searches.preparation_bytes = searches.peeling_bytes = lambda _graph: 1 << 40
    memory_plan._LEAST_NODES = 3
    for seed in seeds:
        launcher.seed = seed
        yield case("parts", seed, QUERIES[seed % 3], Detail.COUNTS, budget=0)
    searches.preparation_bytes, searches.peeling_bytes, memory_plan._LEAST_NODES = before


def local_cases(launcher: Any, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Rounds of one quantum each."""
    from mbe_stage.pq_counts.cuda.local import session

    session.ROUND_SECONDS = session.TIMES_ITS_BEGINNING = 0.0
    for seed in seeds:
        launcher.seed = seed
        detail = (Detail.VERTICES, Detail.EDGES)[seed % 2]
        yield case("local", seed, QUERIES[seed % len(QUERIES)], detail)


def some_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    yield from random_cases(launcher, (7,))
    yield from part_cases(launcher, (0,))
    yield from given_cases(launcher)
    yield from pair_cases(launcher, (0,))


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "some": some_cases,
    "random": lambda launcher: random_cases(launcher, range(60)),
    "pairs": lambda launcher: pair_cases(launcher, range(20)),
    "parts": lambda launcher: part_cases(launcher, range(12)),
    "local": lambda launcher: local_cases(launcher, range(20)),
}


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for one in PARTS[part](use_the_emulator()):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
