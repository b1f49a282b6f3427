"""Groups of several graphs in one ranking, against plain sorting and sets."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from mbe_stage.groups.together import grown_together, together

from mbe_stage.groups.bystanders import GrownGroups
from mbe_stage.groups.candidates import Candidates
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.reference_selection import without_near_copies

Group = tuple[list[int], list[int]]


def groups_of(dice: random.Random, n: int) -> list[Group]:
    """Groups between twelve left and ten right vertices."""
    return [
        (sorted(dice.sample(range(12), dice.randrange(1, 7))), sorted(dice.sample(range(10), dice.randrange(1, 5))))
        for _ in range(n)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_candidates_of_several_graphs(seed: int) -> None:
    dice = random.Random(seed)
    parts, plain = [], []
    for number in range(dice.randrange(1, 4)):
        groups = groups_of(dice, dice.randrange(12))
        surprise = [dice.randrange(-3, 4) for _ in groups]
        keys = dice.sample(range(1000 * number, 1000 * number + 500), len(groups))
        order = sorted(range(len(groups)), key=lambda row: (-surprise[row], keys[row]))
        arrays = (np.array([values[row] for row in order], np.int64) for values in (keys, surprise))
        parts.append((Candidates(*arrays, GroupMembers.of(groups[row] for row in order)), 10))
        plain += [
            (-surprise[row], keys[row], groups[row][0], [10 * number + v for v in groups[row][1]]) for row in order
        ]
    found = together(parts)
    wanted = sorted(plain)
    assert [(-s, key) for s, key in zip(found.surprise.tolist(), found.keys.tolist(), strict=True)] == [
        each[:2] for each in wanted
    ]
    assert [(left.tolist(), right.tolist()) for left, right in found.members] == [each[2:] for each in wanted]


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("seed", range(20))
def test_grown_groups_of_several_graphs(seed: int, limit: int | None) -> None:
    dice = random.Random(seed)
    parts, plain = [], []
    for number in range(2):
        groups = groups_of(dice, dice.randrange(12))
        scores = sorted((dice.randrange(1, 9) for _ in groups), reverse=True)
        ones = np.ones(len(groups), np.int64)
        parts.append(GrownGroups(GroupMembers.of(groups), ones, np.array(scores, np.int64), ones))
        plain += [(-score, number, row, groups[row][0]) for row, score in enumerate(scores)]
    plain.sort(key=lambda each: each[:3])
    kept = without_near_copies([each[3] for each in plain], Fraction(1, 2), limit)
    graphs, rows = grown_together(parts, limit)
    assert list(zip(graphs.tolist(), rows.tolist(), strict=True)) == [plain[row][1:3] for row in kept]
