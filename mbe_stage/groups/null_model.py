"""The null model that groups are measured against: edges between some vertices by chance.

The null is the configuration model: an edge between `u` and `v` is expected ``d_u d_v / E`` times. A group of `a` left
and `b` right vertices with every edge present has the log-likelihood ratio ``a b ln E - b sum ln d_u - a sum ln d_v``,
and naming it costs ``ln C(n_left, a) + ln C(n_right, b)``. The difference is its **surprise** (the block surprise of
CrossSpot, Jiang et al., ICDM 2015, with degrees in the place of one density, less a description cost as in KRIMP,
Vreeken et al., DMKD 2011).

A logarithm is an int64 in units of ``1 / UNIT`` nat: sums do not depend on their order, so a score is the same on every
engine and in every run, and equal scores are ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers

UNIT = 1 << 24
"""Units of one nat."""

MOST_EDGES = 20_000_000_000
"""``E ln E`` in units stays below 2^63 up to here, and it bounds every sum: a biclique has at most `E` edges."""


@dataclass(frozen=True, slots=True, eq=False)
class NullModel:
    """The degree-corrected null of a graph; logarithms in units of ``1 / UNIT`` nat.

    Attributes
    ----------
    n_edges : int
    log_edges : int
        ``ln E``; 0 of a graph without edges.
    left_log_degrees : (n_left,) int64
        ``ln d`` of each left vertex, rounded half to even; 0 of one without edges.
    right_log_degrees : (n_right,) int64
    left_costs : (largest right degree + 1,) int64
        ``ln C(n_left, a)`` for ``a = 0, 1, ...``: a biclique has at most the largest right degree of left members.
    right_costs : (largest left degree + 1,) int64
    """

    n_edges: int
    log_edges: int
    left_log_degrees: np.ndarray
    right_log_degrees: np.ndarray
    left_costs: np.ndarray
    right_costs: np.ndarray

    @classmethod
    def of(cls, graph: BipartiteCSR) -> NullModel:
        """The null of a graph.

        Parameters
        ----------
        graph : BipartiteCSR
            On the host.

        Raises
        ------
        InvalidArgument
            It has more than `MOST_EDGES` edges.

        Examples
        --------
        >>> model = NullModel.of(BipartiteCSR.from_edges([0, 0, 1, 2], [0, 1, 1, 1]))
        >>> (model.left_log_degrees / UNIT).round(3).tolist(), np.exp(model.left_costs / UNIT).round(3).tolist()
        ([0.693, 0.0, 0.0], [1.0, 3.0, 3.0, 1.0])
        """
        return cls.of_degrees(graph.left_degrees, graph.right_degrees)

    @classmethod
    def of_degrees(cls, left_degrees: np.ndarray, right_degrees: np.ndarray) -> NullModel:
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
        return cls(
            n_edges=n_edges,
            log_edges=round(math.log(max(n_edges, 1)) * UNIT),
            left_log_degrees=log_units(left_degrees),
            right_log_degrees=log_units(right_degrees),
            left_costs=log_binomials(left_degrees.size, int(right_degrees.max(initial=0))),
            right_costs=log_binomials(right_degrees.size, int(left_degrees.max(initial=0))),
        )

    def is_same(self, other: NullModel) -> bool:
        """True if it is that of a graph of the same degrees."""
        return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))


def log_units(values: np.ndarray) -> np.ndarray:
    """``ln`` of each value in units, rounded half to even; 0 for what is below 1.

    Parameters
    ----------
    values : (n,) integers

    Returns
    -------
    (n,) int64
    """
    return np.rint(np.log(np.maximum(values, 1).astype(np.float64)) * UNIT).astype(np.int64)


def log_binomials(n: int, most: int) -> np.ndarray:
    """``ln C(n, k)`` in units for ``k = 0 .. most``.

    Right to one unit: the terms ``ln (n - k + 1) / k`` are summed up in whole units, exactly, and what rounding took
    from each is summed up beside them. (A difference of ``lgamma`` is off by hundreds of units where `n` is 10^9.)

    Parameters
    ----------
    n, most : int
        ``0 <= most <= n``.

    Returns
    -------
    (most + 1,) int64

    Raises
    ------
    InvalidArgument
        `most` is negative or above `n`.

    Examples
    --------
    >>> np.exp(log_binomials(5, 5) / UNIT).round(3).tolist()
    [1.0, 5.0, 10.0, 10.0, 5.0, 1.0]
    """
    if not 0 <= most <= n:
        raise InvalidArgument(f"most is {most}: expected 0 to n = {n}")
    k = np.arange(1, most + 1, dtype=np.float64)
    # Times a power of two, and the difference of close numbers: both exact.
    terms = (np.log(n - k + 1) - np.log(k)) * UNIT
    whole = np.rint(terms)
    costs = np.zeros(most + 1, np.int64)
    costs[1:] = np.cumsum(whole.astype(np.int64)) + np.rint(np.cumsum(terms - whole)).astype(np.int64)
    return costs


def surprise_of(members: GroupMembers, model: NullModel) -> np.ndarray:
    """Return the surprise of groups without missing edges, in units.

    Parameters
    ----------
    members : GroupMembers
        Each with at least one member a side, and complete: then its sizes are within the model's costs.
    model : NullModel

    Returns
    -------
    (n,) int64

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 1, 2])
    >>> members = GroupMembers.of([([0, 1], [0, 1]), ([2], [2])])
    >>> (surprise_of(members, NullModel.of(graph)) / UNIT).round(3).tolist()  # 4 ln 5 - 8 ln 2 - ..., ln 5 - 2 ln 3
    [-1.305, -0.588]
    """
    left_sizes, right_sizes = members.left_sizes, members.right_sizes
    ratio = left_sizes * right_sizes * model.log_edges
    ratio -= right_sizes * _sums(model.left_log_degrees, members.left_members, members.left_offsets)
    ratio -= left_sizes * _sums(model.right_log_degrees, members.right_members, members.right_offsets)
    return ratio - model.left_costs[left_sizes] - model.right_costs[right_sizes]


def _sums(values: np.ndarray, members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The sum over each group's members of their values; ``(n,) int64``."""
    running = np.zeros(members.size + 1, np.int64)
    np.cumsum(values[members], out=running[1:])
    return running[offsets[1:]] - running[offsets[:-1]]
