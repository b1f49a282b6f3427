"""Estimate the number of maximal bicliques within a budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques import ordering, reduction
from mbe_stage.bicliques.cpu import tree
from mbe_stage.bicliques.estimation import growth
from mbe_stage.bicliques.estimation.descent import Budget, Descent, descend, roots_of
from mbe_stage.bicliques.estimation.growth import GrowthModel
from mbe_stage.bicliques.estimation.interval import Interval, interval_of, whole_number
from mbe_stage.bicliques.estimation.walk import Walk
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead

# Number of descents that only train the model, their share of the budget, and their subtrees.
_PILOTS, _PILOT_SHARE, _PILOT_SUBTREES = 5, 0.2, 8
# Target number of independent descents, their maximum if they turn out cheaper, and the fewest and most subtrees of
# each.
_DESCENTS, _MOST_DESCENTS, _FEWEST_SUBTREES, _MOST_SUBTREES = 20, 40, 6, 1024
_ENOUGH_DESCENTS = 12


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile: the collecting walk of the CPU engine, and functions for features."""
    return (
        *tree.compile_steps(collects=True),
        *reduction.compile_steps(),
        *ordering.compile_steps(),
        *growth.compile_steps(),
    )


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of an estimate; at least one of them is needed.

    Attributes
    ----------
    steps : int or None
        Limit on elementary steps, for results that do not depend on the machine.
    """

    seconds: float | None = 2.0
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.steps is None:
            raise InvalidArgument("effort has neither seconds nor steps: an estimate needs one of them to end")
        for name, value in (("seconds", self.seconds), ("steps", self.steps)):
            if value is not None and not value > 0:
                raise InvalidArgument(f"effort: {name} is {value}: expected a number above 0, or None")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated number of maximal bicliques that satisfy a query.

    Attributes
    ----------
    bicliques : Interval
        Without an upper bound if the descents disagree.
    members : Interval
        Total number of members, on both sides.
    n_descents : int
        Number of independent descents behind the interval.
    exact : bool
        True if the whole tree was walked.
    """

    bicliques: Interval
    members: Interval
    n_descents: int
    exact: bool


def estimate_bicliques(
    graph: BipartiteCSR, query: BicliqueQuery | None = None, effort: Effort | None = None, seed: int = 0
) -> Estimate:
    """Estimate the number of maximal bicliques of `graph` that satisfy `query`.

    Parameters
    ----------
    effort : Effort, optional
        By default two seconds in all, except for compiling.
    seed : int
        With a budget of steps, the same seed gives the same estimate.

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges(np.array([0, 0, 1]), np.array([0, 1, 1]))
    >>> estimate_bicliques(graph).bicliques
    Interval(low=2, middle=2, high=2)
    """
    effort = effort or Effort()
    compile_ahead(compile_steps())
    budget = Budget(effort.seconds, effort.steps)
    walk, model, rng = Walk(graph, query or BicliqueQuery()), GrowthModel(), np.random.default_rng(seed)
    descents, n_subtrees = _pilots(walk, model, rng, budget)
    if descents and descents[-1].exact:
        bicliques, members = (whole_number(n) for n in (descents[-1].log_bicliques, descents[-1].log_members))
        return Estimate(Interval.exactly(bicliques), Interval.exactly(members), 1, exact=True)
    logs = _independent(walk, model, n_subtrees, rng, budget)
    columns = np.array(logs).reshape(-1, 2)
    return Estimate(interval_of(columns[:, 0]), interval_of(columns[:, 1]), len(logs), exact=False)


def _independent(
    walk: Walk, model: GrowthModel, n_subtrees: int, rng: np.random.Generator, budget: Budget
) -> list[tuple[float, float]]:
    """Return logarithms of bicliques and members from independent descents that do not train the model."""
    logs: list[tuple[float, float]] = []
    roots = roots_of(walk, model, n_subtrees)
    while len(logs) < _MOST_DESCENTS:
        before = budget.spent
        descent = descend(walk, model, n_subtrees, rng, budget, roots)
        if descent is None:
            break
        logs.append((descent.log_bicliques, descent.log_members))
        more = (1.0 - budget.spent) / max(budget.spent - before, 1e-9)
        if len(logs) + more < _ENOUGH_DESCENTS and n_subtrees > _FEWEST_SUBTREES:
            # The pilots promised too much: prefer many small descents, since a few do not show the error.
            n_subtrees = max(_FEWEST_SUBTREES, int(n_subtrees * more / _DESCENTS))
            roots = roots_of(walk, model, n_subtrees)
    return logs


def _pilots(walk: Walk, model: GrowthModel, rng: np.random.Generator, budget: Budget) -> tuple[list[Descent], int]:
    """Do the descents that train the model; return them, and the number of subtrees that later descents can afford."""
    descents: list[Descent] = []
    begun = last = budget.spent
    cost = 1.0
    while len(descents) < _PILOTS and budget.spent - begun < _PILOT_SHARE:
        descent = descend(walk, model, _PILOT_SUBTREES, rng, budget)
        if descent is None:
            break
        descents.append(descent)
        if descent.exact:
            break
        model.learn(descent.features, descent.log_counts)
        last, cost = budget.spent, budget.spent - last
    affordable = _PILOT_SUBTREES * (1.0 - last) / (_DESCENTS * max(cost, 1e-9))
    return descents, int(min(max(affordable, _FEWEST_SUBTREES), _MOST_SUBTREES))
