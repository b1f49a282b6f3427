"""Score of a quasi-biclique: a group with missing edges.

A group of ``a`` by ``b`` vertices has `e` of the ``a b`` possible edges, a share ``q = e / (a b)``. Its score is

``sum over present edges of w(u, v) + e ln q + (a b - e) ln(1 - q)
- ln C(n_left, a) - ln C(n_right, b) - ln n_left - ln n_right``

with ``w(u, v) = ln E - ln d_u - ln d_v``, at least 0.01: a present edge counts for as much as it is unlikely by the
degrees of its ends, every possible edge costs what naming it costs where a share `q` is present, and the members and
both sizes have to be named. All of it in units of ``1 / UNIT`` nat (`null_model`), so that sums of edges do not depend
on their order.
"""

from __future__ import annotations

import math

import numpy as np

from mbe_stage.groups.null_model import UNIT
from mbe_stage.runtime.jit import compiled

LEAST_WEIGHT = round(0.01 * UNIT)
"""Weight of an edge that its degrees make more than certain: between hubs the null expects more than one."""

# Where a sum would leave 64 bits: only for groups of nearly all edges at next to no density, which are not positive.
_LOWEST = -4.0e18


@compiled()
def edge_weight(log_edges, left_log_degree, right_log_degree):
    """Weight of a present edge; three int64 in units, as is the result."""
    return max(log_edges - left_log_degree - right_log_degree, np.int64(LEAST_WEIGHT))


@compiled()
def log_units_of(numerator, denominator):
    """``ln`` of a positive fraction in units, rounded half to even; int64."""
    return np.int64(np.rint(math.log(numerator / denominator) * UNIT))


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
