"""The engines `cuda` of the best bicliques and of shared neighbours on the emulator: a JSON line per problem."""

from __future__ import annotations

import itertools
import json
import warnings
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, Execution
from mbe_stage.bicliques import engine_cuda as walk
from mbe_stage.bicliques.best import engine_cuda as best
from mbe_stage.bicliques.best import reference
from mbe_stage.bicliques.best.problem import SCORES, BestQuery
from mbe_stage.bicliques.best.results import Standing
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.ragged import long_offsets
from mbe_stage.shared_neighbours import engine_cuda as pairs
from mbe_stage.shared_neighbours import reference as plain_pairs
from mbe_stage.shared_neighbours.problem import SharedQuery
from mbe_stage.shared_neighbours.results import PairBlock
from tests.mbe_stage.emulated_cuda import put_in_place
from tests.mbe_stage.graphs import from_matrix

# Minima that rise between quanta, lists that go on in the next one, and arenas that grow.
SCARCE: list[dict[str, Any]] = [
    {},
    {"quantum_seconds": 0.01},
    {"members": 64, "descriptors": 64, "chunk_members": 16},
    {"words": 64},
    {"members": 64, "descriptors": 64, "chunk_members": 16, "quantum_seconds": 0.01},
]


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = put_in_place()
    rng, wrong = np.random.default_rng(2), list[str]()
    for i, by in zip(range(10), itertools.cycle(SCORES)):
        shape, launcher.seed = rng.integers(3, 16, 2), i
        graph = from_matrix(rng.random(shape) < rng.choice([0.3, 0.6, 0.85]))
        least, k = (int(rng.integers(1, 4)), int(rng.integers(1, 4))), int(rng.choice([1, 3, 20]))
        weights = rng.integers(0, 9, graph.n_edges) / 10 if by == "weight" else None
        missing = int(by in ("edges", "vertices", "balance") and min(least) > 1)
        query = BestQuery(by, k, *least, float(rng.choice([1, 0.5])), missing, weights)
        if rows(graph, query, SCARCE[i % len(SCARCE)]) != reference.best(graph, query):
            wrong.append(f"{i}: {query}")
    print(json.dumps({"problem": "best", "wrong": wrong, "n_raised": n_raised(launcher)}))
    wrong = []
    for i in range(60):
        graph = from_matrix(rng.random(rng.integers(1, 30, 2)) < rng.choice([0.1, 0.3, 0.7]))
        query, pairs._MOST_PATHS = SharedQuery(int(rng.integers(1, 4))), int(rng.choice([1, 40, 1 << 20]))
        wanted, tasks = listed(plain_pairs.run(graph, query, Execution(), None)), pairs.tasks_of(graph, query, 3)
        parts = [listed(pairs.run(graph, query, Execution(), None, [task])) for task in tasks]
        if (
            listed(pairs.run(graph, query, Execution(), None)) != wanted
            or list(itertools.chain.from_iterable(parts)) != wanted
        ):
            wrong.append(str(i))
    pairs._PATH_BYTES = 1 << 40
    try:
        wrong += listed(pairs.run(graph, query, Execution(), None))
    except MemoryBudgetExceeded as error:
        print(json.dumps({"problem": "shared_neighbours", "wrong": wrong, "refused": str(error)}))


def rows(graph: BipartiteCSR, query: BestQuery, sizes: dict[str, Any]) -> list[reference.Row]:
    """The ranks of the engine, as those of the specification."""
    sizes = {"n_blocks": 1, "quantum_seconds": 1000.0} | sizes
    best._Search.listed = staticmethod(lambda *given, **named: walk.run(*given, **named, sizes=sizes))
    *_, last = (each for each in best.run(graph, query, Execution(), None) if isinstance(each, Standing))
    ranked, sides = last.best(), list[list[tuple[int, ...]]]()
    block = ranked.block
    for sizes_of, members in ((block.left_sizes, block.left_members), (block.right_sizes, block.right_members)):
        ends = long_offsets(sizes_of).tolist()
        sides.append([tuple(members[start:end].tolist()) for start, end in itertools.pairwise(ends)])
    return list(zip(ranked.scores.tolist(), ranked.keys.tolist(), *sides, strict=True))


def n_raised(launcher: Any) -> int:
    """How many more bicliques are found than have the minimum that is asked for after the first block."""
    launcher.seed = 0
    graph = from_matrix(np.random.default_rng(1).random((14, 30)) < 0.75)
    sizes, query = {"n_blocks": 1, "quantum_seconds": 0.01}, BicliqueQuery(min_edges=2)
    counts = []
    for least in (lambda: 2, lambda: 40):
        blocks = list(walk.run(graph, query, Execution(), 2, sizes=sizes, least_edges=least))
        n_edges = np.concatenate([block.left_sizes * block.right_sizes for block in blocks])
        counts.append((int(np.count_nonzero(n_edges >= 40)), n_edges.size))
    assert counts[0][0] == counts[1][0], "bicliques above the minimum are missing"
    return counts[0][1] - counts[1][1]


def listed(blocks: Any) -> list[tuple[int, ...]]:
    found = PairBlock.of(list(blocks), 1.0)
    return list(zip(found.first.tolist(), found.second.tolist(), found.shared.tolist(), strict=True))


if __name__ == "__main__":
    main()
