"""Estimates: unbiased, exact for walked trees, with valid intervals.

Every estimate here has a budget of steps and a seed, so none depends on the machine.
"""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest

from mbe_stage import BicliqueQuery, BipartiteCSR, InvalidArgument
from mbe_stage.bicliques.estimation import Effort, Interval, estimate_bicliques
from mbe_stage.bicliques.estimation.descent import Budget, chances, descend, thinned
from mbe_stage.bicliques.estimation.growth import GrowthModel
from mbe_stage.bicliques.estimation.interval import interval_of, whole_number
from mbe_stage.bicliques.estimation.walk import Walk
from mbe_stage.bicliques.reference import maximal_bicliques
from tests.mbe_stage.graphs import crown, from_matrix, half_graph, random_matrix

ENOUGH = Effort(None, 10**9)


def union_of_crowns(n: int) -> BipartiteCSR:
    return from_matrix(np.kron(np.eye(2, dtype=bool), ~np.eye(n, dtype=bool)))


@pytest.mark.parametrize(
    "query",
    [
        BicliqueQuery(),
        BicliqueQuery(min_left=2, min_right=3),
        BicliqueQuery(max_left=4, min_edges=6),
        BicliqueQuery(containing_left=(1,), containing_right=(2,)),
    ],
)
@pytest.mark.parametrize("seed", range(8))
def test_a_walked_tree_is_counted(seed: int, query: BicliqueQuery) -> None:
    graph = from_matrix(random_matrix(seed, 8, 10, 0.7))
    wanted = [(us, vs) for us, vs in maximal_bicliques(graph) if query.accepts(len(us), len(vs))]
    wanted = [(us, vs) for us, vs in wanted if {*query.containing_left} <= {*us} and {*query.containing_right} <= {*vs}]
    found = estimate_bicliques(graph, query, ENOUGH)
    assert found.exact
    assert found.bicliques == Interval.exactly(len(wanted))
    assert found.members == Interval.exactly(sum(len(us) + len(vs) for us, vs in wanted))


@pytest.mark.parametrize("n_subtrees", [1, 3])
def test_descents_are_unbiased(n_subtrees: int) -> None:
    """Over many graphs and seeds, estimates from few pieces average to the truth."""
    truth, estimates = 0, np.zeros(60)
    for seed in range(15):
        graph = from_matrix(random_matrix(seed, 13, 13, 0.75))
        truth += len(maximal_bicliques(graph))
        walk, rng = Walk(graph, BicliqueQuery()), np.random.default_rng(seed)
        for k in range(estimates.size):
            descent = descend(walk, GrowthModel(), n_subtrees, rng, Budget(None, 10**12))
            assert descent is not None
            estimates[k] += np.exp(descent.log_bicliques)
    error = estimates.std(ddof=1) / np.sqrt(estimates.size)
    assert error < 0.1 * truth
    assert abs(estimates.mean() - truth) < 4 * error


def test_thinning_keeps_each_with_its_probability() -> None:
    rng = np.random.default_rng(5)
    sizes = np.array([50.0, 3.0, 2.0, 1.0, 1.0, 1e-40])
    chance = chances(sizes, 3)
    assert chance.sum() == pytest.approx(3)
    assert chance[0] == 1
    kept = np.zeros(sizes.size)
    for _ in range(4000):
        positions = thinned(np.argsort(-sizes), chance, rng)
        assert positions.size in (2, 3, 4)
        kept[positions] += 1
    np.testing.assert_allclose(kept / 4000, chance, atol=0.04)


def test_step_budget_and_seed_determine_the_estimate() -> None:
    effort = Effort(None, 2_000_000)
    first, again, other = (estimate_bicliques(crown(34), effort=effort, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert not first.exact
    with pytest.raises(InvalidArgument, match="neither"):
        Effort(None, None)


@pytest.mark.parametrize(
    ("graph", "truth"),
    [
        (crown(34), 2**34 - 2),
        (half_graph(300), 300),
        (from_matrix(random_matrix(0, 60, 60, 0.5)), 286_676),
        pytest.param(crown(60), 2**60 - 2, marks=pytest.mark.slow),
        pytest.param(union_of_crowns(30), 2 * (2**30 - 2), marks=pytest.mark.slow),
        pytest.param(from_matrix(random_matrix(0, 60, 60, 0.7)), 29_467_928, marks=pytest.mark.slow),
    ],
    ids=["crown 34", "half graph", "density 0.5", "crown 60", "two crowns", "density 0.7"],
)
def test_intervals_hold(graph: BipartiteCSR, truth: int) -> None:
    found = [estimate_bicliques(graph, effort=Effort(None, 20_000_000), seed=seed).bicliques for seed in range(5)]
    holds = [interval.low <= truth <= (inf if interval.high is None else interval.high) for interval in found]
    assert sum(holds) >= 4
    assert sum(not interval.is_open for interval in found) >= 4
    assert all(truth / 100 <= interval.low for interval in found)
    assert all(interval.high <= 6 * interval.low for interval in found if interval.high is not None)
    assert all(truth / 2 <= interval.middle <= truth * 2 for interval in found)


def test_few_or_inconsistent_estimates_leave_the_interval_open() -> None:
    assert not interval_of(np.log(np.full(8, 100.0))).is_open
    apart = interval_of(np.log([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10_000.0]))
    assert apart.is_open
    assert apart.low <= 1251 / 20
    assert interval_of(np.log([100.0, 100.0])).is_open
    assert interval_of(np.array([])) == Interval(0, 0, None)
    assert interval_of(np.array([-inf, -inf])).is_open


def test_numbers_beyond_floats() -> None:
    assert whole_number(log(12345)) == 12345
    n = whole_number(3000 * log(2))
    assert abs(n - 2**3000) < 2**2960
    assert Interval(1, 2, 3).at_least(2) == Interval(2, 2, 3)
    huge = estimate_bicliques(crown(1100), effort=Effort(None, 300_000)).bicliques
    assert huge.low <= 2**1100


@pytest.mark.parametrize(("seconds", "steps"), [(None, None), (0.0, None), (float("nan"), None), (None, 0), (None, -1)])
def test_an_invalid_effort_is_refused(seconds: float | None, steps: int | None) -> None:
    with pytest.raises(InvalidArgument, match="effort"):
        Effort(seconds, steps)
