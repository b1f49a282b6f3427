"""A first good biclique, found greedily: the search starts with its score as the threshold."""

from __future__ import annotations

import numpy as np
from numba import float64, int64

from mbe_stage.bicliques.best.scores import code_of
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of


def greedy_rows(
    graph: BipartiteCSR, roots: np.ndarray, kind: int, scale: float, least: tuple[int, int]
) -> tuple[float, np.ndarray]:
    """Return the best code of the bicliques that the search meets below some right vertices, and its right vertices.

    From all neighbours of a root, it goes to those that a further right vertex shares, one that shares the most.

    Parameters
    ----------
    least : (int, int)
        Fewest left and right vertices.

    Returns
    -------
    code : float
        -1 if no biclique is large enough; then there are no vertices.
    rows : int32
    """
    return _greedy(
        graph.right_offsets, graph.right_members, graph.left_offsets, graph.left_members, roots, kind, scale, *least
    )


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_greedy)


@compiled(LONGS, INTS, LONGS, INTS, LONGS, int64, float64, int64, int64, seconds=1.0)
def _greedy(row_offsets, row_members, column_offsets, column_members, roots, kind, scale, min_columns, min_rows):
    """The best code and its rows, as `greedy_rows` returns them.

    Parameters
    ----------
    row_offsets, row_members, column_offsets, column_members
        The graph: rows with their columns, and columns with their rows.
    roots : int64
        The rows to start from.
    kind, scale
        As `scores.code_of` takes them.
    min_columns, min_rows : int
    """
    graph = row_offsets, row_members, column_offsets, column_members
    n_all, n_all_columns = row_offsets.size - 1, column_offsets.size - 1
    counts, rows, best_rows = np.zeros(n_all, np.int32), np.empty(n_all, np.int32), np.empty(n_all, np.int32)
    is_inside, columns = np.zeros(n_all_columns, np.bool_), np.empty(n_all_columns, np.int32)
    n_holding = np.zeros(n_all_columns + 2, np.int32)
    best, n_best = -1.0, 0
    for root in roots:
        n_columns, n_rows = 0, 0
        for k in range(row_offsets[root], row_offsets[root + 1]):
            columns[n_columns] = row_members[k]
            n_columns += 1
            for j in range(column_offsets[row_members[k]], column_offsets[row_members[k] + 1]):
                row = column_members[j]
                if counts[row] == 0:
                    rows[n_rows] = row
                    n_rows += 1
                counts[row] += 1
        n_touched = n_rows
        live = rows[:n_touched].copy()
        while n_columns >= min_columns:
            # The bound of what can still come, the rows that hold all columns, and one that holds the most others.
            kept, n_full, next_row, most = 0, 0, -1, 0
            for k in range(n_rows):
                row = live[k]
                n = counts[row]
                if n < min_columns:
                    continue
                live[kept] = row
                kept += 1
                n_holding[n] += 1
                if n == n_columns:
                    n_full += 1
                elif n > most:
                    next_row, most = row, n
            n_rows = kept
            total, highest = 0, -1.0
            for n in range(n_columns, 0, -1):
                total += n_holding[n]
                n_holding[n] = 0
                if n >= min_columns and total >= min_rows:
                    highest = max(highest, code_of(kind, scale, n, total))
            if n_full >= min_rows and code_of(kind, scale, n_columns, n_full) > best:
                best, n_best = code_of(kind, scale, n_columns, n_full), 0
                for k in range(n_rows):
                    if counts[live[k]] == n_columns:
                        best_rows[n_best] = live[k]
                        n_best += 1
            if highest <= best or next_row < 0:
                break
            n_columns = _keep_columns(graph, next_row, columns[:n_columns], is_inside, counts)
        for k in range(n_touched):
            counts[rows[k]] = 0
    return best, best_rows[:n_best].copy()


@compiled()
def _keep_columns(graph, row, columns, is_inside, counts):
    """Keep the columns of a row, and take the others off the counts of their rows; return how many are kept."""
    row_offsets, row_members, column_offsets, column_members = graph
    for k in range(row_offsets[row], row_offsets[row + 1]):
        is_inside[row_members[k]] = True
    kept = 0
    for column in columns:
        if is_inside[column]:
            columns[kept] = column
            kept += 1
        else:
            for j in range(column_offsets[column], column_offsets[column + 1]):
                counts[column_members[j]] -= 1
    for k in range(row_offsets[row], row_offsets[row + 1]):
        is_inside[row_members[k]] = False
    return kept
