"""The short list against its definition: sets, fractions and all pairs."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.errors import InvalidArgument
from mbe_stage.groups import reference_selection as reference
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from mbe_stage.groups.short_list import overlap_fraction, ranked, short_list, without_near_copies

OVERLAPS = (0.1, 1 / 3, 0.5, 0.6, 0.9, 1.0)


def random_lefts(seed: int, n: int = 60, n_vertices: int = 14) -> list[list[int]]:
    """Sets that overlap a lot, of vertices that are not equally frequent."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(n_vertices, 0.5)) + 0.01
    sizes = rng.integers(1, n_vertices // 2, n)
    return [sorted(rng.choice(n_vertices, size, False, shares / shares.sum()).tolist()) for size in sizes]


def candidates_of(surprise: list[int], lefts: list[list[int]], rights: list[list[int]] | None = None) -> Candidates:
    """In this order, which need not be that of their surprise; keys fall."""
    n = len(lefts)
    rights = n * [[0]] if rights is None else rights
    members = GroupMembers.of(zip(lefts, rights, strict=True))
    return Candidates(np.arange(n, 0, -1), np.array(surprise, np.int64), members)


def significant(surprise: list[int]) -> list[int]:
    return [value + SIGNIFICANT for value in surprise]


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_no_near_copies_as_sets_say(overlap: float) -> None:
    threshold = overlap_fraction(overlap)
    n_kept = set()
    for seed in range(60):
        lefts = random_lefts(seed)
        expected = reference.without_near_copies(lefts, threshold)
        members = GroupMembers.of((left, [0]) for left in lefts)
        assert without_near_copies(members, max_overlap=overlap).tolist() == expected
        limit = seed % 7
        assert without_near_copies(members, max_overlap=overlap, limit=limit).tolist() == expected[:limit]
        n_kept.add(len(expected))
    assert max(n_kept) > 1
    assert min(n_kept) < 60


@pytest.mark.parametrize("rank_by", ["surprise", "surprise_per_vertex", "surprise_per_edge"])
def test_ranked_and_listed_as_fractions_say(rank_by: str) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        lefts, rights = random_lefts(seed), random_lefts(seed + 1000)
        # Few values: many ties.
        surprise = rng.integers(-2, 8, len(lefts)) * (SIGNIFICANT + rng.choice([1, 3, 1 << 50]))
        candidates = candidates_of(surprise.tolist(), lefts, rights)
        groups = list(zip(lefts, rights, strict=True))
        parts = {
            "surprise": None,
            "surprise_per_vertex": [len(left) + len(right) for left, right in groups],
            "surprise_per_edge": [len(left) * len(right) for left, right in groups],
        }
        everything = reference.ranked(candidates.keys.tolist(), surprise.tolist(), parts[rank_by])
        order = [row for row in everything if surprise[row] > SIGNIFICANT]
        assert ranked(candidates, rank_by).tolist() == order  # type: ignore[arg-type]
        kept = reference.without_near_copies([lefts[row] for row in order], Fraction(1, 2))
        assert short_list(candidates, rank_by=rank_by).tolist() == [order[i] for i in kept]  # type: ignore[arg-type]


def test_ranked_by_evidence() -> None:
    """The costs of naming come back, so that a large group passes a small one of more surprise."""
    edges = [(u, u) for u in range(1000)] + [(u, v) for u in range(20) for v in range(20)]
    model = NullModel.of(BipartiteCSR.from_edges(*zip(*edges, strict=True)))
    candidates = candidates_of(significant([5, 9, -1]), [list(range(9)), [0, 1], [3]], [[0, 1], [2, 3], [4]])
    assert ranked(candidates, "surprise").tolist() == [1, 0]
    assert ranked(candidates, "evidence", model).tolist() == [0, 1]
    assert short_list(candidates, rank_by="evidence", model=model, limit=1).tolist() == [0]
    with pytest.raises(InvalidArgument, match="model is None"):
        short_list(candidates, rank_by="evidence")


def test_at_the_threshold_it_is_a_copy() -> None:
    halves = candidates_of(significant([9, 8, 7, 6]), [[0, 1, 2, 3], [0, 1], [0, 1, 4, 5, 6], [4, 5, 6, 7]])
    # 2 of 4; 2 of 7; 3 of 6 with the third, which is on the list.
    assert short_list(halves).tolist() == [0, 2]
    assert short_list(halves, max_overlap=0.500001).tolist() == [0, 1, 2, 3]
    assert short_list(halves, max_overlap=2 / 7).tolist() == [0, 3]
    assert short_list(halves, max_overlap=1.0).tolist() == [0, 1, 2, 3]


def test_only_the_left_side_makes_a_copy() -> None:
    same_left = candidates_of(significant([5, 9]), [[0, 1], [0, 1]], [[0], [1, 2]])
    assert short_list(same_left).tolist() == [1]
    same_right = candidates_of(significant([5, 9]), [[0], [1]], [[3, 4], [3, 4]])
    assert short_list(same_right).tolist() == [1, 0]


def test_nothing_without_surprise() -> None:
    assert short_list(candidates_of(significant([0, -5]), [[0], [1]])).tolist() == []
    assert short_list(candidates_of([], [])).tolist() == []


def test_rates_that_floating_point_takes_for_equal() -> None:
    """(2^60 + 1) / 3 and 2^60 / 3 differ by less than a double of that size can."""
    close = candidates_of([1 << 60, (1 << 60) + 1], [[0], [1]], [[0, 1], [2, 3]])
    assert ranked(close, "surprise_per_vertex").tolist() == [1, 0]
    assert ranked(close, "surprise_per_edge").tolist() == [1, 0]
    # By 90,000 and by 90,001.
    large = candidates_of(significant([1, 1]), [list(range(89_999)), list(range(90_000))], [[0], [0]])
    assert ranked(large, "surprise_per_vertex").tolist() == [0, 1]
    # 0.5 and 0.5 exactly: the lower key, which is the second.
    equal = candidates_of([1 << 40, 1 << 41], [[0], [1, 2]], [[0], [3, 4]])
    assert ranked(equal, "surprise_per_vertex").tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_overlap": 0.0}, "max_overlap is 0.0"),
        ({"max_overlap": 1.5}, "max_overlap is 1.5"),
        ({"limit": -1}, "limit is -1"),
        ({"rank_by": "size"}, "rank_by is 'size'"),
    ],
)
def test_what_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        short_list(candidates_of([1], [[0]]), **arguments)  # type: ignore[arg-type]


def test_many_that_share_their_most_active_members() -> None:
    """Without prefixes each would be compared with nearly all before it: minutes."""
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
    # The first half's even rows come again with other hubs, and with eleven members or more of sixteen in common.
    assert kept.tolist() == [*range(n // 2), *range(n // 2 + 1, n, 2)]
