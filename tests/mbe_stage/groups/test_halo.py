"""Halos compared with their definition, and a ring with a dense core and a loose rim."""

from __future__ import annotations

import numpy as np

from mbe_stage import BipartiteCSR
from mbe_stage.groups import halo as halo_module
from mbe_stage.groups import reference_halo as reference
from mbe_stage.groups import selection
from mbe_stage.groups.halo import Halos, halos
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import NullModel
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups.random_graphs import edges_of, null_of


def of_group(found: Halos, row: int) -> list[tuple[int, int]]:
    part = slice(found.offsets[row], found.offsets[row + 1])
    return list(zip(found.vertices[part].tolist(), found.gains[part].tolist(), strict=True))


def test_as_the_definition_says() -> None:
    sizes: list[int] = []
    n_fitted = 0
    for number in range(16):
        core = blocks.with_blocks(number, n=25 + 10 * number, n_blocks=2)
        groups, graph = blocks.some_groups(number, core, 4), blocks.amid(core, 300 if number % 2 else 0)
        model = NullModel.of(graph)
        found = halos(graph, GroupMembers.of(groups), model, selection.SCHEDULE)
        for row, group in enumerate(groups):
            wanted = reference.halo(null_of(graph), edges_of(graph).neighbours, group)
            assert [of_group(side, row) for side in found] == [list(each.items()) for each in wanted]
            sizes += [len(each) for each in wanted]
        n_fitted += model.is_fitted
    assert max(sizes) == 60 > min(sizes)
    assert n_fitted > 3


def test_the_rim_of_a_ring_is_its_halo() -> None:
    """A ring of 60 x 60 with density 0.15 and a core of 20 x 20 with 0.6: the first 60 have four fifths of the rim."""
    found: list[int] = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        block = rng.random((60, 60)) < 0.15
        block[:20, :20] = rng.random((20, 20)) < 0.6
        ring = np.argwhere(block)
        camouflage = np.column_stack([ring[:, 0], rng.integers(0, 6000, len(ring))])
        noise = rng.integers(0, 6000, (12_000, 2))
        graph = BipartiteCSR.from_edges(*np.concatenate([ring, camouflage, noise]).T, 6000, 6000)
        sides = halos(graph, GroupMembers.of([(range(20), range(20))]), NullModel.of(graph), selection.SCHEDULE)
        found += [sum(20 <= vertex < 60 for vertex, _ in of_group(side, 0)) for side in sides]
    assert np.mean(found) >= 32, found


def test_no_groups() -> None:
    graph = BipartiteCSR.from_edges([0], [0])
    sides = halos(graph, GroupMembers.of([]), NullModel.of(graph), selection.SCHEDULE)
    assert [(side.offsets.tolist(), side.vertices.size, side.gains.size) for side in sides] == [([0], 0, 0)] * 2


def test_the_reference_has_the_same_numbers() -> None:
    assert halo_module.ROUNDS == reference.ROUNDS
    bounds = selection.SCHEDULE.least_density, selection.SCHEDULE.most_density
    assert bounds == (reference.LEAST_DENSITY, reference.MOST_DENSITY)
