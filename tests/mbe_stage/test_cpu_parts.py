"""The pieces of the CPU engine, each against a plain statement of what it does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mbe_stage import BicliqueQuery, BipartiteCSR
from mbe_stage.bicliques import reference
from mbe_stage.bicliques.cpu.family import family_of, maximal_family, positions_of
from mbe_stage.bicliques.cpu.rows import drop_dominated, merge_equal, restrict_distinct, sort_rows
from mbe_stage.bicliques.cpu.word_node import table_size
from mbe_stage.reduction import reduce_graph
from tests.mbe_stage import graphs

words = st.integers(0, 2**64 - 1)


def as_rows(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@given(st.integers(1, 6), st.data())
@settings(max_examples=300, deadline=None)
def test_a_family_holds_the_closed_sets_outside_every_excluded_row(width: int, data: st.DataObject) -> None:
    subsets = st.lists(st.integers(0, 2**width - 1), max_size=8)
    candidates, excluded = data.draw(subsets), data.draw(subsets)
    closed = {2**width - 1}
    for row in candidates:
        closed |= {row & known for known in closed}
    expected = {s for s in closed if s and not any(s & ~row == 0 for row in excluded)}
    family = maximal_family(
        np.uint64(sum(1 << s for s in set(candidates))), np.uint64(sum(1 << s for s in set(excluded))), width
    )
    assert {s for s in range(64) if int(family) >> s & 1} == expected


@given(st.lists(words, max_size=70), st.sets(st.integers(0, 63), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_family_of_indexes_the_chosen_bits(rows: list[int], chosen: set[int]) -> None:
    bits = sorted(chosen)
    mask = np.uint64(sum(1 << bit for bit in bits))
    expected = 0
    for row in rows:
        expected |= 1 << sum((row >> bit & 1) << k for k, bit in enumerate(bits))
    assert int(family_of(as_rows(rows), mask, positions_of(mask))) == expected


@given(st.lists(st.integers(0, 40) | words, max_size=100))
@settings(max_examples=100, deadline=None)
def test_sorting_and_merging(values: list[int]) -> None:
    rows = as_rows(values)
    payload = np.arange(rows.size, dtype=np.int32)
    sort_rows(rows, payload)
    assert rows.tolist() == sorted(values)
    assert [values[k] for k in payload] == rows.tolist()
    assert rows[: merge_equal(rows)].tolist() == sorted(set(values))


@given(st.lists(st.integers(1, 255), max_size=12), st.lists(st.integers(0, 255), max_size=80), st.integers(0, 255))
@settings(max_examples=100, deadline=None)
def test_dominated_rows_are_dropped(values: list[int], excluded: list[int], singles: int) -> None:
    rows = as_rows(values)
    half = len(excluded) // 2
    n_kept = drop_dominated(rows, as_rows(excluded[:half]), np.uint64(singles), as_rows(excluded[half:]))
    every_excluded = [*excluded, *(1 << bit for bit in range(8) if singles >> bit & 1)]
    assert rows[:n_kept].tolist() == [row for row in values if not any(row & ~other == 0 for other in every_excluded)]


@given(st.lists(st.lists(words | st.integers(0, 31), max_size=60), min_size=1, max_size=3), words)
@settings(max_examples=100, deadline=None)
def test_distinct_restrictions(lists: list[list[int]], mask: int) -> None:
    n_all = sum(len(values) for values in lists)
    kept, table = np.zeros(n_all, np.uint64), np.zeros(table_size(n_all), np.uint64)
    n_kept, singles = 0, np.uint64(0)
    for values in lists:
        n_kept, singles = restrict_distinct(as_rows(values), np.uint64(mask), kept, n_kept, singles, table)
    restricted = {value & mask for values in lists for value in values}
    several = {row for row in restricted if row.bit_count() > 1}
    assert set(kept[:n_kept].tolist()) == several
    assert n_kept == len(several)
    assert int(singles) == sum(row for row in restricted if row.bit_count() == 1)


@given(graphs.matrices(max_left=9, max_right=9), st.integers(1, 3), st.integers(1, 3), st.data())
@settings(max_examples=150, deadline=None)
def test_reduction_keeps_exactly_the_wanted_bicliques(
    matrix: np.ndarray, min_left: int, min_right: int, data: st.DataObject
) -> None:
    graph = graphs.from_matrix(matrix)
    query = BicliqueQuery(
        min_left=min_left,
        min_right=min_right,
        containing_left=tuple(data.draw(st.lists(st.integers(0, graph.n_left - 1), max_size=2))),
        containing_right=tuple(data.draw(st.lists(st.integers(0, graph.n_right - 1), max_size=1))),
    )
    reduced = reduce_graph(graph, query)
    expanded = {
        (_behind(reduced.left_groups, left), _behind(reduced.right_groups, right))
        for left, right in reference.maximal_bicliques(reduced.graph)
    }
    wanted = {pair for pair in reference.maximal_bicliques(graph) if reference.matches(*pair, query)}
    assert {pair for pair in expanded if query.accepts(len(pair[0]), len(pair[1]))} == wanted


def _behind(groups, members: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(v for g in members for v in groups.members[groups.offsets[g] : groups.offsets[g + 1]].tolist()))


def test_reduction_leaves_no_twins_and_no_isolated_vertices() -> None:
    matrix = np.repeat(np.repeat(graphs.random_matrix(2, 5, 6, 0.6), 3, axis=0), 4, axis=1)
    reduced = reduce_graph(graphs.from_matrix(matrix), BicliqueQuery()).graph
    for graph in (reduced, reduced.swapped()):
        rows = [tuple(graph.neighbours_of_right(v).tolist()) for v in range(graph.n_right)]
        assert len(set(rows)) == len(rows)
        assert all(rows)


def test_core_of_a_path_is_empty() -> None:
    reduced = reduce_graph(graphs.path(50), BicliqueQuery(min_left=2, min_right=2))
    assert reduced.graph.n_edges == 0
    assert isinstance(reduced.graph, BipartiteCSR)
