"""Ask the CUDA engine on the emulator for barriers at random moments. As a script, prints a JSON line per case.

The results before a barrier, and the CPU engine's below the remaining roots, are complete and disjoint.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution, TableSink
from mbe_stage.bicliques import engine_cpu, engine_cuda, reference
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Task
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import install_emulator

# Several quanta; the pool is compacted; arenas grow, and tasks wait; the output fills repeatedly.
SCARCE: list[dict[str, Any]] = [
    {},
    {"nodes": 2},
    {"words": 64, "pool_extra": 64},
    {"members": 64, "descriptors": 64, "chunk_members": 16},
]
EVERYTHING = BicliqueQuery()
Case = tuple[str, BipartiteCSR, BicliqueQuery]


def below(graph: BipartiteCSR, query: BicliqueQuery, tasks: tuple[Task, ...]) -> set:
    """Return the CPU engine's results below some roots."""
    sink = TableSink()
    for block in engine_cpu.run(graph, query, Execution(threads=1), Detail.MEMBERS, tasks):
        sink.accept(block)
    return sink.table().as_set()


def checked(
    graph: BipartiteCSR, query: BicliqueQuery, sizes: dict[str, Any], seed: int, tasks: tuple[Task, ...] | None = None
) -> dict[str, Any]:
    wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
    if tasks is not None:
        wanted &= below(graph, query, tasks)
    case: dict[str, Any] = {"same": True, "markers": 0, "ranges": 0}
    for detail in (Detail.MEMBERS, Detail.COUNT):
        dice, barrier, sink, counted = random.Random(seed), Barrier(), TableSink(), 0
        barrier.ask()
        for block in engine_cuda.run(graph, query, Execution(), detail, tasks, barrier=barrier, sizes=sizes):
            counted += len(block)
            if detail == Detail.MEMBERS:
                sink.accept(block)
            if block.remaining is not None:
                assert len(block) == 0
                case["markers"] += 1
                case["ranges"] = max(case["ranges"], len(block.remaining))
                rest = below(graph, query, block.remaining)
                case["same"] &= counted + len(rest) == len(wanted)
                if detail == Detail.MEMBERS:
                    case["same"] &= sink.table().as_set() | rest == wanted
            if dice.random() < 0.8:
                barrier.ask()
        case["same"] &= counted == len(wanted)
        if detail == Detail.MEMBERS:
            case["same"] &= sink.table().as_set() == wanted
    return case


def few_cases() -> list[Case]:
    """Many barriers in little time."""
    return [
        ("some roots", graphs.from_matrix(graphs.random_matrix(1, 40, 30, 0.1)), EVERYTHING),
        ("sparse", graphs.from_matrix(graphs.random_matrix(2, 60, 50, 0.06)), EVERYTHING),
    ]


def many_cases() -> list[Case]:
    twins = np.repeat(np.repeat(graphs.random_matrix(3, 8, 8, 0.5), 2, 0), 3, 1)
    cases = [
        ("sizes", graphs.from_matrix(graphs.random_matrix(5, 18, 16, 0.4)), BicliqueQuery(min_left=2, min_right=3)),
        ("crown", graphs.crown(8), EVERYTHING),
        ("list children", graphs.from_matrix(graphs.random_matrix(7, 110, 9, 0.6)), EVERYTHING),
        ("nothing left", graphs.path(5), BicliqueQuery(min_left=9)),
        ("twins", graphs.from_matrix(twins), EVERYTHING),
    ]
    shapes = [(30, 12, 0.3), (60, 50, 0.06), (70, 60, 0.05), (24, 30, 0.25)]
    matrices = [graphs.random_matrix(seed, *shape) for seed, shape in enumerate(shapes)]
    return [*cases, *((f"random {seed}", graphs.from_matrix(each), EVERYTHING) for seed, each in enumerate(matrices))]


def main(which: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = install_emulator()
    from mbe_stage.search.cuda import barriers

    for number, (name, graph, query) in enumerate({"few": few_cases, "many": many_cases}[which]()):
        launcher.seed = number
        barriers.MOST_RANGES = 2 if number % 3 == 0 else 1024
        # Every other case starts in parts, as if its results took time to write.
        barriers._LEAST_ROOTS = 4 if number % 2 == 0 else 1 << 30
        barriers._TAKEN_SLOWLY = barriers._PART_SECONDS = 0.0
        sizes = {"n_blocks": 1, "quantum_seconds": 0.02} | SCARCE[number % len(SCARCE)]
        tasks = tuple(engine_cpu.tasks_of(graph, query, 5)[::2]) if name == "some roots" else None
        print(json.dumps({"case": name} | checked(graph, query, sizes, number, tasks)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
