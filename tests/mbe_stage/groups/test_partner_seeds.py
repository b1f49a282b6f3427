"""Partner seeds compared with plain sets and counters."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import NullModel
from mbe_stage.groups.partner_seeds import partner_seeds
from mbe_stage.groups.reference import Bicliques
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups.random_graphs import null_of, small_graphs, with_blocks


def as_pairs(members: GroupMembers) -> list[blocks.Group]:
    return [(tuple(left.tolist()), tuple(right.tolist())) for left, right in members]


def partners(rows: list[set[int]], degrees: list[int], most_steps: float, least: int, n_best: int) -> list[list[int]]:
    """Return the best partners by exact fractions, among those reached over low-degree vertices of the other side."""
    steps = Counter[int]()
    for degree in degrees:
        steps[degree] += degree**2
    walked = {v for v, d in enumerate(degrees) if sum(steps[of] for of in steps if of <= d) <= most_steps}
    found = []
    for u, row in enumerate(rows):
        shared = {w: len(row & other & walked) for w, other in enumerate(rows) if w != u}
        near = sorted((-Fraction(n * n, len(rows[w])), w) for w, n in shared.items() if n >= least)
        found.append([w for _, w in near[:n_best]])
    return found


def stars(rows: list[set[int]], degrees: list[int], most_steps: float) -> list[blocks.Group]:
    found = []
    for u, near in enumerate(partners(rows, degrees, most_steps, 1, 8)):
        if near:
            shared = rows[u] & set.union(*(rows[w] for w in near))
            found.append((-Fraction(len(shared) ** 2, len(rows[u])), u, tuple(sorted([u, *near])), shared))
    return [(own, tuple(sorted(shared))) for _, _, own, shared in sorted(found, key=lambda each: each[:2])]


def wanted(graph: BipartiteCSR, most_steps: float = math.inf) -> list[blocks.Group]:
    left = [set(graph.neighbours_of_left(u).tolist()) for u in range(graph.n_left)]
    right = [set(graph.neighbours_of_right(v).tolist()) for v in range(graph.n_right)]
    degrees = graph.left_degrees.tolist(), graph.right_degrees.tolist()
    near = enumerate(partners(left, degrees[1], most_steps, 2, 2))
    pairs = sorted({(min(u, w), max(u, w)) for u, own in near for w in own})
    seeds = [((u, w), tuple(sorted(left[u] & left[w]))) for u, w in pairs]
    surprise = null_of(graph).surprise(Bicliques.of(dict(enumerate(seeds)))).tolist()
    parts = [
        [seeds[i] for i in sorted(range(len(seeds)), key=lambda i: -surprise[i])],
        stars(left, degrees[1], most_steps),
        [(own, others) for others, own in stars(right, degrees[0], most_steps)],
    ]
    return [part[turn] for turn in range(max(map(len, parts))) for part in parts if turn < len(part)]


@pytest.mark.parametrize("threads", [1, 3])
def test_as_plain_sets_say(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n = n_capped = n_fitted = 0
    for graph in [*small_graphs(60), *(with_blocks(seed) for seed in range(4))]:
        model = NullModel.of(graph)
        seeds = partner_seeds(graph, model, threads=threads)
        assert as_pairs(seeds) == wanted(graph)
        steps = int((graph.right_degrees.astype(np.int64) ** 2).sum()) // 2
        with monkeypatch.context() as patched:
            patched.setattr("mbe_stage.groups.partner_seeds.LEAST_STEPS", steps)
            patched.setattr("mbe_stage.groups.partner_seeds.STEPS_PER_EDGE", 0)
            capped = partner_seeds(graph, model, threads=threads)
        assert as_pairs(capped) == wanted(graph, steps)
        n += len(seeds)
        n_capped += as_pairs(capped) != as_pairs(seeds)
        n_fitted += model.is_fitted and len(seeds) > 1
    assert min(n, n_capped, n_fitted) > 20, (n, n_capped, n_fitted)


def test_missing_degrees_and_empty_sides() -> None:
    for graph in (BipartiteCSR.from_edges([], [], 0, 0), BipartiteCSR.from_edges([], [], 3, 2)):
        assert as_pairs(partner_seeds(graph, NullModel.of(graph))) == []
