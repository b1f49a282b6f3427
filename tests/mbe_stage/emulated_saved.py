"""The CUDA engine on the emulator, ended at random moments with its work saved, and continued by a fresh search.

Run as a script, with one of `PARTS` and a number of rounds: prints a JSON line per case.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution, TableSink
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.errors import InvalidArgument
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import put_in_place

# Little memory in one search, plenty in the next: pools and arenas that have to grow for saved work, fewer warps.
SIZES: list[dict[str, Any]] = [
    {"n_blocks": 1},
    {"n_blocks": 2, "nodes": 4, "pool_extra": 2048},
    {"n_blocks": 2, "words": 64},
    {"n_blocks": 1, "members": 64, "descriptors": 64, "chunk_members": 16},
]
QUERIES = [BicliqueQuery(), BicliqueQuery(min_left=2, min_right=3, max_left=90)]


def asked(seed: int) -> tuple[BipartiteCSR, BicliqueQuery]:
    """A graph with most bicliques below few roots, by stacks or by subgraphs, or with many roots; a query."""
    twins = np.repeat(np.repeat(graphs.random_matrix(seed, 10, 10, 0.6), 2, 0), 3, 1)
    matrix = (
        graphs.random_matrix(seed, 110, 8, 0.6),
        graphs.random_matrix(seed, 12, 24, 0.7),
        twins,
        graphs.random_matrix(seed, 60, 40, 0.09),
        # A root with the edges of all others.
        np.concatenate([graphs.random_matrix(seed, 90, 7, 0.65), np.ones((90, 1), bool)], axis=1),
    )[seed % 5]
    return graphs.from_matrix(matrix), QUERIES[seed // 5 % 2]


def ended(graph: Any, query: Any, detail: Detail, work: OpenWork | None, dice: random.Random, sink: Any) -> Any:
    """Search, or continue with saved work, for a random number of quanta; what was saved then, or None at the end."""
    barrier, sizes = Barrier(takes_open_work=True), SIZES[dice.randrange(4)] | {"quantum_seconds": 0.02}
    n_quanta = dice.randrange(4)
    blocks = engine_cuda.run(
        graph, query, Execution(), detail, None if work is None else [work], barrier=barrier, sizes=sizes
    )
    shares = [0.0]
    for number, block in enumerate(blocks):
        shares.append(block.work_done)
        if number >= n_quanta:
            barrier.ask()
        if block.remaining is not None:
            # Nothing was held back for it.
            assert len(block) == 0
            assert len(block.remaining) == 1
            return block.remaining[0]
        sink(block)
    assert shares[-1] == 1.0
    assert all(0.0 <= share <= 1.0 for share in shares), shares
    return None


def rounds(launcher: Any, n: int) -> Iterator[dict[str, Any]]:
    for seed in range(n):
        launcher.seed, dice = seed, random.Random(seed)
        graph, query = asked(seed)
        wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        table, n_counted, n_saved, sizes = TableSink(), 0, 0, []

        def count(block: Any) -> None:
            nonlocal n_counted
            n_counted += len(block)

        for detail, sink in ((Detail.MEMBERS, table.accept), (Detail(seed % 2), count)):
            work = ended(graph, query, detail, None, dice, sink)
            while work is not None:
                n_saved += 1
                sizes.append(sum(array.nbytes for array in work.arrays.values()))
                work = ended(graph, query, detail, copied(work), dice, sink)
        found = table.table()
        same = found.as_set() == wanted and len(found) == len(wanted) == n_counted
        yield {"case": seed, "same": same, "wanted": len(wanted), "saved": n_saved, "bytes": max(sizes, default=0)}


def copied(work: OpenWork) -> OpenWork:
    """The same work, in other memory: what the search does with its own later does not matter."""
    return replace(work, arrays={name: array.copy() for name, array in work.arrays.items()})


def refused(launcher: Any, _n: int) -> Iterator[dict[str, Any]]:
    """Saved work with some numbers changed is refused, or still ends."""
    launcher.seed = 0
    for seed in (0, 1, 4):
        graph, query = asked(seed)
        dice = random.Random(seed)
        work = None
        while work is None or not len(work.arrays["tasks"]):
            work = ended(graph, query, Detail.MEMBERS, None, dice, lambda _: None)
        said = set()
        for name in work.arrays:
            for wrong in (-1, 10**6, None):
                changed = copied(work)
                array = changed.arrays[name]
                if wrong is None:
                    changed.arrays[name] = array[:-1] if array.size else np.ones((3,) * array.ndim, array.dtype)
                elif array.dtype == np.uint8 or not array.size:
                    continue
                else:
                    array.reshape(-1)[dice.randrange(array.size)] = wrong
                try:
                    list(engine_cuda.run(graph, query, Execution(), Detail.MEMBERS, [changed], sizes=SIZES[0]))
                except InvalidArgument as error:
                    said.add(str(error))
        yield {"case": f"refused {seed}", "said": sorted(said)}


PARTS = {"rounds": rounds, "refused": refused}


def main(part: str, n: int) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for case in PARTS[part](put_in_place(), n):
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
