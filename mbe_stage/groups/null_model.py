"""The null model for groups: the expected number of edges between vertices by chance.

It is the configuration model: an edge between `u` and `v` is expected ``d_u d_v / E`` times. If this exceeds 0.1 for
some pair of the graph, it is no longer close to a probability, and the model is *fitted*. Then effective degrees (of
`maximum_entropy`) replace `d`, and a pair with ``z = d_u d_v / E`` has an edge with probability ``z / (1 + z)``. The
**weight** of an edge is ``-ln z``, or ``-ln`` of its probability if ``z`` is at least 0.1.

The evidence of a group of `a` left and `b` right vertices with all edges present is the sum of their weights. Naming
the group costs ``ln C(#{left: degree >= b}, a) + ln C(#{right: degree >= a}, b)`` for the members, since only these
vertices are possible, and ``ln n_left + ln n_right`` for `a` and `b`. The difference is its **surprise**: the block
surprise of CrossSpot (Jiang et al., ICDM 2015) with degrees instead of a single density, minus a description cost as in
KRIMP (Vreeken et al., DMKD 2011). The probability of any group with surprise `s` in a random graph is at most
``exp(-s)``.

Logarithms are int64 in units of ``1 / UNIT`` nat. So sums do not depend on their order, scores are the same on every
engine and in every run, and equal scores are ties. For pairs above 0.1, weights come from the table `PAIR_WEIGHTS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.maximum_entropy import effective_log_degrees
from mbe_stage.groups.members import GroupMembers

UNIT = 1 << 24
"""Number of units in a nat."""

MOST_EDGES = 20_000_000_000
"""Up to this number, ``E ln E`` in units is below 2^63. It bounds every sum, since a biclique has at most `E` edges."""

SIGNIFICANT = round(math.log(20) * UNIT)
"""A group with more surprise is significant: its probability by chance is below 0.05."""

LEAST_EXPECTED = 0.1
"""The model is fitted if some pair is expected more often."""

FIRST_PAIR = round(math.log(LEAST_EXPECTED) * UNIT)
"""``ln z`` of the first entry of `PAIR_WEIGHTS`, in units."""

PAIR_BITS = 16
"""Distance of entries in `PAIR_WEIGHTS`: ``2^PAIR_BITS`` units of ``ln z``, 1/256 nat."""

PAIR_WEIGHTS = np.rint(
    np.log1p(np.exp(-(FIRST_PAIR + (np.arange(4_800, dtype=np.int64) << PAIR_BITS)) / UNIT)) * UNIT
).astype(np.int64)
"""``ln(1 + 1 / z)`` in units. Interpolated values are too high by at most 5e-7 nats."""

LAST_PAIR = ((PAIR_WEIGHTS.size - 1) << PAIR_BITS) - 1
"""End of `PAIR_WEIGHTS`, in units of ``ln z`` from `FIRST_PAIR` on; edges beyond it weigh almost nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class NullModel:
    """The degree-corrected null model of a graph; logarithms are in units of ``1 / UNIT`` nat.

    Attributes
    ----------
    n_edges : int
    log_edges : int
        ``ln E``; 0 for a graph without edges.
    left_log_degrees : (n_left,) int64
        ``ln d`` of each left vertex, or of its effective degree if the model is fitted, rounded half to even; 0 without
        edges.
    right_log_degrees : (n_right,) int64
    left_at_least : (largest left degree + 1,) int64
        Number of left vertices with at least degree 0, 1, ...
    right_at_least : (largest right degree + 1,) int64
    log_factorials : (larger side + 1,) int64
        ``ln k!`` for ``k = 0, 1, ...``.
    class_cost : int
        ``ln n_left + ln n_right``, plus the logarithm of the number of graphs searched for the same groups.
    is_fitted : bool
        True if effective degrees are used.
    """

    n_edges: int
    log_edges: int
    left_log_degrees: np.ndarray
    right_log_degrees: np.ndarray
    left_at_least: np.ndarray
    right_at_least: np.ndarray
    log_factorials: np.ndarray
    class_cost: int
    is_fitted: bool

    @classmethod
    def of(cls, graph: BipartiteCSR, n_graphs: int = 1) -> NullModel:
        """Return the null model of a graph.

        Parameters
        ----------
        graph : BipartiteCSR
            The graph, on the host.
        n_graphs : int
            Number of graphs searched for the same groups, such as those of several keys. With more graphs, a group
            needs more evidence.

        Raises
        ------
        InvalidArgument
            The graph has more than `MOST_EDGES` edges.

        Examples
        --------
        >>> model = NullModel.of(BipartiteCSR.from_edges(range(30), [0, 0, *range(1, 29)]))
        >>> (model.right_log_degrees / UNIT).round(3).tolist()[:2]
        [0.693, 0.0]
        >>> model.left_at_least.tolist(), model.right_at_least.tolist()
        ([30, 30], [29, 29, 1])
        """
        return cls.of_degrees(graph.left_degrees, graph.right_degrees, n_graphs)

    @classmethod
    def of_degrees(cls, left_degrees: np.ndarray, right_degrees: np.ndarray, n_graphs: int = 1) -> NullModel:
        """Return the null model of any graph with these degrees; it depends on nothing else.

        Parameters
        ----------
        left_degrees, right_degrees : (n_left,) and (n_right,) int64
            Degrees with equal sums, on the host.

        Raises
        ------
        InvalidArgument
            As in `of`.
        """
        n_edges = int(left_degrees.sum())
        if n_edges > MOST_EDGES:
            raise InvalidArgument(
                f"graph has {n_edges:,} edges: scores of groups fit 64 bits up to {MOST_EDGES:,}; "
                "score a part of the graph"
            )
        logs = log_units(left_degrees), log_units(right_degrees)
        is_fitted = int(left_degrees.max(initial=0)) * int(right_degrees.max(initial=0)) > LEAST_EXPECTED * n_edges
        if is_fitted:
            left, right = effective_log_degrees(left_degrees, right_degrees)
            logs = _rounded(np.where(left_degrees > 0, left, 0)), _rounded(np.where(right_degrees > 0, right, 0))
        sizes = left_degrees.size, right_degrees.size, n_graphs
        return cls(
            n_edges=n_edges,
            log_edges=round(math.log(max(n_edges, 1)) * UNIT),
            left_log_degrees=logs[0],
            right_log_degrees=logs[1],
            left_at_least=_at_least(left_degrees),
            right_at_least=_at_least(right_degrees),
            log_factorials=log_factorials(max(left_degrees.size, right_degrees.size)),
            class_cost=sum(round(math.log(max(n, 1)) * UNIT) for n in sizes),
            is_fitted=is_fitted,
        )

    def is_same(self, other: NullModel) -> bool:
        """Return True if the models are equal, as for graphs with the same degrees."""
        return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def naming_costs(self, left_sizes: Any, right_sizes: Any) -> Any:
        """Return the cost of naming complete groups of these sizes, in units; for numbers or arrays of one shape."""
        return self.costs_of_members(left_sizes, right_sizes, right_sizes, left_sizes) + self.class_cost

    def costs_of_grown(self, left_sizes: Any, right_sizes: Any, left_least: Any, right_least: Any) -> Any:
        """Return the cost of naming groups with missing edges, in units.

        Parameters
        ----------
        left_least, right_least : array or int
            Fewest edges of a left and of a right member inside each group.
        """
        members = self.costs_of_members(left_sizes, right_sizes, left_least, right_least)
        cells = np.asarray(left_sizes * right_sizes, np.float64)
        return members + self.class_cost + _rounded(np.log(cells * (cells + 1)))

    def costs_of_members(self, left_sizes: Any, right_sizes: Any, left_least: Any, right_least: Any) -> Any:
        """Return the cost of naming the members among all vertices with at least these degrees, in units."""
        logs = self.log_factorials
        left, right = self.left_at_least[left_least], self.right_at_least[right_least]
        return _choices(logs, left, left_sizes) + _choices(logs, right, right_sizes)

    def is_strong(self, members: GroupMembers, evidence: np.ndarray, *, is_grown: np.ndarray) -> np.ndarray:
        """Return True for groups whose evidence also pays for naming their members among all vertices of the graph."""
        costs = self.costs_of_members(members.left_sizes, members.right_sizes, 0, 0)
        return evidence > costs + self.class_cost * is_grown

    def log_expected(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``ln z`` of pairs of vertices, in units, for arrays that broadcast."""
        return self.left_log_degrees[left] + self.right_log_degrees[right] - self.log_edges

    def expected_edges(self, left: np.ndarray, right: np.ndarray) -> float:
        """Return the number of edges between these vertices expected by chance: the sum of ``z / (1 + z)``."""
        odds = np.exp(np.minimum(self.log_expected(left[:, None], right) / UNIT, 64))
        return float((odds / (1 + odds)).sum())


def log_units(values: np.ndarray) -> np.ndarray:
    """Return ``ln`` of each value in units, rounded half to even; 0 for values below 1.

    Parameters
    ----------
    values : (n,) integers

    Returns
    -------
    (n,) int64
    """
    return _rounded(np.log(np.maximum(values, 1).astype(np.float64)))


def log_factorials(n: int) -> np.ndarray:
    """Return ``ln k!`` in units for ``k = 0 .. n``.

    It is accurate to one unit: the terms ``ln k`` are summed exactly in whole units, and rounding errors separately.

    Returns
    -------
    (n + 1,) int64

    Examples
    --------
    >>> np.exp(log_factorials(4) / UNIT).round(3).tolist()
    [1.0, 1.0, 2.0, 6.0, 24.0]
    """
    terms = np.log(np.maximum(np.arange(n + 1, dtype=np.float64), 1)) * UNIT
    whole = np.rint(terms)
    return np.cumsum(whole.astype(np.int64)) + np.rint(np.cumsum(terms - whole)).astype(np.int64)


def pair_weights(log_expected: np.ndarray) -> np.ndarray:
    """Return the weight of an edge of each pair, ``-ln`` of its probability, from its ``ln z``; int64 in units."""
    above = np.clip(log_expected - FIRST_PAIR, 0, LAST_PAIR)
    place, part = above >> PAIR_BITS, above & ((1 << PAIR_BITS) - 1)
    first, then = PAIR_WEIGHTS[place], PAIR_WEIGHTS[place + 1]
    weights = first + ((then - first) * part >> PAIR_BITS)
    return np.where(log_expected < FIRST_PAIR, -log_expected, weights)


def surprise_of(members: GroupMembers, model: NullModel) -> np.ndarray:
    """Return the surprise of groups without missing edges, in units.

    Parameters
    ----------
    members : GroupMembers
        Complete groups, each with at least one member on each side.
    model : NullModel

    Returns
    -------
    (n,) int64

    Examples
    --------
    >>> edges = [(0, 0), (0, 1), (1, 0), (1, 1), *((u, u) for u in range(2, 98))]
    >>> members = GroupMembers.of([([0, 1], [0, 1]), ([2], [2])])
    >>> model = NullModel.of(BipartiteCSR.from_edges(*zip(*edges)))
    >>> (surprise_of(members, model) / UNIT).round(3).tolist()  # 4 ln 100 - 8 ln 2 - ..., ln 100 - 4 ln 98
    [3.706, -13.735]
    """
    evidence = [int(pair_weights(model.log_expected(left[:, None], right)).sum()) for left, right in members]
    return np.array(evidence, np.int64) - model.naming_costs(members.left_sizes, members.right_sizes)


def _rounded(nats: np.ndarray) -> np.ndarray:
    """Convert nats to units, rounded half to even."""
    return np.rint(nats * UNIT).astype(np.int64)


def _at_least(degrees: np.ndarray) -> np.ndarray:
    """Return the number of vertices with at least degree 0, 1, ..."""
    return np.cumsum(np.bincount(degrees, minlength=1)[::-1])[::-1].astype(np.int64)


def _choices(log_factorials: np.ndarray, n: Any, k: Any) -> Any:
    """Return ``ln C(n, k)`` in units."""
    return log_factorials[n] - log_factorials[k] - log_factorials[n - k]
