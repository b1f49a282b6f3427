"""Find a first good biclique greedily; its score is the first threshold of the search."""

from __future__ import annotations

import numpy as np
from numba import int64

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

# Most roots; steps over edges after which no further root begins; and looks at rows below one root, which are faster.
_N_ROOTS, _MOST_STEPS, _MOST_LOOKS = 24, 1 << 23, 1 << 26


def greedy_biclique(
    graph: BipartiteCSR, factors: tuple[int, int], least: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides of the best biclique found below the right vertices of highest degree; int32, or empty.

    The search starts with all neighbours of a root. It repeatedly keeps the ones adjacent to another right vertex, the
    one that keeps the most.

    Parameters
    ----------
    factors : (int, int)
        `Bounds.factors`; by weight, edges count.
    least : (int, int)
        Fewest left and right vertices.
    """
    roots = np.argsort(-graph.right_degrees, kind="stable")[:_N_ROOTS]
    arrays = graph.right_offsets, graph.right_members, graph.left_offsets, graph.left_members
    left, right = _greedy(*arrays, roots, *factors, *least)
    return np.sort(left), right


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(_greedy)


@compiled(LONGS, INTS, LONGS, INTS, LONGS, int64, int64, int64, int64, seconds=1.0)
def _greedy(offsets, members, other_offsets, other_members, roots, of_sum, of_least, min_columns, min_rows):
    """Return the columns and rows of the best biclique, as `greedy_biclique` does.

    Parameters
    ----------
    offsets, members, other_offsets, other_members
        The graph: rows with their columns, and columns with their rows.
    roots : int64
        The rows to start from.
    of_sum, of_least : int
        The score is the number of edges + `of_sum` * the sum of both sizes + `of_least` * the smaller size.
    min_columns, min_rows : int
    """
    counts, is_inside = np.zeros(offsets.size - 1, np.int32), np.zeros(other_offsets.size - 1, np.bool_)
    best, best_rows, n_steps = 0, np.empty(0, np.int32), 0
    best_columns = best_rows
    for root in roots:
        if n_steps > _MOST_STEPS:
            break
        columns = members[offsets[root] : offsets[root + 1]].copy()
        n_columns, counts[:] = columns.size, 0
        for column in columns:
            n_steps += other_offsets[column + 1] - other_offsets[column]
            for j in range(other_offsets[column], other_offsets[column + 1]):
                counts[other_members[j]] += 1
        rows, n_looks = np.flatnonzero(counts).astype(np.int32), 0
        while n_columns >= min_columns and n_looks < _MOST_LOOKS:
            n_looks += rows.size
            n_full, next_row, most = 0, -1, min_columns - 1
            for row in rows:
                n = int(counts[row])
                n_full += n == n_columns
                if most < n < n_columns:
                    next_row, most = int(row), n
            score = n_full * n_columns + of_sum * (n_full + n_columns) + of_least * min(n_full, n_columns)
            if n_full >= min_rows and score > best:
                best, best_rows, best_columns = score, rows[counts[rows] == n_columns], columns.copy()
            if next_row < 0:
                break
            own = members[offsets[next_row] : offsets[next_row + 1]]
            is_inside[own] = True
            n_columns = 0
            for column in columns:
                if is_inside[column]:
                    columns[n_columns] = column
                    n_columns += 1
                else:
                    for j in range(other_offsets[column], other_offsets[column + 1]):
                        counts[other_members[j]] -= 1
            is_inside[own] = False
            columns = columns[:n_columns]
            rows = rows[counts[rows] >= min_columns]
        n_steps += n_looks // 8
    return best_columns, best_rows
