"""Pair seeds against plain sets and counters."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import NullModel
from mbe_stage.groups.pair_seeds import pair_seeds
from mbe_stage.groups.reference import Bicliques
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups.random_graphs import null_of, small_graphs, with_blocks


def as_pairs(members: GroupMembers) -> list[blocks.Group]:
    return [(tuple(left.tolist()), tuple(right.tolist())) for left, right in members]


def wanted(graph: BipartiteCSR, most_steps: float = math.inf) -> list[blocks.Group]:
    """Partners by exact fractions, among what right vertices of the lowest degrees lead to."""
    rows = [set(graph.neighbours_of_left(u).tolist()) for u in range(graph.n_left)]
    steps = Counter[int]()
    for degree in graph.right_degrees.tolist():
        steps[degree] += degree**2
    walked = {d for d in steps if sum(steps[other] for other in steps if other <= d) <= most_steps}
    right = {v for v in range(graph.n_right) if int(graph.right_degrees[v]) in walked}
    pairs = set()
    for u, row in enumerate(rows):
        shared = {w: len(row & other & right) for w, other in enumerate(rows) if w != u}
        near = sorted((-Fraction(n * n, len(rows[w])), w) for w, n in shared.items() if n > 1)
        pairs |= {(min(u, w), max(u, w)) for _, w in near[:2]}
    seeds = [((u, w), tuple(sorted(rows[u] & rows[w]))) for u, w in sorted(pairs)]
    surprise = null_of(graph).surprise(Bicliques.of(dict(enumerate(seeds)))).tolist()
    return [seeds[i] for i in sorted(range(len(seeds)), key=lambda i: -surprise[i])]


@pytest.mark.parametrize("threads", [1, 3])
def test_as_plain_sets_say(threads: int) -> None:
    n = n_capped = n_fitted = 0
    for graph in [*small_graphs(60), *(with_blocks(seed) for seed in range(4))]:
        model = NullModel.of(graph)
        seeds = pair_seeds(graph, model, threads=threads)
        assert as_pairs(seeds) == wanted(graph)
        steps = int((graph.right_degrees.astype(np.int64) ** 2).sum()) // 2
        capped = pair_seeds(graph, model, threads=threads, most_steps=steps)
        assert as_pairs(capped) == wanted(graph, steps)
        n += len(seeds)
        n_capped += as_pairs(capped) != as_pairs(seeds)
        n_fitted += model.is_fitted and len(seeds) > 1
    assert min(n, n_capped, n_fitted) > 20, (n, n_capped, n_fitted)


def test_degrees_and_sides_that_there_are_not() -> None:
    for graph in (BipartiteCSR.from_edges([], [], 0, 0), BipartiteCSR.from_edges([], [], 3, 2)):
        assert as_pairs(pair_seeds(graph, NullModel.of(graph))) == []
