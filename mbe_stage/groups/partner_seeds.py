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
from mbe_stage.groups.members import GroupMembers, first_not_below
from mbe_stage.groups.null_model import NullModel, pair_weights
from mbe_stage.options import Execution
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

LEAST_STEPS, STEPS_PER_EDGE = 100_000_000, 20
"""A walk takes at most so many steps, or so many per edge if that is more: half a second of one core, or more."""
IN_PAIRS, IN_STAR = 2, 8
"""Partners of each vertex."""


def partner_seeds(graph: BipartiteCSR, model: NullModel, *, threads: int = 1) -> GroupMembers:
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
        0 is every core. Each takes 24 bytes a vertex.

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges([0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 2, 1, 2, 3])
    >>> [(left.tolist(), right.tolist()) for left, right in partner_seeds(graph, NullModel.of(graph))][:3]
    [([0, 1], [0, 1, 2]), ([0, 1, 2], [0, 1, 2]), ([0, 1, 2], [0, 1, 2])]
    """
    of_left = graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members
    of_right = *of_left[2:], *of_left[:2]
    in_pairs, in_stars = _partners(of_left, threads, IN_PAIRS)
    pairs = _pairs(in_pairs, of_left)
    turned = _stars(_partners(of_right, threads, 0)[1], of_right)
    stars = GroupMembers(turned.right_offsets, turned.right_members, turned.left_offsets, turned.left_members)
    right, own = pairs.side(1)
    logs = model.log_expected(pairs.left_members.reshape(-1, 2)[own], right[:, None])
    evidence = np.diff(long_offsets(pair_weights(logs).sum(axis=1))[pairs.right_offsets])
    surprise = evidence - model.naming_costs(pairs.left_sizes, pairs.right_sizes)
    parts = [pairs.take(np.argsort(-surprise, kind="stable")), _stars(in_stars, of_left), stars]
    turns = np.concatenate([np.arange(len(part)) for part in parts])
    return GroupMembers.joined(parts).take(np.argsort(turns, kind="stable"))


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_find_partners, _mark_shared)


_Lists = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _pairs(partners: np.ndarray, lists: _Lists) -> GroupMembers:
    """Return each pair once, in the order of its members."""
    vertices, places = np.nonzero(partners >= 0)
    ends = np.sort(np.column_stack([vertices, partners[vertices, places]]))
    codes = np.unique(ends[:, 0] << 32 | ends[:, 1])
    return _with_shared(np.column_stack([codes >> 32, codes & 0xFFFFFFFF]).astype(np.int32), lists)


def _stars(partners: np.ndarray, lists: _Lists) -> GroupMembers:
    """Return the stars of one side, as left ones, the best first."""
    vertices = np.flatnonzero(partners[:, 0] >= 0).astype(np.int32)
    stars = _with_shared(np.column_stack([vertices, partners[vertices]]), lists)
    values = stars.right_sizes**2 / np.diff(lists[0])[vertices]
    return stars.take(np.argsort(-values, kind="stable"))


def _partners(lists: _Lists, threads: int, n_in_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best partners of each left vertex for pairs and for stars, the best first.

    Returns
    -------
    in_pairs : (n, n_in_pairs) int32
        -1 for none.
    in_stars : (n, IN_STAR) int32
    """
    offsets, degrees = lists[0], np.diff(lists[2])
    kinds, counts = np.unique(degrees, return_counts=True)
    most_steps = max(LEAST_STEPS, STEPS_PER_EDGE * lists[1].size)
    # In floating point: squares may leave 64 bits, far above any limit.
    largest = kinds[np.cumsum(counts * kinds.astype(np.float64) ** 2) <= most_steps].max(initial=0)
    partners = [np.full((offsets.size - 1, n), -1, np.int32) for n in (n_in_pairs, IN_STAR)]
    n_threads = Execution(threads=threads).worker_count
    # Parts with equal numbers of edges, so that hubs are spread.
    edges = np.linspace(0, offsets[-1], 4 * n_threads + 1)[1:-1]
    bounds = [0, *np.searchsorted(offsets[:-1], edges).tolist(), offsets.size - 1]
    with ThreadPoolExecutor(n_threads) as pool:
        flat = [each.reshape(-1) for each in partners]
        list(pool.map(lambda *part: _find_partners(part, largest, lists, *flat), bounds[:-1], bounds[1:]))
    return partners[0], partners[1]


def _with_shared(rows: np.ndarray, lists: _Lists) -> GroupMembers:
    """Return groups with those neighbours of the first left member that another has.

    Parameters
    ----------
    rows : (n, k) int32
        Left members; -1 for none.
    """
    starts = long_offsets(np.diff(lists[0])[rows[:, 0]])
    shared = np.full(int(starts[-1]), -1, np.int32)
    _mark_shared(rows.reshape(-1), starts, lists, shared)
    ends = np.append(0, np.cumsum(shared >= 0))[starts]
    rows = np.sort(rows, axis=1)
    return GroupMembers(long_offsets((rows >= 0).sum(axis=1)), rows[rows >= 0], ends, shared[shared >= 0])


_LISTS = types.Tuple((LONGS, INTS, LONGS, INTS))


@compiled(types.UniTuple(int64, 2), int64, _LISTS, INTS, INTS, seconds=1.0)
def _find_partners(part, largest, lists, in_pairs, in_stars):
    """Find the best partners of some left vertices.

    Parameters
    ----------
    part : (int, int)
        First and end of the vertices.
    largest : int
        Right vertices of higher degree are left out of the walk.
    lists : tuple
        Neighbours of the left and of the right vertices: offsets and members.
    in_pairs, in_stars : (n_best * n_left,) int32
        Written: the partners of a vertex for pairs, or nothing if this is empty, and for stars. The best come first,
        ties by id; entries are unchanged where there are none.
    """
    offsets, members, other_offsets, other_members = lists
    n = offsets.size - 1
    n_in_pairs, n_in_stars = in_pairs.size // max(1, n), in_stars.size // max(1, n)
    # Of each left vertex: the shared neighbours, and the degree beside them in the cache.
    counts = np.zeros((n, 2), np.int32)
    for vertex in range(n):
        counts[vertex, 1] = offsets[vertex + 1] - offsets[vertex]
    # One more entry is scratch.
    met, values, often = np.empty(n + 1, np.int32), np.empty(n + 1, np.float64), np.empty(n + 1, np.int32)
    kept = np.empty(max(n_in_pairs, n_in_stars), np.float64)
    for vertex in range(part[0], part[1]):
        n_met, n_often, seen = 0, 0, np.int32(0)
        # Loads without anything between them overlap. They are kept, or the compiler would leave them out.
        for v in members[offsets[vertex] : offsets[vertex + 1]]:
            seen ^= other_members[other_offsets[v]]
        often[n] = seen
        for v in members[offsets[vertex] : offsets[vertex + 1]]:
            if other_offsets[v + 1] - other_offsets[v] <= largest:
                for other in other_members[other_offsets[v] : other_offsets[v + 1]]:
                    # No branch here and below, since it would be unpredictable.
                    met[n_met] = other
                    n_met += counts[other, 0] == 0
                    counts[other, 0] += 1
        counts[vertex, 0] = 0
        for i in range(n_met):
            other, common = met[i], np.float64(counts[met[i], 0])
            counts[other, 0] = 0
            # Squared: one division of exact numbers is rounded alike everywhere.
            values[i] = common * common / np.float64(counts[other, 1])
            often[n_often] = i
            n_often += int(common > 1)
        _keep_best(met, values, n_met, in_stars[n_in_stars * vertex : n_in_stars * (vertex + 1)], kept)
        if n_in_pairs > 0 and n_often > 0:
            for i in range(n_often):
                met[i], values[i] = met[often[i]], values[often[i]]
            _keep_best(met, values, n_often, in_pairs[n_in_pairs * vertex : n_in_pairs * (vertex + 1)], kept)


@compiled()
def _keep_best(met, values, n_met, best, kept):
    """Write the best partners, ties by id; unchanged where there are none.

    Parameters
    ----------
    met, values : int32 and float64
        Of the first `n_met`; the vertex itself has no value.
    best : (n_best,) int32
        Written.
    kept : float64
        Scratch: the values of these.
    """
    n, worst = 0, 0.0
    for k in range(n_met):
        value, other = values[k], met[k]
        if value < worst or value == 0:
            continue
        place = n
        while place > 0 and (kept[place - 1] < value or (kept[place - 1] == value and best[place - 1] > other)):
            place -= 1
        if place == best.size:
            continue
        n = min(n + 1, best.size)
        for i in range(n - 1, place, -1):
            kept[i], best[i] = kept[i - 1], best[i - 1]
        kept[place], best[place] = value, other
        worst = kept[n - 1] if n == best.size else 0.0


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

    Returns
    -------
    int32
        Of no use: it keeps loads that the compiler would leave out.
    """
    offsets, members = lists[0], lists[1]
    n, seen = starts.size - 1, np.int32(0)
    k = rows.size // max(1, n)
    for row in range(n):
        start, end = offsets[rows[k * row]], offsets[rows[k * row] + 1]
        # Where a neighbour has its entry in `shared`, less its place.
        ahead = starts[row] - start
        # As in `_find_partners`: loads that overlap.
        for member in rows[k * row : k * (row + 1)]:
            if member >= 0:
                seen ^= members[offsets[member]]
        for partner in rows[k * row + 1 : k * (row + 1)]:
            if partner < 0:
                break
            place, other, other_end = start, offsets[partner], offsets[partner + 1]
            if end - start <= other_end - other:
                for place in range(start, end):
                    other = first_not_below(members, other, other_end, members[place])
                    if other < other_end and members[other] == members[place]:
                        shared[ahead + place] = members[place]
            else:
                for i in range(other, other_end):
                    place = first_not_below(members, place, end, members[i])
                    if place < end and members[place] == members[i]:
                        shared[ahead + place] = members[i]
    return seen
