"""Groups without bystanders equal their reference; a bystander has a small share of its edges in a group."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.groups import bystanders
from mbe_stage.groups.bystanders import without_bystanders
from mbe_stage.groups.growth import Grown, grow
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import SIGNIFICANT, NullModel
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups import reference_growth as reference
from tests.mbe_stage.groups.random_graphs import edges_of


def as_pairs(members: GroupMembers) -> list[blocks.Group]:
    return [(tuple(left.tolist()), tuple(right.tolist())) for left, right in members]


def as_grown(groups: list[blocks.Group], scores: list[int]) -> Grown:
    """Return them as grown groups with unused edge counts."""
    none = np.zeros(len(groups), np.int64)
    return Grown(GroupMembers.of(groups), none, np.array(scores, np.int64), n_left_out=3)


@pytest.mark.parametrize("edges_at_once", [300, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 1 << 20))])
def test_as_the_specification_says(edges_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bystanders, "_EDGES_AT_ONCE", edges_at_once)
    n_changed = n_lost = n_twice = n_kept = 0
    for seed in range(6):
        core = blocks.with_blocks(seed, n=20, n_blocks=1 + seed % 2, side=9, density=0.9)
        graph = blocks.amid(core, 2000)
        model = NullModel.of(graph)
        null = edges_of(graph)
        largest = sorted(blocks.bicliques_of(core), key=lambda group: -len(group[0]) * len(group[1]))[:8]
        # The same with an unrelated vertex added.
        joined = [((*left, 400 + seed), right) for left, right in largest]
        groups = [*blocks.some_groups(seed, graph, 6), *largest, *joined]
        share = Fraction(1 + seed % 7, 8)
        monkeypatch.setattr(bystanders, "MIN_SHARE", share)
        # A score that is not significant: such a group is dropped whatever it contains.
        scores = [1, 1, 0, *[1] * (len(groups) - 3)]
        stripped = [reference.without_bystanders(null, group, share) for group in groups]
        least = 1 + seed % 3, 1 + seed % 2
        wanted: dict[blocks.Group, tuple[int, int]] = {}
        for row, group in enumerate(stripped):
            if (
                scores[row]
                and group[0]
                and null.score(group) > SIGNIFICANT
                and all(len(group[side]) >= least[side] for side in (0, 1))
            ):
                n_twice += group in wanted
                wanted.setdefault(group, (-null.score(group), row))
            n_changed += group != groups[row]
            n_lost += not group[0]
        found = without_bystanders(
            graph,
            as_grown(groups, [SIGNIFICANT + s for s in scores]),
            model,
            min_left=least[0],
            min_right=least[1],
        )
        order = sorted(wanted, key=lambda group: wanted[group])
        assert as_pairs(found.members) == order
        assert found.scores.tolist() == [-wanted[group][0] for group in order]
        assert found.n_edges.tolist() == [len(null.present(group)) for group in order]
        assert found.costs.tolist() == [null.cost(group) for group in order]
        assert found.n_left_out == 3
        n_kept += len(order)
    assert min(n_changed, n_lost, n_twice, n_kept) > 5, (n_changed, n_lost, n_twice, n_kept)


def test_a_share_is_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three edges is exactly a third, not less."""
    block = [(u, v) for u in range(12) for v in range(12)]
    others = [(0, v) for v in range(12, 36)] + [(1, v) for v in range(12, 37)]
    graph = BipartiteCSR.from_edges(*zip(*block, *others, *((u, u + 40) for u in range(12, 4000)), strict=True))
    model = NullModel.of(graph)
    grown = grow(graph, GroupMembers.of([(range(12), range(12))]), model)
    assert as_pairs(grown.members) == [(tuple(range(12)), tuple(range(12)))]
    for share, left in (
        (Fraction(1, 3), [0, *range(2, 12)]),
        (Fraction(0), [*range(12)]),
        (Fraction(1), [*range(2, 12)]),
    ):
        monkeypatch.setattr(bystanders, "MIN_SHARE", share)
        assert without_bystanders(graph, grown, model).members.left_members.tolist() == left


def test_nothing_grown() -> None:
    graph = BipartiteCSR.from_edges([0], [0])
    found = without_bystanders(graph, as_grown([], []), NullModel.of(graph))
    assert len(found.members) == found.scores.size == found.costs.size == 0
