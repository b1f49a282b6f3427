"""End the clique engine for CUDA on the emulator at random moments, save its work and continue.

As a script, with numbers of rounds, prints a JSON line for each, and for damaged saved work.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mbe_stage import CliqueQuery, Execution, UndirectedCSR
from mbe_stage.cliques import engine_cuda, reference
from mbe_stage.cliques.cuda import layout, saved_work
from mbe_stage.cliques.results import CliqueTableSink, Detail
from mbe_stage.device import LINE_WORDS
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork
from tests.mbe_stage.cliques.emulated_cliques import SMALL, use_the_emulator
from tests.mbe_stage.cliques.undirected_graphs import random_graph
from tests.mbe_stage.emulated_saved import main, said_of

# Frames and wide nodes; pages that wait for room in the output; little memory in one search, plenty in the next.
SIZES: list[dict[str, Any]] = [
    {"quantum_seconds": 1e-3},
    {"narrow": 3, "quantum_seconds": 1e-5},
    {"narrow": 9, "members": 64, "cliques": 64, "page_members": 12, "page_cliques": 3},
    {"narrow": 3, "pool_words": 1 << 10, "n_nodes": 8, "quantum_seconds": 1e-3},
]
QUERIES = [CliqueQuery(), CliqueQuery(min_size=3, max_size=6), CliqueQuery(containing=(2,))]


def asked(seed: int) -> tuple[UndirectedCSR, CliqueQuery, Detail]:
    """Return a graph with most cliques below few roots, or with many roots; and a query."""
    n, density = ((16, 0.7), (40, 0.2), (12, 0.9))[seed % 3]
    graph: UndirectedCSR = random_graph(np.random.default_rng(seed), n, density)
    return graph, QUERIES[seed // 3 % 3], (Detail.MEMBERS, Detail.COUNT, Detail.MEMBERS, Detail.SIZES)[seed % 4]


def ended(asked: Any, work: OpenWork | None, dice: random.Random, sink: Any, which: int | None = None) -> Any:
    """Search, or continue saved work, for a random number of quanta; return the saved work, or None at the end."""
    graph, query, detail = asked
    # A later plan may grow what an earlier one lacked.
    barrier, sizes = Barrier(takes_open_work=True), SMALL | SIZES[dice.randrange(4) if which is None else which]
    tasks, n_quanta = None if work is None else [work], dice.randrange(4)
    for number, block in enumerate(
        engine_cuda.run(graph, query, Execution(), detail, tasks, barrier=barrier, sizes=sizes)
    ):
        assert 0.0 <= block.work_done <= 1.0
        if number >= n_quanta:
            barrier.ask()
        if block.remaining is not None:
            assert len(block) == 0
            return block.remaining[0]
        sink(block)
    return None


def rounds(launcher: Any, seeds: list[int]) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        launcher.seed, dice = seed, random.Random(seed)
        graph, query, detail = asked(seed)
        wanted = {one for one in reference.maximal_cliques(graph) if reference.matches(one, query)}
        blocks: list[Any] = []
        n_saved, n_nodes, n_written = 0, 0, 0
        work = ended((graph, query, detail), None, dice, blocks.append)
        while work is not None:
            n_saved, n_nodes = n_saved + 1, n_nodes + len(work.arrays["nodes"])
            n_written += len(work.arrays["sizes"])
            work = ended((graph, query, detail), copied(work), dice, blocks.append)
        same = sum(map(len, blocks)) == len(wanted)
        if detail == Detail.SIZES:
            sizes = Counter(size for block in blocks for size in block.sizes.tolist())
            same = same and sizes == Counter(map(len, wanted))
        elif detail == Detail.MEMBERS:
            sink = CliqueTableSink()
            for block in blocks:
                sink.accept(block)
            same = same and sink.table().as_set() == wanted
        yield {"case": seed, "same": same, "saved": n_saved, "nodes": n_nodes, "unwritten": n_written}


def copied(work: OpenWork) -> OpenWork:
    return replace(work, arrays={name: array.copy() for name, array in work.arrays.items()})


def _at(kind: int, field: int, value: int) -> Callable[[dict[str, np.ndarray]], Any]:
    """Return a change of a field of a node of a kind."""

    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["nodes"][np.flatnonzero(arrays["nodes"][:, layout.KIND] == kind)[0], field] = value

    return change


def _in_block(kind: int, place: Callable[[Any], int], value: int) -> Callable[[dict[str, np.ndarray]], Any]:
    """Return a change of a word in the block of a node of a kind."""

    def change(arrays: dict[str, np.ndarray]) -> None:
        node = arrays["nodes"][np.flatnonzero(arrays["nodes"][:, layout.KIND] == kind)[0]]
        arrays["words"][node[layout.OFFSET] + place(node)] = value

    return change


def _of(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[dict[str, np.ndarray]], Any]:
    def changed(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = change(arrays[name])

    return changed


def _first_joined(node: Any) -> int:
    """Return a candidate column of a frame."""
    both = int(node[layout.JOINED] | node[layout.CANDIDATES]) & (1 << 64) - 1
    return (both & -both).bit_length() - 1


def _overlapping(arrays: dict[str, np.ndarray]) -> None:
    """Return another frame that starts a line before the last one, in an earlier block or its own."""
    nodes = arrays["nodes"]
    another = nodes[nodes[:, layout.KIND] == FRAME][-1:].copy()
    assert another[0, layout.OFFSET] > 0
    another[0, layout.OFFSET] -= LINE_WORDS
    arrays["nodes"] = np.concatenate([nodes, another])


MANY = 10**6
WIDE, FRAME = layout.WIDE, layout.FRAME
WRONG: list[tuple[str, Callable[[dict[str, np.ndarray]], Any]]] = [
    ("order", _of("order", lambda array: np.append(array, np.int32(MANY)))),
    ("order", _of("order", lambda array: np.append(array, np.int32([1, 1])))),
    ("nodes", _of("nodes", lambda array: array[:, :-1])),
    ("nodes", _of("nodes", lambda array: array.astype(np.int32))),
    *(
        ("nodes", _at(kind, field, value))
        for kind in (WIDE, FRAME)
        for field, value in (
            (layout.OFFSET, 32 * MANY),
            (layout.OFFSET, -32),
            (layout.OFFSET, 1),
            (layout.WORDS, 32),
            (layout.KIND, 7),
            (layout.LINK, 0),
            (layout.N_EXCLUDED, MANY),
            (layout.N_BASE, 0),
            (layout.CURSOR, -1),
            (layout.END, 0),
        )
    ),
    ("nodes", _at(FRAME, layout.END, 65)),
    ("nodes", lambda arrays: _overlapping(arrays)),
    ("nodes", _at(FRAME, layout.JOINED, -1)),
    ("nodes", _at(FRAME, layout.BRANCHES, -1)),
    ("nodes", _at(WIDE, layout.N_CANDIDATES, 200)),
    ("words", _at(WIDE, layout.END, 65)),
    ("words", _in_block(WIDE, lambda _: 0, MANY)),
    ("words", _in_block(WIDE, lambda node: node[layout.N_CANDIDATES] + node[layout.N_BASE], 0xFFFFFFFF)),
    ("words", _in_block(WIDE, lambda node: node[layout.N_CANDIDATES] + node[layout.N_BASE] + 1, 1)),
    ("words", _in_block(WIDE, lambda node: node[layout.N_CANDIDATES] + node[layout.N_BASE] + 2, 0x80000000)),
    ("words", _in_block(FRAME, lambda node: layout.IDS_AT + _first_joined(node), MANY)),
    ("words", _in_block(FRAME, lambda node: layout.EARLIER_AT + _first_joined(node), 99)),
    ("words", _in_block(FRAME, lambda _: layout.BASE_AT, MANY)),
    ("words", _in_block(FRAME, lambda _: layout.BASE_AT + 1, 99 << 7)),
    ("words", _in_block(FRAME, lambda _: layout.BASE_AT + 1, 127)),
    ("words", _in_block(FRAME, lambda node: 2 * _first_joined(node) + _first_joined(node) // 32, 0xFFFFFFFF)),
    ("sizes", _of("sizes", lambda array: np.append(array, np.int32(3)))),
    ("members", lambda arrays: arrays.update(sizes=np.int32([1]), members=np.int32([MANY]))),
]
"""Arrays of saved work, each changed so that a kernel would read beyond an array or never end."""


def refused(launcher: Any, _: Any = None) -> Iterator[dict[str, Any]]:
    """Return the refusal of each change of `WRONG`, and of a started root among the remaining ones."""
    launcher.seed, dice, work = 0, random.Random(0), None
    graph: UndirectedCSR = random_graph(np.random.default_rng(0), 24, 0.8)
    asked = graph, CliqueQuery(), Detail.MEMBERS
    while work is None or set(work.arrays["nodes"][:, layout.KIND].tolist()) != {WIDE, FRAME}:
        launcher.seed += 1
        work = ended(asked, None, dice, lambda _: None, 2)
    noted: list[Any] = []
    check, saved_work.check = saved_work.check, lambda *given: noted.append(given)
    list(zip(range(1), engine_cuda.run(*asked[:2], Execution(), Detail.MEMBERS, [work], sizes=SMALL), strict=False))
    ((arrays, facts, n_vertices),) = noted
    check(arrays, facts, n_vertices)
    for number, (name, change) in enumerate(WRONG):
        changed = copied(replace(work, arrays=arrays)).arrays
        change(changed)
        said = said_of(lambda changed=changed: check(changed, facts, n_vertices))
        yield {"case": f"{number} {name}", "said": said, "name": name}
    # The first tasks contain the started roots.
    saved_work.check = check
    tasks = [copied(work), *engine_cuda.tasks_of(graph, CliqueQuery(), graph.n)[:1]]
    run = engine_cuda.run(*asked[:2], Execution(), Detail.MEMBERS, tasks, sizes=SMALL)
    yield {"twice": said_of(lambda: list(run))}


if __name__ == "__main__":
    main(use_the_emulator, rounds, refused)
