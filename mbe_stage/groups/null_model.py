"""The null model that groups are measured against: edges between some vertices by chance.

The null is the configuration model: an edge between `u` and `v` is expected ``d_u d_v / E`` times. Where that passes
.1 for some pair of a graph, it is no probability any more, and the model is *fitted*: effective degrees (those of
`maximum_entropy`) stand in the place of `d`, and a pair that is expected ``z = d_u d_v / E`` times has an edge with the
probability ``z / (1 + z)``. The **weight** of an edge is ``-ln z``, or from ``z = .1`` on ``-ln`` of its probability.

The evidence of a group of `a` left and `b` right vertices with every edge present is the sum of the weights of its
edges. Naming it costs ``ln C(#{left: degree >= b}, a) + ln C(#{right: degree >= a}, b)`` for the members, as no others
can be, and ``ln n_left + ln n_right`` for `a` and `b`. The difference is its **surprise** (the block surprise of
CrossSpot, Jiang et al., ICDM 2015, with degrees in the place of one density, less a description cost as in KRIMP,
Vreeken et al., DMKD 2011). The chance that any group of a random graph has a surprise of `s` is at most ``exp(-s)``.

A logarithm is an int64 in units of ``1 / UNIT`` nat: sums do not depend on their order, so a score is the same on every
engine and in every run, and equal scores are ties. The weights of pairs above .1 come from a table, `PAIR_WEIGHTS`.
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
"""Units of one nat."""

MOST_EDGES = 20_000_000_000
"""``E ln E`` in units stays below 2^63 up to here, and it bounds every sum: a biclique has at most `E` edges."""

SIGNIFICANT = round(math.log(20) * UNIT)
"""A group of more surprise is significant: the bound of its chance is below .05."""

LEAST_EXPECTED = 0.1
"""With a pair that is expected more often the model is fitted."""

FIRST_PAIR = round(math.log(LEAST_EXPECTED) * UNIT)
"""``ln z`` of the first entry of `PAIR_WEIGHTS`, in units."""

PAIR_BITS = 16
"""Entries of `PAIR_WEIGHTS` are ``2^PAIR_BITS`` units of ``ln z`` apart, 1/256 of a nat."""

PAIR_WEIGHTS = np.rint(
    np.log1p(np.exp(-(FIRST_PAIR + (np.arange(4_800, dtype=np.int64) << PAIR_BITS)) / UNIT)) * UNIT
).astype(np.int64)
"""``ln(1 + 1 / z)`` in units. Between two entries it is interpolated, too high by at most 5e-7 nats."""

LAST_PAIR = ((PAIR_WEIGHTS.size - 1) << PAIR_BITS) - 1
"""The end of `PAIR_WEIGHTS`, in units of ``ln z`` from `FIRST_PAIR` on; an edge weighs next to nothing there."""


@dataclass(frozen=True, slots=True, eq=False)
class NullModel:
    """The degree-corrected null of a graph; logarithms in units of ``1 / UNIT`` nat.

    Attributes
    ----------
    n_edges : int
    log_edges : int
        ``ln E``; 0 of a graph without edges.
    left_log_degrees : (n_left,) int64
        ``ln d`` of each left vertex, effective degrees if the model is fitted, rounded half to even; 0 of one without
        edges.
    right_log_degrees : (n_right,) int64
    left_at_least : (largest left degree + 1,) int64
        Number of left vertices of degree 0, 1, ... or more.
    right_at_least : (largest right degree + 1,) int64
    log_factorials : (larger side + 1,) int64
        ``ln k!`` for ``k = 0, 1, ...``.
    class_cost : int
        ``ln n_left + ln n_right``, and the logarithm of the number of graphs that are searched for the same groups.
    is_fitted : bool
        True with effective degrees.
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
        """The null of a graph.

        Parameters
        ----------
        graph : BipartiteCSR
            On the host.
        n_graphs : int
            Graphs that are searched for the same groups, such as those of several keys: the more, the more a group has
            to say.

        Raises
        ------
        InvalidArgument
            It has more than `MOST_EDGES` edges.

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
        """The null of any graph with these degrees, all that it depends on.

        Parameters
        ----------
        left_degrees, right_degrees : (n_left,) and (n_right,) int64
            On the host; their sums are the same.

        Raises
        ------
        InvalidArgument
            As `of`.
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
        """True if it is that of a graph of the same degrees."""
        return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def naming_costs(self, left_sizes: Any, right_sizes: Any) -> Any:
        """Cost of naming complete groups of these sizes, in units; arrays of one shape or numbers."""
        return self.costs_of_members(left_sizes, right_sizes, right_sizes, left_sizes) + self.class_cost

    def costs_of_grown(self, left_sizes: Any, right_sizes: Any, left_least: Any, right_least: Any) -> Any:
        """Cost of naming groups with missing edges, in units.

        Parameters
        ----------
        left_least, right_least : array or int
            Each left member has at least so many edges in the group, and each right one.
        """
        members = self.costs_of_members(left_sizes, right_sizes, left_least, right_least)
        cells = np.asarray(left_sizes * right_sizes, np.float64)
        return members + self.class_cost + _rounded(np.log(cells * (cells + 1)))

    def costs_of_members(self, left_sizes: Any, right_sizes: Any, left_least: Any, right_least: Any) -> Any:
        """Cost of naming the members of groups among all vertices of these degrees or more, in units."""
        logs = self.log_factorials
        left, right = self.left_at_least[left_least], self.right_at_least[right_least]
        return _choices(logs, left, left_sizes) + _choices(logs, right, right_sizes)

    def is_strong(self, members: GroupMembers, evidence: np.ndarray, *, is_grown: np.ndarray) -> np.ndarray:
        """True for groups whose evidence also pays for naming their members among all vertices of the graph."""
        costs = self.costs_of_members(members.left_sizes, members.right_sizes, 0, 0)
        return evidence > costs + self.class_cost * is_grown

    def log_expected(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """``ln z`` of pairs of vertices, in units; arrays that broadcast."""
        return self.left_log_degrees[left] + self.right_log_degrees[right] - self.log_edges

    def expected_edges(self, left: np.ndarray, right: np.ndarray) -> float:
        """Edges between some left and some right vertices that are expected by chance: the sum of ``z / (1 + z)``."""
        odds = np.exp(np.minimum(self.log_expected(left[:, None], right) / UNIT, 64))
        return float((odds / (1 + odds)).sum())


def log_units(values: np.ndarray) -> np.ndarray:
    """``ln`` of each value in units, rounded half to even; 0 for what is below 1.

    Parameters
    ----------
    values : (n,) integers

    Returns
    -------
    (n,) int64
    """
    return _rounded(np.log(np.maximum(values, 1).astype(np.float64)))


def log_factorials(n: int) -> np.ndarray:
    """``ln k!`` in units for ``k = 0 .. n``.

    Right to one unit: the terms ``ln k`` are summed up in whole units, exactly, and what rounding took from each is
    summed up beside them.

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
    """Weight of an edge of each pair, ``-ln`` of its probability, given its ``ln z``; int64 in units."""
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
        Each with at least one member a side, and complete.
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
    """Convert to units, rounded half to even."""
    return np.rint(nats * UNIT).astype(np.int64)


def _at_least(degrees: np.ndarray) -> np.ndarray:
    """Number of vertices of degree 0, 1, ... or more."""
    return np.cumsum(np.bincount(degrees, minlength=1)[::-1])[::-1].astype(np.int64)


def _choices(log_factorials: np.ndarray, n: Any, k: Any) -> Any:
    """``ln C(n, k)`` in units."""
    return log_factorials[n] - log_factorials[k] - log_factorials[n - k]
