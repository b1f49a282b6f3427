"""The engines `cuda` for best bicliques and shared neighbours on the emulator: a JSON line per problem."""

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
from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.results import Standing
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.ragged import long_offsets
from mbe_stage.shared_neighbours import engine_cuda as pairs
from mbe_stage.shared_neighbours import reference as plain_pairs
from mbe_stage.shared_neighbours.problem import SharedQuery
from mbe_stage.shared_neighbours.results import PairBlock
from tests.mbe_stage.emulated_cuda import install_emulator
from tests.mbe_stage.graphs import from_matrix


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    install_emulator()
    rng, wrong = np.random.default_rng(2), list[str]()
    graph, query = from_matrix(rng.random((8, 5)) < 0.7), BestQuery("edges", 3)
    if rows(graph, query) != reference.best(graph, query):
        wrong.append("best")
    print(json.dumps({"problem": "best", "wrong": wrong, "n_raised": n_raised()}))
    wrong = []
    for i in range(25):
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


def rows(graph: BipartiteCSR, query: BestQuery) -> list[reference.Row]:
    """Return the engine's ranks, as the reference has them."""
    sizes = {"n_blocks": 1, "quantum_seconds": 1000.0}
    best._Search.listed = staticmethod(lambda *given, **named: walk.run(*given, **named, sizes=sizes))
    *_, last = (each for each in best.run(graph, query, Execution(), None) if isinstance(each, Standing))
    ranked, sides = last.best(), list[list[tuple[int, ...]]]()
    block = ranked.members
    for sizes_of, members in ((block.left_sizes, block.left_members), (block.right_sizes, block.right_members)):
        ends = long_offsets(sizes_of).tolist()
        sides.append([tuple(members[start:end].tolist()) for start, end in itertools.pairwise(ends)])
    return list(zip(ranked.scores.tolist(), ranked.keys.tolist(), *sides, strict=True))


def n_raised() -> int:
    """Return how many more bicliques are found than reach the minimum asked for after the first block."""
    graph = from_matrix(np.random.default_rng(1).random((10, 16)) < 0.75)
    sizes, query = {"n_blocks": 1, "quantum_seconds": 0.01}, BicliqueQuery(min_edges=2)
    counts = []
    for least in (lambda: 2, lambda: 30):
        blocks = list(walk.run(graph, query, Execution(), 2, sizes=sizes, least_edges=least))
        n_edges = np.concatenate([block.left_sizes * block.right_sizes for block in blocks])
        counts.append((int(np.count_nonzero(n_edges >= 30)), n_edges.size))
    assert counts[0][0] == counts[1][0], "bicliques above the minimum are missing"
    return counts[0][1] - counts[1][1]


def listed(blocks: Any) -> list[tuple[int, ...]]:
    found = PairBlock.of(list(blocks), 1.0)
    return list(zip(found.first.tolist(), found.second.tolist(), found.shared.tolist(), strict=True))


if __name__ == "__main__":
    main()
