"""Recounts of (p, q)-counts by `mbe verify`: closed forms, matrix products and walks equal a brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array

from mbe_stage.pipeline.verify import pq_recount
from mbe_stage.pipeline.verify.pq_recount import Recount

CELLS = [(p, q) for p in range(1, 6) for q in range(1, 6)]


def bicliques(
    joined: np.ndarray, cell: tuple[int, int], left: tuple[int, ...], right: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [
        (us, vs)
        for us in combinations(range(joined.shape[0]), cell[0])
        if set(left) <= set(us)
        for vs in combinations(range(joined.shape[1]), cell[1])
        if set(right) <= set(vs) and joined[np.ix_(us, vs)].all()
    ]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("part", [1, 5, 10_000_000])
def test_every_way_of_counting(monkeypatch: pytest.MonkeyPatch, seed: int, part: int) -> None:
    """Matrix products are computed in parts of any size."""
    monkeypatch.setattr(pq_recount, "_PART_PRODUCTS", part)
    rng = np.random.default_rng(seed)
    joined = (rng.random(rng.integers(1, 8, 2)) < rng.choice([0.3, 0.6, 0.9])).astype(np.int64)
    left, right = (tuple(rng.permutation(n)[: rng.integers(0, 3)].tolist()) for n in joined.shape)
    recount = Recount(csr_array(joined), left, right)
    walk = recount.walked(CELLS, with_local=True)
    assert walk is not None
    for cell in CELLS:
        found = bicliques(joined, cell, left, right)
        assert walk.counts[cell] == len(found)
        closed = recount.count(*cell)
        assert closed in (None, len(found))
        assert closed is not None or min(cell[0] - len(left), cell[1] - len(right)) > 2
        of_left = [sum(u in us for us, _ in found) for u in range(joined.shape[0])]
        of_right = [sum(v in vs for _, vs in found) for v in range(joined.shape[1])]
        assert [walk.left[cell][u] for u in range(joined.shape[0])] == of_left
        assert [walk.right[cell][v] for v in range(joined.shape[1])] == of_right
        for u, v in zip(*joined.nonzero(), strict=True):
            assert walk.edges[cell][u, v] == sum(u in us and v in vs for us, vs in found)
        summed = recount.of_vertices(*cell)
        if summed is not None:
            assert [list(each.values()) for each in map(_in_order, summed)] == [of_left, of_right]


def _in_order(numbers: dict[int, int]) -> dict[int, int]:
    return dict(sorted(numbers.items()))


def test_expensive_counts_are_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = csr_array(np.ones((30, 30), np.int64))
    assert Recount(joined).walked([(5, 5)], with_local=False) is not None
    monkeypatch.setattr(pq_recount, "_MOST_STEPS", 1000)
    assert Recount(joined).walked([(5, 5)], with_local=False) is None
    assert Recount(joined).count(2, 5) == 435 * 142506
    monkeypatch.setattr(pq_recount, "_MOST_PRODUCTS", 1000)
    assert Recount(joined).count(2, 5) is None
    assert Recount(joined).count(1, 5) == 30 * 142506
    assert Recount(joined).count(5, 5) is None
