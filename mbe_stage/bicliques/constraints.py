"""Size constraints as numbers, for compiled code: one order of fields for all engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.options import NO_LIMIT

# Fields.
ACTIVE, MIN_LEFT, MIN_RIGHT, MAX_LEFT, MAX_RIGHT, MIN_EDGES = range(6)


def size_constraints(query: BicliqueQuery, is_swapped: bool = False) -> np.ndarray:
    """Return the constraints of a query, with its left side as the columns, or its right: ``(6,) int64``.

    `ACTIVE` is 0 if all bicliques satisfy them.
    """
    most = [NO_LIMIT if each is None else each for each in (query.max_left, query.max_right)]
    least = [query.min_left, query.min_right]
    order = -1 if is_swapped else 1
    constraints = (*least[::order], *most[::order], query.min_edges)
    active = constraints != (1, 1, NO_LIMIT, NO_LIMIT, 1)
    return np.array([active, *constraints], dtype=np.int64)


def are_met(n_left: Any, n_right: Any, constraints: Any) -> Any:
    """True if a biclique with these numbers of the user's vertices meets the constraints; compiled by each engine."""
    return (
        constraints[MIN_LEFT] <= n_left <= constraints[MAX_LEFT]
        and constraints[MIN_RIGHT] <= n_right <= constraints[MAX_RIGHT]
        and np.int64(n_left) * np.int64(n_right) >= constraints[MIN_EDGES]
    )
