"""Run the clique engine for CUDA on the emulator, with NumPy instead of CuPy.

As a script, with one of `PARTS`, prints a JSON line per case.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from mbe_stage import CliqueQuery, Execution, UndirectedCSR
from mbe_stage.cliques import engine_cuda, reference
from mbe_stage.cliques.cuda.techniques import Techniques
from mbe_stage.cliques.reduction import common_part
from mbe_stage.cliques.results import CliqueTable, CliqueTableSink, Detail
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Task, positions, ranges_of
from tests.mbe_stage.cliques import undirected_graphs as graphs
from tests.mbe_stage.emulated_cuda import frees_memory, install_emulator


def use_the_emulator() -> Any:
    """Run kernels on the emulator; return the launcher, whose `seed` may be changed."""
    launcher = install_emulator()
    from mbe_stage.cliques.cuda import kernels, prepare, session

    session.kernel_blocks = lambda: 1
    # Fewer than most graphs here have.
    engine_cuda._CLIQUES_AT_ONCE, engine_cuda._STRIDE = 30, 4
    session.kernel_for = lambda mode, techniques: launcher(kernels.kernel_for(mode, techniques))
    # The kernel prepares the others.
    prepare.SMALL = 60
    prepare.part_lists_warp_per_vertex = launcher(prepare.part_lists_warp_per_vertex)
    return launcher


def found(graph: UndirectedCSR, query: CliqueQuery, detail: Detail, **options: Any) -> Any:
    """Return the set of cliques, their number by size, or their number."""
    options["sizes"] = SMALL | options.get("sizes", {})
    blocks = list(engine_cuda.run(graph, query, Execution(block_bytes=200), detail, **options))
    shares = [block.work_done for block in blocks]
    assert shares == sorted(shares), shares
    assert shares[-1] == 1.0, shares
    if detail == Detail.COUNT:
        return sum(block.n_cliques for block in blocks)
    if detail == Detail.SIZES:
        return sorted(size for block in blocks for size in block.sizes.tolist())
    sink = CliqueTableSink()
    for block in blocks:
        sink.accept(block)
    table = sink.table()
    assert len(table.as_set()) == len(table), "a clique came twice"
    return table.as_set()


def specified(graph: UndirectedCSR, query: CliqueQuery, detail: Detail) -> Any:
    cliques = {one for one in reference.maximal_cliques(graph) if reference.matches(one, query)}
    if detail == Detail.COUNT:
        return len(cliques)
    return cliques if detail == Detail.MEMBERS else sorted(map(len, cliques))


# The emulator fills much less memory than a device.
SMALL: dict[str, Any] = {
    "pool_words": 1 << 14,
    "n_nodes": 64,
    "members": 1 << 12,
    "cliques": 1 << 10,
    "most_members": 0,
    "page_members": 60,
    "page_cliques": 9,
}
# Work areas so small that all of them run short: frames, pool, node table, output, time.
TINY: list[dict[str, Any]] = [
    {},
    {"narrow": 2},
    {"narrow": 5, "pool_words": 64},
    {"narrow": 3, "n_nodes": 2},
    {"narrow": 4, "quantum_seconds": 0.03},
    {"members": 40, "cliques": 64},
    {"members": 40, "cliques": 64, "most_members": 200},
    {"narrow": 0, "quantum_seconds": 0.02, "pool_words": 32, "n_nodes": 1, "members": 6, "cliques": 64},
]
SHAPES = [(9, 0.5), (14, 0.7), (20, 0.3), (12, 0.9), (24, 0.5), (30, 0.2), (16, 0.8)]
QUERIES = [
    CliqueQuery(),
    CliqueQuery(3),
    CliqueQuery(1, 4),
    CliqueQuery(),
    CliqueQuery(4, 6),
    CliqueQuery(containing=(3,)),
    CliqueQuery(2, 9, (1, 5)),
]


def case(name: str, graph: UndirectedCSR, query: CliqueQuery, detail: Detail, **options: Any) -> dict[str, Any]:
    statistics: dict[str, int] = {}
    is_same = found(graph, query, detail, statistics=statistics, **options) == specified(graph, query, detail)
    return {"case": name, "same": is_same, "n": specified(graph, query, Detail.COUNT)} | statistics


def random_cases(launcher: Any, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Random graphs, each with another query and other sizes of the work areas."""
    with frees_memory():
        for seed in range(first, end):
            graph = graphs.random_graph(np.random.default_rng(seed), *SHAPES[seed % len(SHAPES)])
            launcher.seed, query, sizes = seed, QUERIES[seed // 2 % len(QUERIES)], TINY[seed // 3 % len(TINY)]
            detail = Detail(2 - seed % 3) if seed % 4 else Detail.MEMBERS
            yield case(f"random {seed}", graph, query, detail, sizes=sizes)


def known_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Complete graphs, Moon and Moser's, cycles and their complements, and nearly empty graphs."""
    launcher.seed = 1
    # More than 32 common members of all cliques, with other members before and after them.
    for parts in ([3] * 4, [1] * 40, [2] * 6, [4, 1, 3, 1], [2, *[1] * 38, 2, 2]):
        graph, cliques = graphs.turan(parts)
        for sizes in ({}, {"narrow": 3}):
            yield {
                "case": f"turan {parts}",
                "same": found(graph, CliqueQuery(), Detail.MEMBERS, sizes=sizes) == cliques,
            }
    for n in (7, 15):
        graph = graphs.complement(graphs.cycle(n))
        yield {"case": "perrin", "same": found(graph, CliqueQuery(), Detail.COUNT) == graphs.perrin(n)}
    for graph in (UndirectedCSR.from_edges([], []), UndirectedCSR.from_edges([], [], 3), graphs.cycle(9)):
        for detail in Detail:
            yield case("next to nothing", graph, CliqueQuery(), detail)


def wide_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """More candidates than fit a word of 32 bits, or a frame."""
    launcher.seed = 2
    rng = np.random.default_rng(3)
    yield case("complete", graphs.complete(90), CliqueQuery(), Detail.MEMBERS)
    graph, cliques = graphs.turan([1] * 60 + [2] * 6 + [5])
    yield {"case": "turan", "same": found(graph, CliqueQuery(), Detail.MEMBERS) == cliques}
    for n, density, query in ((60, 0.4, CliqueQuery()), (80, 0.45, CliqueQuery(3, 9)), (130, 0.15, CliqueQuery())):
        for narrow in (64, 12):
            graph = graphs.two_densities(rng, n + 20, n, density)
            yield case(f"wide {n} {narrow}", graph, query, Detail.MEMBERS, sizes={"narrow": narrow})


def shared_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Few roots and many warps: warps take levels of others' stacks, and later quanta continue."""
    from mbe_stage.cliques.cuda import frame_walk

    frame_walk._LOOK_EVERY = 2
    graph = graphs.complement(graphs.random_graph(np.random.default_rng(2), 30, 0.12))
    for seed, sizes in enumerate(({}, {"quantum_seconds": 0.01}, {"narrow": 8}, {"n_blocks": 2, "n_nodes": 4})):
        launcher.seed = seed
        yield case(f"shared {seed}", graph, CliqueQuery(), Detail(2 - seed % 2), sizes=sizes)


def technique_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Each technique left out, with nodes of many candidates and frames."""
    launcher.seed = 0
    graph = graphs.two_densities(np.random.default_rng(1), 40, 26, 0.7)
    for field in fields(Techniques):
        for narrow in (10, 64):
            sizes = {"narrow": narrow, "quantum_seconds": 0.1}
            techniques = Techniques.without(field.name)
            yield case(
                f"{field.name} {narrow}", graph, CliqueQuery(), Detail.MEMBERS, sizes=sizes, techniques=techniques
            )


def choice_cases(launcher: Any, first: int, end: int) -> Iterator[dict[str, Any]]:
    """A warp or eight lanes for small roots, with nodes of many candidates and frames."""
    for seed in range(first, end):
        rng = np.random.default_rng(seed)
        graph = graphs.random_graph(rng, *SHAPES[seed % 7]) if seed % 3 else graphs.two_densities(rng, 40, 26, 0.6)
        launcher.seed = seed
        sizes = dict(TINY[seed % len(TINY)])
        if seed % 5 == 0:
            sizes.pop("narrow", None)
        techniques = Techniques(sub_warps=seed % 2 == 0)
        query, detail = QUERIES[seed % len(QUERIES)], Detail(2 - seed % 3)
        yield case(f"choice {seed}", graph, query, detail, sizes=sizes, techniques=techniques)


def shrinking_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Excluded vertices of frames are dropped when they no longer matter."""
    from mbe_stage.cliques.cuda import frame_walk

    frame_walk._FEW_EXCLUDED = 1
    happened: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            happened[name] += frame_walk.cuda.laneid == 0
            return function(*arguments)

        return call

    frame_walk._shrunk = counted("shrunk", frame_walk._shrunk)
    frame_walk._whole = counted("whole", frame_walk._whole)
    for seed, seconds in enumerate((9.0, 0.5)):
        launcher.seed = seed
        graph = graphs.two_densities(np.random.default_rng(seed), 70, 36, 0.7)
        yield (
            case(f"shrinking {seed}", graph, CliqueQuery(), Detail.MEMBERS, sizes={"quantum_seconds": seconds})
            | happened
        )


def task_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Tasks, including required members that have no other common neighbour or are no clique."""
    launcher.seed = 4
    graph = graphs.random_graph(np.random.default_rng(7), 16, 0.6)
    src, dst = (ids.tolist() for ids in graph.edges())
    clique = max(reference.maximal_cliques(graph), key=len)
    apart = next((u, v) for u in range(16) for v in range(u) if v not in graph.neighbours(u))
    for query in (
        CliqueQuery(),
        CliqueQuery(2, 5, (src[4], dst[4])),
        CliqueQuery(1, None, clique),
        CliqueQuery(1, None, apart),
    ):
        tasks = engine_cuda.tasks_of(graph, query, 5)
        parts = [found(graph, query, Detail.MEMBERS, tasks=part) for part in (tasks[::2], tasks[1::2])]
        is_same = parts[0] | parts[1] == specified(graph, query, Detail.MEMBERS) and not parts[0] & parts[1]
        yield {"case": "tasks", "same": is_same, "tasks": len(tasks), "n": len(parts[0] | parts[1])}


def device_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Device blocks, parts of them, and the plan for blocks that are held."""
    launcher.seed = 5
    graph = graphs.random_graph(np.random.default_rng(8), 22, 0.5)
    n_handed_over = 0
    for query in (CliqueQuery(), CliqueQuery(2, 4, (3,))):
        found_cliques: list[tuple[int, ...]] = []
        sizes = SMALL | {"members": 90, "cliques": 64}
        # All blocks are kept: later ones must not overwrite them.
        for block in list(engine_cuda.device_blocks(graph, query, Execution(), sizes=sizes)):
            n_handed_over += block.members.base is not None
            for part in (block, block.first(len(block) // 2)):
                table = CliqueTable(part.offsets, part.members)
                assert len(table) == len(part)
            whole, n = CliqueTable(block.offsets, block.members), len(block)
            for first, stop in ((0, n // 2), (n // 3, n), (n // 3, n // 3)):
                part = block.part(first, stop)
                table = CliqueTable(part.offsets, part.members)
                assert [table[k].tolist() for k in range(len(table))] == [whole[k].tolist() for k in range(first, stop)]
            found_cliques += whole.as_set()
        is_same = sorted(found_cliques) == sorted(specified(graph, query, Detail.MEMBERS))
        yield {"case": "on the device", "same": is_same}
    yield {"case": "handed over", "same": n_handed_over > 0}
    planned: list[dict[str, int]] = [{}, {}]
    list(engine_cuda.run(graph, CliqueQuery(), Execution(), Detail.MEMBERS, sizes=SMALL, statistics=planned[0]))
    list(engine_cuda.device_blocks(graph, CliqueQuery(), Execution(), sizes=SMALL, statistics=planned[1]))
    # Two copies of the output.
    beside = planned[1]["plan_bytes"] - planned[0]["plan_bytes"]
    yield {"case": "on the device", "same": beside == 2 * 4 * (SMALL["members"] + SMALL["cliques"])}


_ALL_ONES = [(1 << bits) - 1 for bits in range(64)]


def barrier_cases(launcher: Any, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Barriers at random moments: the results before one and below the remaining roots are complete and disjoint."""
    from mbe_stage.search.cuda import barriers

    for seed in range(first, end):
        shape = BARRIER_SHAPES[seed % len(BARRIER_SHAPES)]
        graph = graphs.random_graph(np.random.default_rng(seed), *shape)
        query = CliqueQuery(containing=(3,)) if shape[1] > 0.3 else BARRIER_QUERIES[seed // 2 % 3]
        detail = Detail(2 - seed % 3)
        launcher.seed, barriers.MOST_RANGES = seed, (1024, 2)[seed % 3 == 0]
        # Every other case starts in parts, as if its results took time to write.
        barriers._LEAST_ROOTS = (4, 1 << 30)[seed % 2]
        barriers._TAKEN_SLOWLY = barriers._PART_SECONDS = 0.0
        tasks = tuple(engine_cuda.tasks_of(graph, query, 4)[::2]) if seed % 4 == 3 else None
        sizes = SMALL | {"quantum_seconds": 0.01} | TINY[seed // 2 % len(TINY)]
        yield {"case": f"barriers {seed}", "seed": seed} | asked_at_random(graph, query, detail, tasks, sizes, seed)


BARRIER_SHAPES = [(90, 0.05), (60, 0.1), (40, 0.25), (70, 0.4), (150, 0.02)]
BARRIER_QUERIES = [CliqueQuery(), CliqueQuery(2), CliqueQuery(1, 3)]


def asked_at_random(
    graph: UndirectedCSR,
    query: CliqueQuery,
    detail: Detail,
    tasks: tuple[Task, ...] | None,
    sizes: dict[str, Any],
    seed: int,
) -> dict[str, Any]:
    """Return whether the results around each barrier are complete and disjoint, and the number of barriers."""
    wanted = below(graph, query, tasks)
    dice, barrier, blocks, shares = random.Random(seed), Barrier(), [], [0.0]
    # Device blocks are read long after the next one was made.
    options: dict[str, Any] = {"barrier": barrier, "sizes": sizes}
    execution = Execution(block_bytes=200)
    if detail == Detail.MEMBERS and seed % 2 == 0:
        found_blocks = engine_cuda.device_blocks(graph, query, execution, tasks, **options)
    else:
        found_blocks = engine_cuda.run(graph, query, execution, detail, tasks, **options)
    told: dict[str, Any] = {"same": True, "markers": 0, "ranges": 0, "rest": 0}
    barrier.ask()
    for block in found_blocks:
        blocks.append(block)
        shares.append(block.work_done)
        if block.remaining is not None:
            told["markers"] += 1
            told["ranges"] = max(told["ranges"], len(block.remaining))
            assert len(block) == 0
            assert not barrier.is_requested
            rest = below(graph, query, block.remaining)
            told["rest"] += len(rest)
            told["same"] &= counted_blocks(blocks, detail) + as_counted(rest, detail) == as_counted(wanted, detail)
        if dice.random() < 0.8:
            barrier.ask()
    told["same"] &= (
        counted_blocks(blocks, detail) == as_counted(wanted, detail) and shares == sorted(shares) and shares[-1] == 1.0
    )
    return told


def below(graph: UndirectedCSR, query: CliqueQuery, tasks: tuple[Task, ...] | None) -> set[tuple[int, ...]]:
    """Return the reference's cliques of some tasks: each belongs to its first member by ascending degree.

    Required members do not count, nor do neighbours that they do not share.
    """
    cliques = {one for one in reference.maximal_cliques(graph) if reference.matches(one, query)}
    if tasks is None:
        return cliques
    part = common_part(graph, query)
    order = np.argsort(part.graph.degrees, kind="stable")
    places = {int(part.vertices[vertex]): place for place, vertex in enumerate(order)}
    wanted = set(positions(ranges_of(tasks, tasks[0].roots)).tolist()) if tasks else set()
    return {one for one in cliques if min((places[v] for v in one if v in places), default=0) in wanted}


def counted_blocks(blocks: list[Any], detail: Detail) -> Counter[Any]:
    """Return the cliques of some blocks with the figures of this detail."""
    counted: Counter[Any] = Counter()
    for block in blocks:
        if detail == Detail.MEMBERS:
            ends = np.cumsum(block.sizes)
            counted.update(tuple(part.tolist()) for part in np.split(block.members, ends[:-1]) if part.size)
        else:
            counted.update(block.sizes.tolist() if detail == Detail.SIZES else [0] * len(block))
    return counted


def as_counted(cliques: Any, detail: Detail) -> Counter[Any]:
    if detail == Detail.MEMBERS:
        return Counter(cliques)
    return Counter(len(one) if detail == Detail.SIZES else 0 for one in cliques)


def full_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """An output that is full repeatedly, with a counter word that just fits.

    A counter that overflows is reported: the last case has one that is too small, and a plan that does not check it.
    """
    from mbe_stage.cliques.cuda import emit, layout, memory_plan
    from mbe_stage.cliques.cuda.session import Session
    from mbe_stage.device.grid import this_warp

    launcher.seed = 6
    graph = graphs.random_graph(np.random.default_rng(9), 30, 0.6)
    sizes = {"narrow": 8, "members": 200, "cliques": 64, "page_members": 40, "page_cliques": 6}
    in_vain: Counter[int] = Counter()
    most: Counter[str] = Counter()
    reserve, quantum = emit._reserve, Session.quantum

    def counted_reserve(*arguments: Any) -> Any:
        start = reserve(*arguments)
        if emit.cuda.laneid == 0 and start < 0:
            in_vain[this_warp()] += 1
        return start

    def counted_quantum(session: Session) -> Session:
        in_vain.clear()
        found = quantum(session)
        most["asked_in_vain"] = max(most["asked_in_vain"], in_vain.total())
        most["of_a_warp"] = max([most["of_a_warp"], *in_vain.values()])
        return found

    emit._reserve, Session.quantum = counted_reserve, counted_quantum  # type: ignore[method-assign]
    layout.CLIQUES_SHIFT = next(bits for bits in range(64) if _is_planned(graph, sizes, CLIQUES_SHIFT=bits))
    layout.MEMBERS_MASK = (1 << layout.CLIQUES_SHIFT) - 1
    layout.NEVER = next(never for never in _ALL_ONES if _is_planned(graph, sizes, NEVER=never))
    yield case("no room to spare", graph, CliqueQuery(), Detail.MEMBERS, sizes=sizes) | most
    layout.NEVER = 20 << layout.CLIQUES_SHIFT
    memory_plan.MemoryPlan.__post_init__ = lambda _plan: None  # type: ignore[method-assign]
    try:
        found(graph, CliqueQuery(), Detail.MEMBERS, sizes=sizes | {"members": 1 << 12, "cliques": 1 << 10})
    except RuntimeError as error:
        yield {"case": "told", "same": "cliques were found and 20 written" in str(error)}


def _is_planned(graph: UndirectedCSR, sizes: dict[str, Any], **constants: int) -> bool:
    from mbe_stage.cliques.cuda import layout, memory_plan

    before = {name: getattr(layout, name) for name in constants}
    facts = memory_plan.SearchSizes(graph.n_edges, graph.n - 1, graph.n - 1, layout.MEMBERS)
    try:
        for name, value in constants.items():
            setattr(layout, name, value)
        replace(memory_plan.plan_memory(facts, 1, 1 << 30), **(SMALL | sizes))
    except ValueError:
        return False
    finally:
        for name, value in before.items():
            setattr(layout, name, value)
    return True


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "random": lambda launcher: random_cases(launcher, 0, 16),
    "more random": lambda launcher: random_cases(launcher, 16, 240),
    "known": known_cases,
    "wide": wide_cases,
    "shared": shared_cases,
    "techniques": technique_cases,
    "choices": lambda launcher: choice_cases(launcher, 0, 6),
    "more choices": lambda launcher: choice_cases(launcher, 6, 120),
    "shrinking": shrinking_cases,
    "tasks": task_cases,
    "on the device": device_cases,
    "full": full_cases,
    "barriers": lambda launcher: barrier_cases(launcher, 2, 5),
    "more barriers": lambda launcher: barrier_cases(launcher, 5, 80),
}


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for one in PARTS[part](use_the_emulator()):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
