"""Run the (p, q)-counting CUDA engine on the emulator, with NumPy instead of CuPy.

As a script, with one of `PARTS`, prints a JSON line per case.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from math import comb
from typing import Any

import numpy as np

from mbe_stage import BipartiteCSR, Execution
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cpu, engine_cuda, reference
from mbe_stage.pq_counts.cpu.search import PlannedSearch
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import reduced, to_choose
from mbe_stage.pq_counts.results import Detail, PqSink
from tests.mbe_stage import graphs
from tests.mbe_stage.emulated_cuda import frees_memory, install_emulator
from tests.mbe_stage.pq_counts.counting import MOST_OF_THE_SMALLER_SIDE, by_subsets


def use_the_emulator() -> Any:
    """Run kernels on the emulator; return the launcher, whose `seed` may be changed."""
    launcher = install_emulator()
    from mbe_stage.pq_counts.cuda import kernels

    memory_budget = sys.modules["mbe_stage.device.memory_budget"]
    memory_budget.device_budget = lambda execution: execution.device_memory_bytes or 1 << 26  # type: ignore[attr-defined]
    kernels.kernel_blocks = lambda: 1
    from mbe_stage.device import mapped
    from mbe_stage.pq_counts.cuda import (
        as_given,
        leaf_table,
        low_memory_prepare,
        prepare,
        searches,
        session,
        wedge_session,
    )
    from mbe_stage.pq_counts.cuda.triples import plan

    # The host prepares some graphs, the device the others.
    prepare._FEW_EDGES = 60
    session.kernel_for = lambda techniques: launcher(kernels.kernel_for(techniques))
    mapped.mapped_empty, searches.mapped_copy = np.empty, np.copy
    for name in ("number_members_warp_per_part", "write_members_thread_per_code"):
        setattr(low_memory_prepare, name, launcher(getattr(low_memory_prepare, name)))
    for name in ("count_wedges_block_per_root", "count_triples_block_per_root"):
        setattr(wedge_session, name, launcher(getattr(wedge_session, name)))
    leaf_table.gather_leaves_thread_per_slot = launcher(leaf_table.gather_leaves_thread_per_slot)
    # Some tables have more leaves.
    leaf_table.AT_ONCE, leaf_table._BLOCKS = 8, 1
    plan.count_partners_block_per_root = launcher(plan.count_partners_block_per_root)
    wedge_session.THREADS = 64
    searches.wedge_blocks = as_given.wedge_blocks = plan.wedge_blocks = lambda: 2
    from mbe_stage.pq_counts.cuda.local import kernels as local_kernels
    from mbe_stage.pq_counts.cuda.local import session as local_session

    local_session.kernel_blocks = lambda: 1
    local_session.local_kernel_for = lambda with_edges: launcher(local_kernels.local_kernel_for(with_edges))
    memory_budget.device_work = lambda _budget: contextlib.nullcontext()  # type: ignore[attr-defined]
    return launcher


def counted(
    graph: BipartiteCSR, query: PqQuery, budget: int | None = None, **options: Any
) -> dict[tuple[int, int], int]:
    sink = PqSink(query)
    for block in engine_cuda.run(graph, query, Execution(device_memory_bytes=budget), Detail.COUNTS, **options):
        sink.accept(block)
    return sink.counts()


def specified(graph: BipartiteCSR, query: PqQuery) -> dict[tuple[int, int], int]:
    is_small = min(graph.n_left, graph.n_right) <= MOST_OF_THE_SMALLER_SIDE
    if is_small and not (query.containing_left or query.containing_right):
        return by_subsets(graph, query)
    sink = PqSink(query)
    for block in reference.run(graph, query, Execution(), Detail.COUNTS):
        sink.accept(block)
    return sink.counts()


# Work areas so small that all of them run short: frames, pool, node table, leaf table, time.
TINY: list[dict[str, Any]] = [
    {},
    {"narrow": 2},
    {"narrow": 5, "pool_words": 64},
    {"narrow": 3, "n_nodes": 2},
    {"narrow": 4, "quantum_seconds": 0.03},
    {"quantum_seconds": 0.02},
    {"narrow": 2, "quantum_seconds": 0.02, "pool_words": 32, "n_nodes": 1},
]
SHAPES = [((7, 9), 0.5), ((12, 10), 0.6), ((9, 14), 0.8), ((30, 12), 0.3), ((14, 40), 0.2), ((13, 13), 0.7)]
QUERIES = [
    PqQuery(1, 6, 1, 6),
    PqQuery(4, 4, 4, 4),
    PqQuery(2, 2, 2, 6),
    PqQuery(2, 5, 2, 2),
    PqQuery(4, 6, 3, 5),
    PqQuery(1, 1, 1, 3),
    PqQuery(2, 7, 1, 1),
    PqQuery(2, 30, 2, 30),
]


def case(name: str, graph: BipartiteCSR, query: PqQuery, **options: Any) -> dict[str, Any]:
    statistics: dict[str, int] = {}
    found, wanted = counted(graph, query, statistics=statistics, **options), specified(graph, query)
    return {"case": name, "same": found == wanted, "n": sum(wanted.values())} | statistics


def random_cases(launcher: Any, remainders: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Random graphs, each with another query and other sizes of the work areas."""
    with frees_memory():
        for seed in (seed for seed in range(56) if seed % 4 in remainders):
            shape, density = SHAPES[seed % len(SHAPES)]
            graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
            launcher.seed = seed
            yield case(f"random {seed}", graph, QUERIES[seed % len(QUERIES)], sizes=TINY[seed % len(TINY)])


def known_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Complete graphs, crowns and unions, whose counts are products of binomials."""
    launcher.seed = 1
    everything = PqQuery(1, 9, 1, 9)
    for n_left, n_right in ((1, 1), (5, 8), (40, 3), (9, 9)):
        found = counted(graphs.complete(n_left, n_right), everything)
        wanted = {(p, q): comb(n_left, p) * comb(n_right, q) for p, q in everything.cells}
        yield {"case": f"complete {n_left} {n_right}", "same": found == wanted}
    for n, narrow in ((8, 64), (8, 2)):
        found = counted(graphs.crown(n), everything, sizes={"narrow": narrow})
        wanted = {(p, q): comb(n, p) * (comb(n - p, q) if n >= p else 0) for p, q in everything.cells}
        yield {"case": f"crown {n} {narrow}", "same": found == wanted}
    found = counted(graphs.blocks([(6, 7), (3, 9)]), everything)
    wanted = {(p, q): comb(6, p) * comb(7, q) + comb(3, p) * comb(9, q) for p, q in everything.cells}
    yield {"case": "union", "same": found == wanted}
    for graph in (BipartiteCSR.from_edges([], []), BipartiteCSR.from_edges([], [], 3, 2), graphs.star(12)):
        yield case("next to nothing", graph, everything)


WIDE = {
    (66, 70): (0.9, PqQuery(2, 2, 2, 3)),
    (12, 150): (0.4, PqQuery(2, 6, 2, 6)),
    (150, 12): (0.4, PqQuery(2, 6, 2, 6)),
    (40, 40): (0.5, PqQuery(2, 3, 2, 3)),
    (70, 70): (0.25, PqQuery(3, 3, 3, 3)),
}


def wide_cases(launcher: Any, shapes: Sequence[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Wider than a word of 32 bits, and than a frame, on both sides and on one."""
    launcher.seed = 2
    for shape in shapes:
        density, query = WIDE[shape]
        graph = graphs.from_matrix(graphs.random_matrix(sum(shape), *shape, density))
        yield case(f"wide {shape}", graph, query, techniques=Techniques(triples=False))


def pivot_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Nearly complete graphs, which need a pivot on both sides."""
    launcher.seed = 2
    yield case("nearly complete", graphs.crown(11), PqQuery(2, 11, 2, 11), sizes={"narrow": 6})


def shared_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Few roots and many warps: warps take levels of others' stacks, and later quanta continue."""
    from mbe_stage.pq_counts.cuda import frame_walk

    frame_walk._LOOK_EVERY = 2
    graph = graphs.from_matrix(graphs.random_matrix(1, 13, 26, 0.75))
    for seed, sizes in enumerate(({}, {"quantum_seconds": 0.02}, {"narrow": 8}, {"n_blocks": 2, "n_nodes": 4})):
        launcher.seed = seed
        yield case(f"shared {seed}", graph, PqQuery(2, 9, 2, 9), sizes=sizes)


def technique_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    launcher.seed = 0
    graph = graphs.from_matrix(graphs.random_matrix(1, 13, 26, 0.75))
    for name in (field.name for field in fields(Techniques)):
        query = {"wedges": PqQuery(2, 2, 2, 6), "triples": PqQuery(3, 3, 2, 6)}.get(name, PqQuery(2, 6, 2, 6))
        sizes, techniques = {"narrow": 8, "quantum_seconds": 0.05}, Techniques.without(name)
        yield case(f"without {name}", graph, query, sizes=sizes, techniques=techniques)


def few_kinds_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """A leaf table that runs short: the quantum ends and the host empties it."""
    from mbe_stage.pq_counts.cuda import memory_plan

    memory_plan._FULL = 0.51
    launcher.seed = 3
    for seed, narrow in ((1, 64), (2, 6)):
        graph = graphs.from_matrix(graphs.random_matrix(seed, 16, 20, 0.7))
        yield case("few kinds", graph, PqQuery(2, 16, 2, 20), sizes={"n_slots": 2048, "narrow": narrow})


def query_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Required members, and parts of the work."""
    launcher.seed = 4
    graph = graphs.from_matrix(graphs.random_matrix(7, 11, 12, 0.7))
    edges = list(zip(*(ids.tolist() for ids in graph.edges()), strict=True))
    u, v = edges[5]
    absent = next((u, v) for u in range(11) for v in range(12) if (u, v) not in edges)
    for left, right in (
        ((u,), ()),
        ((), (v,)),
        ((u,), (v,)),
        ((0, 1, 2), ()),
        ((0, 3), (v,)),
        ((absent[0],), (absent[1],)),
    ):
        for sizes in ((1, 5, 1, 5), (3, 3, 2, 4)):
            yield case("containing", graph, PqQuery(*sizes, left, right))
    for query in (PqQuery(1, 5, 1, 5), PqQuery(2, 4, 2, 4, (u,)), PqQuery(3, 3, 3, 3)):
        sink = PqSink(query)
        tasks = engine_cuda.tasks_of(graph, query, 5)
        for part in (tasks[::2], tasks[1::2]):
            for block in engine_cuda.run(graph, query, Execution(), Detail.COUNTS, part):
                sink.accept(block)
        yield {"case": "tasks", "same": sink.counts() == specified(graph, query), "tasks": len(tasks)}


def side_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Triples with tasks cut by the CPU engine: refused if the other engine's roots are on another side.

    The sides are chosen twice, from device and from host data.
    """
    from mbe_stage.pq_counts.cuda import searches

    launcher.seed = 5
    on_device = searches.preparation_bytes, searches.peeling_bytes
    graph = graphs.from_matrix(graphs.random_matrix(9, 11, 26, 0.55))
    for each, sizes in ((graph, (5, 3)), (graph.swapped(), (3, 5)), (graph, (3, 5))):
        query = PqQuery.of(*sizes)
        wanted, tasks = specified(each, query), engine_cpu.tasks_of(each, query, 4)
        core = reduced(to_choose(each, query)).graph
        left_has_fewer = int(np.sum(core.right_degrees**2)) < int(np.sum(core.left_degrees**2))
        for is_whole in (True, False):
            searches.preparation_bytes, searches.peeling_bytes = on_device
            if not is_whole:
                searches.preparation_bytes = searches.peeling_bytes = lambda _graph: 1 << 40
            sink = PqSink(query)
            for some in (tasks[::2], tasks[1::2]):
                for block in engine_cuda.run(each, query, Execution(), Detail.COUNTS, some):
                    sink.accept(block)
            yield {
                "case": f"sides {sizes}",
                "same": sink.counts() == wanted,
                "n": sum(wanted.values()),
                "tasks": len(tasks),
                "against_paths": left_has_fewer != PlannedSearch(each, query).are_left,
            }


def part_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Graphs larger than the budget that a refusal names, and than slightly larger ones; also with tasks."""
    from mbe_stage.pq_counts.cuda import memory_plan, searches

    searches.preparation_bytes = searches.peeling_bytes = lambda _graph: 1 << 40
    memory_plan._LEAST_NODES = 3
    for seed in (0, 1, 2, 5, 7, 8, 11):
        shape, density = SHAPES[seed % len(SHAPES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        query, sizes = QUERIES[seed % len(QUERIES)], {"narrow": (64, 3)[seed % 2]}
        launcher.seed = seed
        budget = refused_bytes(graph, query)
        for more in (0, 2000) if budget else (1 << 20,):
            yield case(f"parts {seed} {more}", graph, query, budget=budget + more, sizes=sizes) | {"budget": budget}
    graph, query = graphs.from_matrix(graphs.random_matrix(3, 30, 12, 0.4)), PqQuery(1, 4, 1, 4)
    sink, tasks, budget = PqSink(query), engine_cuda.tasks_of(graph, query, 5), refused_bytes(graph, query)
    for some in (tasks[::2], tasks[1::2]):
        for block in engine_cuda.run(graph, query, Execution(device_memory_bytes=budget), Detail.COUNTS, some):
            sink.accept(block)
    yield {"case": "tasks", "same": sink.counts() == specified(graph, query), "tasks": len(tasks)}


def refused_bytes(graph: BipartiteCSR, query: PqQuery, **options: Any) -> int:
    """Return the bytes that a refusal of the smallest budget asks for; 0 without a refusal."""
    try:
        counted(graph, query, budget=1, **options)
    except MemoryBudgetExceeded as refusal:
        return refusal.needed_bytes or -1
    return 0


def waiting_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """A fixed pool with room for a node and one child: started work waits on the host."""
    from mbe_stage.pq_counts.cuda.session import Session

    Session._grown = lambda session, *_: session._plan  # type: ignore[method-assign]
    for seed, (shape, sizes) in enumerate(
        (
            ((9, 12), {"narrow": 2, "n_nodes": 3}),
            ((12, 9), {"narrow": 3, "n_blocks": 2}),
            ((9, 10), {"narrow": 2, "quantum_seconds": 0.05}),
            # Some words are assembled on the device, others come node by node.
            ((9, 12), {"narrow": 2, "n_nodes": 9, "pool_words": 160}),
        )
    ):
        launcher.seed = seed
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, 0.75))
        yield case(f"waiting {seed}", graph, PqQuery(2, 5, 2, 5), sizes={"pool_words": 64} | sizes)


def short_columns_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """A root of many short columns within the least budget: its leaves need more places than a column has rows.

    A table of kinds without a place gives a clear error, not endless quanta.
    """
    from mbe_stage.pq_counts.cuda import searches

    searches.preparation_bytes = searches.peeling_bytes = lambda _graph: 1 << 40
    launcher.seed = 1
    graph, n_shared = root_of_short_columns(540, 20)
    query, wanted = PqQuery.of(2, 2), sum(comb(n, 2) for n in n_shared)
    # The first task is the part known without a search, the second the first root.
    tasks = engine_cuda.tasks_of(graph, query, graph.n_left + 1)[1:2]
    budget = refused_bytes(graph, query, tasks=tasks)
    statistics: dict[str, int] = {}
    found = counted(graph, query, budget, tasks=tasks, statistics=statistics)
    yield {"case": "short columns", "same": found == {(2, 2): wanted}, "n": wanted} | statistics
    try:
        counted(graph, query, budget, tasks=tasks, sizes={"n_slots": 64})
    except RuntimeError as error:
        yield {"case": "no places", "same": True, "said": str(error)}


def root_of_short_columns(n: int, degree: int) -> tuple[BipartiteCSR, list[int]]:
    """The left vertex 0 has `n` neighbours, of `degree` neighbours each, the largest degree on the right.

    The others have more neighbours: each group of `degree` of them shares `n` exclusive ones.

    Returns
    -------
    graph : BipartiteCSR
    n_shared : list of int
        Number of neighbours shared with the first vertex, in order.
    """
    root = [(0, v) for v in range(n)]
    shared = [(1 + (v + k * (n // degree)) % n, v) for v in range(n) for k in range(degree - 1)]
    grouped = [(u, n + (u - 1) // degree * n + v) for u in range(1, n + 1) for v in range(n)]
    n_shared = Counter(u for u, _ in shared)
    return BipartiteCSR.from_edges(*zip(*root + shared + grouped, strict=True)), [n_shared[u] for u in range(1, n + 1)]


def pair_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Bicliques of two rows, in small windows: few and many columns, quanta that end, original and reduced lists."""
    from mbe_stage.pq_counts.cuda import as_given, wedges

    usual = as_given.as_given
    nothing = np.empty(0, np.int64)
    yield case("pairs of nothing", BipartiteCSR.from_edges(nothing, nothing), PqQuery.of(2, 2))
    wedges.WINDOW, wedges._SMALL = 8, 4
    for seed in range(12):
        shape, density = SHAPES[seed % len(SHAPES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        # Few of these shapes have fewer paths between right vertices.
        query = (PqQuery(2, 2, 2, 6), PqQuery.of(2, 2), PqQuery(1, 2, 1, 2))[seed % 3]
        launcher.seed, wedges._FLUSH_FROM = seed, (1, 1 << 30)[seed % 2]
        as_given.as_given = usual if seed % 4 < 2 else lambda _job, **_: None
        yield case(f"pairs {seed}", graph, query, sizes={"quantum_seconds": 0.0004 * (1 + seed)})


def triple_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Bicliques of three rows, in windows or one: all places of masks, few and many columns, quanta that end."""
    from mbe_stage.pq_counts.cuda import as_given
    from mbe_stage.pq_counts.cuda.triples import kernels, layout

    kernels.SMALL, kernels.PARTNER_WINDOW, layout.LEAST_CHUNK, layout.USUAL_CHUNK = 4, 8, 1, 2
    queries = PqQuery(3, 3, 2, 6), PqQuery.of(3, 3), PqQuery(2, 9, 3, 3), PqQuery(3, 3, 4, 9)
    for seed in range(24):
        (n_left, n_right), density = SHAPES[seed % len(SHAPES)]
        # The widest takes as long as all others.
        n_right *= 5 if seed // 6 % 2 and n_right < 40 else 1
        graph = graphs.from_matrix(graphs.random_matrix(seed, n_left, n_right, density))
        launcher.seed, layout.FLUSH_FROM = seed, (1, 1 << 30)[seed % 2]
        window, area, head = ((8, 4096, 64), (64, 40, 6), (64, 24, 5), (64, 8, 3))[seed // 3 % 4]
        kernels.WINDOW, kernels.AREA, layout.WINDOW, layout.AREA = window, area, window, area
        layout.HEAD, as_given.SHORT_LIST = head * (seed // 2 % 2), (64, 4)[seed % 5 % 2]
        sizes = {"quantum_seconds": 0.001 * (1 + seed)}
        yield case(f"triples {seed}", graph, queries[seed % 4], sizes=sizes)
    layout.WINDOW, layout.AREA, kernels.WINDOW, kernels.AREA = 64, 9, 64, 9
    compared = note_chunks()
    for seed, (shape, head) in enumerate(
        (((8, 220), 0), ((11, 330), 0), ((9, 150), 3), ((4, 220), 3), ((45, 40), 64), ((70, 24), 64))
    ):
        if head == 64:
            layout.AREA = kernels.AREA = 4096
        launcher.seed, layout.HEAD = seed, head
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, 0.5))
        compared.clear()
        yield case(f"chunks {shape}", graph, PqQuery(3, 3, 2, 5)) | {"chunks": sorted(compared)}


def note_chunks() -> set[str]:
    """Record how pairs of masks are compared: whole or by chunks of columns, below any root or a highest rank."""
    from mbe_stage.pq_counts.cuda.triples import heads, masks

    compared: set[str] = set()

    def noted(module: Any, name: str) -> None:
        pairs = module.pairs

        def noting(n_partners: Any, n_words: Any, start: Any, adds: bool, *others: Any) -> None:
            compared.add(f"{name}, {'some at a time' if adds else 'in one'}")
            pairs(n_partners, n_words, start, adds, *others)

        module.pairs = noting

    noted(heads, "head")
    noted(masks, "root")
    return compared


def with_room(planned_roots: Any, room: int, ranked: Any, _room: int, *, in_brief: bool) -> Any:
    return planned_roots(ranked, room, in_brief=in_brief)


def refused_triple_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Triples that would take too long or too much memory are searched as nodes."""
    from mbe_stage.pq_counts.cuda import as_given
    from mbe_stage.pq_counts.cuda.triples import kernels, layout, plan

    launcher.seed = 1
    graph, query = graphs.from_matrix(graphs.random_matrix(3, 12, 9, 0.7)), PqQuery.of(3, 3)
    as_before = as_given._MOST_PATHS, plan._MOST_WORDS, plan._FEW_WORDS, plan._UNEVEN, plan.MOST_PARTNERS
    layout.HEAD = 0
    for name in ("paths", "words", "uneven", "partners"):
        as_given._MOST_PATHS, plan._MOST_WORDS, plan._FEW_WORDS, plan._UNEVEN, plan.MOST_PARTNERS = as_before
        if name == "paths":
            as_given._MOST_PATHS = 1
        elif name == "words":
            plan._MOST_WORDS = 1
        elif name == "uneven":
            plan._FEW_WORDS, plan._UNEVEN = 1, 0
        else:
            plan.MOST_PARTNERS = 2
        yield case(f"no triples: {name}", graph, query)
    plan.MOST_PARTNERS = as_before[-1]
    # Masks do not fit shared memory, and the remaining budget has room for the areas of few blocks.
    usual = plan.planned_roots
    layout.AREA = kernels.AREA = 4
    for n_blocks, room in ((2, 3), (20, 1 << 6)):
        plan.wedge_blocks = functools.partial(int, n_blocks)
        as_given.planned_roots = functools.partial(with_room, usual, room)
        yield case(f"no triples: {n_blocks} blocks", graph, query)
    # The side with far fewer paths has the roots, but not the triples.
    crowded = graphs.from_matrix(graphs.random_matrix(2, 30, 5, 0.8))
    yield case("no triples: crowded side", crowded, PqQuery(3, 3, 4, 4))


def lean_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Graphs too large to prepare at once: lists in pieces, on the device and in host memory; rows in windows of 32."""
    from mbe_stage.pq_counts.cuda import as_given, low_memory_prepare, root_piece, searches

    as_given.as_given = lambda _job, **_: None
    searches.preparation_bytes = lambda _graph: 1 << 40
    low_memory_prepare._FEWEST_ENTRIES, root_piece.WINDOW = 8, 32
    in_order, mapped = searches.in_order, []

    def noted(core: Any, fewest_columns: int, room: int, list_room: int) -> Any:
        graph = in_order(core, fewest_columns, room, list_room if len(mapped) % 2 else 0)
        mapped.append(graph.mapped_bytes > 0)
        return graph

    searches.in_order = noted
    for seed in (1, 2, 4, 11):
        shape, density = SHAPES[seed % len(SHAPES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        query = (PqQuery.of(2, 2), PqQuery.of(3, 3), PqQuery(2, 4, 2, 4))[seed % 3]
        launcher.seed = seed
        yield case(f"lean {seed}", graph, query)
    graph = graphs.from_matrix(graphs.random_matrix(78, 60, 16, 0.3))
    yield case("lean, long lists", graph, PqQuery.of(3, 3), sizes={"narrow": 8}) | {"mapped": mapped}


def list_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Lists made in pieces equal those made at once."""
    from mbe_stage.pq_counts.cuda import low_memory_prepare
    from mbe_stage.pq_counts.cuda import prepare as preparing
    from mbe_stage.pq_counts.cuda.layout import Graph
    from mbe_stage.pq_counts.cuda.low_memory_prepare import in_order, peeled
    from mbe_stage.pq_counts.cuda.prepare import prepare

    launcher.seed, low_memory_prepare._FEWEST_ENTRIES = 6, 8
    low_memory_prepare._PART_ENTRIES, preparing._SPREAD = 4, 4
    for seed in range(9):
        shape = ((30, 12), (14, 40), (20, 20))[seed % 3]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, 0.35))
        fewest = ((2, 2), (3, 3), (2, 5))[seed // 3]
        wanted, core = prepare(graph, fewest, fewest, 2), peeled(graph, fewest, fewest, 2)
        if wanted is None or core is None:
            yield {"case": f"lists {seed}", "same": wanted is core, "n": 0}
            continue
        for room in (
            core.least_bytes,
            core.least_bytes + core.list_bytes // 2,
            core.least_bytes + core.list_bytes,
            1 << 30,
        ):
            found = in_order(core, fewest[1] if core.rows_are_left else fewest[0], room, room)
            names = ("vertices", "paths", "max_row_degree", "max_column_degree", "max_matrix_rows", "max_node_words")
            pairs = [(getattr(wanted, name), getattr(found, name)) for name in names]
            lists = [name for name in Graph._fields if name != "positions"]
            pairs += [(getattr(wanted.lists, name), getattr(found.lists, name)) for name in lists]
            same = all(np.array_equal(each, other) for each, other in pairs)
            yield {"case": f"lists {seed}", "same": same, "n": core.n_edges, "mapped": found.mapped_bytes}
        heaviest, spread = wanted.roots(None).order, wanted.roots(None, are_spread=True).order
        turns = -(-wanted.n_rows // preparing._SPREAD)
        same = spread.tolist() == [row for turn in range(turns) for row in heaviest[turn::turns].tolist()]
        yield {"case": f"spread {seed}", "same": same, "n": 0}


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "every fourth graph": lambda launcher: random_cases(launcher, (1,)),
    "the other graphs": lambda launcher: random_cases(launcher, (0, 2, 3)),
    "known": known_cases,
    "wide": lambda launcher: wide_cases(launcher, list(WIDE)[:3]),
    "wide and deep": lambda launcher: wide_cases(launcher, list(WIDE)[3:]),
    "pivots": pivot_cases,
    "shared": shared_cases,
    "techniques": technique_cases,
    "few kinds": few_kinds_cases,
    "queries": query_cases,
    "sides": side_cases,
    "parts": part_cases,
    "waiting": waiting_cases,
    "short columns": short_columns_cases,
    "pairs of rows": pair_cases,
    "triples of rows": triple_cases,
    "no triples": refused_triple_cases,
    "little memory": lean_cases,
    "lists": list_cases,
}


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for one in PARTS[part](use_the_emulator()):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
