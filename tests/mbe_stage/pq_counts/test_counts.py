"""Counts of (p, q)-bicliques: every engine compared with the reference, closed forms and published counts."""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbe_stage import BipartiteCSR, Execution, InvalidArgument, MemoryBudgetExceeded
from mbe_stage.pq_counts import engine_cpu, reference
from mbe_stage.pq_counts.count import count_pq_bicliques, count_pq_into, pq_table
from mbe_stage.pq_counts.cpu.layout import Lists
from mbe_stage.pq_counts.cpu.tree import bits_pay
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.tasks import Task
from tests.mbe_stage import graphs
from tests.mbe_stage.pq_counts.counting import counted, of_complete, of_crown, random_query


def brute_force(graph: BipartiteCSR, query: PqQuery) -> dict[tuple[int, int], int]:
    """Count every p left and q right vertices, edge by edge."""
    matrix = np.zeros((graph.n_left, graph.n_right), bool)
    matrix[graph.edges()] = True
    counts = dict.fromkeys(query.cells, 0)
    for p, q in query.cells:
        for left in combinations(range(graph.n_left), p):
            for right in combinations(range(graph.n_right), q):
                wanted = set(query.containing_left) <= set(left) and set(query.containing_right) <= set(right)
                counts[p, q] += bool(wanted and matrix[np.ix_(left, right)].all())
    return counts


@pytest.mark.parametrize("seed", range(30))
def test_the_reference_equals_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = graphs.from_matrix(graphs.random_matrix(seed, *rng.integers(1, 7, 2), rng.uniform(0.3, 1)))
    query = random_query(rng, graph, containing=seed % 2 == 0)
    assert counted(reference, graph, query) == brute_force(graph, query)


@pytest.mark.parametrize("seed", range(300))
def test_random_graphs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = graphs.from_matrix(graphs.random_matrix(seed, *rng.integers(1, 14, 2), rng.uniform(0.1, 1)))
    query = random_query(rng, graph, containing=seed % 3 == 0)
    expected = counted(reference, graph, query)
    assert counted(engine_cpu, graph, query) == expected
    other_way_round = counted(engine_cpu, graph.swapped(), query.swapped())
    assert {(p, q): n for (q, p), n in other_way_round.items()} == expected


@pytest.mark.parametrize("engine", [reference, engine_cpu], ids=lambda engine: engine.__name__.rpartition(".")[2])
@pytest.mark.parametrize("seed", range(20))
def test_tasks_add_up(engine: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = graphs.from_matrix(graphs.random_matrix(seed, 12, 9, 0.5))
    query = random_query(rng, graph, containing=seed % 2 == 0)
    tasks = [Task.from_json(task.to_json()) for task in engine.tasks_of(graph, query, 4)]
    assert 1 <= len(tasks) <= 4
    sinks = []
    for task in tasks:
        sinks.append(PqSink(query))
        for block in engine.run(graph, query, Execution(threads=1), Detail.COUNTS, [task]):
            sinks[-1].accept(block)
    for other in sinks[1:]:
        sinks[0].merge(other)
    assert sinks[0].counts() == counted(reference, graph, query)


def test_tasks_of_another_count_query_are_refused() -> None:
    graph = graphs.complete(4, 4)
    tasks = engine_cpu.tasks_of(graph, PqQuery.of(2, 2), 2)
    with pytest.raises(InvalidArgument, match="work at hand"):
        counted(engine_cpu, graph, PqQuery.of(2, 3), tasks)


@pytest.mark.parametrize(("n_left", "n_right"), [(1, 1), (3, 9), (64, 64), (65, 64), (70, 70), (200, 130), (300, 3)])
def test_complete_graphs_at_any_size(n_left: int, n_right: int) -> None:
    """C(200, 65) C(130, 65) has 92 digits: no count overflows."""
    for query in (PqQuery(1, 6, 1, 6), PqQuery.of(max(1, n_left // 3), max(1, n_right // 2))):
        assert counted(engine_cpu, graphs.complete(n_left, n_right), query) == of_complete(n_left, n_right, query)


@pytest.mark.parametrize("n", [2, 3, 7, 14, 64, 65, 90])
def test_crowns(n: int) -> None:
    """A crown has 2^n - 2 maximal bicliques and no leaf has two of them: only sizes keep the search small."""
    for query in (PqQuery(1, 3, 1, 3), PqQuery.of(2, n - 2)) if n > 14 else (PqQuery(1, n, 1, n),):
        assert counted(engine_cpu, graphs.crown(n), query) == of_crown(n, query)


def test_disjoint_unions() -> None:
    sizes = [(3, 4), (70, 5), (2, 2), (66, 67)]
    query = PqQuery(1, 7, 1, 7)
    expected = {(p, q): sum(comb(a, p) * comb(b, q) for a, b in sizes) for p, q in query.cells}
    # A pair of sizes with a one on a side may not cross blocks: a star is in one block.
    assert counted(engine_cpu, graphs.blocks(sizes), query) == expected


@pytest.mark.parametrize(
    ("n_left", "n_right", "density"), [(90, 80, 0.9), (150, 70, 0.6), (75, 260, 0.3), (64, 65, 0.5)]
)
def test_graphs_wider_than_a_frame(n_left: int, n_right: int, density: float) -> None:
    """Pairs and triples by matrix products: nodes of lists, on both sides."""
    matrix = graphs.random_matrix(7, n_left, n_right, density)
    graph = graphs.from_matrix(matrix)
    rows = matrix.astype(np.int64)
    in_common = rows @ rows.T
    pairs = in_common[np.triu_indices(n_left, 1)]
    triples = [int((rows[a] & rows[b] & rows[c]).sum()) for a, b, c in combinations(range(0, n_left, 5), 3)]
    table = counted(engine_cpu, graph, PqQuery(1, 3, 1, 4))
    for q in range(1, 5):
        assert table[2, q] == sum(comb(n, q) for n in pairs.tolist())
        assert table[1, q] == sum(comb(n, q) for n in rows.sum(1).tolist())
    some = graphs.from_matrix(matrix[::5])
    assert count_pq_bicliques(some, 3, 4, engine="cpu") == sum(comb(n, 4) for n in triples)
    assert {cell: count_pq_bicliques(graph, *cell, engine="cpu") for cell in ((2, 4), (3, 3), (3, 2))} == {
        cell: table[cell] for cell in ((2, 4), (3, 3), (3, 2))
    }


@pytest.mark.parametrize(("density", "uses_bits"), [(0.06, False), (0.3, True)])
def test_pairs_below_a_wide_root(density: float, uses_bits: bool) -> None:
    """All triples of one side by their common neighbours; pairs of both sides are listed, in either way."""
    matrix = graphs.random_matrix(3, 170, 150, density)
    lists = graphs.from_matrix(matrix)
    lines = Lists(lists.left_offsets, lists.left_members, lists.right_offsets, lists.right_members)
    assert bits_pay(lines) == uses_bits
    rows = matrix.astype(np.int64)
    n_triples = np.zeros(151, np.int64)
    for a, b in combinations(range(170), 2):
        n_triples += np.bincount(rows[b + 1 :] @ (rows[a] * rows[b]), minlength=151)
    shared = [sum(n * comb(size, q) for size, n in enumerate(n_triples.tolist())) for q in range(2, 6)]
    for q, threads in product(range(2, 6), (1, 2)):
        assert counted(engine_cpu, lists, PqQuery.of(3, q), threads=threads) == {(3, q): shared[q - 2]}
        assert counted(engine_cpu, lists.swapped(), PqQuery.of(q, 3), threads=threads) == {(q, 3): shared[q - 2]}
    assert counted(engine_cpu, lists, PqQuery(1, 3, 3, 3))[3, 3] == shared[1]


def test_non_adjacent_required_members_are_in_no_biclique() -> None:
    """Although the common neighbours of each with others are full of bicliques."""
    matrix = np.ones((9, 9), bool)
    matrix[2, 3] = False
    query = PqQuery(1, 6, 1, 6, (2,), (3,))
    for engine in (reference, engine_cpu):
        assert set(counted(engine, graphs.from_matrix(matrix), query).values()) == {0}


def test_two_threads_count_the_same() -> None:
    graph, query = graphs.from_matrix(graphs.random_matrix(1, 120, 90, 0.4)), PqQuery(1, 5, 1, 5)
    assert counted(engine_cpu, graph, query, threads=2) == counted(engine_cpu, graph, query)


def published(data_dir: Path) -> dict[tuple[int, int], int]:
    """Return the published counts without lines of more than 200 vertices per side, which are wrong.

    A left vertex has 1,035 neighbours, so there are at least C(1035, 1001) bicliques of 1 and 1,001, but the file says
    35; it only has counts below 2^53, and those would be far above.
    """
    lines = (data_dir / "youtube_pq_counts.txt").read_text().splitlines()
    counts = {(p, q): n for p, q, n in (map(int, line.split()) for line in lines)}
    return {(p, q): n for (p, q), n in counts.items() if max(p, q) <= 200}


def youtube(data_dir: Path) -> BipartiteCSR:
    with np.load(data_dir / "youtube.npz") as arrays:
        return BipartiteCSR.from_edges(*(arrays[name] for name in arrays.files[:2]))


def test_published_counts_of_youtube(data_dir: Path) -> None:
    """Up to 12 x 12 in one search, and the far ends one by one."""
    known, graph = published(data_dir), youtube(data_dir)
    table = pq_table(graph, 12, 12, engine="cpu")
    small = {cell: n for cell, n in known.items() if cell in table}
    assert len(small) > 100
    assert {cell: table[cell] for cell in small} == small
    for cell in [(2, 193), (3, 118), (4, 67), (71, 5), (47, 6), (30, 7), (22, 8), (143, 4)]:
        assert count_pq_bicliques(graph, *cell, engine="cpu") == known[cell], cell


@pytest.mark.slow
def test_every_published_count_of_youtube(data_dir: Path) -> None:
    graph = youtube(data_dir)
    for cell, n in published(data_dir).items():
        assert count_pq_bicliques(graph, *cell, engine="cpu") == n, cell


# GBC's counts, except actor_movies (3, 3): GBC gives 2,381,100, but testing all triples of left vertices gives this.
GIVEN_BY_GBC = {
    "lastfm_tag_artist": {(3, 3): 731282108, (4, 4): 8186356587, (6, 6): 45280458274, (8, 8): 25856778483},
    "github_half": {(3, 3): 3117279, (4, 4): 174155, (6, 6): 0},
    "actor_movies": {(3, 3): 2381119, (4, 4): 4579343, (6, 6): 15199206, (8, 8): 75601},
}


# The largest by far; its search counts the others too.
LASTFM = pytest.param("lastfm_tag_artist", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [LASTFM, *list(GIVEN_BY_GBC)[1:]])
def test_counts_of_another_program(data_dir: Path, name: str) -> None:
    with np.load(data_dir / f"{name}.npz") as arrays:
        graph = BipartiteCSR.from_edges(*(arrays[key] for key in arrays.files[:2]))
    for cell, n in GIVEN_BY_GBC[name].items():
        assert count_pq_bicliques(graph, *cell, engine="cpu") == n, cell


def test_graphs_without_edges() -> None:
    graph = BipartiteCSR.from_edges(np.empty(0, int), np.empty(0, int), 3, 4)
    for engine in (reference, engine_cpu):
        assert set(counted(engine, graph, PqQuery(1, 3, 1, 3)).values()) == {0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 2, 1, 2), "p is 0: expected 1 to 1,048,576"),
        ((1, 2, -1, 2), "q is -1"),
        ((1, 2, 1, 1 << 21), "q is 2097152"),
        ((3, 2, 1, 2), "max_p is 2, below min_p = 3"),
    ],
)
def test_impossible_sizes(arguments: tuple[int, ...], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        PqQuery(*arguments)


def test_a_vertex_outside_the_graph_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="containing_right holds 4: the right ids run from 0 to 3"):
        count_pq_bicliques(graphs.complete(3, 4), 1, 1, containing_right=(4,), engine="cpu")


def test_too_little_memory_is_reported_before_and_during_a_count() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(3, 300, 300, 0.5))
    for budget in (1000, 1_200_000):
        sink = PqSink(PqQuery(2, 4, 2, 4))
        with pytest.raises(MemoryBudgetExceeded, match="memory_budget_bytes has"):
            count_pq_into(sink, graph, Execution(threads=1, memory_budget_bytes=budget), "cpu")


def test_a_time_limit_gives_a_lower_bound_soon() -> None:
    """Far more than a second of work, mostly in one frame of a heavy root."""
    graph, query = graphs.from_matrix(graphs.random_matrix(5, 260, 260, 0.5)), PqQuery(2, 40, 2, 40)
    sink = PqSink(query)
    facts = count_pq_into(sink, graph, Execution(threads=2, time_limit_seconds=1.0), "cpu")
    assert facts.truncated is not None
    assert facts.seconds < 60
    exact = {(1, 1): graph.n_edges}
    assert counted(engine_cpu, graph, PqQuery.of(1, 1)) == exact
    pairs = count_pq_bicliques(graph, 2, 2, engine="cpu")
    assert 0 < sink.counts()[2, 2] <= pairs
