"""Parts of a core: they contain every root with its subtree and fit the budget."""

from __future__ import annotations

import itertools
from collections import Counter
from math import comb

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pq_counts.cuda.memory_plan import SearchSizes, least_bytes, plan_memory, prices_of
from mbe_stage.pq_counts.ordering import row_lists
from mbe_stage.pq_counts.partition import Core, Fewest, GraphPart, PartLists, core_of, cut, lists_of
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import reduced, to_choose
from tests.mbe_stage import graphs
from tests.mbe_stage.pq_counts.counting import Counts, by_subsets

SHAPES = [((7, 9), 0.5), ((10, 14), 0.4), ((9, 24), 0.3), ((12, 12), 0.7), ((11, 30), 0.15), ((8, 40), 0.5)]
QUERIES = [PqQuery(2, 4, 2, 5), PqQuery(3, 4, 2, 3), PqQuery(2, 3, 4, 5), PqQuery(3, 3, 3, 3), PqQuery(2, 2, 2, 2)]
N_BLOCKS = 4


def core_and_sizes(graph: BipartiteCSR, query: PqQuery) -> tuple[Core, SearchSizes]:
    """Return core and sizes with the left vertices as rows."""
    lists, _ = row_lists(reduced(to_choose(graph, query)))
    core = core_of(lists, Fewest(query.min_p, query.min_q))
    row_degrees, column_degrees = np.diff(core.row_offsets), np.diff(core.column_offsets)
    sizes = SearchSizes(
        core.paths.size,
        core.columns.size,
        int(row_degrees.max(initial=0)),
        int(column_degrees.max(initial=0)),
        0,
        0,
        query.max_p,
        query.max_q,
    )
    return core, sizes


def parts_within(core: Core, sizes: SearchSizes, budget: int) -> list[GraphPart]:
    return cut(core, prices_of(sizes, N_BLOCKS, budget))


def least_budget(core: Core, sizes: SearchSizes) -> int:
    """Return the budget that a refusal names; 0 without a refusal."""
    try:
        parts_within(core, sizes, 1)
    except MemoryBudgetExceeded as refusal:
        return refusal.needed_bytes or -1
    return 0


def below_the_roots(lists: PartLists, query: PqQuery) -> Counter[tuple[int, int]]:
    """Count the bicliques whose first row is among the roots, from the later rows of the roots' columns."""
    found: Counter[tuple[int, int]] = Counter()
    for root in lists.order.tolist():
        first, end = lists.row_offsets[root : root + 2].tolist()
        columns_of: Counter[int] = Counter()
        for k in range(first, end):
            position = int(lists.positions[k])
            stop = int(lists.column_offsets[lists.row_members[k] + 1])
            assert lists.column_members[position] == root
            for row in lists.column_members[position + 1 : stop].tolist():
                assert row > root
                columns_of[row] += 1 << (k - first)
        for p in range(query.min_p, query.max_p + 1):
            for rows in itertools.combinations(columns_of, p - 1):
                common = (1 << (end - first)) - 1
                for row in rows:
                    common &= columns_of[row]
                for q in range(query.min_q, query.max_q + 1):
                    found[p, q] += comb(common.bit_count(), q)
    return found


def check_sizes(part: GraphPart, lists: PartLists) -> None:
    """Check that the stated sizes of a part are exact, or upper bounds."""
    sizes = part.sizes
    degrees = np.diff(lists.row_offsets)
    assert part.roots.tolist() == sorted(part.roots.tolist())
    assert sizes.n_roots == lists.order.size == part.roots.size == np.count_nonzero(degrees)
    assert (sizes.n_rows, sizes.n_columns) == (degrees.size, lists.column_offsets.size - 1)
    assert (sizes.n_root_entries, sizes.n_column_entries) == (lists.row_members.size, lists.column_members.size)
    assert sizes.list_bytes == sum(array.nbytes for array in lists)
    assert sizes.max_row_degree == degrees.max()
    assert sizes.max_column_degree >= np.diff(lists.column_offsets).max()
    for offsets, members in (
        (lists.row_offsets, lists.row_members),
        (lists.column_offsets, lists.column_members),
    ):
        for start, stop in itertools.pairwise(offsets.tolist()):
            assert (np.diff(members[start:stop]) > 0).all()


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_parts_of_random_graphs_contain_each_biclique_once(first: int) -> None:
    n_parts = []
    for seed in range(first, first + 60):
        shape, density = SHAPES[seed % len(SHAPES)]
        query = QUERIES[seed % len(QUERIES)]
        graph = graphs.from_matrix(graphs.random_matrix(seed, *shape, density))
        core, sizes = core_and_sizes(graph, query)
        least = least_budget(core, sizes)
        for budget in (least, least + 400, 1 << 30) if least else (1,):
            parts = parts_within(core, sizes, budget)
            roots = np.sort(np.concatenate([np.empty(0, np.int64), *(part.roots for part in parts)]))
            assert roots.tolist() == np.flatnonzero(core.paths).tolist()
            found: Counts = dict.fromkeys(query.cells, 0)
            for part in parts:
                lists = lists_of(core, part)
                check_sizes(part, lists)
                for cell, n in below_the_roots(lists, query).items():
                    found[cell] += n
            assert found == by_subsets(graph, query), seed
            n_parts.append(len(parts))
    assert max(n_parts) > 5
    assert n_parts.count(1) > 40


def test_the_budget_of_a_refusal_is_the_smallest() -> None:
    for seed in range(60):
        shape, density = SHAPES[seed % len(SHAPES)]
        query = QUERIES[seed % len(QUERIES)]
        core, sizes = core_and_sizes(graphs.from_matrix(graphs.random_matrix(seed, *shape, density)), query)
        least = least_budget(core, sizes)
        if least == 0:
            continue
        with pytest.raises(MemoryBudgetExceeded, match=f"needs {least:,} bytes .* the budget is {least - 1:,}:"):
            parts_within(core, sizes, least - 1)
        for budget in (least, 2 * least, 1 << 30):
            for part in parts_within(core, sizes, budget):
                found = part.sizes
                plan = plan_memory(
                    SearchSizes(
                        found.n_rows,
                        found.n_root_entries + found.n_column_entries,
                        found.max_row_degree,
                        found.max_column_degree,
                        found.max_matrix_rows,
                        found.max_node_words,
                        query.max_p,
                        query.max_q,
                    ),
                    N_BLOCKS,
                    budget - found.list_bytes,
                )
                assert plan.total_bytes + found.list_bytes <= budget


def test_fewer_bytes_make_more_and_smaller_parts() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(1, 600, 500, 0.02))
    core, sizes = core_and_sizes(graph, PqQuery.of(2, 2))
    whole = parts_within(core, sizes, 1 << 30)
    assert len(whole) == 1
    least = least_budget(core, sizes)
    n_parts = [len(parts_within(core, sizes, budget)) for budget in (least, least + 3000, least + 30_000)]
    assert n_parts == sorted(n_parts, reverse=True)
    assert n_parts[0] > 10


def test_some_of_the_roots() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(1, 60, 50, 0.2))
    core, sizes = core_and_sizes(graph, PqQuery.of(2, 2))
    wanted = np.arange(10, 40)
    (part,) = cut(core, prices_of(sizes, N_BLOCKS, 1 << 30), wanted)
    assert set(part.roots.tolist()) == set(wanted.tolist()) & set(np.flatnonzero(core.paths).tolist())
    assert cut(core, prices_of(sizes, N_BLOCKS, 1 << 30), np.empty(0, np.int64)) == []


def test_a_graph_without_bicliques_has_no_parts() -> None:
    core, sizes = core_and_sizes(graphs.star(5), PqQuery.of(2, 2))
    assert parts_within(core, sizes, 1) == []


@pytest.mark.parametrize("seed", range(40))
def test_the_smallest_plan_fits_its_named_budget_for_all_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_edges, rows, columns, matrix_rows, words = (int(2 ** rng.uniform(1, 20)) for _ in range(6))
    sizes = SearchSizes(n_rows, n_edges, rows, columns, matrix_rows, words, *rng.integers(2, 60, 2).tolist())
    least = least_bytes(sizes)
    for n_blocks in (1, 264):
        for budget in (least, 3 * least, 100 * least):
            assert plan_memory(sizes, n_blocks, budget).total_bytes <= budget
    with pytest.raises(MemoryBudgetExceeded) as refusal:
        plan_memory(sizes, 264, least - 1)
    assert refusal.value.needed_bytes == least
