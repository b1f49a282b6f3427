"""Score of a quasi-biclique: a group with missing edges.

A group of ``a`` by ``b`` vertices has `e` of the ``a b`` possible edges, a share ``q = e / (a b)``. Each left member
has at least `p` of them, and each right one at least `r`. Its score is

``sum of the weights of the present edges + e ln q + (a b - e) ln(1 - q)
- ln C(#{left: degree >= p}, a) - ln C(#{right: degree >= r}, b)
- ln n_left - ln n_right - ln a - ln b - ln(a b + 1)``

A present edge counts for as much as it is unlikely by the degrees of its ends (`null_model`), every possible edge
costs what naming it costs where a share `q` is present, and the members, both sizes, `p`, `r` and `e` have to be named.
All of it in units of ``1 / UNIT`` nat, so that sums of edges do not depend on their order.
"""

from __future__ import annotations

import math

import numpy as np

from mbe_stage.groups.null_model import FIRST_PAIR, LAST_PAIR, PAIR_BITS, UNIT
from mbe_stage.runtime.jit import compiled

# Where a sum would leave 64 bits: only for groups of nearly all edges at next to no density, which are not positive.
_LOWEST = -4.0e18


@compiled(nrt=False)
def pair_weight(log_expected, weights):
    """Weight of an edge: ``-ln`` of its probability.

    Parameters
    ----------
    log_expected : int64
        ``ln z`` of the pair (`null_model`), in units.
    weights : int64
        `PAIR_WEIGHTS`.

    Returns
    -------
    int64
        In units.
    """
    if log_expected < FIRST_PAIR:
        return -log_expected
    above = min(log_expected - FIRST_PAIR, np.int64(LAST_PAIR))
    first, then = weights[above >> PAIR_BITS], weights[(above >> PAIR_BITS) + 1]
    return first + ((then - first) * (above & ((1 << PAIR_BITS) - 1)) >> PAIR_BITS)


@compiled(nrt=False)
def log_choices(factorials, n, k):
    """``ln C(n, k)``, given the logarithms of factorials in units; int64."""
    return factorials[n] - factorials[k] - factorials[n - k]


@compiled()
def class_cost_of(n_left, n_right):
    """Cost of the smallest degrees inside and of the number of edges, in units."""
    n_cells = np.float64(n_left * n_right)
    return np.int64(np.rint(math.log(n_cells * (n_cells + 1.0)) * UNIT))


@compiled()
def density_term(n_present, n_cells):
    """``e ln q + (n - e) ln(1 - q)`` of `e` present edges of `n` possible ones, in units; 0 where all or none are.

    One rounding of the whole, so that it is right for large groups too.
    """
    n_missing = n_cells - n_present
    if n_present == 0 or n_missing == 0:
        return np.int64(0)
    present = n_present * math.log(n_present / n_cells)
    missing = n_missing * math.log(n_missing / n_cells)
    return np.int64(max(np.rint((present + missing) * UNIT), _LOWEST))
