"""Predict the size of a subtree from what lies below it: a power law, learnt from subtrees that were walked.

The number of closed sets of a random matrix of the same rows, columns and density is known in closed form, as a sum
over the number of rows. Real subtrees hold more or fewer, by a power that differs from graph to graph; `GrowthModel`
learns it. Predictions only decide how often something is sampled: no estimate depends on their being right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log, log1p, pi

import numpy as np
from numba import float64, int64

from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, WORDS, compiled, steps_of

_U = np.uint64
_ONE = _U(1)

N_FEATURES = 3


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(word_degrees, list_degrees, child_features)


@compiled(WORDS, int64, LONGS, LONGS)
def word_degrees(rows, n_rows, columns, edges):
    """Columns of each child of a bitset frame, and the edges that its later siblings have in them."""
    later = np.zeros(64, np.int64)
    for child in range(n_rows - 1, -1, -1):
        n_columns = n_edges = 0
        for column in range(64):
            if (rows[child] >> _U(column)) & _ONE:
                n_columns += 1
                n_edges += later[column]
                later[column] += 1
        columns[child], edges[child] = n_columns, n_edges


@compiled(INTS, INTS, int64, int64, LONGS, LONGS)
def list_degrees(offsets, members, n_columns, first, columns, edges):
    """The same for a node that is kept as lists, from its child `first` on.

    Parameters
    ----------
    offsets, members : (n_children + 1,) and (n_entries,) int32
        Columns of each child, as numbers below `n_columns`.
    first : int64
        The first child that is looked at.
    columns, edges : (n_children - first,) int64
        The result.
    """
    later = np.zeros(n_columns, np.int64)
    for child in range(offsets.size - 2, first - 1, -1):
        n_edges = 0
        for k in range(offsets[child], offsets[child + 1]):
            n_edges += later[members[k]]
            later[members[k]] += 1
        columns[child - first], edges[child - first] = offsets[child + 1] - offsets[child], n_edges


@compiled(LONGS, LONGS, int64, int64, float64[:, ::1])
def child_features(columns, edges, n_rows, first, features):
    """Features for the model, ``(n, N_FEATURES)``: random growth, logarithm of the edges, lower mean degree."""
    for k in range(columns.size):
        later = n_rows - 1 - first - k
        n_columns, n_edges = float(columns[k]), float(edges[k])
        features[k, :] = 0.0
        if n_columns > 0 and n_edges > 0:
            # Rows that share a column with the child, if the edges fell on the later rows at random.
            rows_met = max(later * (1.0 - exp(-n_edges / later)), n_edges / n_columns)
            features[k, 0] = _random_growth(rows_met, n_columns, n_edges / (rows_met * n_columns))
            features[k, 1] = log(n_edges)
            features[k, 2] = n_edges / max(rows_met, n_columns)


@compiled()
def _random_growth(n_rows, n_columns, density):
    """Logarithm of the expected number of closed sets of a random matrix, the sum taken at growing distances."""
    most = 1.0 - 0.5 / max(n_rows * n_columns, 1.0)
    log_density = log(min(max(density, 1e-9), most))
    largest = total = 0.0
    i = previous = 0
    while i <= n_rows:
        # Columns that i rows share, and the chance that no other row holds all of them.
        shared = n_columns * exp(i * log_density)
        held = exp(max(shared, 1.0) * log_density)
        term = log(max(1.0 - exp(-shared), 1e-300)) + (n_rows - i) * log1p(-min(held, 1.0 - 1e-12))
        if 0 < i < n_rows:
            share = i / n_rows
            term -= n_rows * (share * log(share) + (1.0 - share) * log1p(-share))
            term -= 0.5 * max(0.0, log(2.0 * pi * i * (1.0 - share)))
        width = max(1, i - previous)
        if i == 0 or term > largest:
            total = total * exp(largest - term) + width
            largest = term
        else:
            total += width * exp(term - largest)
        if shared < 1e-2 and term < largest - 3.0:
            break
        previous = i
        i += max(1, i // 2)
    return max(0.0, largest + log(total))


# Before any visit: half random growth, half the engine's own measure of cost.
_FIRST = np.array([0.0, 0.5, 0.75, 0.0])
_ROUNDS = 100
# Beyond this multiple of its expected size, a subtree counts by the logarithm.
_MOST_SURPRISE = 8.0
# Weight of the first guess, relative to 100 for all visits.
_FIRST_WEIGHT = np.array([0.01, 0.5, 0.5, 0.5])


@dataclass(slots=True)
class GrowthModel:
    """Expected logarithm of the bicliques below a child, ``coefficients @ (1, *features)``.

    Fitted to means, not to logarithms: a subtree whose sample was lost along the way has an estimate of next to
    nothing, and another stands for it.
    """

    coefficients: np.ndarray = field(default_factory=_FIRST.copy)
    _features: list[np.ndarray] = field(default_factory=list)
    _log_counts: list[np.ndarray] = field(default_factory=list)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Expected logarithm, ``(n,) float64``, never below that of one biclique."""
        return np.maximum(0.0, self.coefficients[0] + features @ self.coefficients[1:])

    def learn(self, features: np.ndarray, log_counts: np.ndarray) -> None:
        """Fit again, with some more subtrees whose counts were estimated without bias."""
        self._features.append(features)
        self._log_counts.append(log_counts)
        all_features, y = np.concatenate(self._features), np.concatenate(self._log_counts)
        x = np.column_stack([np.ones(len(y)), all_features])
        weights = _even_weights(all_features[:, 0])
        scale = 1.0 + np.average(x**2, axis=0, weights=weights)
        theta = self.coefficients.copy()
        inside = np.log(1.0 + _MOST_SURPRISE)
        normal = (x * weights[:, None]).T @ x + np.diag(_FIRST_WEIGHT * scale)
        for _ in range(_ROUNDS):
            # Gamma regression with a logarithmic link: the working response is the expected value and the surprise,
            # which far out grows as its logarithm does.
            expected = x @ theta
            surprise = np.expm1(np.minimum(y - expected, inside)) + np.maximum(0.0, y - expected - inside)
            target = (x * weights[:, None]).T @ (expected + surprise) + _FIRST_WEIGHT * scale * _FIRST
            step = np.linalg.solve(normal, target) - theta
            theta += 0.7 * step
            if np.abs(step).max() < 1e-3:
                break
        theta[1:] = np.clip(theta[1:], 0.0, 6.0)
        self.coefficients = theta


def _even_weights(growth: np.ndarray) -> np.ndarray:
    """Weights by which every size of subtree counts alike, however many were seen; 100 in all."""
    classes = np.floor(growth).astype(np.int64)
    weights = 1.0 / np.sqrt(np.bincount(classes)[classes])
    return 100.0 * weights / weights.sum()
