"""Run the CUDA engine on the emulator, with NumPy instead of CuPy. As a script, with one of `PARTS`: JSON lines."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import sys
import types as python_types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mbe_stage import BicliqueQuery, BicliqueTable, BipartiteCSR, Execution, TableSink
from mbe_stage.bicliques import engine_cuda, reference
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.results import Detail
from tests.mbe_stage import cupy_stand_in, emulated_warp, graphs, warp_emulator
from tests.mbe_stage.emulated_sizes import TINY


def install_emulator() -> Any:
    """Make the engine's modules import the emulator and NumPy; return the launcher, whose `seed` may be changed."""
    emulated_warp.install_emulator()
    cupy_stand_in.install()
    arrays = python_types.ModuleType("mbe_stage.device.arrays")
    arrays.upload = lambda host, array: np.copyto(array, host)
    arrays.zeroed_beside = _zeroed
    arrays.wait_for_device = lambda: None
    arrays.sent = lambda *arrays: [array.copy() for array in arrays]
    arrays.WordsBeside = WordsBeside
    peers = python_types.ModuleType("mbe_stage.device.peers")
    peers.copied_from = lambda *pairs: [np.copyto(array, source) for array, source in pairs]
    peers.brought_here = lambda *arrays: tuple(array.copy() for array in arrays)
    memory_budget = python_types.ModuleType("mbe_stage.device.memory_budget")
    memory_budget.device_budget = lambda _execution: 1 << 26
    memory_budget.device_work = lambda _budget: contextlib.nullcontext()
    for module in (arrays, peers, memory_budget):
        sys.modules[module.__name__] = module
    from mbe_stage.device import launch

    def launched(kernel: Any, n_blocks: int, n_threads: int, *arguments: Any) -> None:
        (kernel if isinstance(kernel, Launcher) else Launcher(kernel))[n_blocks, n_threads](*arguments)

    launch.launch_blocks = launched
    from mbe_stage.bicliques.cuda import column_order, kernels, prepare, session, twin_expansion
    from mbe_stage.device import copying, core

    launch.resident_blocks = lambda: 2
    kernels.kernel_blocks = lambda _mode: 4

    class Launcher:
        seed = 0

        def __init__(self, kernel: Any) -> None:
            self._kernel = kernel

        def __getitem__(self, configuration: tuple[int, int]) -> Any:
            blocks, threads = configuration
            return lambda *arguments: warp_emulator.launch(
                self._kernel, blocks, threads // 32, arguments, Launcher.seed
            )

    session.walking_kernel = lambda mode, techniques: Launcher(kernels.kernel_for(mode, techniques, 5))
    for module, names in (
        (core, ("keep_alive_warp_per_tile", "peel_warp_per_vertex")),
        (prepare, ("collapse_twins_warp_per_tile", "write_whole_graph_warp_per_tile")),
        (prepare, ("multiplicities_thread_per_vertex", "groups_thread_per_vertex")),
        (
            twin_expansion,
            ("full_sizes_warp_per_tile", "expanded_lists_warp_per_tile", "sort_long_lists_block_per_list"),
        ),
        (copying, ("copy_pieces_block_per_piece",)),
        (column_order, ("column_words_thread_per_column", "copy_columns_warp_per_tile", "write_edges_warp_per_tile")),
    ):
        for name in names:
            setattr(module, name, Launcher(getattr(module, name)))
    # Roots from ranges of columns, and others.
    prepare.LONG_ROW, prepare.LONG_SHARE, layout.PREFIX_ROWS = 2, 1 << 30, 5
    # Lists in pieces, and short ones read by lanes.
    core.PIECE, core.CROWD = 8, 1
    # Fewer warps than tiles, and fewer first slots than bicliques.
    twin_expansion.MOST_BLOCKS = 1
    session._SLOTS_PER_EDGE, session._CHUNKS_PER_WARP = 0, 1
    return Launcher


class WordsBeside:
    """Stand-in for `mbe_stage.device.arrays`."""

    def __init__(self, array: np.ndarray, words: dict[int, int]) -> None:
        self._array, self._words = array, words

    def write(self) -> None:
        for place, word in self._words.items():
            self._array[place] = word


@contextlib.contextmanager
def _zeroed(*arrays: np.ndarray) -> Iterator[None]:
    """Fill with garbage except at the end, so that code that needs zeros inside fails."""
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
    """Return the set of bicliques, their sizes in order, or their number."""
    sizes = {"n_blocks": 1, "quantum_seconds": 1000.0} | sizes
    blocks = engine_cuda.run(graph, query, Execution(), detail, sizes=sizes, statistics=statistics)
    if detail == Detail.COUNT:
        return sum(block.n_bicliques for block in blocks)
    if detail == Detail.SIZES:
        pairs = (zip(block.left_sizes.tolist(), block.right_sizes.tolist(), strict=True) for block in blocks if block)
        return sorted(pair for each in pairs for pair in each)
    sink = TableSink()
    for block in blocks:
        sink.accept(block)
    table = sink.table()
    assert len(table.as_set()) == len(table), "a biclique came twice"
    return table.as_set()


@contextlib.contextmanager
def frees_memory() -> Iterator[None]:
    """Fail if sessions, which hold device memory, wait for the garbage collector after their searches."""
    gc.collect()
    gc.disable()
    yield
    assert not [each for each in gc.get_objects() if type(each).__name__ in ("Session", "WedgeSession")]
    gc.enable()


def cases() -> list[tuple[str, BipartiteCSR, BicliqueQuery]]:
    everything = BicliqueQuery()
    result = [
        ("crown", graphs.crown(8), everything),
        ("half graph", graphs.half_graph(66), everything),
        ("long lists", graphs.blocks([(1, 250), (230, 1), (3, 3)]), everything),
        ("empty", BipartiteCSR.from_edges([], [], 2, 2), everything),
        ("twins", graphs.from_matrix(np.repeat(np.repeat(np.tri(5, dtype=bool), 3, 0), 2, 1)), everything),
    ]
    for seed, (n_left, n_right, density) in enumerate(
        [(12, 12, 0.5), (30, 25, 0.3), (14, 14, 0.8), (110, 7, 0.6), (200, 8, 0.5), (70, 35, 0.1), (40, 40, 0.2)]
    ):
        graph = graphs.from_matrix(graphs.random_matrix(seed, n_left, n_right, density))
        result.append((f"random {seed}", graph, everything))
        result.append((f"sizes {seed}", graph, BicliqueQuery(min_left=2, min_right=3, min_edges=8, max_left=90)))
    return result + size_cases()


def size_cases() -> list[tuple[str, BipartiteCSR, BicliqueQuery]]:
    """Size constraints on dense graphs with rows inside excluded ones, twins and merged columns."""
    dense = graphs.from_matrix(graphs.random_matrix(6, 12, 22, 0.75))
    multiplicities = np.arange(12) % 3 + 1
    twins = np.repeat(np.repeat(graphs.random_matrix(3, 12, 12, 0.8), multiplicities, 0), multiplicities[::-1], 1)
    merged = graphs.from_matrix(np.repeat(graphs.random_matrix(4, 70, 8, 0.65), multiplicities[:8], 1))
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
    """Return the bicliques and the statistics of the warps."""
    statistics: dict[str, float] = {}
    sink = TableSink()
    for block in engine_cuda.run(
        graph,
        query,
        Execution(),
        Detail.MEMBERS,
        sizes={"n_blocks": 1, "quantum_seconds": 1000.0},
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
    """Bicliques of a crown under a large minimum (few, far down a tree of 2**14 lists) or a small maximum."""
    n = 14
    launcher.seed = 0
    for query, n_right in (
        (BicliqueQuery(min_right=n - 1), [n - 1]),
        (BicliqueQuery(min_left=n - 1), [1]),
        (BicliqueQuery(max_right=2), [1, 2]),
    ):
        table, statistics = found_with(graphs.crown(n), query, Techniques.without("words"))
        wanted = graphs.bicliques_of_crown(n, n_right)
        yield compared(f"deep, {n_right} on the right", table, wanted) | {"visited": statistics["list_children"]}
    # Nodes without ids that are moved, and keep the offsets for counting sizes.
    sizes = found(graphs.crown(34), BicliqueQuery(min_left=32), Detail.SIZES, {"nodes": 2})
    same = sizes == [(32, 2)] * math.comb(34, 2) + [(33, 1)] * 34
    yield {"case": "deep, sizes", "wanted": 595, "counted": len(sizes), "same": same, "visited": 1}


def bounded_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Limit the opened bitset frames under a constraint on the right."""
    launcher.seed = 0
    n = 20
    # A path of rows of a crown may skip one, so there are depth + 1 nodes of each depth, and all their children are
    # visited. Nodes with at most ten columns are closed-set bitmaps and are not opened.
    most_opened = sum((depth + 1) * (n - depth) for depth in range(n - layout.CLOSED_SET_WIDTH - 1))
    # One node per one or two rows, and all their children are visited.
    most_of_two = sum(math.comb(n, size) for size in (1, 2, 3))
    # Rows inside excluded ones that are not earlier siblings: 182 nodes if they are counted on the right.
    dense = graphs.from_matrix(graphs.random_matrix(6, 12, 26, 0.75))
    for name, graph, query, techniques, most in (
        ("crown, many", graphs.crown(n), BicliqueQuery(min_right=n - 1), Techniques(), most_opened),
        ("crown, few", graphs.crown(n), BicliqueQuery(max_right=2), Techniques(), most_of_two),
        ("dense", dense, BicliqueQuery(min_left=9), Techniques.without("closed_sets"), 160),
    ):
        table, statistics = found_with(graph, query, techniques)
        if name.startswith("crown"):
            wanted = graphs.bicliques_of_crown(n, [1, 2] if query.max_right else [n - 1])
        else:
            wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        yield compared(f"bounded, {name}", table, wanted) | {"opened": statistics["opened"], "most_opened": most}


def suspended_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Arenas must grow, but only half of the warps can get larger ones: the other stacks wait."""
    from mbe_stage.bicliques.cuda import memory_plan, session

    n_waiting = 0
    resume = session.resume

    def counted_resume(*arguments: Any) -> Any:
        nonlocal n_waiting
        waiting = resume(*arguments)
        n_waiting += sum(map(len, waiting))
        return waiting

    session.resume = counted_resume
    memory_plan.blocks_that_fit = lambda plan, _held, _budget: max(1, plan.n_blocks // 2)
    for seed, shape, density in ((0, (14, 40), 0.45),):
        launcher.seed = seed
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        wanted = set(reference.maximal_bicliques(graph))
        # Enough for a first frame, too little for its children.
        sizes = {"n_blocks": 2, "words": 128}
        same = found(graph, BicliqueQuery(), Detail.MEMBERS, sizes) == wanted
        counted = found(graph, BicliqueQuery(), Detail.COUNT, sizes)
        yield {
            "case": f"suspended {seed}",
            "wanted": len(wanted),
            "counted": counted,
            "same": same,
            "suspended": n_waiting,
        }


def donated_cases(launcher: Any) -> Iterator[dict[str, Any]]:
    """Sixteen warps, twelve roots, deep stacks below a few: frames are donated often, also while arenas grow.

    Only the launcher's seed decides which warp is idle, because no quantum ends by its time.
    """
    graph = graphs.from_matrix(graphs.random_matrix(1, 12, 30, 0.75))
    wanted = set(reference.maximal_bicliques(graph))
    for seed, sizes in enumerate(({}, {"words": 64})):
        launcher.seed = seed
        donated: dict[str, dict[str, float]] = {"count": {}, "members": {}}
        sizes = {"n_blocks": 4} | sizes
        counted = found(graph, BicliqueQuery(), Detail.COUNT, sizes, donated["count"])
        same = found(graph, BicliqueQuery(), Detail.MEMBERS, sizes, donated["members"]) == wanted
        yield {
            "case": f"donated {seed}",
            "wanted": len(wanted),
            "counted": counted,
            "same": same,
            "donated": {detail: statistics["donated"] for detail, statistics in donated.items()},
        }


def progress_case(launcher: Any) -> Iterator[dict[str, Any]]:
    """More warps than roots: all start at once, and none ends for long."""
    launcher.seed = 0
    blocks = list(
        engine_cuda.run(
            graphs.crown(10),
            BicliqueQuery(),
            Execution(),
            Detail.COUNT,
            sizes={"n_blocks": 4, "quantum_seconds": 0.15},
            techniques=Techniques.without("closed_sets"),
        )
    )
    n_found = sum(block.n_bicliques for block in blocks)
    shares = [block.work_done for block in blocks]
    yield {"case": "progress", "wanted": 2**10 - 2, "counted": n_found, "shares": shares}


def graph_cases(launcher: Any, remainders: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Graphs whose numbers leave these remainders modulo four, each with other sizes of the work areas."""
    with frees_memory():
        for number, (name, graph, query) in enumerate(cases()):
            if number % 4 not in remainders:
                continue
            launcher.seed = number
            sizes = TINY[number % len(TINY)]
            wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
            members = found(graph, query, Detail.MEMBERS, sizes)
            same, counted = members == wanted, len(members)
            if number % 3 == 0:
                counted = found(graph, query, Detail.COUNT, sizes)
            elif number % 3 == 1:
                found_sizes = found(graph, query, Detail.SIZES, sizes)
                same &= found_sizes == sorted((len(left), len(right)) for left, right in wanted)
            yield {"case": name, "sizes": sizes, "wanted": len(wanted), "counted": counted, "same": same}


# Suspending changes the engine, so it has a separate process.
PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "every fourth graph": lambda launcher: graph_cases(launcher, (0,)),
    "the other graphs": lambda launcher: graph_cases(launcher, (1, 2, 3)),
    "deep": deep_cases,
    "bounded": bounded_cases,
    "donated": donated_cases,
    "suspended": suspended_cases,
    "progress": progress_case,
}


def main(part: str) -> None:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    for case in PARTS[part](install_emulator()):
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
