"""Scores are exact up to what rounding logarithms to whole units takes, and members are taken as they stand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR, InvalidArgument
from mbe_stage.groups import UNIT, GroupMembers, NullModel, null_model, reference, surprise_of
from mbe_stage.groups.null_model import MOST_EDGES, log_binomials
from tests.mbe_stage import graphs
from tests.mbe_stage.groups.random_graphs import keyed, null_of, small_graphs


def surprise(graph: BipartiteCSR, *bicliques: reference.Biclique) -> list[int]:
    return surprise_of(GroupMembers.of(bicliques), NullModel.of(graph)).tolist()


def exact_surprise(graph: BipartiteCSR, biclique: reference.Biclique) -> float:
    """Surprise in nats: the logarithm of a fraction of whole numbers."""
    left, right = biclique
    n_edges = len(left) * len(right)
    ratio = Fraction(graph.n_edges**n_edges)
    ratio /= math.prod(int(graph.left_degrees[u]) for u in left) ** len(right)
    ratio /= math.prod(int(graph.right_degrees[v]) for v in right) ** len(left)
    ratio /= math.comb(graph.n_left, len(left)) * math.comb(graph.n_right, len(right))
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def test_surprise_is_the_logarithm_of_a_fraction() -> None:
    """Of `a b` edges, each of the three logarithms counts `a b` times and is off by half a unit, each cost by one."""
    n_seen = 0
    for graph in small_graphs(250):
        found = list(keyed(graph).values())
        specified = null_of(graph).surprise(reference.Bicliques.of(dict(enumerate(found)))).tolist()
        for biclique, units, stated in zip(found, surprise(graph, *found), specified, strict=True):
            assert units == stated
            n_edges = len(biclique[0]) * len(biclique[1])
            most_off = (1.5 * n_edges + 2) / UNIT + 1e-12
            assert units / UNIT == pytest.approx(exact_surprise(graph, biclique), rel=0, abs=most_off)
            n_seen += 1
    assert n_seen > 2000


@pytest.mark.parametrize(("k", "n_left", "n_right"), [(1, 3, 4), (2, 2, 2), (30, 1, 1), (12, 3, 5), (40, 6, 4)])
def test_disjoint_blocks(k: int, n_left: int, n_right: int) -> None:
    """``a b ln k - ln C(k a, a) - ln C(k b, b)``: alone it says nothing, and among many everything."""
    graph = graphs.blocks([(n_left, n_right)] * k)
    (units,) = surprise(graph, (tuple(range(n_left)), tuple(range(n_right))))
    costs = math.log(math.comb(k * n_left, n_left)) + math.log(math.comb(k * n_right, n_right))
    most_off = (1.5 * n_left * n_right + 2) / UNIT
    assert units / UNIT == pytest.approx(n_left * n_right * math.log(k) - costs, rel=0, abs=most_off)


def test_sides_are_treated_alike() -> None:
    for graph in small_graphs(30):
        found = list(keyed(graph).values())
        assert surprise(graph, *found) == surprise(graph.swapped(), *((right, left) for left, right in found))


@pytest.mark.parametrize(
    ("n", "most"), [(0, 0), (1, 1), (60, 60), (1000, 1000), (10**9, 3000), (2**31 - 1, 400), (200_000, 20_000)]
)
def test_binomials_are_right_to_one_unit(n: int, most: int) -> None:
    costs = log_binomials(n, most)
    assert costs.shape == (most + 1,)
    assert costs.dtype == np.int64
    for k in sorted({*range(min(most, 60) + 1), *range(0, most, most // 7 + 1), most}):
        assert abs(int(costs[k]) - math.log(math.comb(n, k)) * UNIT) <= 1, k


def test_logarithms_are_those_of_degrees() -> None:
    graph = graphs.from_matrix(graphs.random_matrix(1, 30, 20, 0.2))
    model = NullModel.of(graph)
    assert model.log_edges == round(math.log(graph.n_edges) * UNIT)
    for logs, degrees in (
        (model.left_log_degrees, graph.left_degrees),
        (model.right_log_degrees, graph.right_degrees),
    ):
        assert logs.tolist() == [round(math.log(max(1, degree)) * UNIT) for degree in degrees.tolist()]
    assert (model.left_costs.size, model.right_costs.size) == (
        graph.right_degrees.max() + 1,
        graph.left_degrees.max() + 1,
    )


def test_a_graph_without_edges() -> None:
    model = NullModel.of(graphs.from_matrix(np.zeros((2, 3), bool)))
    assert (model.n_edges, model.log_edges, model.left_costs.tolist()) == (0, 0, [0])
    assert surprise_of(GroupMembers.of([]), model).size == 0


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_EDGES * math.log(MOST_EDGES) * UNIT < 2**63 < 2 * MOST_EDGES * math.log(2 * MOST_EDGES) * UNIT
    monkeypatch.setattr(null_model, "MOST_EDGES", 11)
    with pytest.raises(InvalidArgument, match="graph has 12 edges: scores of groups fit 64 bits up to 11"):
        NullModel.of(graphs.complete(3, 4))
    NullModel.of(graphs.star(11))
    with pytest.raises(InvalidArgument, match="most is 4: expected 0 to n = 3"):
        log_binomials(3, 4)


PAIRS = [((0, 4), (1,)), ((2,), (0, 1, 3)), ((1, 2, 3), (5,))]


def as_pairs(members: GroupMembers) -> list[reference.Biclique]:
    return [(tuple(left.tolist()), tuple(right.tolist())) for left, right in members]


@pytest.mark.parametrize("rows", [[], [1], [2, 0], [0, 0, 2, 1, 1]])
def test_members_are_taken_by_row(rows: list[int]) -> None:
    taken = GroupMembers.of(PAIRS).take(np.array(rows, np.int64))
    assert as_pairs(taken) == [PAIRS[row] for row in rows]
    assert taken.left_sizes.tolist() == [len(PAIRS[row][0]) for row in rows]
    assert taken.right_sizes.tolist() == [len(PAIRS[row][1]) for row in rows]
    assert (taken.left_members.dtype, taken.left_offsets.dtype) == (np.int32, np.int64)


def test_members_are_joined() -> None:
    parts = [GroupMembers.of(PAIRS[:2]), GroupMembers.of([]), GroupMembers.of(PAIRS[2:])]
    joined = GroupMembers.joined(parts)
    assert as_pairs(joined) == PAIRS
    assert joined.nbytes == 2 * 4 * 8 + (6 + 5) * 4
    assert as_pairs(GroupMembers.joined([])) == []
    with pytest.raises(IndexError, match="group 3 of 3"):
        joined[3]
