"""Size constraints as an array for compiled code, with the same fields for all engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.options import NO_LIMIT

# Fields.
ACTIVE, MIN_LEFT, MIN_RIGHT, MAX_LEFT, MAX_RIGHT, MIN_EDGES = range(6)


def size_constraints(query: BicliqueQuery, is_swapped: bool = False) -> np.ndarray:
    """Return the constraints of a query, ``(6,) int64``.

    The left side are the columns, or the right side if `is_swapped`. `ACTIVE` is 0 if every biclique satisfies them.
    """
    most = [NO_LIMIT if each is None else each for each in (query.max_left, query.max_right)]
    least = [query.min_left, query.min_right]
    order = -1 if is_swapped else 1
    constraints = (*least[::order], *most[::order], query.min_edges)
    active = constraints != (1, 1, NO_LIMIT, NO_LIMIT, 1)
    return np.array([active, *constraints], dtype=np.int64)


def are_met(n_left: Any, n_right: Any, constraints: Any) -> Any:
    """True if a biclique with these numbers of user's vertices meets the constraints; each engine compiles it."""
    return (
        constraints[MIN_LEFT] <= n_left <= constraints[MAX_LEFT]
        and constraints[MIN_RIGHT] <= n_right <= constraints[MAX_RIGHT]
        and np.int64(n_left) * np.int64(n_right) >= constraints[MIN_EDGES]
    )
