"""Parts of the CPU engine, each compared with a plain definition."""

from __future__ import annotations

import functools
import itertools
import operator
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from mbe_stage import BicliqueQuery, BipartiteCSR, CountSink, Execution, enumerate_into
from mbe_stage.bicliques import engine_cpu, reduction, reference
from mbe_stage.bicliques.cpu.closed_sets import (
    TOUCHING,
    closed_sets,
    column_groups,
    singles_inside,
    subsets_inside,
    subsets_of,
    subsets_of_singles,
)
from mbe_stage.bicliques.cpu.layout import Excluded
from mbe_stage.bicliques.cpu.row_words import (
    drop_dominated,
    merge_equal,
    restrict_distinct,
    sort_rows,
    table_size,
)
from mbe_stage.bicliques.cpu.twin_expansion import SORT_SLACK, Found, Translation, expand_blocks, sort_ids
from mbe_stage.bicliques.cpu.word_vectors import weight_of_holders
from mbe_stage.bicliques.ordering import arranged
from mbe_stage.bicliques.reduction import Groups, core_of
from mbe_stage.bicliques.results import Detail, TableSink
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.tasks import Task
from tests.mbe_stage import graphs
from tests.mbe_stage.preparation import graph_of

words = st.integers(0, 2**64 - 1)


@njit
def _weight_of_holders(rows, start, end, columns, weights, weights_at):
    return weight_of_holders(rows, start, end, columns, weights, weights_at)


def as_rows(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def as_subsets(subsets: list[int]) -> np.uint64:
    return np.uint64(sum(1 << subset for subset in set(subsets)))


@given(st.integers(1, 6), st.data())
@settings(max_examples=300, deadline=None)
def test_a_bitmap_holds_the_closed_sets_outside_every_excluded_row(width: int, data: st.DataObject) -> None:
    subsets = st.lists(st.integers(0, 2**width - 1), max_size=8)
    candidates, excluded = data.draw(subsets), data.draw(subsets)
    closed = {2**width - 1}
    for row in candidates:
        closed |= {row & known for known in closed}
    expected = {s for s in closed if s and not any(s & ~row == 0 for row in excluded)}
    closed = closed_sets(as_subsets([*candidates, 2**width - 1]), as_subsets(excluded))
    assert {s for s in range(64) if int(closed) >> s & 1} == expected
    without_own_row = closed_sets(as_subsets(candidates), as_subsets(excluded))
    assert {s for s in range(64) if int(without_own_row) >> s & 1} == {
        s for s in expected if any(s & ~row == 0 for row in candidates)
    }


@given(st.lists(words, max_size=70), st.sets(st.integers(0, 63), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_subsets_of_indexes_the_chosen_bits(rows: list[int], chosen: set[int]) -> None:
    bits = sorted(chosen)
    left = np.uint64(sum(1 << bit for bit in bits))
    masks = np.full(6, 2**64 - 1, np.uint64)
    masks[: len(bits)] = [1 << bit for bit in bits]
    expected = 0
    for row in rows:
        expected |= 1 << sum((row >> bit & 1) << k for k, bit in enumerate(bits))
    assert int(subsets_of(as_rows(rows), 0, len(rows), left, masks)) == expected
    assert int(subsets_inside(as_rows(rows), 0, len(rows), left)) == expected


@given(st.lists(st.integers(0, 255), max_size=5))
@settings(max_examples=200, deadline=None)
def test_column_groups_have_equal_rows(rows: list[int]) -> None:
    patterns: dict[tuple[int, ...], int] = {}
    for column in range(8):
        pattern = tuple(row >> column & 1 for row in rows)
        if any(pattern):
            patterns[pattern] = patterns.get(pattern, 0) | 1 << column
    masks = np.zeros(6, np.uint64)
    fits = column_groups(as_rows(rows), 0, len(rows), masks)
    assert fits == (len(patterns) <= 6)
    if fits:
        assert {int(mask) for mask in masks} - {2**64 - 1} == set(patterns.values())


@given(st.integers(0, 255))
def test_single_columns_forbid_only_groups_of_one(singles: int) -> None:
    masks = np.full(6, 2**64 - 1, np.uint64)
    groups = [1, 2, 12, 48]
    masks[:4] = groups
    subsets = int(subsets_of_singles(np.uint64(singles), masks))
    assert subsets == sum(1 << (1 << k) for k, group in enumerate(groups) if group & singles == group and k < 2)
    inside = int(singles_inside(np.uint64(singles), np.uint64(0b10101010)))
    assert inside == sum(1 << (1 << k) for k in range(4) if singles >> 2 * k + 1 & 1)


@given(st.sets(st.integers(1, 63), min_size=1, max_size=12), st.integers(0, 63))
@settings(max_examples=50, deadline=None)
def test_subsets_that_touch_another(subsets: set[int], other: int) -> None:
    bitmap = int(as_subsets(list(subsets)))
    assert bitmap & int(TOUCHING[other]) == int(as_subsets([s for s in subsets if s & other]))


@given(st.lists(st.tuples(st.integers(0, 15) | words, st.integers(1, 9)), max_size=40), st.integers(0, 15), st.data())
@settings(max_examples=100, deadline=None)
def test_weights_of_rows_that_hold_all_columns(rows: list[tuple[int, int]], columns: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    arguments = as_rows([row for row, _ in rows]), start, end, np.uint64(columns)
    weights = np.array([weight for _, weight in rows], np.int32)
    expected = sum(weight for row, weight in rows[start:end] if row & columns == columns)
    assert _weight_of_holders(*arguments, weights, start) == expected


@given(st.lists(st.integers(0, 40) | words, max_size=100))
@settings(max_examples=100, deadline=None)
def test_sorting_and_merging(values: list[int]) -> None:
    rows = as_rows(values)
    payload = np.arange(rows.size, dtype=np.int32)
    sort_rows(rows, 0, rows.size, payload, 0)
    assert rows.tolist() == sorted(values)
    assert [values[k] for k in payload] == rows.tolist()
    alone = as_rows(values)
    sort_rows(alone, 0, alone.size, None, 0)
    assert alone.tolist() == rows.tolist()
    assert rows[: merge_equal(rows, 0, rows.size)].tolist() == sorted(set(values))


@given(st.lists(st.integers(1, 255), max_size=12), st.lists(st.integers(0, 255), max_size=80), st.integers(0, 255))
@settings(max_examples=100, deadline=None)
def test_dominated_rows_are_dropped(values: list[int], excluded: list[int], singles: int) -> None:
    words = as_rows([*values, *excluded])
    n, n_all = len(values), len(values) + len(excluded)
    half = n + len(excluded) // 2
    every_excluded = [*excluded, *(1 << bit for bit in range(8) if singles >> bit & 1)]
    expected = [row for row in values if not any(row & ~other == 0 for other in every_excluded)]
    with_payload, payload = words.copy(), np.arange(n, dtype=np.int32)
    n_kept = drop_dominated(words, 0, n, Excluded(n, half, np.uint64(singles), half, n_all), None, 0)
    assert words[:n_kept].tolist() == expected
    n_kept = drop_dominated(with_payload, 0, n, Excluded(n, half, np.uint64(singles), half, n_all), payload, 0)
    assert with_payload[:n_kept].tolist() == expected
    assert [values[k] for k in payload[:n_kept]] == expected


@given(
    st.lists(words | st.integers(0, 31), max_size=60),
    st.lists(words | st.integers(0, 31), max_size=60),
    words,
    words,
    st.integers(0, 31),
    st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_distinct_restrictions(
    rows: list[int], siblings: list[int], singles: int, mask: int, heavy: int, least: int
) -> None:
    n_rows, n_all = len(rows), len(rows) + len(siblings)
    words = np.zeros(2 * n_all + table_size(n_all), np.uint64)
    words[:n_all] = as_rows([*rows, *siblings])
    excluded = Excluded(0, n_rows, np.uint64(singles), n_rows, n_all)
    end, found_singles = restrict_distinct(words, excluded, np.uint64(mask), n_all, np.uint64(heavy), least)
    restricted = {value & mask for value in (*rows, *siblings)}
    several = {row for row in restricted if row.bit_count() > 1 and (row.bit_count() >= least or row & heavy)}
    kept = words[n_all:end].tolist()
    # Rows inside the widest may be dropped.
    assert set(kept) <= several
    assert all(any(row & ~other == 0 for other in kept[:2]) for row in several - set(kept))
    # A table without chains: a repeated row may stay if another one replaced it in between.
    assert all(one != other for one, other in itertools.pairwise(kept))
    narrow = sum(row for row in restricted if row.bit_count() == 1)
    assert int(found_singles) == functools.reduce(operator.or_, several, narrow | singles & mask)


@given(graphs.matrices(max_left=9, max_right=9), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.data())
@settings(max_examples=300, deadline=None)
def test_reduction_keeps_exactly_the_wanted_bicliques(
    matrix: np.ndarray, min_left: int, min_right: int, drop_edges: bool, data: st.DataObject
) -> None:
    graph = graphs.from_matrix(matrix)
    query = BicliqueQuery(
        min_left=min_left,
        min_right=min_right,
        containing_left=tuple(data.draw(st.lists(st.integers(0, graph.n_left - 1), max_size=2))),
        containing_right=tuple(data.draw(st.lists(st.integers(0, graph.n_right - 1), max_size=1))),
    )
    # If an earlier step has dropped anything.
    with mock.patch.object(reduction, "_SPARSE", 1.0):
        core = core_of(graph, query)
        made = arranged(core.without_weak_edges(query, graph.n_edges) if drop_edges else core)
    found = reference.maximal_bicliques(graph_of(made))
    expanded = {(_behind(made.columns, columns), _behind(made.rows, rows)) for columns, rows in found}
    if made.rows_are_left:
        expanded = {(left, right) for right, left in expanded}
    wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
    assert {pair for pair in expanded if query.accepts(len(pair[0]), len(pair[1]))} == wanted


@given(graphs.matrices(max_left=9, max_right=9), st.integers(2, 3), st.integers(2, 3))
@settings(max_examples=200, deadline=None)
def test_dropped_edges_change_no_task(matrix: np.ndarray, min_left: int, min_right: int) -> None:
    """An engine that keeps them can continue the tasks of one that does not."""
    graph, query = graphs.from_matrix(matrix), BicliqueQuery(min_left=min_left, min_right=min_right)
    wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}

    def found(task: Task, share: float) -> set:
        sink = TableSink()
        with mock.patch.object(reduction, "_SPARSE", share):
            for block in engine_cpu.run(graph, query, Execution(threads=1), Detail.MEMBERS, [task]):
                sink.accept(block)
        return sink.table().as_set()

    for leaves_out in (0.0, 1.0):
        with mock.patch.object(reduction, "_SPARSE", leaves_out):
            tasks = engine_cpu.tasks_of(graph, query, 4)
        parts = [found(task, leaves_out) for task in tasks]
        assert parts == [found(task, 1.0 - leaves_out) for task in tasks]
        assert sum(map(len, parts)) == len(set().union(*parts))
        assert set().union(*parts) == wanted


def _behind(groups, members: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(v for g in members for v in groups.members[groups.offsets[g] : groups.offsets[g + 1]].tolist()))


def test_reduction_leaves_no_twins_and_no_isolated_vertices() -> None:
    matrix = np.repeat(np.repeat(graphs.random_matrix(2, 5, 6, 0.6), 3, axis=0), 4, axis=1)
    reduced = graph_of(arranged(core_of(graphs.from_matrix(matrix), BicliqueQuery())))
    for graph in (reduced, reduced.swapped()):
        rows = [tuple(graph.neighbours_of_right(v).tolist()) for v in range(graph.n_right)]
        assert len(set(rows)) == len(rows)
        assert all(rows)


def test_twins_among_rows_of_one_hash_and_at_ends_of_blocks_of_sums() -> None:
    pairs = np.column_stack(np.triu_indices(1000, 1)).astype(np.int32)
    hashes = reduction._hashes(np.arange(0, pairs.size + 1, 2), pairs.ravel())
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    rows = [row.tolist() for row in pairs[counts[inverse] > 1]]
    assert len(rows) > 20
    # A row and an empty one at the end of a block, a row of a whole block, and longer ones.
    rows += [*rows, list(range(-4 * len(rows) % reduction.SUMS)), [], list(range(reduction.SUMS)), []]
    rows += [list(range(5000)), [7], [8], [7], [], list(range(5000))]
    left, right = np.concatenate(rows).astype(np.int32), np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    made = arranged(core_of(BipartiteCSR.from_edges(left, right, 5000, len(rows)), BicliqueQuery()))
    groups = made.columns if made.rows_are_left else made.rows
    twins: dict[tuple[int, ...], list[int]] = {}
    for vertex, row in enumerate(rows):
        twins.setdefault(tuple(row), []).append(vertex)
    assert {_behind(groups, (g,)) for g in range(groups.offsets.size - 1)} == {
        tuple(vertices) for row, vertices in twins.items() if row
    }


@pytest.mark.parametrize("flip", [False, True])
def test_edges_of_no_wanted_biclique_are_dropped(flip: bool) -> None:
    """A block inside a sparse graph that the core does not drop."""
    matrix = graphs.random_matrix(8, 400, 300, 0.03)
    matrix[:6, :7] = True
    leaves = np.zeros((400, 6000), bool)
    leaves[np.arange(6000) % 400, np.arange(6000)] = True
    graph, query = graphs.from_matrix(np.hstack([matrix, leaves])), BicliqueQuery(min_left=6, min_right=5)
    if flip:
        graph, query = graph.swapped(), query.swapped()
    core = core_of(graph, query)
    assert core.graph.n_edges > 2000
    reduced = core.without_weak_edges(query, graph.n_edges)
    assert reduced.graph.n_edges == 6 * 7
    sides = [reduced.left_vertices.tolist(), reduced.right_vertices.tolist()]
    assert sides[:: -1 if flip else 1] == [list(range(6)), list(range(7))]


def test_core_of_a_path_is_empty() -> None:
    core = core_of(graphs.path(50), BicliqueQuery(min_left=2, min_right=2))
    assert core.graph.n_edges == 0
    assert graph_of(arranged(core)).n_edges == 0


@given(st.integers(1, 5000), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=300, deadline=None)
def test_ids_are_sorted_by_every_method(n_vertices: int, seed: int, data: st.DataObject) -> None:
    n = data.draw(st.one_of(st.integers(0, min(70, n_vertices)), st.integers(0, n_vertices)))
    ids = np.random.default_rng(seed).permutation(n_vertices)[:n].astype(np.int32)
    before = np.array([9, 7], np.int32)
    room = np.concatenate([before, ids, np.zeros(SORT_SLACK, np.int32)])
    bitmap = np.zeros(n_vertices // 64 + 1, np.uint64)
    sort_ids(room, 2, 2 + n, bitmap)
    assert room[: 2 + n].tolist() == [9, 7, *sorted(ids.tolist())]
    assert not bitmap.any()


@given(st.lists(st.integers(1, 3), min_size=1, max_size=80), st.integers(0, 2**32 - 1), st.integers(1, 4000))
@settings(max_examples=100, deadline=None)
def test_expanded_blocks_hold_the_user_s_members(group_sizes: list[int], seed: int, block_bytes: int) -> None:
    random = np.random.default_rng(seed)
    n_groups, n_bicliques = len(group_sizes), 20
    offsets = np.concatenate([[0], np.cumsum(group_sizes)])
    members = random.permutation(offsets[-1]).astype(np.int32)
    for start, end in itertools.pairwise(offsets):
        members[start:end].sort()
    translation = Translation.of(Groups(offsets, members))
    sides, expected = [], []
    for _ in range(2):
        chosen = [random.permutation(n_groups)[: random.integers(1, n_groups + 1)] for _ in range(n_bicliques)]
        expected.append([sorted(v for g in groups for v in members[offsets[g] : offsets[g + 1]]) for groups in chosen])
        sizes = np.array([groups.size for groups in chosen], np.int32)
        sides.append(Found(np.concatenate(chosen).astype(np.int32), sizes, translation))
    blocks = list(expand_blocks(*sides, block_bytes, 0.5))
    sink = TableSink()
    for block in blocks:
        sink.accept(block)
        n_bytes = 4 * (block.left_members.size + block.right_members.size + 2 * block.n_bicliques)
        assert n_bytes <= block_bytes or block.n_bicliques == 1
    table = sink.table()
    assert [side.tolist() for side in (table[i][0] for i in range(len(table)))] == expected[0]
    assert [side.tolist() for side in (table[i][1] for i in range(len(table)))] == expected[1]


@pytest.mark.parametrize(("n_rows", "n_columns", "density"), [(30, 250, 0.4), (90, 150, 0.12), (110, 700, 0.05)])
def test_wide_nodes_find_every_intersection_of_rows(n_rows: int, n_columns: int, density: float) -> None:
    """Left sets are the intersections of rows. Some rows repeat, have few columns, or are on both sides of row 64."""
    rng = np.random.default_rng(n_rows)
    held = rng.random((n_rows, n_columns)) < density * rng.choice([0.2, 1.0, 2.0], n_rows)[:, None]
    held[-3:] = held[:3]
    rows = [int("".join("01"[bit] for bit in row), 2) for row in held.astype(int)]
    closed: set[int] = set()
    for row in rows:
        closed |= {row, *(left & row for left in closed)}
    right_sizes = {left: sum(left & ~row == 0 for row in rows) for left in closed - {0}}
    right, left = np.nonzero(held)
    graph = BipartiteCSR.from_edges(left, right)
    for least in (1, 2, 3, 20):
        query = BicliqueQuery(min_left=least, min_right=min(least, 3))
        wanted = sum(left.bit_count() >= least and n >= query.min_right for left, n in right_sizes.items())
        sinks = CountSink(), TableSink()
        for sink in sinks:
            enumerate_into(sink, graph, query, Execution(threads=1), "cpu")
        assert (sinks[0].n_bicliques, len(sinks[1].table())) == (wanted, wanted)


def test_a_search_resumes_after_a_full_block() -> None:
    """Including single columns: a child that found no room has not been visited."""
    for seed in range(60):
        density = (0.1, 0.2, 0.4)[seed % 3]
        sides = (10 + seed % 40, 12 + seed % 20) if seed % 2 else (24, 8 + seed % 10)
        graph = graphs.from_matrix(graphs.random_matrix(seed, *sides, density))
        expected = set(reference.maximal_bicliques(graph))
        for threads in (1, 2):
            sink = TableSink()
            enumerate_into(sink, graph, None, Execution(threads=threads, block_bytes=200), "cpu")
            assert sink.table().as_set() == expected, (seed, threads)
        counting = CountSink()
        enumerate_into(counting, graph, None, Execution(threads=1, block_bytes=200), "cpu")
        assert counting.n_bicliques == len(expected), seed


@pytest.mark.parametrize("seed", range(4))
def test_the_last_roots_are_read_as_words(seed: int) -> None:
    """Roots of more than 64 columns, in growing arenas, at once and task by task, with and without sizes."""
    graph = graphs.from_matrix(np.repeat(graphs.random_matrix(seed, 180, 11, 0.55), 1 + seed % 2, axis=0))
    for least in ((1, 1), (2, 2), (3, 4)):
        query = BicliqueQuery(*least)
        wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
        for tasks in (None, engine_cpu.tasks_of(graph, query, 4)):
            sink, n_counted = TableSink(), 0
            asked = graph, query, Execution(threads=1)
            for block in engine_cpu.run(*asked, Detail.MEMBERS, tasks, first_sizes=(64, 64, 2)):
                sink.accept(block)
            for block in engine_cpu.run(*asked, Detail.COUNT, tasks, first_sizes=(64, 64, 2)):
                n_counted += len(block)
            assert sink.table().as_set() == wanted
            assert n_counted == len(wanted)


def test_a_small_count_grows_its_arenas_within_its_budget() -> None:
    """It has no pool, which would do both."""
    graph = graphs.from_matrix(np.ones((70, 3), bool) ^ (np.arange(70)[:, None] % 5 == np.arange(3)))
    sizes = (2, 2, 1)
    counted = engine_cpu.run(graph, BicliqueQuery(), Execution(threads=1), Detail.COUNT, first_sizes=sizes)
    assert sum(map(len, counted)) == len(reference.maximal_bicliques(graph))
    with pytest.raises(MemoryBudgetExceeded, match="at least"):
        list(engine_cpu.run(graph, BicliqueQuery(), Execution(threads=1, memory_budget_bytes=999), Detail.COUNT))
