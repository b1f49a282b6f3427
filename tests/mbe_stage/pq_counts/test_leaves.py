"""Counts from leaves, compared with plain sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import pytest

from mbe_stage.pq_counts import results
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Leaves, PqBlock, PqSink, bicliques_of, together


def some(seed: int, n: int, most_optional: int, min_p: int = 1, min_q: int = 1, most_times: int = 9) -> Leaves:
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, end, n) for end in (4, most_optional, 4, most_optional))
    return Leaves(*columns, rng.integers(1, most_times, n), min_p, min_q)


def one_by_one(parts: Sequence[Leaves], query: PqQuery) -> dict[tuple[int, int], int]:
    counts = dict.fromkeys(query.cells, 0)
    for leaves in parts:
        columns = (leaves.held_left, leaves.optional_left, leaves.held_right, leaves.optional_right, leaves.times)
        for h, o, g, r, times in zip(*(column.tolist() for column in columns), strict=True):
            for p, q in query.cells:
                if p >= max(h, leaves.min_p) and q >= max(g, leaves.min_q):
                    counts[p, q] += times * comb(o, p - h) * comb(r, q - g)
    return counts


@pytest.mark.parametrize("new", [0, 100, 1 << 16])
@pytest.mark.parametrize(
    ("most_optional", "query"), [(9, PqQuery(1, 6, 1, 5)), (90, PqQuery(3, 3, 4, 4)), (3000, PqQuery(2, 30, 38, 40))]
)
def test_counts_of_blocks(most_optional: int, query: PqQuery, new: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 64 bits if they suffice, and above."""
    monkeypatch.setattr(results, "_NEW_LEAVES", new)
    sizes = [(1, 1), (2, 2), (2, 2), (4, 0), (2, 2)]
    parts = [some(seed, 80, most_optional, *least) for seed, least in enumerate(sizes)]
    sink, others = PqSink(query), PqSink(query)
    for i, leaves in enumerate([*parts, Leaves.none()]):
        (sink if i % 2 else others).accept(PqBlock(leaves))
    sink.merge(others)
    assert sink.counts() == one_by_one(parts, query)
    assert list(sink.counts()) == query.cells


def test_no_leaves_count_zero() -> None:
    assert PqSink(PqQuery(1, 2, 1, 1)).counts() == {(1, 1): 0, (2, 1): 0}
    assert bicliques_of(together([Leaves.none(), Leaves.none()]), range(1, 3), range(2, 5)) == [[0] * 3] * 2


def test_multiplicities_near_64_bits_do_not_overflow() -> None:
    leaves = Leaves(*(np.array([n, n]) for n in (1, 40, 1, 40)), np.array([1 << 61, 1 << 40]), 1, 1)
    assert bicliques_of(together([leaves]), range(2, 3), range(3, 4)) == [[((1 << 61) + (1 << 40)) * 40 * comb(40, 2)]]


def test_equal_leaves_are_merged_and_memory_does_not_grow() -> None:
    leaves = some(1, 2000, 3)
    whole = together([leaves, leaves.swapped().swapped()])
    assert len(whole) <= 4 * 3 * 4 * 3
    assert whole.times.sum() == 2 * leaves.times.sum()
    sink = PqSink(PqQuery.of(2, 2))
    for _ in range(1000):
        sink.accept(PqBlock(leaves))
    (kept,) = sink._leaves.values()
    assert len(kept) <= results._NEW_PARTS + 1
    assert sink.counts()[2, 2] == 1000 * one_by_one([leaves], sink.query)[2, 2]


def test_one_word_leaves_are_merged_like_wider_ones() -> None:
    wide = Leaves(*(np.array([(1 << 31) - 1]) for _ in range(4)), np.array([3]), 1, 1)
    for seed in range(20):
        leaves = some(seed, 300, 4)
        narrow, both = together([leaves, leaves]), together([leaves, wide, leaves])
        for name in ("held_left", "optional_left", "held_right", "optional_right", "times"):
            ours, theirs = getattr(narrow, name), getattr(both, name)
            assert ours.tolist() == theirs[:-1].tolist()
            assert theirs[-1] == getattr(wide, name)[0]
