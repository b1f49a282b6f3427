"""The list of groups compared with its definition: sets, fractions and all pairs."""

from __future__ import annotations

import random
import time
from itertools import accumulate

import numpy as np
import pytest

from mbe_stage.errors import InvalidArgument
from mbe_stage.groups import reference_selection as reference
from mbe_stage.groups.listing import Pool, arranged, cores, listed, ranked
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.near_copies import count_near_copies, overlap_fraction, without_near_copies
from tests.mbe_stage.groups.random_graphs import by_definition

RANKINGS = ("surprise", "surprise_per_vertex", "surprise_per_edge", "evidence")
Group = tuple[list[int], list[int]]


def pool_of(surprise: list[int], groups: list[Group], n_grown: int = 0, graphs: list[int] | None = None) -> Pool:
    """Return groups in this order, which may differ from their surprise; keys fall, evidence grows by equal steps."""
    n = len(groups)
    return Pool(
        np.array(graphs or [0] * n, np.int64),
        np.arange(n) < n_grown,
        np.arange(n, 0, -1),
        np.array(surprise, np.int64),
        np.array([value + 7 * i % 5 for i, value in enumerate(surprise)], np.int64),
        GroupMembers.of(groups),
    )


def random_pool(seed: int, n_graphs: int = 3) -> tuple[Pool, list[int]]:
    """Return overlapping groups with many ties, and right vertices; grown groups are larger and contain bicliques."""
    dice = random.Random(seed)
    n, n_grown = dice.randrange(1, 50), dice.randrange(8)
    groups, graphs = [], []
    for row in range(n_grown + n):
        most = (9, 9) if row < n_grown else (5, 4)
        groups.append(
            (
                sorted(dice.sample(range(12), dice.randrange(1 + (row < n_grown), most[0]))),
                sorted(dice.sample(range(10), dice.randrange(1 + (row < n_grown), most[1]))),
            )
        )
        graphs.append(dice.randrange(n_graphs))
    return pool_of([dice.randrange(1, 9) for _ in groups], groups, n_grown, graphs), [10, 14, 10][:n_graphs]


@pytest.mark.parametrize("rank_by", RANKINGS)
@pytest.mark.parametrize("has_keys", [False, True])
def test_as_the_definition_says(rank_by: str, has_keys: bool) -> None:
    n_left = n_cores = n_copies = 0
    for seed in range(150):
        pool, n_right = random_pool(seed)
        dice, n_grown = random.Random(seed), int(pool.is_grown.sum())
        limit, overlap = dice.choice([1, 3, 100]), dice.choice([0.1, 1 / 3, 0.5, 0.6, 0.9, 1.0])
        starts = [0, *accumulate(n_right)]
        sides = [
            (frozenset(left.tolist()), frozenset((right + starts[graph]).tolist()))
            for (left, right), graph in zip(pool.members, pool.graphs.tolist(), strict=True)
        ]
        values = (pool.evidence if rank_by == "evidence" else pool.surprise).tolist()
        per = {
            "surprise_per_vertex": [len(left) + len(right) for left, right in sides],
            "surprise_per_edge": [len(left) * len(right) for left, right in sides],
        }.get(rank_by)
        best_first = reference.ranked(pool.keys.tolist(), values, per)
        order = ranked(pool, rank_by)  # type: ignore[arg-type]
        assert order.tolist() == best_first
        graphs, of_keys = pool.graphs.tolist(), n_right if has_keys else None
        order = arranged(order, pool, of_keys)
        wanted = reference.arranged(best_first, sides, n_grown, graphs, of_keys)
        assert order.tolist() == wanted
        is_muted = np.array([dice.random() < 0.2 for _ in sides])
        expected = reference.listed(
            sides, n_grown, best_first, wanted, reference.overlap_fraction(overlap), limit, is_muted.item
        )
        rows = listed(order, np.array(best_first), pool, is_muted, max_overlap=overlap, limit=limit)
        assert rows.tolist() == [row for row, _, _ in expected]
        # Only bicliques affect the list without being in it.
        some = [row for row in best_first if row >= n_grown or row in rows.tolist()]
        kept = reference.arranged(some, sides, n_grown, graphs, of_keys)
        assert expected == reference.listed(
            sides, n_grown, best_first, kept, reference.overlap_fraction(overlap), limit, is_muted.item
        )
        found = cores(ranked(pool, rank_by), pool, rows)  # type: ignore[arg-type]
        assert [row if row >= 0 else None for row in found.tolist()] == [core for _, core, _ in expected]
        others = np.setdiff1d(np.flatnonzero(~pool.is_grown), rows)
        counts = count_near_copies(pool.members.take(rows), pool.members.take(others), overlap)
        assert (counts + ~pool.is_grown[rows]).tolist() == [n for _, _, n in expected]
        n_left += len(sides) - len(expected)
        n_cores += sum(core is not None for row, core, _ in expected if row < n_grown)
        n_copies += int(counts.sum())
    assert min(n_left, n_cores, n_copies) > 30


@pytest.mark.parametrize("overlap", [0.1, 1 / 3, 0.5, 0.6, 0.9, 1.0])
def test_no_near_copies_as_sets_say(overlap: float) -> None:
    n_kept = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        # The vertices differ in frequency.
        shares = rng.dirichlet(np.full(14, 0.5)) + 0.01
        sizes = rng.integers(1, 7, 60)
        lefts = [sorted(rng.choice(14, size, False, shares / shares.sum()).tolist()) for size in sizes]
        expected = by_definition(lefts, overlap)
        members = GroupMembers.of((left, [0]) for left in lefts)
        assert without_near_copies(members, max_overlap=overlap).tolist() == expected
        n_kept.add(len(expected))
    assert max(n_kept) > 1
    assert min(n_kept) < 60


def test_a_grown_group_comes_before_bicliques_and_holds_some() -> None:
    groups = [(list(range(9)), [0, 1, 2]), ([0, 1], [0, 1]), ([2, 3], [0, 9]), ([4, 5], [1]), ([6, 7], [2])]
    pool, none = pool_of([5, 9, 8, 7, 3], groups, n_grown=1), np.zeros(5, bool)
    rows = listed(arranged(order := ranked(pool), pool), order, pool, none)
    # The third has a right member elsewhere.
    assert rows.tolist() == [0, 2]
    assert cores(order, pool, rows).tolist() == [1, 2]
    # A muted one does not count for the limit.
    assert listed(arranged(order, pool), order, pool, none, limit=1).tolist() == [0]
    assert listed(arranged(order, pool), order, pool, np.arange(5) == 0, limit=1).tolist() == [0, 2]


def test_at_the_threshold_it_is_a_copy() -> None:
    lefts = [[0, 1, 2, 3], [0, 1], [0, 1, 4, 5, 6], [4, 5, 6, 7]]
    members = GroupMembers.of((left, [0]) for left in lefts)
    # 2 of 4; 2 of 7; 3 of 6 with the third, which stays.
    assert without_near_copies(members).tolist() == [0, 2]
    assert without_near_copies(members, max_overlap=0.500001).tolist() == [0, 1, 2, 3]
    assert without_near_copies(members, max_overlap=2 / 7).tolist() == [0, 3]
    assert without_near_copies(members, max_overlap=1.0).tolist() == [0, 1, 2, 3]


def test_rates_that_are_equal_in_floating_point() -> None:
    """(2^60 + 1) / 3 and 2^60 / 3 differ by less than one double step."""
    close = pool_of([1 << 60, (1 << 60) + 1], [([0], [0, 1]), ([1], [2, 3])])
    assert ranked(close, "surprise_per_vertex").tolist() == [1, 0]
    assert ranked(close, "surprise_per_edge").tolist() == [1, 0]
    # By 90,000 and by 90,001.
    large = pool_of([1 << 40, 1 << 40], [(list(range(89_999)), [0]), (list(range(90_000)), [0])])
    assert ranked(large, "surprise_per_vertex").tolist() == [0, 1]
    # Exactly 0.5 and 0.5: the lower key, which is the second.
    equal = pool_of([1 << 40, 1 << 41], [([0], [0]), ([1, 2], [3, 4])])
    assert ranked(equal, "surprise_per_vertex").tolist() == [1, 0]


def test_what_is_refused() -> None:
    pool = pool_of([1], [([0], [0])])
    with pytest.raises(InvalidArgument, match="rank_by is 'size'"):
        ranked(pool, "size")  # type: ignore[arg-type]
    for overlap in (0.0, 1.5):
        with pytest.raises(InvalidArgument, match=f"max_overlap is {overlap}"):
            overlap_fraction(overlap)


def test_many_groups_with_the_same_active_members() -> None:
    """Without prefixes each would be compared with nearly all earlier ones: minutes."""
    rng = np.random.default_rng(0)
    n = 40_000
    # Four of twelve hubs, and twelve of fifty thousand others; a range of ids for each.
    ranges = np.repeat([3, 4000], [4, 12])
    lefts = rng.integers(0, ranges, (n, 16)) + np.cumsum(ranges) - ranges
    lefts[n // 2 :: 2, 5:] = lefts[: n // 2 : 2, 5:]
    right = np.arange(n + 1), np.zeros(n, np.int32)
    members = GroupMembers(np.arange(n + 1) * 16, lefts.astype(np.int32).ravel(), *right)
    without_near_copies(members.take(np.arange(2)))
    begun = time.process_time()
    kept = without_near_copies(members)
    assert time.process_time() - begun < 1
    # The even rows of the first half come again with other hubs, sharing at least eleven of sixteen members.
    assert kept.tolist() == [*range(n // 2), *range(n // 2 + 1, n, 2)]
