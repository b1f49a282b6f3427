"""Local counts of the CUDA engine on the emulator, compared with the reference.

As a script, with one of `PARTS`, prints a JSON line per case.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts import engine_cuda, reference
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from tests.mbe_stage import graphs
from tests.mbe_stage.pq_counts.emulated_counts import use_the_emulator
from tests.mbe_stage.pq_counts.local_counting import counted, plain, sums_hold

# Work areas so small that all of them run short: frames, pool, node table, time.
TINY: list[dict[str, Any]] = [
    {},
    {"narrow": 2},
    {"narrow": 5, "pool_words": 96},
    {"narrow": 3, "n_nodes": 2},
    {"narrow": 4, "quantum_seconds": 0.03},
    {"quantum_seconds": 0.01},
    {"narrow": 2, "quantum_seconds": 0.02, "pool_words": 64, "n_nodes": 1},
]
SHAPES = [((7, 9), 0.5), ((8, 10), 0.6), ((9, 8), 0.8), ((12, 8), 0.4), ((8, 20), 0.3), ((8, 8), 0.7)]
QUERIES = [
    PqQuery.of(3, 3),
    PqQuery.of(2, 2),
    PqQuery.of(4, 3),
    PqQuery(1, 3, 1, 3),
    PqQuery.of(2, 5),
    PqQuery.of(5, 4),
    PqQuery(2, 3, 2, 4, (0,)),
    PqQuery.of(3, 5),
]


def case(name: str, graph: BipartiteCSR, query: PqQuery, detail: Detail, **options: Any) -> dict[str, Any]:
    facts: dict[str, int] = {}
    found = counted(engine_cuda, graph, query, detail, Execution(), statistics=facts, **options)
    wanted = counted(reference, graph, query, detail, Execution())
    told = {"case": name, "same": found == wanted, "n": sum(wanted[0].values())}
    return told | {fact: facts.get(f"local_{fact}", 0) for fact in ("quanta", "nodes", "visited")}


def random_cases(launcher: Any, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Random graphs, each with another query and other sizes of the work areas."""
    for seed in seeds:
        shape, density = SHAPES[seed % len(SHAPES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        launcher.seed = seed
        detail = (Detail.EDGES, Detail.VERTICES)[seed // 3 % 2]
        yield case(f"random {seed}", graph, QUERIES[seed % len(QUERIES)], detail, sizes=TINY[seed % len(TINY)])


def small_prime_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Numbers of two bits or more use primes."""
    from mbe_stage.pq_counts import digits

    digits._FITS = 1
    launcher.seed = 1
    graph = graphs.from_matrix(graphs.random_matrix(5, 9, 8, 0.8))
    for sizes in ({}, {"narrow": 2, "quantum_seconds": 0.02}):
        yield case("primes", graph, PqQuery.of(3, 2), Detail.EDGES, sizes=sizes)


def large_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """More than 64 bits and several primes: only the combined residues are right."""
    launcher.seed = 1
    graph, query = graphs.complete(36, 36), PqQuery.of(17, 18)
    facts: dict[str, int] = {}
    found = counted(engine_cuda, graph, query, Detail.EDGES, Execution(), statistics=facts)
    same = sums_hold(graph, *found) and len(set(found[1][17, 18][2])) == 1
    yield {"case": "large", "same": same, "n": found[0][17, 18], "quanta": facts["local_quanta"]}


def wide_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Wider than a frame, with rows and columns that are partly full; whole, and in quanta."""
    launcher.seed = 2
    matrix = graphs.random_matrix(4, 40, 90, 0.1)
    matrix[:6] |= graphs.random_matrix(5, 6, 90, 0.8)
    matrix[2] = matrix[:, 3] = True
    for each in (graphs.from_matrix(matrix), graphs.from_matrix(matrix.T)):
        for cell, sizes in (((3, 3), {}), ((2, 4), {}), ((4, 2), {"narrow": 9}), ((4, 4), {"quantum_seconds": 0.3})):
            for detail in (Detail.VERTICES, Detail.EDGES):
                query, facts = PqQuery.of(*cell), {}
                found = counted(engine_cuda, each, query, detail, Execution(), sizes=sizes, statistics=facts)
                facts = {name.removeprefix("local_"): fact for name, fact in facts.items()}
                yield {"case": f"wide {cell} {detail}", "same": sums_hold(each, *found), "n": found[0][cell]} | facts


def shared_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Few roots and many warps: warps take levels of others' stacks, and later quanta continue."""
    from mbe_stage.pq_counts.cuda.local import frame_walk

    frame_walk._LOOK_EVERY = 2
    graph = graphs.from_matrix(graphs.random_matrix(1, 9, 14, 0.85))
    for seed, sizes in enumerate(({}, {"quantum_seconds": 0.01}, {"narrow": 8, "n_nodes": 4})):
        launcher.seed = seed
        yield case(f"shared {seed}", graph, PqQuery.of(5, 5), Detail.EDGES, sizes=sizes)


def other_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Tasks that add up, a time limit with lower bounds, and nearly empty graphs."""
    launcher.seed = 4
    graph, query = graphs.from_matrix(graphs.random_matrix(7, 9, 10, 0.6)), PqQuery(1, 3, 1, 2)
    sink = PqSink(query, Detail.EDGES)
    tasks = engine_cuda.tasks_of(graph, query, 4)
    for some in (tasks[::2], tasks[1::2]):
        for block in engine_cuda.run(graph, query, Execution(), Detail.EDGES, some):
            sink.accept(block)
    whole = counted(engine_cuda, graph, query, Detail.EDGES, Execution())
    yield {"case": "tasks", "same": (sink.counts(), plain(sink.local_counts())) == whole, "n": len(tasks)}
    yield _limited(graph)
    for none in (BipartiteCSR.from_edges([], [], 3, 2), graphs.star(5)):
        yield case("next to nothing", none, query, Detail.EDGES)


def _limited(graph: BipartiteCSR) -> dict[str, Any]:
    """The first quantum ends with a time limit: some of the bicliques, and no vertex has too many."""
    from mbe_stage.pq_counts.cuda.local import session

    class Clock:
        """Stand-in for `time.perf_counter` that expires after the first quantum."""

        perf_counter = staticmethod(lambda: time.perf_counter() + 1e6)

    query, detail = PqQuery.of(3, 3), Detail.VERTICES
    whole = counted(reference, graph, query, detail, Execution())[1][3, 3]
    session.time = Clock  # type: ignore[attr-defined]
    limited = Execution(time_limit_seconds=1e5)
    found = counted(engine_cuda, graph, query, detail, limited, sizes={"narrow": 2, "quantum_seconds": 0.003})[1][3, 3]
    session.time = time  # type: ignore[attr-defined]
    pairs = [pair for sides in zip(found, whole, strict=True) for pair in zip(*sides, strict=True)]
    is_part = all(n <= most for n, most in pairs) and 0 < sum(n for n, _ in pairs) < sum(most for _, most in pairs)
    return {"case": "limited", "same": is_part, "n": sum(found[0])}


def some_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    yield from random_cases(launcher, (2, 3, 8, 11))
    yield from other_cases(launcher)
    yield from itertools.islice(shared_cases(launcher), 1, 2)
    yield from small_prime_cases(launcher)


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "some": some_cases,
    "random": lambda launcher: random_cases(launcher, range(90)),
    "large": large_cases,
    "wide": wide_cases,
    "shared": shared_cases,
}


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for one in PARTS[part](use_the_emulator()):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
