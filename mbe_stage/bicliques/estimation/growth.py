"""What can be seen of a subtree before it is walked: how much of the graph lies below, and how much that may hold.

The number of closed sets of a random matrix of the same rows, columns and density is known in closed form, as a sum
over the number of rows. Real subtrees hold more or fewer, by a power that differs from graph to graph: `model` learns
it. Both only decide what is sampled how often; no estimate depends on their being right.
"""

from __future__ import annotations

from math import exp, log, log1p, pi

import numpy as np
from numba import float64, int64

from mbe_stage.compile_ahead import CompileStep
from mbe_stage.jit import INTS, LONGS, WORDS, compiled, steps_of

__all__ = ["N_FEATURES", "child_features", "compile_steps", "list_degrees", "word_degrees"]

_U = np.uint64
_ONE = _U(1)

N_FEATURES = 3


def compile_steps() -> tuple[CompileStep, ...]:
    """What the functions of this module need."""
    return steps_of(word_degrees, list_degrees, child_features)


@compiled(WORDS, int64, LONGS, LONGS)
def word_degrees(rows, n_rows, columns, edges):
    """Of each child of a bitset frame: its columns, and the edges that its later siblings have in them."""
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
    """What the model looks at, ``(n, N_FEATURES)``: random growth, logarithm of the edges, lower mean degree."""
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
