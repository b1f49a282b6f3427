"""Skewed graphs on the emulator, whose widest roots are made from ranges of sorted columns.

Run as a script: prints a JSON line per case. Sizes of all bicliques are compared with the reference's, and their number
where they are only counted.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, Execution
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.results import Detail
from tests.mbe_stage import emulated_cuda, graphs


def skewed(rng: np.random.Generator) -> BipartiteCSR:
    """A few rows hold most columns, some of which are twins; on either side."""
    n_rows, n_columns = int(rng.integers(3, 22)), int(rng.integers(34, 90))
    chance = np.minimum(0.95, rng.uniform(0.5, 2.5) * np.arange(1, n_rows + 1) ** -rng.uniform(0.4, 1.3))
    matrix = rng.random((n_columns, n_rows)) < chance
    if rng.random() < 0.3:
        matrix = np.repeat(matrix, rng.integers(1, 3, n_columns), axis=0)
    graph = graphs.from_matrix(matrix)
    return graph.swapped() if rng.random() < 0.5 else graph


def query_of(rng: np.random.Generator) -> BicliqueQuery:
    """All bicliques, or those within sizes."""
    if rng.random() < 0.5:
        return BicliqueQuery()
    return BicliqueQuery(
        min_left=int(rng.integers(1, 4)), min_right=int(rng.integers(1, 4)), min_edges=int(rng.integers(1, 20))
    )


def main(first: int, last: int) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = emulated_cuda.put_in_place()
    from mbe_stage.bicliques.cuda import layout, prefix_groups, prepare, subgraph_children

    prepare.LONG_ROW = 2
    noted = [0]
    note_rows = prefix_groups.note_rows

    def counted_note_rows(*arguments):
        noted[0] += 1
        return note_rows(*arguments)

    subgraph_children.note_rows = counted_note_rows
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        launcher.seed = seed
        layout.PREFIX_ROWS = int(rng.choice([4, 8, 64]))
        graph, query = skewed(rng), query_of(rng)
        if sum(1 for _ in zip(range(601), reference.maximal_bicliques(graph), strict=False)) > 600:
            continue
        wanted = [pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)]
        # Arenas that have to grow, and quanta that end.
        sizes = {"n_blocks": 1, "quantum_seconds": float(rng.choice([0.05, 1000.0])), "words": int(rng.choice([64, 4096]))}
        noted[0] = 0
        blocks = engine_cuda.run(graph, query, Execution(), Detail.SIZES, sizes=sizes)
        found = Counter()
        for block in blocks:
            if block.n_bicliques:
                found.update(zip(block.left_sizes.tolist(), block.right_sizes.tolist(), strict=True))
        counted = sum(block.n_bicliques for block in engine_cuda.run(graph, query, Execution(), Detail.COUNT, sizes=sizes))
        same = found == Counter((len(left), len(right)) for left, right in wanted)
        print(json.dumps({"case": seed, "wanted": len(wanted), "counted": counted, "same": same, "grouped": noted[0] // 32, "sizes": sizes, "prefix": layout.PREFIX_ROWS, "query": str(query)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
