"""Merged sums of disjoint parts equal the sums of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage.bicliques.keys import Fingerprint
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.bicliques.vertex_statistics import DENSE_SIZES, SizeCounts, VertexStatistics
from mbe_stage.pipeline.problems.bicliques.arrow import Summary

N_LEFT, N_RIGHT = 40, 700


def random_block(chance: np.random.Generator, n: int) -> tuple[BicliqueBlock, np.ndarray]:
    """Bicliques of few sizes, so with many ties; one is larger than the sizes counted in an array."""
    left_sizes = chance.integers(1, 4, n).astype(np.int32)
    right_sizes = chance.integers(1, 4, n).astype(np.int32)
    right_sizes[:1] = DENSE_SIZES + 1
    left = [chance.choice(N_LEFT, size, replace=False) for size in left_sizes]
    right = [chance.choice(N_RIGHT, size, replace=False) for size in right_sizes]
    members = (np.concatenate([np.zeros(0, np.int32), *side]).astype(np.int32) for side in (left, right))
    block = BicliqueBlock(n, left_sizes, right_sizes, *members)
    return block, chance.integers(-(2**63), 2**63 - 1, n)


def summed(*parts: tuple[BicliqueBlock, np.ndarray]) -> Summary:
    summary = Summary(N_LEFT, N_RIGHT)
    for block, keys in parts:
        summary.add(block, keys)
    return summary


def plain(summary: Summary) -> list[object]:
    sides = [
        [
            values.tolist()
            for values in (side.n_bicliques, side.largest_edges, side.largest_keys * (side.n_bicliques > 0))
        ]
        for side in (summary.left, summary.right)
    ]
    sizes = [column.tolist() for column in summary.sizes.sorted_rows()]
    return [str(summary.fingerprint), sizes, sides, summary.left_members, summary.right_members]


@pytest.mark.parametrize("n_in_part", [(50, 30), (30, 50), (1, 1), (0, 20), (20, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_merged_parts_are_the_whole(n_in_part: tuple[int, int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    parts = [random_block(chance, n) for n in n_in_part]
    merged, other = (summed(part) for part in parts)
    untouched = plain(other)
    merged.merge(other)
    assert plain(merged) == plain(summed(*parts))
    assert plain(other) == untouched


def test_fingerprints_merge_as_they_wrap() -> None:
    keys = np.arange(-500, 500)
    whole, first, second = Fingerprint(), Fingerprint(), Fingerprint()
    whole.add(keys)
    first.add(keys[::2])
    second.add(keys[1::2])
    first.merge(second)
    assert str(first) == str(whole)
    assert str(whole).startswith("1000-")


def test_the_smallest_key_wins_ties() -> None:
    def of(key: int, edges: int) -> VertexStatistics:
        statistics = VertexStatistics.of(2)
        statistics.add(
            np.ones(1, np.int32), np.zeros(1, np.int32), np.full(1, edges, np.int64), np.full(1, key, np.int64)
        )
        return statistics

    for mine, other, expected in (
        ((5, 4), (-7, 4), -7),
        ((-7, 4), (5, 4), -7),
        ((5, 4), (9, 6), 9),
        ((9, 6), (5, 4), 9),
    ):
        merged = of(*mine)
        merged.merge(of(*other))
        assert merged.largest_keys.tolist() == [expected, 0]
        assert merged.n_bicliques.tolist() == [2, 0]
    nothing = VertexStatistics.of(2)
    nothing.merge(of(5, 4))
    assert nothing.largest_keys.tolist() == [5, 0]


def test_sizes_of_both_kinds_are_added() -> None:
    one, other = SizeCounts(), SizeCounts()
    one.add(np.array([2, 600], np.int32), np.array([3, 1], np.int32))
    other.add(np.array([2, 600, 1], np.int32), np.array([3, 1, 1], np.int32))
    one.merge(other)
    assert [column.tolist() for column in one.sorted_rows()] == [[1, 2, 600], [1, 3, 1], [1, 2, 2]]
