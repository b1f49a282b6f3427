"""Complete maximal bicliques by vertices with few missing edges.

Take the best set of vertices of both sides in which at most `d` edges are missing. Its left vertices and its right ones
without a missing edge are a biclique, inside a maximal biclique with the same right vertices. So it is a completion of
a maximal biclique: up to `d` right vertices are added, and left vertices are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mbe_stage.bicliques.best.bounds import Bounds
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of


def completed(block: Any, graph: BipartiteCSR, bounds: Bounds, cutoff: float) -> tuple[Any, np.ndarray]:
    """Return the best completion of each biclique that has one with this code or more, and their missing edges.

    Of equal completions, the first in a search that adds vertices with most edges first is taken.
    """
    sides = long_offsets(block.left_sizes), block.left_members, long_offsets(block.right_sizes), block.right_members
    neighbours = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
    limits = bounds.missing, bounds.min_left, bounds.min_right, *bounds.factors, int(max(0, cutoff))
    left_sizes, left, right_sizes, right, n_missing = _completed(*sides, *neighbours, np.array(limits))
    return BicliqueBlock(left_sizes.size, left_sizes, right_sizes, left, right), n_missing


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_completed)


@compiled(LONGS, INTS, LONGS, INTS, LONGS, INTS, LONGS, INTS, LONGS, seconds=2.0)
def _completed(left_offsets, left, right_offsets, right, offsets, members, other_offsets, other_members, limits):
    """The sizes and members of completions, and their missing edges, as `completed` returns them.

    Parameters
    ----------
    left_offsets, left, right_offsets, right
        The members of each biclique.
    offsets, members, other_offsets, other_members
        The neighbours of left and of right vertices.
    limits : int64
        Most missing edges, fewest left and right vertices, the factors of `Bounds`, the least code.
    """
    most, n = limits[0], left_offsets.size - 1
    sizes, n_missing = np.zeros((2, n), np.int32), np.zeros(n, np.int64)
    out_left, out_right = np.empty(left.size, np.int32), np.empty(right.size + n * most, np.int32)
    counts, place = np.zeros(other_offsets.size - 1, np.int32), np.full(offsets.size - 1, -1, np.int32)
    touched = np.empty(counts.size, np.int32)
    n_out, left_used, right_used = 0, 0, 0
    for i in range(n):
        own, full = left[left_offsets[i] : left_offsets[i + 1]], right[right_offsets[i] : right_offsets[i + 1]]
        n_touched = 0
        for k in range(own.size):
            place[own[k]] = k
            for j in range(offsets[own[k]], offsets[own[k] + 1]):
                if counts[members[j]] == 0:
                    touched[n_touched] = members[j]
                    n_touched += 1
                counts[members[j]] += 1
        # Ties keep the order of the ids.
        met = np.sort(touched[:n_touched])
        candidates = met[(counts[met] >= limits[1] - most) & (counts[met] < own.size)]
        candidates = candidates[np.argsort(-counts[candidates], kind="mergesort")]
        own_sizes = own.size, full.size
        added, misses = _best_added(own_sizes, candidates, counts, place, other_offsets, other_members, limits)
        counts[met] = 0
        place[own] = -1
        if misses[-1] < 0:
            continue
        rows = np.sort(np.append(full, added))
        out_right[right_used : right_used + rows.size] = rows
        n_left, budget = 0, most
        # The misses that are allowed: all fewer than the last, and so many of these.
        for m in range(most + 1):
            for k in range(own.size):
                if misses[k] == m and m <= budget:
                    misses[k] = -1
                    budget -= m
        for k in range(own.size):
            if misses[k] == -1:
                out_left[left_used + n_left] = own[k]
                n_left += 1
        sizes[0, n_out], sizes[1, n_out], n_missing[n_out] = n_left, rows.size, most - budget
        n_out, left_used, right_used = n_out + 1, left_used + n_left, right_used + rows.size
    return (
        sizes[0, :n_out].copy(),
        out_left[:left_used].copy(),
        sizes[1, :n_out].copy(),
        out_right[:right_used].copy(),
        n_missing[:n_out].copy(),
    )


@compiled()
def _best_added(own_sizes, candidates, counts, place, other_offsets, other_members, limits):
    """The right vertices to add to a biclique, and how many of them each left member misses.

    Parameters
    ----------
    own_sizes : (int, int)
        Left and right vertices of the biclique.
    candidates : int32
        Right vertices outside, those with most edges first.
    counts, place : int32
        The edges of each right vertex to the left members, and the number of each left member.

    Returns
    -------
    added : int32
    misses : (n_own + 1,) int32
        The last is -1 if no completion reaches the least code.
    """
    most, n_own, n_full = limits[0], own_sizes[0], own_sizes[1]
    misses, cursors = np.zeros((most + 1, n_own), np.int32), np.zeros(most + 1, np.int64)
    best, best_depth, best_path = limits[5] - 1, -1, np.zeros(most + 1, np.int64)
    depth, is_new = 0, True
    while depth >= 0:
        if is_new:
            n_left, n_missing = _most_kept(misses[depth], most)
            n_right = n_full + depth
            code = _code(n_left, n_right, limits) - n_missing
            if n_left >= limits[1] and n_right >= limits[2] and code > best:
                best, best_depth, best_path[:depth] = code, depth, cursors[:depth] - 1
            cursors[depth] = cursors[depth - 1] if depth else 0
            if n_left < limits[1] or _code(n_left, n_full + most, limits) <= best:
                cursors[depth] = candidates.size
        is_new = False
        at = cursors[depth]
        # Those that miss a candidate take from what may be missing.
        if (
            depth == most
            or at == candidates.size
            or (_code(min(n_own, counts[candidates[at]] + most), n_full + most, limits) <= best)
        ):
            depth -= 1
            continue
        cursors[depth] += 1
        misses[depth + 1] = misses[depth] + 1
        for j in range(other_offsets[candidates[at]], other_offsets[candidates[at] + 1]):
            if place[other_members[j]] >= 0:
                misses[depth + 1, place[other_members[j]]] -= 1
        depth, is_new = depth + 1, True
    added, n_missed = np.empty(max(best_depth, 0), np.int32), np.zeros(n_own + 1, np.int32)
    n_missed[-1] = min(best_depth, 0)
    for k in range(added.size):
        added[k] = candidates[best_path[k]]
        n_missed[:-1] += 1
        for j in range(other_offsets[added[k]], other_offsets[added[k] + 1]):
            if place[other_members[j]] >= 0:
                n_missed[place[other_members[j]]] -= 1
    return added, n_missed


@compiled()
def _most_kept(misses, most):
    """The most left members that miss so many at most together, and how many these miss."""
    n_with = np.zeros(most + 1, np.int64)
    for n in misses:
        if n <= most:
            n_with[n] += 1
    n_kept, budget = n_with[0], most
    for n in range(1, most + 1):
        n_more = min(n_with[n], budget // n)
        n_kept, budget = n_kept + n_more, budget - n * n_more
    return n_kept, most - budget


@compiled()
def _code(n_left, n_right, limits):
    return n_left * n_right + limits[3] * (n_left + n_right) + limits[4] * min(n_left, n_right)
