"""Seeds of vertices with their best partners; no enumeration is needed.

A loose group holds no large biclique, but its members still share more with each other than others do. The best partner
of a vertex is the vertex of its side with the largest ``shared / sqrt(degree)``, where `shared` counts common
neighbours, and `degree` is the partner's. A *pair* is a left vertex with one of its two best partners, of those that
share two neighbours or more. A *star* is a vertex of either side with its eight best partners. A seed has those
neighbours of its vertex that a partner has too.

The walk from a vertex to its neighbours and on to theirs takes ``sum of d_v^2`` steps over the other side. Vertices of
huge degree make nearly all of them and say least. So the walk leaves out those of the highest degrees, until the rest
fits a limit that depends on degrees only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import int64, types

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers, offsets_of
from mbe_stage.groups.null_model import NullModel, pair_weights
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

LEAST_STEPS, STEPS_PER_EDGE = 100_000_000, 20
"""A walk takes at most so many steps, or so many per edge if that is more: half a second of one core, or more."""
IN_PAIRS, IN_STAR = 2, 8
"""Partners of each vertex."""


def partner_seeds(
    graph: BipartiteCSR, model: NullModel, *, threads: int = 1, most_steps: int | None = None
) -> GroupMembers:
    """Return pairs, stars of left vertices and stars of right ones in turn, the best of each first.

    Pairs are in the order of their surprise, stars in that of ``shared^2 / degree``, where `shared` counts the
    neighbours of their vertex in the star.

    Parameters
    ----------
    graph : BipartiteCSR
        On the host.
    model : NullModel
        Of the graph.
    threads : int
        0 is every core. Each takes eight bytes a vertex.
    most_steps : int, optional
        Most steps of a walk.

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges([0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 2, 1, 2, 3])
    >>> [(left.tolist(), right.tolist()) for left, right in partner_seeds(graph, NullModel.of(graph))][:3]
    [([0, 1], [0, 1, 2]), ([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [0, 1, 2])]
    """
    most_steps = max(LEAST_STEPS, STEPS_PER_EDGE * graph.n_edges) if most_steps is None else most_steps
    of_left = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
    of_right = *of_left[2:], *of_left[:2]
    pairs = _pairs(of_left, threads, most_steps)
    stars = [_stars(lists, threads, most_steps) for lists in (of_left, of_right)]
    stars[1] = GroupMembers(*_sides(stars[1])[2:], *_sides(stars[1])[:2])
    own = np.repeat(np.arange(len(pairs)), pairs.right_sizes)
    logs = model.log_expected(pairs.left_members.reshape(-1, 2)[own], pairs.right_members[:, None])
    evidence = np.diff(offsets_of(pair_weights(logs).sum(axis=1))[pairs.right_offsets])
    surprise = evidence - model.naming_costs(pairs.left_sizes, pairs.right_sizes)
    parts = [pairs.take(np.argsort(-surprise, kind="stable")), *stars]
    turns = np.concatenate([np.arange(len(part)) for part in parts])
    return GroupMembers.joined(parts).take(np.argsort(turns, kind="stable"))


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_find_partners, _mark_shared)


_Lists = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _sides(members: GroupMembers) -> _Lists:
    return members.left_offsets, members.left_members, members.right_offsets, members.right_members


def _pairs(lists: _Lists, threads: int, most_steps: int) -> GroupMembers:
    """Return each pair once, in the order of its members."""
    partners = _partners(lists, threads, most_steps, IN_PAIRS, 2)
    vertices, places = np.nonzero(partners >= 0)
    ends = np.sort(np.column_stack([vertices, partners[vertices, places]]))
    codes = np.unique(ends[:, 0] << 32 | ends[:, 1])
    return _with_shared(np.column_stack([codes >> 32, codes & 0xFFFFFFFF]).astype(np.int32), lists)


def _stars(lists: _Lists, threads: int, most_steps: int) -> GroupMembers:
    """Return the stars of one side, as left ones, the best first."""
    partners = _partners(lists, threads, most_steps, IN_STAR, 1)
    vertices = np.flatnonzero(partners[:, 0] >= 0).astype(np.int32)
    stars = _with_shared(np.column_stack([vertices, partners[vertices]]), lists)
    values = stars.right_sizes**2 / np.diff(lists[0])[vertices]
    return stars.take(np.argsort(-values, kind="stable"))


def _partners(lists: _Lists, threads: int, most_steps: int, n_best: int, least: int) -> np.ndarray:
    """Return the best partners of each left vertex, the best first; ``(n, n_best) int32``, -1 for none."""
    offsets, degrees = lists[0], np.diff(lists[2])
    kinds, counts = np.unique(degrees, return_counts=True)
    # In floating point: squares may leave 64 bits, far above any limit.
    largest = kinds[np.cumsum(counts * kinds.astype(np.float64) ** 2) <= most_steps].max(initial=0)
    partners = np.full((offsets.size - 1, n_best), -1, np.int32)
    n_threads = Execution(threads=threads).worker_count
    # Parts with equal numbers of edges, so that hubs are spread.
    edges = np.linspace(0, offsets[-1], 4 * n_threads + 1)[1:-1]
    bounds = [0, *np.searchsorted(offsets[:-1], edges).tolist(), offsets.size - 1]
    with ThreadPoolExecutor(n_threads) as pool:
        flat = partners.reshape(-1)
        list(pool.map(lambda *part: _find_partners(part, largest, least, lists, flat), bounds[:-1], bounds[1:]))
    return partners


def _with_shared(rows: np.ndarray, lists: _Lists) -> GroupMembers:
    """Return groups with those neighbours of the first left member that another has.

    Parameters
    ----------
    rows : (n, k) int32
        Left members; -1 for none.
    """
    starts = offsets_of(np.diff(lists[0])[rows[:, 0]])
    shared = np.full(int(starts[-1]), -1, np.int32)
    _mark_shared(rows.reshape(-1), starts, lists, shared)
    ends = np.append(0, np.cumsum(shared >= 0))[starts]
    rows = np.sort(rows, axis=1)
    return GroupMembers(offsets_of((rows >= 0).sum(axis=1)), rows[rows >= 0], ends, shared[shared >= 0])


_PART, _LISTS = types.UniTuple(int64, 2), types.Tuple((LONGS, INTS, LONGS, INTS))


@compiled(_PART, int64, int64, _LISTS, INTS, seconds=1.0)
def _find_partners(part, largest, least, lists, partners):
    """Find the best partners of some left vertices.

    Parameters
    ----------
    part : (int, int)
        First and end of the vertices.
    largest : int
        Right vertices of higher degree are left out of the walk.
    least : int
        Fewest common neighbours.
    lists : tuple
        Neighbours of the left and of the right vertices: offsets and members.
    partners : (n_best * n_left,) int32
        Written: those of a vertex, the best first, ties by id; unchanged where there are none.
    """
    offsets, members, other_offsets, other_members = lists
    n_best = partners.size // max(1, offsets.size - 1)
    shared, met = np.zeros(offsets.size - 1, np.int32), np.empty(offsets.size - 1, np.int32)
    values = np.empty(n_best, np.float64)
    for vertex in range(part[0], part[1]):
        n_met, n_found, best = 0, 0, partners[n_best * vertex : n_best * (vertex + 1)]
        for v in members[offsets[vertex] : offsets[vertex + 1]]:
            if other_offsets[v + 1] - other_offsets[v] <= largest:
                for other in other_members[other_offsets[v] : other_offsets[v + 1]]:
                    if shared[other] == 0:
                        met[n_met] = other
                        n_met += 1
                    shared[other] += 1
        shared[vertex] = 0
        for other in met[:n_met]:
            n, shared[other] = shared[other], 0
            if n < least:
                continue
            # Squared: one division of exact numbers is rounded alike everywhere.
            value = np.float64(n) ** 2 / np.float64(offsets[other + 1] - offsets[other])
            place = n_found
            while place > 0 and (values[place - 1] < value or (values[place - 1] == value and best[place - 1] > other)):
                place -= 1
            if place == n_best:
                continue
            n_found = min(n_found + 1, n_best)
            for i in range(n_found - 1, place, -1):
                values[i], best[i] = values[i - 1], best[i - 1]
            values[place], best[place] = value, other


@compiled(INTS, LONGS, _LISTS, INTS, seconds=0.5)
def _mark_shared(rows, starts, lists, shared):
    """Write the neighbours of the first member of each row that another member has.

    Parameters
    ----------
    rows : (k * n,) int32
        As in `_with_shared`.
    starts : (n + 1,) int64
        Where the neighbours of each first member begin in `shared`.
    shared : int32
    """
    offsets, members = lists[0], lists[1]
    n = starts.size - 1
    k = rows.size // max(1, n)
    for row in range(n):
        own = members[offsets[rows[k * row]] : offsets[rows[k * row] + 1]]
        for partner in rows[k * row + 1 : k * (row + 1)]:
            if partner < 0:
                break
            others = members[offsets[partner] : offsets[partner + 1]]
            place = 0
            if own.size <= others.size:
                for i in range(own.size):
                    place += np.searchsorted(others[place:], own[i])
                    if place < others.size and others[place] == own[i]:
                        shared[starts[row] + i] = own[i]
            else:
                for v in others:
                    place += np.searchsorted(own[place:], v)
                    if place < own.size and own[place] == v:
                        shared[starts[row] + place] = v
