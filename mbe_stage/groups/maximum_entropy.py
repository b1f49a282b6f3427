"""The maximum-entropy null model of a graph's degrees, for graphs where degrees force edges.

The configuration model expects ``d_u d_v / E`` edges for a pair, which is no probability if it is near 1 or above. The
maximum-entropy model (BiCM: Saracco, Di Clemente, Gabrielli and Squartini, Sci. Rep. 5, 2015) has the probabilities
``p = x_u y_v / (1 + x_u y_v)`` that reproduce all degrees on average. Vertices of equal degree have the same `x`, so
there is one unknown per distinct degree. The likelihood is concave, and Newton's method finds its maximum.

If the degrees decide an edge, as in a threshold graph, the best `x` is infinite. A small ridge keeps it finite: ``RIDGE
/ 2`` times the square of ``ln x`` is subtracted for each vertex. So the solution is unique, whatever the solver.
"""

from __future__ import annotations

import math

import numpy as np

RIDGE = 1e-6
"""Degrees are reproduced up to this number times ``ln x``."""

MOST_CLASSES = 1_024
"""With more distinct degrees on a side, degrees above `EXACT` that differ by less than half a percent share a class."""

EXACT = 200

_MOST_ROUNDS, _MOST_HALVINGS = 200, 40
# Below the first step size, Newton's method squares the error in each round; the last is far below a unit of scores.
_SMALL, _LAST = 1e-3, 1e-9


def effective_log_degrees(left_degrees: np.ndarray, right_degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``ln x_u + ln(E) / 2`` for each vertex, which replaces ``ln d_u``.

    Parameters
    ----------
    left_degrees, right_degrees : (n_left,) and (n_right,) int64
        Degrees of both sides, with the same sum `E` above 0.

    Returns
    -------
    (n_left,) and (n_right,) float64
        Vertices without edges get the value of the lowest degree.

    Examples
    --------
    >>> left, right = effective_log_degrees(np.array([3, 1, 1]), np.array([2, 2, 1]))
    >>> odds = np.exp(left[:, None] + right - np.log(5))
    >>> (odds / (1 + odds)).sum(axis=1).round(3).tolist()
    [3.0, 1.0, 1.0]
    """
    (left, n_left, of_left), (right, n_right, of_right) = (_classes(each) for each in (left_degrees, right_degrees))
    half = math.log(left_degrees.sum()) / 2
    if left.size >= right.size:
        x, y = _solved(left, n_left, right, n_right, half)
    else:
        y, x = _solved(right, n_right, left, n_left, half)
    return _of_vertices(x, left, of_left, left_degrees) + half, _of_vertices(y, right, of_right, right_degrees) + half


def _classes(degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean degree and size of each class; and the class of each distinct degree above 0."""
    distinct, counts = np.unique(degrees[degrees > 0], return_counts=True)
    places = distinct.astype(np.float64)
    if distinct.size > MOST_CLASSES:
        places = np.where(distinct > EXACT, EXACT + np.rint(EXACT * np.log(np.maximum(places, EXACT) / EXACT)), places)
    _, classes = np.unique(places, return_inverse=True)
    sizes = np.bincount(classes, counts)
    return np.bincount(classes, counts * distinct) / sizes, sizes, classes


def _of_vertices(values: np.ndarray, means: np.ndarray, classes: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the value of each vertex: its class's value, shifted by the log ratio of its degree to the class mean."""
    distinct = np.unique(degrees[degrees > 0])
    return (values[classes] + np.log(distinct / means[classes]))[np.searchsorted(distinct, degrees)]


def _solved(
    left: np.ndarray, n_left: np.ndarray, right: np.ndarray, n_right: np.ndarray, half: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``ln x`` and ``ln y`` of the classes; the right side must not have more classes than the left side."""
    x, y = np.log(left) - half, np.log(right) - half
    value = _loss(x, y, left, n_left, right, n_right)
    for _ in range(_MOST_ROUNDS):
        with np.errstate(over="ignore"):
            p = 1 / (1 + np.exp(-(x[:, None] + y)))
        of_left = n_left * (left - p @ n_right - RIDGE * x)
        of_right = n_right * (right - n_left @ p - RIDGE * y)
        curvature = n_left[:, None] * n_right * p * (1 - p)
        diagonal = curvature.sum(axis=1) + RIDGE * n_left
        schur = np.diag(curvature.sum(axis=0) + RIDGE * n_right) - curvature.T @ (curvature / diagonal[:, None])
        # Only sums of `x` and `y` matter. A shift between the sides is fixed at 0 here, and chosen below.
        schur += np.outer(n_right, n_right) * (np.trace(schur) / (n_right @ n_right))
        step_y = np.linalg.solve(schur, of_right - curvature.T @ (of_left / diagonal))
        step_x = (of_left - curvature @ step_y) / diagonal
        largest = float(np.abs(step_x[:, None] + step_y).max())
        share = 1.0
        for _ in range(_MOST_HALVINGS):
            new_x, new_y = _balanced(x + share * step_x, y + share * step_y, n_left, n_right)
            new_value = _loss(new_x, new_y, left, n_left, right, n_right)
            if new_value <= value or largest < _SMALL:
                break
            share /= 2
        x, y, value = new_x, new_y, new_value
        if largest < _LAST:
            break
    return x, y


def _loss(
    x: np.ndarray, y: np.ndarray, left: np.ndarray, n_left: np.ndarray, right: np.ndarray, n_right: np.ndarray
) -> float:
    """Return the negative log-likelihood plus the ridge."""
    edges = n_left @ np.logaddexp(0, x[:, None] + y) @ n_right
    ridge = RIDGE / 2 * (n_left @ x**2 + n_right @ y**2)
    return float(edges - (n_left * left) @ x - (n_right * right) @ y + ridge)


def _balanced(x: np.ndarray, y: np.ndarray, n_left: np.ndarray, n_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shift `x` and `y` to the least ridge with the same sums: both sides get the same total."""
    shift = (n_right @ y - n_left @ x) / (n_left.sum() + n_right.sum())
    return x + shift, y - shift
