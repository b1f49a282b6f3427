"""Complete maximal bicliques by vertices with few missing edges.

Take the best set of vertices of both sides with at most `d` missing edges. Its left vertices, and its right vertices
without a missing edge, are a biclique inside a maximal biclique with the same right vertices. So the set is a
completion of a maximal biclique: up to `d` right vertices are added, and left vertices are removed.
"""

from __future__ import annotations

import numpy as np

from mbe_stage.bicliques.best.bounds import Bounds
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, compiled, steps_of


def completed(
    members: GroupMembers, graph: BipartiteCSR, bounds: Bounds, cutoff: float, is_over: np.ndarray
) -> tuple[GroupMembers, np.ndarray]:
    """Return the best completion of each biclique with at least this code, and its number of missing edges.

    Bicliques without such a completion are left out. Another thread sets `is_over`, (1,) bool, to stop the search.
    Among equal completions, the first one found is taken; candidates with more edges are tried first.
    """
    sides = members.left_offsets, members.left_members, members.right_offsets, members.right_members
    neighbours = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
    limits = bounds.missing, bounds.min_left, bounds.min_right, *bounds.factors, int(max(0, cutoff))
    left_sizes, left, right_sizes, right, n_missing = _completed(*sides, *neighbours, np.array(limits), is_over)
    return GroupMembers(long_offsets(left_sizes), left, long_offsets(right_sizes), right), n_missing


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module."""
    return steps_of(_completed)


@compiled(LONGS, INTS, LONGS, INTS, LONGS, INTS, LONGS, INTS, LONGS, FLAGS, seconds=2.0)
def _completed(lefts, left, rights, right, offsets, members, other_offsets, other_members, limits, is_over):
    """Return sizes and members of completions, and their numbers of missing edges, as `completed` does.

    Parameters
    ----------
    lefts, left, rights, right
        The members of each biclique, after their offsets.
    offsets, members, other_offsets, other_members
        The neighbours of left and of right vertices.
    limits : int64
        Most missing edges, fewest left and right vertices, both factors of `Bounds`, the least code.
    is_over : (1,) bool
        Set by another thread to stop the search.
    """
    most, n = limits[0], lefts.size - 1
    sizes, n_missing = np.zeros((2, n), np.int32), np.zeros(n, np.int64)
    out_left, out_right = np.empty(left.size, np.int32), np.empty(right.size + n * most, np.int32)
    counts, place = np.zeros(other_offsets.size - 1, np.int32), np.full(offsets.size - 1, -1, np.int32)
    touched = np.empty(counts.size, np.int32)
    n_out, left_used, right_used = 0, 0, 0
    for i in range(n):
        own, full = left[lefts[i] : lefts[i + 1]], right[rights[i] : rights[i + 1]]
        if _code(own.size, full.size + most, limits) < limits[5]:
            continue
        n_touched = 0
        for k in range(own.size):
            place[own[k]] = k
            for j in range(offsets[own[k]], offsets[own[k] + 1]):
                if counts[members[j]] == 0:
                    touched[n_touched] = members[j]
                    n_touched += 1
                counts[members[j]] += 1
        # Ties keep the order of the ids.
        candidates, n_candidates = touched[:n_touched].copy(), 0
        for vertex in candidates:
            n_kept = min(own.size, counts[vertex] + most)
            is_one = counts[vertex] < own.size and limits[1] <= n_kept
            if is_one and _code(n_kept, full.size + most, limits) >= limits[5]:
                candidates[n_candidates] = vertex
                n_candidates += 1
        candidates = np.sort(candidates[:n_candidates])
        candidates = candidates[np.argsort(-counts[candidates], kind="mergesort")]
        own_sizes = own.size, full.size
        added, misses = _best_added(own_sizes, candidates, place, other_offsets, other_members, limits, is_over)
        counts[touched[:n_touched]] = 0
        place[own] = -1
        if is_over[0]:
            break
        if misses[-1] < 0:
            continue
        rows = np.sort(np.append(full, added))
        out_right[right_used : right_used + rows.size] = rows
        # Keep the left members with the fewest missing edges, as many as the limit allows.
        order = np.argsort(misses[:-1], kind="mergesort")
        missed = np.cumsum(misses[order])
        n_left = np.searchsorted(missed, most, side="right")
        out_left[left_used : left_used + n_left] = np.sort(own[order[:n_left]])
        sizes[0, n_out], sizes[1, n_out], n_missing[n_out] = n_left, rows.size, missed[n_left - 1]
        n_out, left_used, right_used = n_out + 1, left_used + n_left, right_used + rows.size
    left_sizes, right_sizes = sizes[0, :n_out].copy(), sizes[1, :n_out].copy()
    return left_sizes, out_left[:left_used].copy(), right_sizes, out_right[:right_used].copy(), n_missing[:n_out].copy()


@compiled()
def _best_added(own_sizes, candidates, place, other_offsets, other_members, limits, is_over):
    """Find the best right vertices to add to a biclique, and the number of missing edges of each left member.

    Parameters
    ----------
    own_sizes : (int, int)
        Number of left and right vertices of the biclique.
    candidates : int32
        Other right vertices, those with the most edges first.
    place : int32
        The position of each left member; -1 for other vertices.

    Returns
    -------
    added : int32
    misses : (n_own + 1,) int32
        Missing edges of each left member; the last entry is -1 if no completion reaches the least code.
    """
    most, n_own, n_full = limits[0], own_sizes[0], own_sizes[1]
    misses = np.zeros((most + 1, n_own), np.int32)
    cursors, ends = np.zeros(most + 1, np.int64), np.zeros(most + 1, np.int64)
    # For each depth: the candidates that may be added, their numbers of edges to left members that may stay, and the
    # largest of these numbers.
    waiting, held = np.empty((most + 2, candidates.size), np.int32), np.empty((most + 1, candidates.size), np.int64)
    waiting[0], any_held, most_held = candidates, np.full(most, n_own), np.zeros((most + 1, most), np.int64)
    path, best, best_depth, best_path = np.empty(most, np.int32), limits[5] - 1, -1, np.empty(most, np.int32)
    best_misses = np.zeros(n_own + 1, np.int32)
    kept = np.zeros((most + 1, 2 + most), np.int64)
    depth, is_new = 0, True
    while depth >= 0 and not is_over[0]:
        if is_new:
            n_missing = _keep(misses[depth], kept[depth], most)
            n_left, n_right = kept[depth, 1], n_full + depth
            code = _code(n_left, n_right, limits) - n_missing
            if n_left >= limits[1] and n_right >= limits[2] and code > best:
                best, best_depth, best_path[:depth], best_misses[:-1] = code, depth, path[:depth], misses[depth]
            first, end = (cursors[depth - 1], ends[depth - 1]) if depth else (0, candidates.size)
            cursors[depth], n = 0, 0
            for vertex in waiting[depth, first : end if depth < most else first]:
                n_held = 0
                for j in range(other_offsets[vertex], other_offsets[vertex + 1]):
                    at = place[other_members[j]]
                    n_held += at >= 0 and misses[depth, at] <= most
                if _bound(kept[depth], n_right, n_held, any_held, most - depth, limits) > best:
                    waiting[depth + 1, n], held[depth, n] = vertex, n_held
                    n += 1
            ends[depth], n_more = n, min(n, most)
            most_held[depth, :n_more] = np.sort(held[depth, :n])[::-1][:n_more]
        is_new = False
        at, n_right = cursors[depth], n_full + depth
        if at == ends[depth]:
            depth -= 1
            continue
        cursors[depth] += 1
        n_more = min(most - depth, ends[depth] - at)
        if _bound(kept[depth], n_right, held[depth, at], most_held[depth], n_more, limits) <= best:
            continue
        path[depth] = waiting[depth + 1, at]
        misses[depth + 1] = misses[depth] + 1
        for j in range(other_offsets[path[depth]], other_offsets[path[depth] + 1]):
            if place[other_members[j]] >= 0:
                misses[depth + 1, place[other_members[j]]] -= 1
        depth, is_new = depth + 1, True
    best_misses[-1] = min(best_depth, 0)
    return best_path[: max(best_depth, 0)].copy(), best_misses


@compiled()
def _keep(misses, kept, most):
    """Keep the most left members with at most `most` missing edges in total; return the total of the kept ones.

    Parameters
    ----------
    misses : (n,) int32
    kept : (2 + most,) int64
        Receives the number of members without missing edges, the number of all kept members, and the cumulative missing
        edges of kept members that have some.
    """
    n_with = np.zeros(most + 1, np.int64)
    for n in misses:
        if n <= most:
            n_with[n] += 1
    n_missing, kept[:2] = 0, n_with[0]
    for n in range(1, most + 1):
        for _ in range(min(n_with[n], (most - n_missing) // n)):
            n_missing += n
            kept[2 + kept[1] - kept[0]] = n_missing
            kept[1] += 1
    return n_missing


@compiled()
def _bound(kept, n_right, n_held, others_held, n_more, limits):
    """Return an upper bound on the code if a candidate and up to `n_more - 1` others are added; -1 if impossible.

    If x left vertices stay, a candidate with edges to c of them has at least x - c missing edges.

    Parameters
    ----------
    kept : (2 + most,) int64
        Result of `_keep`.
    n_right : int
    n_held : int
        The candidate's number of edges to left members that may stay.
    others_held : (n,) int64
        The same numbers of other candidates, the largest first.
    """
    bound, n_left, most = -1, min(kept[1], n_held + limits[0]), limits[0]
    for n_others in range(n_more):
        if n_others:
            n_left = min(n_left, others_held[n_others - 1] + most)
        while n_left >= limits[1]:
            n_missing = max(0, n_left - n_held)
            if n_left > kept[0]:
                n_missing += kept[1 + n_left - kept[0]]
            for i in range(n_others):
                n_missing += max(0, n_left - others_held[i])
            if n_missing <= most:
                bound = max(bound, _code(n_left, n_right + 1 + n_others, limits) - n_missing)
                break
            n_left -= 1
    return bound


@compiled()
def _code(n_left, n_right, limits):
    return n_left * n_right + limits[3] * (n_left + n_right) + limits[4] * min(n_left, n_right)
