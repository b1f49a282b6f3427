"""Local counts compared with the reference, sum rules, and closed forms of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import comb
from typing import Any

import networkx as nx
import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.options import Execution
from mbe_stage.pq_counts import engine_cpu, reference
from mbe_stage.pq_counts.count import pq_local_counts
from mbe_stage.pq_counts.cpu.local import cells, words
from mbe_stage.pq_counts.digits import digits_of, integers, sums_of_digits
from mbe_stage.pq_counts.problem import PROBLEM
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, Leaves, LocalCounts, PqBlock, PqSink
from tests.mbe_stage.graphs import complete, crown, from_matrix, random_matrix
from tests.mbe_stage.pq_counts import local_counting
from tests.mbe_stage.pq_counts.local_counting import Local, plain, sums_hold

# Butterflies of the women and the events of Davis, Gardner and Gardner (1941), from the squares of the matrix.
WOMEN = [71, 21, 8, 33, 75, 2, 30, 26, 42, 68, 26, 48, 2, 17, 32, 60, 91, 30]
EVENTS = [15, 16, 54, 24, 81, 71, 86, 143, 83, 32, 6, 43, 14, 14]

# Rows of `nx.bipartite.random_graph(n, m, share, seed=seed)` and the `bipartite.butterflies` of networkx 3.7 for its
# left and right nodes: n, m, share and seed are 6, 7, .5, 1; 5, 9, .7, 2; 8, 8, .4, 3; 4, 12, .8, 4.
RECORDED = [
    (
        "1001001 1110100 1110011 0011101 1000010 0011101",
        [3, 5, 7, 9, 1, 9],
        [4, 2, 9, 5, 5, 1, 8],
    ),
    (
        "001001110 101111111 110100001 001111111 110111111",
        [15, 51, 10, 43, 45],
        [11, 3, 12, 23, 17, 25, 25, 25, 23],
    ),
    (
        "10110101 11000111 00000000 00101000 10101101 00010100 10011001 01110001",
        [16, 8, 0, 1, 14, 1, 8, 6],
        [12, 1, 7, 6, 3, 8, 0, 17],
    ),
    (
        "111111010111 111110101010 111110101111 111101011101",
        [71, 53, 77, 59],
        [36, 36, 36, 36, 19, 7, 7, 7, 17, 20, 19, 20],
    ),
]


def counted(engine: Any, graph: BipartiteCSR, query: PqQuery, detail: Detail = Detail.EDGES, **options: Any) -> Local:
    return local_counting.counted(engine, graph, query, detail, Execution(threads=2), **options)


def _fill(sink: PqSink, blocks: Iterable[PqBlock]) -> None:
    for block in blocks:
        sink.accept(block)


def graph_of(seed: int, most: int = 9) -> BipartiteCSR:
    dice = np.random.default_rng(seed)
    n_left, n_right = dice.integers(1, most + 1, 2)
    return from_matrix(random_matrix(seed, int(n_left), int(n_right), float(dice.choice([0.3, 0.5, 0.7, 0.9]))))


def members_of(seed: int, graph: BipartiteCSR) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return up to two required vertices per side in every third case."""
    dice = np.random.default_rng(seed)
    if seed % 3:
        return (), ()
    left, right = (dice.choice(n, min(n, dice.integers(0, 3)), replace=False) for n in (graph.n_left, graph.n_right))
    return tuple(left.tolist()), tuple(right.tolist())


@pytest.mark.parametrize("start", range(0, 240, 40))
def test_random_graphs(start: int) -> None:
    for seed in range(start, start + 40):
        graph, detail = graph_of(seed), (Detail.VERTICES, Detail.EDGES)[seed % 2]
        query = PqQuery(1, 6, 1, 6, *members_of(seed, graph))
        expected = counted(reference, graph, query, detail)
        assert counted(engine_cpu, graph, query, detail) == expected, seed


@pytest.mark.parametrize("seed", range(6))
def test_one_cell_equals_that_of_the_table(seed: int) -> None:
    graph = graph_of(seed)
    counts, local = counted(engine_cpu, graph, PqQuery(1, 4, 1, 4))
    for p, q in counts:
        assert counted(engine_cpu, graph, PqQuery.of(p, q)) == ({(p, q): counts[p, q]}, {(p, q): local[p, q]})


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", [(30, 90), (90, 30), (100, 100)])
@pytest.mark.parametrize("cell", [(2, 3), (3, 2), (3, 3), (4, 5)])
def test_sums_of_nodes_larger_than_a_frame(seed: int, shape: tuple[int, int], cell: tuple[int, int]) -> None:
    """Each biclique has p left vertices, q right ones and p q edges; a vertex' edges sum to its multiple."""
    p, q = cell
    matrix = random_matrix(seed, *shape, 0.12)
    # A dense part with full rows and columns.
    matrix[:12, :80] |= random_matrix(seed + 1, 12, min(80, shape[1]), 0.8)
    matrix[3] = matrix[:, 5] = True
    graph = from_matrix(matrix)
    counts, local = counted(engine_cpu, graph, PqQuery.of(p, q))
    assert counts[cell] > 0
    assert sums_hold(graph, counts, local)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cell", [(2, 2), (3, 3), (2, 4)])
def test_graphs_larger_than_a_frame(seed: int, cell: tuple[int, int]) -> None:
    matrix = random_matrix(seed, 24, 100, 0.2)
    matrix[:4] |= random_matrix(seed + 1, 4, 100, 0.7)
    for graph in (from_matrix(matrix), from_matrix(matrix.T)):
        query = PqQuery.of(*(cell if graph.n_left == 24 else cell[::-1]))
        small = graph if graph.n_left == 24 else graph.swapped()
        (_, expected), (_, found) = counted(reference, small, PqQuery.of(*cell)), counted(engine_cpu, graph, query)
        left, right, edges = expected[cell]
        if small is graph:
            assert found[cell] == (left, right, edges)
        else:
            by_right = np.argsort(small.left_members, kind="stable")
            assert found[cell[::-1]] == (right, left, np.array(edges, object)[by_right].tolist())


@pytest.mark.parametrize("seed", range(10))
def test_the_swapped_graph_has_swapped_counts(seed: int) -> None:
    graph = graph_of(seed, most=14)
    query = PqQuery(1, 5, 1, 4, *members_of(3 * seed, graph))
    _, local = counted(engine_cpu, graph, query)
    _, other = counted(engine_cpu, graph.swapped(), query.swapped())
    by_right = np.argsort(graph.left_members, kind="stable").tolist()
    for (p, q), (left, right, edges) in local.items():
        assert other[q, p] == (right, left, [edges[k] for k in by_right])


@pytest.mark.parametrize("seed", range(6))
def test_tasks_add_up(seed: int) -> None:
    graph, query = graph_of(seed, most=14), PqQuery(1, 4, 1, 4)
    whole = PqSink(query, Detail.EDGES)
    for task in engine_cpu.tasks_of(graph, query, 4):
        part = PqSink(query, Detail.EDGES)
        for block in engine_cpu.run(graph, query, Execution(threads=1), Detail.EDGES, [task]):
            part.accept(block)
        whole.merge(part)
    assert (whole.counts(), plain(whole.local_counts())) == counted(engine_cpu, graph, query)


def test_a_limit_that_stops_every_thread_is_reported_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped threads add nothing; without a block after the limit the sums would pass for counts."""

    def stopped(pieces: Any, _n_threads: int, add: Any, stop: Any, _deadline: float) -> Iterator[Any]:
        yield add(0, pieces[0]), 0.5
        stop()
        add(0, pieces[0])

    monkeypatch.setattr(cells, "worked_off", stopped)
    monkeypatch.setattr(cells, "TAKING_SECONDS", -1e9)
    graph = from_matrix(random_matrix(1, 12, 10, 0.7))
    *_, told, silent, last = engine_cpu.run(graph, PqQuery.of(3, 3), Execution(threads=1), Detail.EDGES)
    assert (told.local is None, silent.local is None, len(silent)) == (False, True, 0)
    assert told.work_done <= silent.work_done < last.work_done == 1.0


@pytest.mark.parametrize("engine", [name for name in PROBLEM.engines if name != "cuda"])
def test_butterflies(engine: str) -> None:
    graph, women, events = southern_women()
    found = pq_local_counts(graph, 2, 2, engine=engine)
    assert (found.left.tolist(), found.right.tolist(), found.edges) == (WOMEN, EVENTS, None)
    assert (len(women), len(events)) == (len(WOMEN), len(EVENTS))


@pytest.mark.parametrize("engine", [name for name in PROBLEM.engines if name != "cuda"])
@pytest.mark.parametrize(("rows", "left", "right"), RECORDED)
def test_butterflies_equal_recorded_counts_of_networkx(
    engine: str, rows: str, left: list[int], right: list[int]
) -> None:
    graph = from_matrix(np.array([[bit == "1" for bit in row] for row in rows.split()]))
    found = pq_local_counts(graph, 2, 2, engine=engine)
    assert (found.left.tolist(), found.right.tolist()) == (left, right)
    assert 4 * found.total == sum(left) + sum(right)


@pytest.mark.skipif(not hasattr(nx.bipartite, "butterflies"), reason="networkx counts butterflies from 3.7 on")
def test_butterflies_equal_networkx() -> None:
    graph, women, events = southern_women()
    expected = nx.bipartite.butterflies(nx.davis_southern_women_graph())
    found = pq_local_counts(graph, 2, 2)
    assert found.left.tolist() == [expected[one] for one in women]
    assert found.right.tolist() == [expected[one] for one in events]


def southern_women() -> tuple[BipartiteCSR, list[str], list[str]]:
    graph = nx.davis_southern_women_graph()
    women, events = sorted(graph.graph["top"]), sorted(graph.graph["bottom"], key=lambda event: int(event[1:]))
    return from_matrix(np.array([[graph.has_edge(w, e) for e in events] for w in women])), women, events


@pytest.mark.parametrize(
    ("a", "b", "p", "q"), [(5, 7, 2, 3), (70, 70, 35, 35), (66, 3, 33, 2), (200, 150, 7, 9), (3, 300, 2, 150)]
)
def test_complete_graphs(a: int, b: int, p: int, q: int) -> None:
    """With one left vertex: C(a - 1, p - 1) C(b, q), some far beyond 64 bits."""
    found = pq_local_counts(complete(a, b), p, q, edges=True)
    assert found.total == comb(a, p) * comb(b, q)
    assert set(found.left.tolist()) == {comb(a - 1, p - 1) * comb(b, q)}
    assert set(found.right.tolist()) == {comb(a, p) * comb(b - 1, q - 1)}
    assert found.edges is not None
    assert set(found.edges.tolist()) == {comb(a - 1, p - 1) * comb(b - 1, q - 1)}


# More than a word of 64 bits and many paths; (70, 2, 3) is the same with fewer paths.
WIDE_CROWN = pytest.param(70, 3, 3, marks=pytest.mark.slow)


@pytest.mark.parametrize(("n", "p", "q"), [(6, 2, 3), (14, 6, 5), (24, 3, 4), (70, 2, 3), WIDE_CROWN])
def test_crowns(n: int, p: int, q: int) -> None:
    """All edges except a perfect matching: p left vertices and q right ones that are not their partners."""
    found = pq_local_counts(crown(n), p, q, edges=True)
    each = comb(n - 1, p - 1) * comb(n - p, q)
    assert found.total == comb(n, p) * comb(n - p, q)
    assert set(found.left.tolist()) == {each}
    assert set(found.right.tolist()) == {comb(n - 1, q - 1) * comb(n - q, p)}
    assert found.edges is not None
    assert set(found.edges.tolist()) == {comb(n - 2, p - 1) * comb(n - p - 1, q - 1)}


def test_small_numbers_are_int64_and_large_ones_pythons() -> None:
    assert pq_local_counts(complete(5, 5), 2, 2).left.dtype == np.int64
    large = pq_local_counts(complete(70, 70), 35, 35)
    assert large.left.dtype == object
    assert isinstance(large.left[0], int)


@pytest.mark.parametrize("containing", [((0, 1), ()), ((0,), (2,)), ((0, 1, 2), (0, 1))])
@pytest.mark.parametrize("cell", [(1, 1), (2, 2), (3, 2), (3, 4)])
def test_members_common_to_all(containing: tuple[tuple[int, ...], tuple[int, ...]], cell: tuple[int, int]) -> None:
    graph = from_matrix(random_matrix(4, 9, 9, 0.8))
    query = PqQuery(cell[0], cell[0], cell[1], cell[1], *containing)
    assert counted(engine_cpu, graph, query) == counted(reference, graph, query)


def test_no_biclique() -> None:
    found = pq_local_counts(([0, 1], [0, 1]), 2, 2, edges=True)
    assert (found.total, found.left.tolist(), found.right.tolist()) == (0, [0, 0], [0, 0])
    assert found.edges is not None
    assert found.edges.tolist() == [0, 0]


@pytest.mark.parametrize("detail", [Detail.VERTICES, Detail.EDGES])
def test_queries_beyond_the_limits_are_refused_before_any_work(detail: Detail) -> None:
    graph = from_matrix(random_matrix(1, 300, 300, 0.3))
    blocks = engine_cpu.run(graph, PqQuery.of(3, 3), Execution(threads=1, memory_budget_bytes=10_000), detail)
    what = "vertex and edge" if detail == Detail.EDGES else "vertex"
    with pytest.raises(
        MemoryBudgetExceeded, match=f"counts for every {what} take [0-9,]+ bytes .* is 10,000: raise it"
    ):
        next(blocks)


def test_large_numbers_that_do_not_fit_are_refused() -> None:
    """Only after counting all is it known that they take more than 64 bits."""
    graph = complete(200, 150)
    needs = Execution(threads=1, memory_budget_bytes=3_000_000)
    sink = PqSink(PqQuery.of(100, 75), Detail.EDGES)
    with pytest.raises(MemoryBudgetExceeded, match="raise it, or use fewer threads"):
        _fill(sink, engine_cpu.run(graph, sink.query, needs, Detail.EDGES))
    assert sink.counts()[100, 75] == comb(200, 100) * comb(150, 75)


def test_closing_the_blocks_ends_the_search() -> None:
    """A time limit closes the blocks early: the results so far are a lower bound."""
    graph, query = from_matrix(random_matrix(2, 120, 120, 0.5)), PqQuery.of(8, 8)
    blocks = engine_cpu.run(graph, query, Execution(threads=2), Detail.EDGES)
    next(blocks)
    blocks.close()


def test_a_time_limit_leaves_lower_bounds() -> None:
    """Also if it expires before the searches for vertices and edges: each cell has its block."""
    graph, query = from_matrix(random_matrix(2, 150, 150, 0.5)), PqQuery(7, 8, 8, 8)
    for seconds in (1e-9, 0.3, 0.7):
        sink = PqSink(query, Detail.EDGES)
        _fill(sink, engine_cpu.run(graph, query, Execution(threads=2, time_limit_seconds=seconds), Detail.EDGES))
        counts, local = sink.counts(), plain(sink.local_counts())
        for (p, q), (left, right, edges) in local.items():
            total = sum(edges) // (p * q)
            assert (sum(left), sum(right), sum(edges)) == (p * total, q * total, p * q * total)
            assert total <= counts[p, q]
        assert set(local) == set(counts)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_words(size: int) -> None:
    """Sums, differences and products modulo 2^(64 n) for n words."""
    dice, modulus = np.random.default_rng(size), 1 << 64 * size
    ones = np.concatenate([dice.integers(0, 2**64, (50, size), np.uint64), np.full((3, size), 2**64 - 1, np.uint64)])
    others, sums = ones[::-1].copy(), np.zeros_like(ones)
    as_integers = [integers(words.digits_of_words(numbers)) for numbers in (ones, others)]
    for i, (one, other) in enumerate(zip(*as_integers, strict=True)):
        for function, expected in ((words.add, one + other), (words.subtract, one - other)):
            sums[i] = ones[i]
            function(sums, i, others, i)
            assert integers(words.digits_of_words(sums[i : i + 1])) == [expected % modulus]
        words.multiply(sums, i, ones, i, others, i)
        assert integers(words.digits_of_words(sums[i : i + 1])) == [one * other % modulus]


def test_counts_do_not_compile_local_counts() -> None:
    steps = {step.what for step in engine_cpu.compile_steps(None, Detail.COUNTS)}
    assert not any(".local." in what for what in steps)
    assert any(".local." in step.what for step in engine_cpu.compile_steps(None, Detail.VERTICES))


@pytest.mark.parametrize("widths", [(1, 1), (2, 2), (1, 3), (4, 2)])
def test_sums_have_enough_digits(widths: tuple[int, int]) -> None:
    dice = np.random.default_rng(widths)
    numbers = [
        [int.from_bytes(dice.bytes(4 * width), "little") for _ in range(20)] + [2 ** (32 * width) - 1, 0]
        for width in widths
    ]
    one, other = (digits_of(of, width) for of, width in zip(numbers, widths, strict=True))
    assert integers(sums_of_digits(one, other)) == [a + b for a, b in zip(*numbers, strict=True)]


def test_sums_of_parts_may_need_more_digits() -> None:
    sink, most = PqSink(PqQuery(2, 2, 2, 2), Detail.VERTICES), digits_of([2**64 - 1], 2)
    for _ in range(3):
        sink.accept(PqBlock(Leaves.none(), LocalCounts(2, 2, most, most)))
    local = sink.local_counts()[2, 2]
    assert integers(local.left) == integers(local.right) == [3 * (2**64 - 1)]
