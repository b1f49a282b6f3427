"""The compiled part of `growth`: a seed's ascents, with incrementally updated sums.

For each vertex, the sum of `w` over its edges into the other side of the group is kept, and their number. A vertex that
joins a side is added to the sums of its neighbours; one that leaves is subtracted. Sums of integers are exact. So a
step with few changes is cheap, and its cost does not depend on the size of the graph. Nearly all time goes to vertices
and lists outside the caches. So independent loads stand together to overlap, and inner loops use unsigned indices to
save the check for negative ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from mbe_stage.groups.null_model import SIGNIFICANT, UNIT
from mbe_stage.groups.quasi_bicliques import class_cost_of, density_term, log_choices, pair_weight
from mbe_stage.runtime.jit import BYTES, INTS, LONGS, compiled

# Columns of `Side.vertices`, one cache line per vertex. The second has `ln d` above 32 bits with a number of edges.
_EVIDENCE, _DEGREE_AND_SHARED = range(2)
_SHARED_MASK, DEGREE_BIT = (1 << 32) - 1, 32
# Entries of `Side.counts`: used entries of each array, the steps of the current seed so far, and scratch space.
_N_MEMBERS, _N_TOUCHED, _N_WANTED, N_BEST, _N_STEPS, _LOADED, N_COUNTS = range(7)
# Entries of `Schedule.bounds` and `Schedule.numbers`.
_LEAST, _MOST, _MIN_DENSITY = range(3)
_N_ROUNDS, _MIN_LEFT, _MIN_RIGHT, _CLASS_COST = range(4)
NO_SCORE = np.int64(-(1 << 62))
"""Score of a seed that is too small for a group; below every other score."""

# Bits of `Side.marks`.
_MEMBER, _WANTED = 1, 2


class Side(NamedTuple):
    """One side of the graph and of the growing group.

    Attributes
    ----------
    offsets : (n + 1,) int64
    neighbours : (n_edges,) int32
    vertices : (n, 2) int64
        First column: sum of the weights of the edges into the other side of the group. Second column: ``ln d`` (for
        left vertices minus ``ln E``) times ``2^DEGREE_BIT``, plus the number of those edges.
    at_least : (largest degree + 1,) int64
        Number of vertices with at least each degree.
    factorials : int64
        ``ln k!``, up to the number of vertices.
    marks : (n,) uint8
        Membership in the group; valid between half steps.
    members, best : (n,) int32
        Members of the group, and of the best group so far; `counts` has their numbers.
    wanted : (n + 1,) int32
        Members of the next group; the last entry is scratch space.
    touched : (n + 1,) int32
        Vertices with an edge into the other side of the group; the last entry is scratch space.
    values : (n + 1,) int64
        Scratch space: the evidence of vertices that may be wanted.
    counts : (N_COUNTS,) int64
        Numbers of members, touched, wanted and best vertices; and the steps of the current seed: edges added or
        removed, and touched vertices checked.
    """

    offsets: np.ndarray
    neighbours: np.ndarray
    vertices: np.ndarray
    at_least: np.ndarray
    factorials: np.ndarray
    marks: np.ndarray
    members: np.ndarray
    touched: np.ndarray
    values: np.ndarray
    wanted: np.ndarray
    best: np.ndarray
    counts: np.ndarray


class Scratch(NamedTuple):
    """Working memory of one thread that grows seeds; between seeds it has no group."""

    left: Side
    right: Side
    weights: np.ndarray


class Schedule(NamedTuple):
    """`GrowthSchedule` and the minimum sizes, as arrays.

    Attributes
    ----------
    first_densities : (n,) float64
    bounds : (3,) float64
        Least and largest density of a step, and least density of a kept group.
    numbers : (4,) int64
        Rounds; fewest left and right members; the model's `class_cost`.
    """

    first_densities: np.ndarray
    bounds: np.ndarray
    numbers: np.ndarray


_SIDE = types.NamedTuple((LONGS, INTS, int64[:, ::1], LONGS, LONGS, BYTES, INTS, INTS, LONGS, INTS, INTS, LONGS), Side)
_SCHEDULE = types.NamedTuple((float64[::1], float64[::1], LONGS), Schedule)


_LISTS = types.Tuple((LONGS, INTS, LONGS, INTS))


@compiled(_LISTS, types.UniTuple(int64, 3), int64, _SIDE, _SIDE, LONGS, _SCHEDULE, seconds=5.0)
def ascend_some(seeds, rows, most_steps, left, right, weights, schedule):
    """Find the best group of each of some seeds, until a number of steps is taken.

    Parameters
    ----------
    seeds : tuple
        The arrays of `GroupMembers`.
    rows : (int, int, int)
        First, end and stride of the seed indices.
    most_steps : int
        Number of steps after which no further seed is grown; the first seed always is.
    left, right, weights, schedule
        As for `ascend`.

    Returns
    -------
    numbers : (n, 5) int64
        Left and right members, edges, score and steps of each group.
    left_members, right_members : int32
        Members of all groups, ascending in each.
    """
    left_offsets, left_members, right_offsets, right_members = seeds
    first, end, stride = rows
    numbers = np.empty((max(0, (end - first + stride - 1) // stride), 5), np.int64)
    found_left, found_right = np.empty(1024, np.int32), np.empty(1024, np.int32)
    n, n_left, n_right, n_steps = 0, 0, 0, 0
    for row in range(first, end, stride):
        if n > 0 and n_steps >= most_steps:
            break
        seed_left = left_members[left_offsets[row] : left_offsets[row + 1]]
        seed_right = right_members[right_offsets[row] : right_offsets[row + 1]]
        n_edges, score, steps = ascend(seed_left, seed_right, left, right, weights, schedule)
        found_left, n_left = _with_best(found_left, n_left, left)
        found_right, n_right = _with_best(found_right, n_right, right)
        numbers[n, 0], numbers[n, 1] = left.counts[N_BEST], right.counts[N_BEST]
        numbers[n, 2], numbers[n, 3], numbers[n, 4] = n_edges, score, steps
        n_steps += steps
        n += 1
    return numbers[:n], found_left[:n_left], found_right[:n_right]


@compiled()
def _with_best(found, n, side):
    """Append a side's best members, ascending; return the array, which may be a new one, and its used length."""
    end = n + side.counts[N_BEST]
    if end > found.size:
        larger = np.empty(2 * end, np.int32)
        larger[:n] = found[:n]
        found = larger
    found[n:end] = np.sort(side.best[: side.counts[N_BEST]])
    return found, end


@compiled()
def ascend(seed_left, seed_right, left, right, weights, schedule):
    """Find the best group in a seed's ascents; its members are in `best` of each side.

    Parameters
    ----------
    seed_left, seed_right : int32
        Members of the seed.
    left, right : Side
        Sides without members; unchanged afterwards, except `best`.
    weights : int64
        `mbe_stage.groups.null_model.PAIR_WEIGHTS`.

    Returns
    -------
    n_edges, score, n_steps : int
        Edges and score of the best group, the earliest in a tie; and the steps taken, which are equal on all machines.
    """
    left.counts[_N_STEPS] = right.counts[_N_STEPS] = 0
    n_edges, weight = _take_right(seed_left, seed_right, left, right, weights)
    best_edges, best_score = n_edges, NO_SCORE
    _note_best(left, seed_left)
    _note_best(right, seed_right)
    if seed_left.size >= schedule.numbers[_MIN_LEFT] and seed_right.size >= schedule.numbers[_MIN_RIGHT]:
        _want(left, seed_left)
        _settle(left, right, weights)
        best_score = _score(n_edges, weight, left, right, schedule)
    best_worth = _worth(best_score, left, right)
    for i in range(schedule.first_densities.size):
        if i > 0:
            _take_right(seed_left, seed_right, left, right, weights)
        density = schedule.first_densities[i]
        for _ in range(schedule.numbers[_N_ROUNDS]):
            n_changed, before, is_large = 0, density, True
            for is_right in range(2):
                side, other = (right, left) if is_right else (left, right)
                least = schedule.numbers[_MIN_LEFT + is_right]
                n_edges, weight = _choose(side, other.counts[_N_MEMBERS], density, least)
                is_large = side.counts[_N_WANTED] >= least
                if not is_large:
                    break
                n_changed += _settle(side, other, weights)
                if right.counts[_N_MEMBERS] < schedule.numbers[_MIN_RIGHT]:
                    continue
                score = _score(n_edges, weight, left, right, schedule)
                found = n_edges / (left.counts[_N_MEMBERS] * right.counts[_N_MEMBERS])
                worth = _worth(score, left, right)
                if worth > best_worth and found >= schedule.bounds[_MIN_DENSITY]:
                    best_edges, best_score, best_worth = n_edges, score, worth
                    _note_best(left, left.members[: left.counts[_N_MEMBERS]])
                    _note_best(right, right.members[: right.counts[_N_MEMBERS]])
                if is_right:
                    density = min(max(found, schedule.bounds[_LEAST]), schedule.bounds[_MOST])
            if not is_large or (n_changed == 0 and density == before):
                break
    _clear(left)
    _clear(right)
    return best_edges, best_score, left.counts[_N_STEPS] + right.counts[_N_STEPS]


@compiled()
def _take_right(seed_left, seed_right, left, right, weights):
    """Make the right side of the seed the right side of the group; return the edges of the seed and their weight.

    The first half step needs only this, and few seeds get further.
    """
    _want(right, seed_right)
    _settle(right, left, weights)
    n_edges, weight = 0, 0
    for u in seed_left:
        n_edges += _shared(left, u)
        weight += left.vertices[u, _EVIDENCE]
    return n_edges, weight


@compiled()
def _shared(side, vertex):
    return side.vertices[vertex, _DEGREE_AND_SHARED] & _SHARED_MASK


@compiled()
def _log_degree(side, vertex):
    return side.vertices[vertex, _DEGREE_AND_SHARED] >> DEGREE_BIT


@compiled()
def _want(side, vertices):
    for i in range(vertices.size):
        side.wanted[i] = vertices[i]
    side.counts[_N_WANTED] = vertices.size


@compiled()
def _score(n_edges, weight, left, right, schedule):
    """Return the score of the group (`quasi_bicliques`), in units."""
    n_left, n_right = left.counts[_N_MEMBERS], right.counts[_N_MEMBERS]
    names = _cost_of_members(left) + _cost_of_members(right) + class_cost_of(n_left, n_right)
    return weight + density_term(n_edges, n_left * n_right) - names - schedule.numbers[_CLASS_COST]


@compiled()
def _worth(score, left, right):
    """Return a group's sort key: whether it is significant, then its score.

    A significant group's members are named among all vertices of the search instead of by degree, because one member
    with few edges would raise the cost of all others.
    """
    if score <= SIGNIFICANT:
        return False, score
    names = log_choices(left.factorials, left.marks.size, left.counts[_N_MEMBERS])
    names += log_choices(right.factorials, right.marks.size, right.counts[_N_MEMBERS])
    return True, score + _cost_of_members(left) + _cost_of_members(right) - names


@compiled()
def _cost_of_members(side):
    """Return the cost of naming the members among the vertices with at least the lowest degree inside the group."""
    n, least = side.counts[_N_MEMBERS], np.int64(side.at_least.size - 1)
    for i in range(n):
        least = min(least, _shared(side, side.members[i]))
    return log_choices(side.factorials, side.at_least[least], n)


@compiled()
def _note_best(side, members):
    for i in range(members.size):
        side.best[i] = members[i]
    side.counts[N_BEST] = members.size


@compiled()
def _choose(side, n_other, density, least):
    """Choose the members of a side into `wanted`; if they are fewer than `least`, the choice may be incomplete.

    Parameters
    ----------
    n_other : int
        Number of members on the other side.
    density : float
    least : int
        Fewest members of an acceptable side.

    Returns
    -------
    n_edges, weight : int
        Number and weight of the group's edges after the choice.
    """
    log_share = np.int64(np.rint(math.log(density) * UNIT))
    log_missing = np.int64(np.rint(math.log(1.0 - density) * UNIT))
    side.counts[_N_STEPS] += side.counts[_N_TOUCHED]
    cost, n_kept = _least_cost(side, side.counts[_N_TOUCHED]), np.uint64(0)
    touched, vertices, wanted, values = side.touched, side.vertices, side.wanted, side.values
    for i in range(np.uint64(side.counts[_N_TOUCHED])):
        vertex = np.uint64(touched[i])
        shared = vertices[vertex, _DEGREE_AND_SHARED] & _SHARED_MASK
        value = vertices[vertex, _EVIDENCE] + shared * log_share + (n_other - shared) * log_missing
        # No branch: it would be unpredictable.
        wanted[n_kept], values[n_kept] = touched[i], value
        n_kept += np.uint64(value > cost)
    n, n_wanted, n_edges, weight = np.int64(n_kept), 0, 0, 0
    if n >= least:
        above = _prefix_end(side, n)
        for i in range(n):
            vertex = side.wanted[i]
            if side.values[i] > above:
                side.wanted[n_wanted] = vertex
                n_wanted += 1
                n_edges += _shared(side, vertex)
                weight += side.vertices[vertex, _EVIDENCE]
    side.counts[_N_WANTED] = n_wanted
    return n_edges, weight


@compiled()
def _least_cost(side, n):
    """Return a lower bound, at least 0, on the cost of naming another of at most `n` vertices, less rounding errors."""
    if n == 0:
        return np.int64(0)
    logs, n_others = side.factorials, side.marks.size - n
    return max(np.int64(0), logs[n_others + 1] - logs[n_others] - logs[n] + logs[n - 1] - 8)


@compiled()
def _prefix_end(side, n):
    """Return the evidence threshold of the longest prefix of vertices, by evidence, that pays for its names.

    Parameters
    ----------
    n : int
        Number of vertices whose evidence may pay for them, the first ones in `values`.

    Returns
    -------
    int
        Vertices with more evidence are wanted. Ties are all wanted, because each further name costs less than the last.
    """
    n_all = side.marks.size
    values = np.sort(side.values[:n])
    above, most, total = np.int64(2**63 - 1), 0, 0
    for k in range(1, n + 1):
        total += values[n - k]
        worth = total - log_choices(side.factorials, n_all, k)
        if worth > most:
            above, most = values[n - k] - 1, worth
    return above


@compiled()
def _settle(side, other, weights):
    """Make the wanted vertices the members; return the number of vertices that joined or left."""
    marks, counts = side.marks, side.counts
    n_joined, n_left, seen = 0, 0, np.int32(0)
    for i in range(counts[_N_WANTED]):
        seen ^= side.neighbours[side.offsets[side.wanted[i]]]
    # Store the result, so that the compiler keeps the loads.
    counts[_LOADED] = seen
    for i in range(counts[_N_WANTED]):
        vertex = side.wanted[i]
        if marks[vertex] == 0:
            _add_edges(vertex, side, other, weights)
            n_joined += 1
        marks[vertex] |= _WANTED
    for i in range(counts[_N_MEMBERS]):
        vertex = side.members[i]
        if marks[vertex] == _MEMBER:
            _take_edges(vertex, side, other, weights)
            n_left += 1
        marks[vertex] = 0
    for i in range(counts[_N_WANTED]):
        side.members[i] = side.wanted[i]
        marks[side.wanted[i]] = _MEMBER
    counts[_N_MEMBERS] = counts[_N_WANTED]
    if n_left > 0:
        _drop_untouched(other)
    return n_joined + n_left


@compiled()
def _add_edges(vertex, side, other, weights):
    neighbours, vertices, touched = side.neighbours, other.vertices, other.touched
    log_degree, first, end = _log_degree(side, vertex), side.offsets[vertex], side.offsets[vertex + 1]
    side.counts[_N_STEPS] += end - first
    n_touched, seen = np.uint64(other.counts[_N_TOUCHED]), np.int64(0)
    for i in range(np.uint64(first), np.uint64(end)):
        seen ^= vertices[np.uint64(neighbours[i]), _EVIDENCE]
    other.counts[_LOADED] = seen
    for i in range(np.uint64(first), np.uint64(end)):
        neighbour = np.uint64(neighbours[i])
        degree_and_shared = vertices[neighbour, _DEGREE_AND_SHARED]
        # No branch: it would be unpredictable.
        touched[n_touched] = neighbours[i]
        n_touched += np.uint64(degree_and_shared & _SHARED_MASK == 0)
        vertices[neighbour, _EVIDENCE] += pair_weight(log_degree + (degree_and_shared >> DEGREE_BIT), weights)
        vertices[neighbour, _DEGREE_AND_SHARED] = degree_and_shared + 1
    other.counts[_N_TOUCHED] = np.int64(n_touched)


@compiled()
def _take_edges(vertex, side, other, weights):
    neighbours, vertices = side.neighbours, other.vertices
    log_degree, first, end = _log_degree(side, vertex), side.offsets[vertex], side.offsets[vertex + 1]
    side.counts[_N_STEPS] += end - first
    for i in range(np.uint64(first), np.uint64(end)):
        neighbour = np.uint64(neighbours[i])
        degree_and_shared = vertices[neighbour, _DEGREE_AND_SHARED]
        vertices[neighbour, _EVIDENCE] -= pair_weight(log_degree + (degree_and_shared >> DEGREE_BIT), weights)
        vertices[neighbour, _DEGREE_AND_SHARED] = degree_and_shared - 1


@compiled()
def _drop_untouched(side):
    """Remove touched vertices without edges before others are added, so that each vertex is listed once."""
    n = 0
    for i in range(side.counts[_N_TOUCHED]):
        vertex = side.touched[i]
        if _shared(side, vertex) > 0:
            side.touched[n] = vertex
            n += 1
    side.counts[_N_TOUCHED] = n


@compiled()
def _clear(side):
    touched, vertices = side.touched, side.vertices
    for i in range(np.uint64(side.counts[_N_TOUCHED])):
        vertices[np.uint64(touched[i]), _EVIDENCE] = 0
        vertices[np.uint64(touched[i]), _DEGREE_AND_SHARED] &= ~_SHARED_MASK
    for i in range(side.counts[_N_MEMBERS]):
        side.marks[side.members[i]] = 0
    side.counts[_N_TOUCHED] = 0
    side.counts[_N_MEMBERS] = 0
