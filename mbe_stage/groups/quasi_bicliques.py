"""The score of a quasi-biclique: a group with missing edges.

A group of ``a`` by ``b`` vertices has `e` of ``a b`` possible edges, a share ``q = e / (a b)``. Each left member has at
least `p` of them, and each right member at least `r`. Its score is

``sum of the weights of the present edges + e ln q + (a b - e) ln(1 - q)
- ln C(#{left: degree >= p}, a) - ln C(#{right: degree >= r}, b)
- ln n_left - ln n_right - ln a - ln b - ln(a b + 1)``

A present edge counts more the less likely it is by the degrees of its ends (`null_model`). Every possible edge costs
its description length at a density of `q`. The members, both sizes, `p`, `r` and `e` must be named. All terms are in
units of ``1 / UNIT`` nat, so that sums do not depend on their order.
"""

from __future__ import annotations

import math

import numpy as np

from mbe_stage.groups.null_model import FIRST_PAIR, LAST_PAIR, PAIR_BITS, UNIT
from mbe_stage.runtime.jit import compiled

# Bound to keep sums within 64 bits, reached only by groups of nearly all edges at almost no density: scores below 0.
_LOWEST = -4.0e18


@compiled(nrt=False)
def pair_weight(log_expected, weights):
    """Return the weight of an edge: ``-ln`` of its probability.

    Parameters
    ----------
    log_expected : int64
        ``ln z`` of the pair (`null_model`), in units.
    weights : int64
        `PAIR_WEIGHTS`.

    Returns
    -------
    int64
        The weight, in units.
    """
    if log_expected < FIRST_PAIR:
        return -log_expected
    above = min(log_expected - FIRST_PAIR, np.int64(LAST_PAIR))
    first, then = weights[above >> PAIR_BITS], weights[(above >> PAIR_BITS) + 1]
    return first + ((then - first) * (above & ((1 << PAIR_BITS) - 1)) >> PAIR_BITS)


@compiled(nrt=False)
def log_choices(factorials, n, k):
    """Return ``ln C(n, k)`` in units, int64, from the logarithms of factorials."""
    return factorials[n] - factorials[k] - factorials[n - k]


@compiled()
def class_cost_of(n_left, n_right):
    """Return the cost of naming the smallest degrees inside and the number of edges, in units."""
    n_cells = np.float64(n_left * n_right)
    return np.int64(np.rint(math.log(n_cells * (n_cells + 1.0)) * UNIT))


@compiled()
def density_term(n_present, n_cells):
    """Return ``e ln q + (n - e) ln(1 - q)`` for `e` of `n` possible edges, in units; 0 if all or none are present.

    Only the result is rounded, so that it is accurate for large groups too.
    """
    n_missing = n_cells - n_present
    if n_present == 0 or n_missing == 0:
        return np.int64(0)
    present = n_present * math.log(n_present / n_cells)
    missing = n_missing * math.log(n_missing / n_cells)
    return np.int64(max(np.rint((present + missing) * UNIT), _LOWEST))
