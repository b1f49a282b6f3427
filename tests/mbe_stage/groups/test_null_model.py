"""Scores are exact up to rounding of logarithms to whole units; order of members does not matter."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mbe_stage import BipartiteCSR, InvalidArgument
from mbe_stage.groups import UNIT, GroupMembers, NullModel, maximum_entropy, null_model, reference, surprise_of
from mbe_stage.groups.null_model import FIRST_PAIR, MOST_EDGES, PAIR_WEIGHTS, log_factorials, pair_weights
from mbe_stage.groups.quasi_bicliques import pair_weight
from tests.mbe_stage import graphs
from tests.mbe_stage.groups import blocks
from tests.mbe_stage.groups.random_graphs import keyed, null_of, small_graphs


def surprise(graph: BipartiteCSR, *bicliques: reference.Biclique) -> list[int]:
    return surprise_of(GroupMembers.of(bicliques), NullModel.of(graph)).tolist()


def exact_surprise(graph: BipartiteCSR, biclique: reference.Biclique) -> float:
    """Return the surprise in nats of a graph without likely pairs: the logarithm of an exact fraction."""
    left, right = biclique
    n_edges = len(left) * len(right)
    ratio = Fraction(graph.n_edges**n_edges)
    ratio /= math.prod(int(graph.left_degrees[u]) for u in left) ** len(right)
    ratio /= math.prod(int(graph.right_degrees[v]) for v in right) ** len(left)
    for degrees, size, least in (
        (graph.left_degrees, len(left), len(right)),
        (graph.right_degrees, len(right), len(left)),
    ):
        ratio /= math.comb(int((degrees >= least).sum()), size)
    ratio /= graph.n_left * graph.n_right
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def test_surprise_is_the_logarithm_of_a_fraction() -> None:
    """Each of three logarithms counts `a b` times with an error of half a unit; costs add some."""
    n_seen = n_fitted = 0
    for number, core in enumerate(small_graphs(250)):
        # The surrounding edges are in no biclique with two vertices per side.
        graph = blocks.amid(core, 3000) if number % 3 else core
        found = [pair for pair in keyed(core).values() if min(map(len, pair)) > 1 or number % 3 == 0]
        specified = null_of(graph).surprise(reference.Bicliques.of(dict(enumerate(found)))).tolist()
        is_fitted = NullModel.of(graph).is_fitted
        n_fitted += is_fitted
        assert is_fitted == (
            10 * graph.left_degrees.max(initial=0) * graph.right_degrees.max(initial=0) > graph.n_edges
        )
        for biclique, units, stated in zip(found, surprise(graph, *found), specified, strict=True):
            assert units == stated
            if is_fitted:
                continue
            n_edges = len(biclique[0]) * len(biclique[1])
            most_off = (1.5 * n_edges + 8) / UNIT + 1e-12
            assert units / UNIT == pytest.approx(exact_surprise(graph, biclique), rel=0, abs=most_off)
            n_seen += 1
    assert n_seen > 1000
    assert n_fitted > 50


@pytest.mark.parametrize(("k", "n_left", "n_right"), [(12, 1, 1), (30, 1, 1), (160, 3, 5), (300, 6, 4)])
def test_disjoint_blocks(k: int, n_left: int, n_right: int) -> None:
    """``a b ln k - ln C(k a, a) - ln C(k b, b)``, and both numbers."""
    graph = graphs.blocks([(n_left, n_right)] * k)
    (units,) = surprise(graph, (tuple(range(n_left)), tuple(range(n_right))))
    costs = math.log(math.comb(k * n_left, n_left)) + math.log(math.comb(k * n_right, n_right))
    costs += math.log(k * n_left) + math.log(k * n_right)
    most_off = (1.5 * n_left * n_right + 8) / UNIT
    assert units / UNIT == pytest.approx(n_left * n_right * math.log(k) - costs, rel=0, abs=most_off)


@pytest.mark.parametrize("n", [12, 60, 150, 300])
def test_a_graph_determined_by_its_degrees_has_no_evidence(n: int) -> None:
    """Half graphs: every edge is forced, so all of them together give little evidence."""
    graph = graphs.half_graph(n)
    model = NullModel.of(graph)
    logs = model.log_expected(np.arange(n)[:, None], np.arange(n))
    weights = pair_weights(logs)[graph.edges()] / UNIT
    # All edges together: the evidence of the whole graph.
    assert 0 <= weights.sum() < n / 8
    assert model.expected_edges(np.arange(n), np.arange(n)) == pytest.approx(graph.n_edges, rel=1e-4)


@pytest.mark.parametrize(("n_left", "n_right", "density"), [(60, 40, 0.2), (30, 200, 0.5), (50, 50, 0.9)])
def test_effective_degrees_keep_the_degrees(n_left: int, n_right: int, density: float) -> None:
    graph = graphs.from_matrix(graphs.random_matrix(3, n_left, n_right, density))
    model = NullModel.of(graph)
    of_left = [model.expected_edges(np.array([u]), np.arange(n_right)) for u in range(n_left)]
    of_right = [model.expected_edges(np.arange(n_left), np.array([v])) for v in range(n_right)]
    assert of_left == pytest.approx(graph.left_degrees.tolist(), abs=1e-3)
    assert of_right == pytest.approx(graph.right_degrees.tolist(), abs=1e-3)


def test_many_degrees_are_grouped_in_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Production code and reference group the degrees equally, and the effect is small."""
    monkeypatch.setattr(maximum_entropy, "MOST_CLASSES", 50)
    monkeypatch.setattr(reference, "MOST_CLASSES", 50)
    rng = np.random.default_rng(0)
    left = np.concatenate([np.repeat(np.arange(150), np.arange(150) * 4), rng.integers(0, 150, 50)])
    graph = BipartiteCSR.from_edges(left, rng.integers(0, 900, left.size))
    model, null = NullModel.of(graph), null_of(graph)
    assert np.unique(graph.left_degrees).size > 50
    assert null.logs[0].tolist() == model.left_log_degrees.tolist()
    assert null.logs[1].tolist() == model.right_log_degrees.tolist()
    of_left = [model.expected_edges(np.array([u]), np.arange(900)) for u in range(150)]
    assert of_left == pytest.approx(graph.left_degrees.tolist(), rel=1e-2, abs=0.1)


def test_weights_are_logarithms_of_probabilities() -> None:
    logs = np.arange(-6 * UNIT, 40 * UNIT, 99_991)
    units, nats = pair_weights(logs), logs / UNIT
    assert units.tolist() == reference.weights_of(logs).tolist()
    exact = np.where(logs < FIRST_PAIR, -nats, np.log1p(np.exp(-nats)))
    assert (units / UNIT).tolist() == pytest.approx(exact.tolist(), rel=0, abs=6e-7)
    assert [pair_weight(np.int64(one), PAIR_WEIGHTS) for one in logs.tolist()] == units.tolist()


def test_sides_are_symmetric() -> None:
    for graph in small_graphs(30):
        found = list(keyed(graph).values())
        assert surprise(graph, *found) == surprise(graph.swapped(), *((right, left) for left, right in found))


@pytest.mark.parametrize("n", [0, 1, 60, 1000, 2_000_000])
def test_factorials_are_right_to_one_unit(n: int) -> None:
    costs = log_factorials(n)
    assert costs.shape == (n + 1,)
    assert costs.dtype == np.int64
    for k in sorted({*range(min(n, 60) + 1), *range(0, n, n // 7 + 1), n}):
        assert abs(int(costs[k]) - math.lgamma(k + 1) * UNIT) <= 1 + 4e-16 * math.lgamma(k + 1) * UNIT, k


def test_logarithms_of_degrees() -> None:
    graph = blocks.amid(graphs.from_matrix(graphs.random_matrix(1, 30, 20, 0.2)), 1000)
    model = NullModel.of(graph)
    assert not model.is_fitted
    assert model.log_edges == round(math.log(graph.n_edges) * UNIT)
    for logs, degrees in (
        (model.left_log_degrees, graph.left_degrees),
        (model.right_log_degrees, graph.right_degrees),
    ):
        assert logs.tolist() == [round(math.log(max(1, degree)) * UNIT) for degree in degrees.tolist()]
    assert model.left_at_least.tolist() == [
        int((graph.left_degrees >= k).sum()) for k in range(model.left_at_least.size)
    ]
    assert model.left_at_least.size == graph.left_degrees.max() + 1
    assert NullModel.of(graph, 2).class_cost - model.class_cost == round(math.log(2) * UNIT)


def test_a_graph_without_edges() -> None:
    model = NullModel.of(graphs.from_matrix(np.zeros((2, 3), bool)))
    assert (model.n_edges, model.log_edges, model.left_at_least.tolist()) == (0, 0, [2])
    assert surprise_of(GroupMembers.of([]), model).size == 0


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_EDGES * math.log(MOST_EDGES) * UNIT < 2**63 < 2 * MOST_EDGES * math.log(2 * MOST_EDGES) * UNIT
    monkeypatch.setattr(null_model, "MOST_EDGES", 11)
    with pytest.raises(InvalidArgument, match="graph has 12 edges: scores of groups fit 64 bits up to 11"):
        NullModel.of(graphs.complete(3, 4))
    NullModel.of(graphs.star(11))


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
    with pytest.raises(IndexError, match="biclique 3 of 3"):
        joined[3]
