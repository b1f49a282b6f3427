"""The cover against its definition: every gain made anew before each choice."""

from __future__ import annotations

import numpy as np
import pytest

from mbe_stage import BipartiteCSR
from mbe_stage.errors import InvalidArgument
from mbe_stage.groups import reference_selection as reference
from mbe_stage.groups.cover import cover
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import NullModel
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups.random_graphs import edges_of


def costs_of(null: reference.NullOfEdges, groups: list[blocks.Group]) -> np.ndarray:
    return np.array([null.cost(group) for group in groups], np.int64)


def compared(graph: BipartiteCSR, groups: list[blocks.Group], limit: int | None = None) -> list[tuple[int, int]]:
    """What both say."""
    model = NullModel.of(graph)
    null = edges_of(graph)
    expected = reference.cover(null, groups, limit)
    found = cover(graph, GroupMembers.of(groups), model, costs_of(null, groups), limit=limit)
    assert list(zip(found.rows.tolist(), found.gains.tolist(), strict=True)) == expected
    explained: set[tuple[int, int]] = set()
    for row, n_new in zip(found.rows.tolist(), found.n_new_edges.tolist(), strict=True):
        assert n_new == len(null.present(groups[row]) - explained)
        explained |= null.present(groups[row])
    return expected


def test_bicliques_as_the_quadratic_version_chooses() -> None:
    n_chosen = []
    for seed in range(60):
        graph = blocks.with_blocks(seed, n_blocks=2 + seed % 4, density=[0.8, 1.0][seed % 2])
        groups = blocks.bicliques_of(graph)[:60]
        chosen = compared(blocks.amid(graph, 2000), groups)
        n_chosen.append(len(chosen))
        gains = [gain for _, gain in chosen]
        assert gains == sorted(gains, reverse=True)
    # Often several, and never all: both ends of the loop are met.
    assert sum(n > 1 for n in n_chosen) > 15


def test_groups_with_missing_edges_as_the_quadratic_version_chooses() -> None:
    n_chosen, n_with_gaps = [], 0
    for seed in range(80):
        graph = blocks.with_blocks(seed, n_blocks=2 + seed % 4, side=8)
        groups = blocks.some_groups(seed, graph, 15) + blocks.places(seed, 40, 2 + seed % 4, 8)
        chosen = compared(blocks.amid(graph, 4000), groups, limit=[None, 2][seed % 5 == 0])
        n_chosen.append(len(chosen))
        edges = set(zip(*(side.tolist() for side in graph.edges()), strict=True))
        n_with_gaps += any((u, v) not in edges for row, _ in chosen for u in groups[row][0] for v in groups[row][1])
    assert sum(n > 1 for n in n_chosen) > 15
    assert n_with_gaps > 8


def rising() -> tuple[BipartiteCSR, list[blocks.Group]]:
    """A ring with hubs, whose edges count against it until the other group, the hubs with others, explains them."""
    hubs = [(u, v) for u in range(6) for v in range(6)]
    ring = [(u, v) for u in range(6, 14) for v in range(6, 14) if u != v]
    rays = [(u, v) for u in range(6) for v in range(14, 400)] + [(u, v) for u in range(14, 400) for v in range(6)]
    others = [(u, u) for u in range(400, 2900)]
    graph = BipartiteCSR.from_edges(*zip(*hubs, *ring, *rays, *others, strict=True))
    return graph, [(tuple(range(14)), tuple(range(14))), (tuple(range(6)), (*range(6), *range(14, 300)))]


def test_a_gain_that_rises_above_nothing_when_another_group_explains_edges() -> None:
    graph, groups = rising()
    null = edges_of(graph)
    assert null.gain(groups[0], set()) < 0 < null.gain(groups[0], null.present(groups[1]))
    assert [row for row, _ in compared(graph, groups)] == [1, 0]


def test_two_copies_and_a_part_are_explained_once() -> None:
    edges = [(u, v) for u in range(6) for v in range(6)] + [(u, u) for u in range(6, 2000)]
    graph = BipartiteCSR.from_edges(*zip(*edges, strict=True))
    six = tuple(range(6))
    chosen = compared(graph, [(six[:4], six), (six, six), (six, six)])
    assert [row for row, _ in chosen] == [1]
    # Nothing is explained yet: the gain is the score.
    assert chosen[0][1] == edges_of(graph).score((six, six))


def test_what_a_missing_edge_costs() -> None:
    """A closed form: 36 possible edges, 30 present, all ends of degree 5."""
    edges = [(u, v) for u in range(6) for v in range(6) if u != v] + [(u, u) for u in range(6, 2000)]
    graph = BipartiteCSR.from_edges(*zip(*edges, strict=True))
    model = NullModel.of(graph)
    group = tuple(range(6)), tuple(range(6))
    costs = costs_of(edges_of(graph), [group])
    gain = int(cover(graph, GroupMembers.of([group]), model, costs).gains[0]) / (1 << 24)
    evidence = 30 * (np.log(graph.n_edges) - 2 * np.log(5)) + 30 * np.log(30 / 36) + 6 * np.log(6 / 36)
    # No others have five edges. Named are both sizes, the five edges of each on either side, and the thirty.
    assert gain == pytest.approx(evidence - 2 * np.log(2000) - 2 * np.log(6) - np.log(37), abs=1e-5)


def test_no_groups_no_edges_no_limit() -> None:
    empty = BipartiteCSR.from_edges([], [], 3, 2)
    none, one, two = (np.zeros(n, np.int64) for n in range(3))
    found = cover(empty, GroupMembers.of([]), NullModel.of(empty), none)
    assert found.rows.size == found.gains.size == found.n_new_edges.size == 0
    assert cover(empty, GroupMembers.of([([0, 1], [0])]), NullModel.of(empty), one).rows.size == 0
    graph = blocks.with_blocks(0)
    with pytest.raises(InvalidArgument, match="limit is -1"):
        cover(graph, GroupMembers.of([]), NullModel.of(graph), none, limit=-1)
    with pytest.raises(InvalidArgument, match="group 1 has no right member"):
        cover(graph, GroupMembers.of([([0], [0]), ([1], [])]), NullModel.of(graph), two)
    groups = blocks.bicliques_of(graph)
    costs = costs_of(edges_of(graph), groups)
    assert cover(graph, GroupMembers.of(groups), NullModel.of(graph), costs, limit=0).rows.size == 0
