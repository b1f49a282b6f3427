"""End the CUDA engine on the emulator at random moments, save its work and continue in a fresh search.

As a script, with numbers of rounds, prints a JSON line for each, and for damaged saved work.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, Detail, Execution, TableSink
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.cuda import layout
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import install_emulator

# Little memory in one search, plenty in the next: pools and arenas must grow for saved work, with fewer warps.
SIZES: list[dict[str, Any]] = [
    {"n_blocks": 1},
    {"n_blocks": 2, "nodes": 4, "pool_extra": 2048},
    {"n_blocks": 2, "words": 64},
    {"n_blocks": 1, "members": 64, "descriptors": 64, "chunk_members": 16},
]
QUERIES = [BicliqueQuery(), BicliqueQuery(min_left=2, min_right=3, max_left=90)]


def asked(seed: int) -> tuple[BipartiteCSR, BicliqueQuery]:
    """Return a graph with most bicliques below few roots, in stacks or subgraphs, or with many roots; and a query."""
    twins = np.repeat(np.repeat(graphs.random_matrix(seed, 10, 10, 0.6), 2, 0), 3, 1)
    matrix = (
        graphs.random_matrix(seed, 110, 8, 0.6),
        graphs.random_matrix(seed, 12, 24, 0.7),
        twins,
        graphs.random_matrix(seed, 60, 40, 0.09),
        # One root has the edges of all others.
        np.concatenate([graphs.random_matrix(seed, 90, 7, 0.65), np.ones((90, 1), bool)], axis=1),
    )[seed % 5]
    return graphs.from_matrix(matrix), QUERIES[seed // 5 % 2]


def ended(graph: Any, query: Any, detail: Detail, work: OpenWork | None, dice: random.Random, sink: Any) -> Any:
    """Search, or continue saved work, for a random number of quanta; return the saved work, or None at the end."""
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


def rounds(launcher: Any, seeds: list[int]) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        launcher.seed, dice = seed, random.Random(seed)
        graph, query = asked(seed)
        detail = (Detail.MEMBERS, Detail.COUNT, Detail.SIZES)[seed % 3]
        wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        blocks: list[Any] = []
        n_saved, work = 0, ended(graph, query, detail, None, dice, blocks.append)
        while work is not None:
            n_saved += 1
            work = ended(graph, query, detail, copied(work), dice, blocks.append)
        same = sum(map(len, blocks)) == len(wanted)
        if detail == Detail.SIZES:
            sizes = [pair for block in blocks for pair in zip(block.left_sizes, block.right_sizes, strict=True)]
            same = same and Counter(sizes) == Counter((len(left), len(right)) for left, right in wanted)
        elif detail == Detail.MEMBERS:
            table = TableSink()
            for block in blocks:
                table.accept(block)
            same = same and table.table().as_set() == wanted
        yield {"case": seed, "same": same, "wanted": len(wanted), "saved": n_saved}


def copied(work: OpenWork) -> OpenWork:
    """Return the same work in other memory: later changes by the search do not matter."""
    return replace(work, arrays={name: array.copy() for name, array in work.arrays.items()})


WRONG: list[tuple[str, Callable[[np.ndarray], Any]]] = [
    ("order", lambda array: np.append(array, np.int32(10**6))),
    ("nodes", lambda array: array.__setitem__((-1, layout.NODE_ROWS), 10**6)),
    ("nodes", lambda array: array.__setitem__((-1, layout.NODE_EDGES), -1)),
    ("nodes", lambda array: array.__setitem__((-1, layout.NODE_END), 0)),
    ("nodes", lambda array: array.__setitem__((-1, layout.NODE_OFFSET), 8)),
    ("nodes", lambda array: array.__setitem__((-1, layout.NODE_ROOT), 10**6)),
    ("cursors", lambda array: array.__setitem__(-1, 10**6)),
    ("cursors", lambda array: array[:-1]),
    ("heads", lambda array: array.__setitem__(-1, 10**6)),
    ("heads", lambda array: array.__setitem__(0, -1)),
    ("bits", lambda array: array[:-1]),
    ("lists", lambda array: np.append(array, np.int32(0))),
    ("tasks", lambda array: array.__setitem__((-1, 0), layout.MAX_DEPTH)),
    ("tasks", lambda array: array.__setitem__((-1, 1), 10**6)),
    ("tasks", lambda array: array.__setitem__((-1, 4), -1)),
    ("frames", lambda array: array.__setitem__((slice(None), 0, layout.WORDS), 10**6)),
    ("frames", lambda array: array.__setitem__((slice(None), 0, layout.N_SUPERSET), 10**6)),
    ("frames", lambda array: array.__setitem__((slice(None), 0, layout.CURSOR), -1)),
    ("frames", lambda array: array.astype(np.int64)),
    ("ints", lambda array: array.fill(10**6)),
    ("word_starts", lambda array: array.__setitem__(-1, 10**6)),
    ("int_starts", lambda array: array[1:]),
    ("nodes", lambda array: array.__setitem__((-1, layout.NODE_COLUMNS), 200)),
    ("frames", lambda array: array.__setitem__((slice(None), 0, layout.SUPERSET), array[:, 0, layout.WORDS])),
    ("frames", lambda array: array.fill(0) or array.__setitem__((slice(None), 0, layout.N_SUPERSET), 500)),
    ("words", lambda array: array.fill(-1)),
]
"""Arrays of saved work, each changed in place or replaced, so that a kernel would read beyond an array."""


def refused(launcher: Any, _: Any = None) -> Iterator[dict[str, Any]]:
    """Return the refusal of each change of `WRONG`, and of valid bits with another number of edges."""
    from mbe_stage.bicliques.cuda import saved_work, search, session

    noted: list[Any] = []
    check, search.saved_work.check = saved_work.check, lambda *given: noted.append(given)
    launcher.seed, dice = 0, random.Random(6)
    # A graph with many bicliques below nodes, and stacks.
    graph, query, work = *asked(0), None
    while (
        work is None
        or not all(len(work.arrays[name]) for name in ("nodes", "bits"))
        or not (work.arrays["tasks"][:, 0] > 0).any()
    ):
        work = ended(graph, query, Detail.MEMBERS, None, dice, lambda _: None)
    list(
        zip(range(1), engine_cuda.run(graph, query, Execution(), Detail.MEMBERS, [work], sizes=SIZES[0]), strict=False)
    )
    ((arrays, facts, mode),) = noted
    check(arrays, facts, mode)
    for number, (name, change) in enumerate(WRONG):
        changed = copied(replace(work, arrays=arrays)).arrays
        replacement = change(changed[name])
        changed[name] = changed[name] if replacement is None else replacement
        yield {"case": f"{number} {name}", "said": said_of(lambda changed=changed: check(changed, facts, mode))}
    changed = copied(work)
    # One edge more or less.
    changed.arrays["bits"][0] ^= 128
    run = engine_cuda.run(graph, query, Execution(), Detail.MEMBERS, [changed], sizes=SIZES[0])
    yield {"case": "other bits", "said": said_of(lambda: list(run))}

    def refuse(*_: Any) -> None:
        raise MemoryBudgetExceeded("no", needed_bytes=1234567)

    session.with_space_in_pool = refuse
    sizes = {"n_blocks": 2, "nodes": 1, "pool_extra": 2048}
    yield {
        "too_large": said_of(
            lambda: list(engine_cuda.run(graph, query, Execution(), Detail.MEMBERS, [work], sizes=sizes))
        )
    }


def said_of(action: Callable[[], Any]) -> str:
    try:
        action()
    except (InvalidArgument, MemoryBudgetExceeded) as error:
        return str(error)
    return ""


def main(install: Callable[[], Any], *parts: Callable[[Any, list[int]], Iterator[dict[str, Any]]]) -> None:
    """Print the cases of each part for the emulator and the numbers on the command line."""
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher, seeds = install(), list(map(int, sys.argv[1:]))
    for case in chain.from_iterable(part(launcher, seeds) for part in parts):
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main(install_emulator, rounds, refused)
