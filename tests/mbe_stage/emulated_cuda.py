"""The whole CUDA engine on the emulator, NumPy in the place of CuPy. Run as a script: prints a JSON line per case."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import sys
import types as python_types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BicliqueTable, BipartiteCSR, Execution, TableSink
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.results import Detail
from tests.mbe_stage import cupy_stand_in, graphs, warp_emulator

TINY: list[dict[str, Any]] = [
    {},
    {"words": 64},
    {"nodes": 2},
    {"words": 640},
    {"pool_extra": 64},
    {"slice_seconds": 0.05},
    {"members": 64, "descriptors": 64, "chunk_members": 16},
]


def put_in_place() -> Any:
    """Let the engine's modules import the emulator and NumPy; returns the launcher, whose `seed` may be changed."""
    fake = warp_emulator.install()
    fake.as_cuda_array = lambda array: array
    cupy_stand_in.install()
    device = python_types.ModuleType("mbe_stage.bicliques.cuda.device")
    device.resident_blocks = lambda: 2
    device.walking_blocks = lambda _mode: 4
    device.walking_kernel = None
    device.device_budget = lambda _execution: 1 << 30
    device.kernel_views = lambda *arrays: arrays
    device.kernel_bundles = lambda _kernel, *bundles: bundles
    device.upload = lambda host, array: np.copyto(array, host)
    device.device_work = lambda _budget: contextlib.nullcontext()
    device.zeroed_beside = _zeroed
    sys.modules["mbe_stage.bicliques.cuda.device"] = device
    from mbe_stage.bicliques.cuda import core, expand, growth, kernels, prepare, session

    class Launcher:
        seed = 0

        def __init__(self, kernel: Any) -> None:
            self._kernel = kernel

        def __getitem__(self, configuration: tuple[int, int]) -> Any:
            blocks, threads = configuration
            return lambda *arguments: warp_emulator.launch(
                self._kernel, blocks, threads // 32, arguments, Launcher.seed
            )

    session.walking_kernel = lambda mode, techniques: Launcher(kernels.kernel_for(mode, techniques, (9, 0)))
    for module, names in (
        (core, ("keep_alive_warp_per_tile", "peel_warp_per_vertex")),
        (prepare, ("collapse_twins_warp_per_tile", "write_whole_graph_warp_per_tile")),
        (prepare, ("weights_thread_per_vertex", "groups_thread_per_vertex")),
        (expand, ("full_sizes_warp_per_tile", "expanded_lists_warp_per_tile", "sort_long_lists_block_per_list")),
        (growth, ("copy_pieces_block_per_piece",)),
    ):
        for name in names:
            setattr(module, name, Launcher(getattr(module, name)))
    # Fewer warps than tiles.
    expand.MOST_BLOCKS = 1
    return Launcher


@contextlib.contextmanager
def _zeroed(*arrays: np.ndarray) -> Iterator[None]:
    """Not before the end: who needs zeros inside is found out."""
    for array in arrays:
        array.fill(77)
    yield
    for array in arrays:
        array.fill(0)


def found(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    detail: Detail,
    sizes: dict[str, Any],
    statistics: dict[str, float] | None = None,
) -> Any:
    """The set of bicliques, or their number."""
    sizes = {"n_blocks": 1, "slice_seconds": 1000.0} | sizes
    blocks = engine_cuda.run(graph, query, Execution(), detail, sizes=sizes, statistics=statistics)
    if detail == Detail.COUNT:
        return sum(block.n_bicliques for block in blocks)
    sink = TableSink()
    for block in blocks:
        sink.accept(block)
    table = sink.table()
    assert len(table.as_set()) == len(table), "a biclique came twice"
    return table.as_set()


def cases() -> list[tuple[str, BipartiteCSR, BicliqueQuery]]:
    everything = BicliqueQuery()
    result = [
        ("crown", graphs.crown(9), everything),
        ("staircase", graphs.staircase(66), everything),
        ("long lists", graphs.blocks([(1, 250), (230, 1), (3, 3)]), everything),
        ("empty", BipartiteCSR.from_edges([], [], 2, 2), everything),
        ("twins", graphs.from_matrix(np.repeat(np.repeat(np.tri(5, dtype=bool), 3, 0), 2, 1)), everything),
    ]
    for seed, (n_left, n_right, density) in enumerate(
        [(12, 12, 0.5), (30, 25, 0.3), (14, 14, 0.8), (150, 9, 0.6), (200, 8, 0.5), (90, 60, 0.06), (40, 40, 0.2)]
    ):
        graph = graphs.from_matrix(graphs.random_matrix(seed, n_left, n_right, density))
        result.append((f"random {seed}", graph, everything))
        result.append((f"sizes {seed}", graph, BicliqueQuery(min_left=2, min_right=3, min_edges=8, max_left=90)))
    return result + size_cases()


def size_cases() -> list[tuple[str, BipartiteCSR, BicliqueQuery]]:
    """Conditions that leave some bicliques of dense graphs, where rows lie inside excluded ones; rows and columns that
    stand for several vertices, as twins or as merged columns."""
    dense = graphs.from_matrix(graphs.random_matrix(6, 12, 22, 0.75))
    weights = np.arange(12) % 3 + 1
    twins = np.repeat(np.repeat(graphs.random_matrix(3, 12, 12, 0.8), weights, 0), weights[::-1], 1)
    merged = graphs.from_matrix(np.repeat(graphs.random_matrix(4, 90, 8, 0.65), weights[:8], 1))
    return [
        ("dense, left", dense, BicliqueQuery(min_left=8)),
        ("dense, edges", dense, BicliqueQuery(min_edges=36, max_right=12)),
        ("twins, right", graphs.from_matrix(twins), BicliqueQuery(min_right=15)),
        ("twins, both", graphs.from_matrix(twins.T), BicliqueQuery(min_left=10, min_right=9, max_left=16)),
        ("merged, right", merged, BicliqueQuery(min_right=8)),
        ("merged, edges", merged, BicliqueQuery(min_edges=120, max_right=10)),
    ]


def found_with(
    graph: BipartiteCSR, query: BicliqueQuery, techniques: Techniques
) -> tuple[BicliqueTable, dict[str, float]]:
    """The bicliques, and what the warps did to find them."""
    statistics: dict[str, float] = {}
    sink = TableSink()
    for block in engine_cuda.run(
        graph,
        query,
        Execution(),
        Detail.MEMBERS,
        sizes={"n_blocks": 1, "slice_seconds": 1000.0},
        statistics=statistics,
        techniques=techniques,
    ):
        sink.accept(block)
    # A block is busy while one of its warps is.
    assert 0.0 < statistics["busy_warps"] <= statistics["busy_ratio"] <= 1.0, statistics
    return sink.table(), statistics


def compared(case: str, table: BicliqueTable, wanted: set) -> dict[str, Any]:
    return {"case": case, "wanted": len(wanted), "counted": len(table), "same": table.as_set() == wanted}


def deep_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Of the bicliques of a crown only those that a large minimum leaves, few, far down a tree of 2**14 lists, or those
    that a small maximum leaves."""
    n = 14
    launcher.seed = 0
    for query, n_right in (
        (BicliqueQuery(min_right=n - 1), [n - 1]),
        (BicliqueQuery(min_left=n - 1), [1]),
        (BicliqueQuery(max_right=2), [1, 2]),
    ):
        table, statistics = found_with(graphs.crown(n), query, Techniques.without("words"))
        wanted = graphs.bicliques_of_crown(n, n_right)
        yield compared(f"deep, {n_right} on the right", table, wanted) | {"visited": statistics["wide"]}


def bounded_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """How many word nodes are opened where a condition on the right leaves few, and how many may be."""
    launcher.seed = 0
    n = 20
    # A path of rows of a crown may skip one, so there are depth + 1 nodes of each depth, and all children of each are
    # looked at. Those with at most ten columns are families, and not opened.
    most_opened = sum((depth + 1) * (n - depth) for depth in range(n - at.FAMILY_WIDTH - 1))
    # One node for each one or two rows, and all of their children are looked at.
    most_of_two = sum(math.comb(n, size) for size in (1, 2, 3))
    # Rows inside excluded ones, which are not the siblings before: 182 nodes where they are counted on the right.
    dense = graphs.from_matrix(graphs.random_matrix(6, 12, 26, 0.75))
    for name, graph, query, techniques, most in (
        ("crown, many", graphs.crown(n), BicliqueQuery(min_right=n - 1), Techniques(), most_opened),
        ("crown, few", graphs.crown(n), BicliqueQuery(max_right=2), Techniques(), most_of_two),
        ("dense", dense, BicliqueQuery(min_left=9), Techniques.without("families"), 160),
    ):
        table, statistics = found_with(graph, query, techniques)
        if name.startswith("crown"):
            wanted = graphs.bicliques_of_crown(n, [1, 2] if query.max_right else [n - 1])
        else:
            wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        yield compared(f"bounded, {name}", table, wanted) | {"opened": statistics["opened"], "most_opened": most}


def parked_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Arenas that have to grow where only half of the warps can have larger ones: the stacks of the others wait."""
    from mbe_stage.bicliques.cuda import room, session

    n_waiting = 0
    resume = session.resume

    def counted_resume(*arguments: Any) -> Any:
        nonlocal n_waiting
        waiting = resume(*arguments)
        n_waiting += sum(map(len, waiting))
        return waiting

    session.resume = counted_resume
    room.blocks_that_fit = lambda plan, _held, _budget: max(1, plan.n_blocks // 2)
    for seed, shape, density in ((0, (28, 60), 0.4),):
        launcher.seed = seed
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        wanted = set(reference.maximal_bicliques(graph))
        # Enough for a first frame, too little for those on it.
        sizes = {"n_blocks": 2, "words": 160}
        same = found(graph, BicliqueQuery(), Detail.MEMBERS, sizes) == wanted
        counted = found(graph, BicliqueQuery(), Detail.COUNT, sizes)
        yield {"case": f"parked {seed}", "wanted": len(wanted), "counted": counted, "same": same, "parked": n_waiting}


def given_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Sixteen warps, twelve roots, and deep stacks below a few of them: half of a frame changes hands again and again,
    also where arenas grow meanwhile and stacks are moved.

    Which warp is idle when is decided by the launcher's seed and, as no slice ends by its time, by nothing else.
    """
    graph = graphs.from_matrix(graphs.random_matrix(1, 12, 30, 0.75))
    wanted = set(reference.maximal_bicliques(graph))
    for seed, sizes in enumerate(({}, {"words": 64})):
        launcher.seed = seed
        given: dict[str, dict[str, float]] = {"count": {}, "members": {}}
        sizes = {"n_blocks": 4} | sizes
        counted = found(graph, BicliqueQuery(), Detail.COUNT, sizes, given["count"])
        same = found(graph, BicliqueQuery(), Detail.MEMBERS, sizes, given["members"]) == wanted
        yield {
            "case": f"given {seed}",
            "wanted": len(wanted),
            "counted": counted,
            "same": same,
            "given": {detail: statistics["given"] for detail, statistics in given.items()},
        }


def progress_case(launcher: Any) -> dict[str, Any]:
    """More warps than roots: all are started at once, and none is done for long."""
    launcher.seed = 0
    blocks = list(
        engine_cuda.run(
            graphs.crown(12),
            BicliqueQuery(),
            Execution(),
            Detail.COUNT,
            sizes={"n_blocks": 4, "slice_seconds": 0.3},
            techniques=Techniques.without("families"),
        )
    )
    n_found = sum(block.n_bicliques for block in blocks)
    shares = [block.work_done for block in blocks]
    return {"case": "progress", "wanted": 2**12 - 2, "counted": n_found, "shares": shares}


def main() -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    launcher = put_in_place()
    for number, (name, graph, query) in enumerate(cases()):
        launcher.seed = number
        sizes = TINY[number % len(TINY)]
        wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        same = found(graph, query, Detail.MEMBERS, sizes) == wanted
        counted = found(graph, query, Detail.COUNT, sizes)
        print(
            json.dumps({"case": name, "sizes": sizes, "wanted": len(wanted), "counted": counted, "same": same}),
            flush=True,
        )
    # Parking changes the engine: what grows comes before it.
    makers = (deep_cases, bounded_cases, given_cases, parked_cases)
    for case in itertools.chain.from_iterable(make(launcher) for make in makers):
        print(json.dumps(case), flush=True)
    print(json.dumps(progress_case(launcher)), flush=True)


if __name__ == "__main__":
    main()
