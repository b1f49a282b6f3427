"""One unbiased estimate: the descent of a population of subtrees.

A subtree is a child that was not visited. Its weight is the number of subtrees that it represents. The largest subtrees
are opened first, and small ones are walked to their end. Results count with the subtree's weight, and unvisited
children become subtrees again. If there are too many subtrees, some are kept at random, with probabilities in
proportion to their expected contribution, and their weights are divided by these probabilities. So the estimate is
unbiased, however wrong the expectations are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mbe_stage.bicliques.estimation.growth import N_FEATURES, GrowthModel
from mbe_stage.bicliques.estimation.walk import Left, OpenNode, Walk

# Steps charged per visit in addition to those of the walk, for copies and the call of compiled code.
_STEPS_OF_A_VISIT = 6000


class Budget:
    """A budget of time or steps.

    Parameters
    ----------
    seconds : float or None
        Time from now on; None for no limit.
    steps : int or None
        Elementary steps of the tree walk, plus a fixed number per visit; None for no limit.
    goes_on : callable, optional
        Called before each visit, and may wait; if it returns False, the budget is used up.
    """

    def __init__(self, seconds: float | None, steps: int | None, goes_on: Callable[[], bool] | None = None) -> None:
        self._seconds, self._steps, self._goes_on = seconds, steps, goes_on
        self._start = time.perf_counter()
        self._n_steps = 0

    def spend(self, n_steps: int) -> None:
        """Charge a visit."""
        self._n_steps += n_steps + _STEPS_OF_A_VISIT

    @property
    def spent(self) -> float:
        """Share of the budget used up; 1 or more if nothing is left."""
        of_seconds = 0.0 if self._seconds is None else (time.perf_counter() - self._start) / max(self._seconds, 1e-9)
        return max(of_seconds, 0.0 if self._steps is None else self._n_steps / self._steps)

    @property
    def is_spent(self) -> bool:
        """True if the budget is used up."""
        return self.spent >= 1.0 or (self._goes_on is not None and not self._goes_on())


def chances(sizes: np.ndarray, n_kept: int) -> np.ndarray:
    """Return the probability to keep each subtree: proportional to its size, at most 1, with the sum `n_kept`.

    Examples
    --------
    >>> chances(np.array([8.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    descending = np.sort(np.maximum(sizes, sizes.max() * 1e-30))[::-1]
    rest = np.cumsum(descending[::-1])[::-1]
    certain = 0
    while certain < n_kept - 1 and descending[certain] * (n_kept - certain) >= rest[certain]:
        certain += 1
    return np.minimum(1.0, np.maximum(sizes, sizes.max() * 1e-30) * ((n_kept - certain) / rest[certain]))


def thinned(order: np.ndarray, chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose positions to keep, each with its probability, by systematic sampling along `order`.

    Neighbours in that order represent each other. Among similar subtrees, the number of kept ones differs by less than
    one from the sum of their probabilities.
    """
    ends = np.cumsum(chance[order]) + rng.random()
    # The first interval ends at the offset; a subtree is kept if its interval contains a whole number.
    crossed = np.floor(ends) > np.floor(np.concatenate([[ends[0] - chance[order[0]]], ends[:-1]]))
    return order[crossed]


# Subtrees expected to contain fewer bicliques are walked to their end, in at most this many steps at a time.
_SMALL, _STEPS = 500.0, 40_000
# Subtrees within this factor of the largest one are opened together.
_LEVEL = 2.0
# The children of the whole graph are the least known, so this many times more of them are opened.
_MORE_ROOTS = 4
# Share of the probabilities that follows the number of edges alone, in case the model is far off.
_DEFENSIVE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """An estimate, and training data for the model.

    Attributes
    ----------
    log_bicliques, log_members : float
        Natural logarithms; minus infinity for 0.
    exact : bool
        True if no subtree was dropped, so the numbers are exact.
    features : (n, N_FEATURES) float64
        Features of the visited subtrees.
    log_counts : (n,) float64
        Logarithms of unbiased estimates of their contents, as far as these are not 0.
    """

    log_bicliques: float
    log_members: float
    exact: bool
    features: np.ndarray
    log_counts: np.ndarray


class _Subtrees(NamedTuple):
    """Subtrees as arrays of equal length.

    The fields: the number of the node, the child, the logarithm of the weight, the visit that left the subtree (-1 for
    none), its features, and the logarithm of its expected contents.
    """

    nodes: np.ndarray
    children: np.ndarray
    log_weights: np.ndarray
    parents: np.ndarray
    features: np.ndarray
    expected: np.ndarray

    def at(self, which: np.ndarray) -> _Subtrees:
        return _Subtrees(*(column[which] for column in self))


class DescentStart(NamedTuple):
    """Start of all descents of one population size and one model: the children of the root, and their thinning."""

    subtrees: _Subtrees
    nodes: list[OpenNode]
    thinning: _Thinning | None


def roots_of(walk: Walk, model: GrowthModel, n_subtrees: int) -> DescentStart:
    """Prepare the start of descents with about `n_subtrees`; it is reused, because large graphs have many roots."""
    nodes: list[OpenNode] = []
    subtrees = _left_behind(walk.root, 0.0, -1, nodes, model)
    return DescentStart(subtrees, nodes, _thinning_of(subtrees, _MORE_ROOTS * n_subtrees))


def descend(
    walk: Walk,
    model: GrowthModel,
    n_subtrees: int,
    rng: np.random.Generator,
    budget: Budget,
    roots: DescentStart | None = None,
) -> Descent | None:
    """Do one descent with a population of about `n_subtrees`; return None if the budget ended first.

    `roots` must be for the same walk, model and population size; by default they are computed.

    Parameters
    ----------
    walk : Walk
        Visits nodes of the graph's tree.
    model : GrowthModel
        Predicts the contents of a subtree.
    rng : np.random.Generator
        Chooses the subtrees to keep.
    budget : Budget
        Checked before each visit.
    roots : DescentStart, optional
        From `roots_of`.
    """
    subtrees, nodes, thinning = roots or roots_of(walk, model, n_subtrees)
    nodes = list(nodes)
    exact, is_root = thinning is None, True
    subtrees = _thinned_by(subtrees, thinning, rng)
    found: list[tuple[float, int, int, int]] = []
    seen: list[np.ndarray] = []
    while subtrees.nodes.size:
        largest = float(subtrees.expected.max())
        small = np.log(_SMALL)
        level = -np.inf if is_root or largest <= small else largest - np.log(_LEVEL)
        now = subtrees.expected >= level
        grown = [subtrees.at(~now)]
        for k in np.flatnonzero(now):
            if budget.is_spent:
                return None
            steps = _STEPS if subtrees.expected[k] <= small else 1
            weight = float(subtrees.log_weights[k])
            visit = walk.visit(nodes[subtrees.nodes[k]], int(subtrees.children[k]), steps)
            budget.spend(visit.n_steps)
            found.append((weight, visit.n_bicliques, visit.n_members, int(subtrees.parents[k])))
            seen.append(subtrees.features[k])
            grown += [_left_behind(left, weight, len(found) - 1, nodes, model) for left in visit.left]
        subtrees = _Subtrees(*(np.concatenate(columns) for columns in zip(*grown, strict=True)))
        if subtrees.nodes.size > n_subtrees:
            exact, subtrees = False, _thinned_by(subtrees, _thinning_of(subtrees, n_subtrees), rng)
        nodes, subtrees = _needed(nodes, subtrees)
        is_root = False
    return _summed(found, np.array(seen).reshape(-1, N_FEATURES), exact)


def _left_behind(left: Left, log_weight: float, parent: int, nodes: list[OpenNode], model: GrowthModel) -> _Subtrees:
    nodes.append(left.node)
    n = left.end - left.first
    return _Subtrees(
        nodes=np.full(n, len(nodes) - 1),
        children=np.arange(left.first, left.end),
        log_weights=np.full(n, log_weight),
        parents=np.full(n, parent),
        features=left.features,
        expected=model.predict(left.features),
    )


class _Thinning(NamedTuple):
    """Probability to keep each subtree, and the order of sampling."""

    order: np.ndarray
    chances: np.ndarray


def _thinning_of(subtrees: _Subtrees, n_kept: int) -> _Thinning | None:
    """Return the thinning to about `n_kept` subtrees; None if there are no more than that."""
    if subtrees.nodes.size <= n_kept:
        return None
    sizes = (1.0 - _DEFENSIVE) * _shares(subtrees.log_weights + subtrees.expected)
    sizes += _DEFENSIVE * _shares(subtrees.log_weights + subtrees.features[:, 1])
    return _Thinning(np.argsort(-subtrees.expected, kind="stable"), chances(sizes, n_kept))


def _thinned_by(subtrees: _Subtrees, thinning: _Thinning | None, rng: np.random.Generator) -> _Subtrees:
    """Return the kept subtrees, with weights that include the dropped ones."""
    if thinning is None:
        return subtrees
    kept = thinned(thinning.order, thinning.chances, rng)
    fewer = subtrees.at(kept)
    return fewer._replace(log_weights=fewer.log_weights - np.log(thinning.chances[kept]))


def _shares(logs: np.ndarray) -> np.ndarray:
    shares = np.exp(logs - logs.max())
    return shares / shares.sum()


def _needed(nodes: list[OpenNode], subtrees: _Subtrees) -> tuple[list[OpenNode], _Subtrees]:
    """Drop nodes without remaining subtrees, and renumber the others."""
    used, numbers = np.unique(subtrees.nodes, return_inverse=True)
    return [nodes[k] for k in used], subtrees._replace(nodes=numbers)


def _summed(found: list[tuple[float, int, int, int]], features: np.ndarray, exact: bool) -> Descent:
    """Return the weighted sums, and the sum of results for every visited subtree."""
    if not found:
        return Descent(-np.inf, -np.inf, exact, features, np.empty(0))
    log_weights = np.array([weight for weight, *_ in found])
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    below = weights * np.array([n for _, n, _, _ in found], dtype=np.float64)
    n_members = float(weights @ np.array([n for _, _, n, _ in found], dtype=np.float64))
    n_bicliques = float(below.sum())
    for k in range(len(found) - 1, -1, -1):
        if (parent := found[k][3]) >= 0:
            below[parent] += below[k]
    known = below > 0
    return Descent(
        log_bicliques=_log(n_bicliques) + top,
        log_members=_log(n_members) + top,
        exact=exact,
        features=features[known],
        log_counts=np.log(below[known]) + top - log_weights[known],
    )


def _log(n: float) -> float:
    return float(np.log(n)) if n > 0 else -np.inf
