"""End the counting CUDA engine on the emulator at random moments, save its work and continue.

As a script, with numbers of rounds, prints a JSON line for each, and for damaged saved work.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.pq_counts import engine_cuda
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.search.cuda.saved_work import merged
from mbe_stage.tasks import OpenWork, Task
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_saved import copied, main, said_of
from tests.mbe_stage.pq_counts.emulated_counts import specified, use_the_emulator

# Frames and wide nodes; little memory in one search, where loaded nodes wait on the host, and plenty in the next.
SIZES: list[dict[str, Any]] = [
    {"quantum_seconds": 1e-3},
    {"narrow": 6, "quantum_seconds": 1e-3},
    {"narrow": 4, "quantum_seconds": 0.02, "pool_words": 64},
    {"narrow": 2, "quantum_seconds": 0.02, "pool_words": 32, "n_nodes": 1},
]
SHAPES = [((8, 14), 0.7), ((10, 10), 0.7), ((20, 14), 0.25), ((14, 8), 0.6)]
QUERIES = [PqQuery(1, 6, 1, 6), PqQuery(3, 4, 3, 5), PqQuery(1, 4, 2, 5, (3,)), PqQuery(3, 9, 3, 9)]


def use_short_walks() -> Any:
    launcher = use_the_emulator()
    from mbe_stage.pq_counts.cuda import frame_walk

    # Quanta end in the middle of frames.
    frame_walk._LOOK_EVERY = 2
    return launcher


def asked(seed: int) -> tuple[BipartiteCSR, PqQuery]:
    shape, density = SHAPES[seed % 4]
    return graphs.from_matrix(graphs.random_matrix(seed, *shape, density)), QUERIES[seed // 4 % 4]


def ended(asked: Any, work: OpenWork | None, dice: random.Random, sink: PqSink, which: int | None = None) -> Any:
    """Count, or continue saved work, for a random number of quanta; return the saved work, or None at the end."""
    barrier, sizes = Barrier(takes_open_work=True), SIZES[dice.randrange(4) if which is None else which]
    tasks, n_quanta = None if work is None else [work], dice.randrange(5)
    shares = [0.0]
    for number, block in enumerate(
        engine_cuda.run(*asked, Execution(), Detail.COUNTS, tasks, barrier=barrier, sizes=sizes)
    ):
        shares.append(block.work_done)
        if number >= n_quanta:
            barrier.ask()
        if block.remaining is not None:
            assert len(block) == 0
            (left,) = block.remaining
            return left
        sink.accept(block)
    assert shares == sorted(shares), shares
    assert shares[-1] == 1.0
    return None


def rounds(launcher: Any, seeds: list[int]) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        launcher.seed, dice = seed, random.Random(seed)
        graph, query = asked(seed)
        sink, n_saved, kinds = PqSink(query), 0, set()
        work = ended((graph, query), None, dice, sink)
        while work is not None:
            n_saved, kinds = n_saved + 1, kinds | set(work.arrays["nodes"][:, layout.KIND].tolist())
            before, sink = sink, PqSink(query)
            sink.restore(before.sums())
            work = ended((graph, query), copied(work), dice, sink)
        yield {"case": seed, "same": sink.counts() == specified(graph, query), "saved": n_saved, "kinds": sorted(kinds)}


def _at(is_frame: bool, field: int, value: int) -> Callable[[dict[str, np.ndarray]], Any]:
    """Return a change of a field of the first node that is a frame, or wider."""

    def change(arrays: dict[str, np.ndarray]) -> None:
        kinds = arrays["nodes"][:, layout.KIND]
        arrays["nodes"][np.flatnonzero((kinds == layout.IS_FRAME) == is_frame)[0], field] = value

    return change


def _last_word(arrays: dict[str, np.ndarray]) -> None:
    """Give the last column of the first wide node a row beyond the last."""
    node = arrays["nodes"][arrays["nodes"][:, layout.KIND] != layout.IS_FRAME][0]
    arrays["words"][node[layout.OFFSET] + node[layout.WORDS] - 1] |= np.uint32(1 << 31)


MANY = 10**6
WRONG: list[tuple[str, Callable[[dict[str, np.ndarray]], Any]]] = [
    ("order", lambda arrays: arrays.update(order=np.append(arrays["order"], np.int32(MANY)))),
    ("order", lambda arrays: arrays.update(order=np.append(arrays["order"], np.int32([1, 1])))),
    ("nodes", lambda arrays: arrays.update(nodes=arrays["nodes"][:, :-1])),
    ("words", lambda arrays: arrays.update(words=arrays["words"].astype(np.int64))),
    *(
        ("nodes", _at(is_frame, field, value))
        for is_frame in (True, False)
        for field, value in (
            (layout.OFFSET, MANY),
            (layout.OFFSET, -1),
            (layout.WORDS, 7),
            (layout.CURSOR, -1),
            (layout.CURSOR, MANY),
            (layout.END, MANY),
            (layout.PIVOT, MANY),
            (layout.PIVOT, -1),
            (layout.KIND, 3),
            (layout.KEY, -1),
            (layout.KEY, 0),
            (layout.KEY, (1 << layout.KEY_BITS) - 1),
        )
    ),
    ("nodes", _at(True, layout.END, 66)),
    ("nodes", _at(False, layout.N_ROWS, MANY)),
    ("nodes", _at(False, layout.N_ROWS, 0)),
    ("nodes", _at(False, layout.N_COLUMNS, 0)),
    ("words", _last_word),
]
"""Arrays of saved work, each changed so that a kernel would read beyond an array or never end."""


def refused(launcher: Any, _: Any = None) -> Iterator[dict[str, Any]]:
    """Return the refusal of each change of `WRONG`; of a root that is saved, too; and of a graph in parts."""
    from mbe_stage.pq_counts.cuda import saved_work, searches

    graph, query, dice = *asked(0), random.Random(0)
    works: list[OpenWork] = []
    while len({kind for work in works for kind in work.arrays["nodes"][:, layout.KIND] == layout.IS_FRAME}) < 2:
        launcher.seed += 1
        work = ended((graph, query), None, dice, PqSink(query), (0, 3)[launcher.seed % 2])
        works += [] if work is None else [work]
    arrays = merged([work.arrays for work in works]) | {"order": works[0].arrays["order"]}
    work, noted = replace(works[0], arrays=arrays), list[Any]()
    check, saved_work.check = saved_work.check, lambda *given: noted.append(given)

    def run(*tasks: Any) -> Any:
        return next(engine_cuda.run(graph, query, Execution(), Detail.COUNTS, tasks, sizes=SIZES[0]))

    run(copied(work))
    saved_work.check = check
    ((_, *facts),) = noted
    check(arrays, *facts)
    for name, change in WRONG:
        changed = copied(work).arrays
        change(changed)
        yield {"name": name, "said": said_of(lambda changed=changed: check(changed, *facts))}
    work.arrays["order"] = np.zeros(1, np.int32)
    twice = said_of(lambda: run(work, Task(work.roots, 1, 2, 1.0)))
    searches.preparation_bytes = searches.peeling_bytes = lambda _graph: 1 << 40
    yield {"twice": twice, "in_parts": said_of(lambda: run(work)), "kept": kept_of_a_forged_stack()}


def kept_of_a_forged_stack() -> list[int]:
    """Return the ends of a warp's three places for nodes, and of the next one's first, after it keeps five entries."""
    from mbe_stage.search.cuda import nodes as of_nodes
    from tests.mbe_stage import warp_emulator

    settings = np.zeros(layout.N_SETTINGS, np.int64)
    settings[layout.MOST_ENTRIES] = 3
    device = SimpleNamespace(settings=settings, nodes=np.zeros((5, layout.NODE_FIELDS), np.int64))
    _, keep_entries = of_nodes.stack_entries_with(
        lambda _frame: 1, lambda *_: None, lambda _node, entry, *_: 7 + entry, lambda _settings: np.int64(0)
    )
    work = SimpleNamespace(device=device)
    warp_emulator.launch(lambda: keep_entries(np.int32(0), np.int32(5), np.int64(0), None, work), 1, 1, ())
    return device.nodes[:4, layout.END].tolist()


if __name__ == "__main__":
    main(use_short_walks, rounds, refused)
