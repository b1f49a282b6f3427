"""Predict the size of a subtree from the graph below it, by a power law learnt from walked subtrees.

The number of closed sets of a random matrix with the same rows, columns and density is known in closed form, as a sum
over the number of rows. Real subtrees have more or fewer, by a power that differs between graphs; `GrowthModel` learns
it. Predictions only decide how often a subtree is sampled, so estimates stay unbiased if they are wrong.
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
    """Return the steps to compile the functions of this module."""
    return steps_of(word_degrees, list_degrees, child_features)


@compiled(WORDS, int64, LONGS, LONGS)
def word_degrees(rows, n_rows, columns, edges):
    """Write each child's number of columns in a bitset frame, and the number of its later siblings' edges in them."""
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
    """The same for a node stored as lists, from its child `first` on.

    Parameters
    ----------
    offsets, members : (n_children + 1,) and (n_entries,) int32
        Columns of each child, numbered below `n_columns`.
    first : int64
        The first child to consider.
    columns, edges : (n_children - first,) int64
        The results.
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
    """Write the model's features, ``(n, N_FEATURES)``: random growth, log of the edges, lower mean degree."""
    for k in range(columns.size):
        later = n_rows - 1 - first - k
        n_columns, n_edges = float(columns[k]), float(edges[k])
        features[k, :] = 0.0
        if n_columns > 0 and n_edges > 0:
            # Expected number of rows that share a column with the child if edges were spread over later rows at random.
            rows_met = max(later * (1.0 - exp(-n_edges / later)), n_edges / n_columns)
            features[k, 0] = _random_growth(rows_met, n_columns, n_edges / (rows_met * n_columns))
            features[k, 1] = log(n_edges)
            features[k, 2] = n_edges / max(rows_met, n_columns)


@compiled()
def _random_growth(n_rows, n_columns, density):
    """Return the log of the expected number of closed sets of a random matrix, summed at growing distances."""
    most = 1.0 - 0.5 / max(n_rows * n_columns, 1.0)
    log_density = log(min(max(density, 1e-9), most))
    largest = total = 0.0
    i = previous = 0
    while i <= n_rows:
        # Expected number of columns shared by i rows, and the probability that another row has all of them.
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


# Before any visit: half the random growth, and 0.75 of the log of the edges, like the engine's measure of cost.
_FIRST = np.array([0.0, 0.5, 0.75, 0.0])
_ROUNDS = 100
# Residuals beyond this multiple of the expected size count by their logarithm.
_MOST_SURPRISE = 8.0
# Weight of the initial coefficients, relative to 100 for all visits.
_FIRST_WEIGHT = np.array([0.01, 0.5, 0.5, 0.5])


@dataclass(slots=True)
class GrowthModel:
    """Expected logarithm of the bicliques below a child, ``coefficients @ (1, *features)``.

    It is fitted to means, not to logarithms: a subtree whose samples were dropped has an estimate near zero, and
    another subtree represents it.
    """

    coefficients: np.ndarray = field(default_factory=_FIRST.copy)
    _features: list[np.ndarray] = field(default_factory=list)
    _log_counts: list[np.ndarray] = field(default_factory=list)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return the expected logarithm, ``(n,) float64``, at least that of one biclique."""
        return np.maximum(0.0, self.coefficients[0] + features @ self.coefficients[1:])

    def learn(self, features: np.ndarray, log_counts: np.ndarray) -> None:
        """Fit the model again, with additional subtrees and unbiased estimates of their counts."""
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
            # Gamma regression with a logarithmic link. The working response is the expected value plus the residual,
            # which grows logarithmically for outliers.
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
    """Return weights that balance the sizes of subtrees, however many of each were seen; their sum is 100."""
    classes = np.floor(growth).astype(np.int64)
    weights = 1.0 / np.sqrt(np.bincount(classes)[classes])
    return 100.0 * weights / weights.sum()
