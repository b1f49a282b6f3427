"""Seeds made of vertices and their best partners, without any enumeration.

A loose group contains no large biclique, but its members still share more with each other than with other vertices. The
best partner of a vertex is the vertex on the same side with the largest ``shared / sqrt(degree)``, where `shared` is
the number of common neighbours and `degree` is the partner's. A *pair* is a left vertex with one of its two best
partners, among those with at least two common neighbours. A *star* is a vertex of either side with its eight best
partners. A seed also has the neighbours that its vertex shares with a partner.

The walk from a vertex to its neighbours and on to theirs takes ``sum of d_v^2`` steps over the other side. Vertices of
huge degree cause nearly all of these steps and say the least. So the walk omits the vertices of highest degree, until
the rest is within a limit that depends on degrees only.
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
"""Most steps of a walk: the larger of this number and this number per edge; half a second of one core, or more."""
IN_PAIRS, IN_STAR = 2, 8
"""Number of partners of each vertex."""


def partner_seeds(graph: BipartiteCSR, model: NullModel, *, threads: int = 1) -> GroupMembers:
    """Return pairs, stars of left vertices and stars of right vertices in turn, the best of each first.

    Pairs are ordered by surprise, and stars by ``shared^2 / degree``, where `shared` counts the right members of the
    star and `degree` is that of its vertex.

    Parameters
    ----------
    graph : BipartiteCSR
        The graph, on the host.
    model : NullModel
        Model of the graph.
    threads : int
        0 means every core. Each thread takes 24 bytes per vertex.

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
    """Return the steps to compile the functions of this module."""
    return steps_of(_find_partners, _mark_shared)


_Lists = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _pairs(partners: np.ndarray, lists: _Lists) -> GroupMembers:
    """Return the pairs without duplicates, sorted by members."""
    vertices, places = np.nonzero(partners >= 0)
    ends = np.sort(np.column_stack([vertices, partners[vertices, places]]))
    codes = np.unique(ends[:, 0] << 32 | ends[:, 1])
    return _with_shared(np.column_stack([codes >> 32, codes & 0xFFFFFFFF]).astype(np.int32), lists)


def _stars(partners: np.ndarray, lists: _Lists) -> GroupMembers:
    """Return the stars of one side, as left members, the best first."""
    vertices = np.flatnonzero(partners[:, 0] >= 0).astype(np.int32)
    stars = _with_shared(np.column_stack([vertices, partners[vertices]]), lists)
    values = stars.right_sizes**2 / np.diff(lists[0])[vertices]
    return stars.take(np.argsort(-values, kind="stable"))


def _partners(lists: _Lists, threads: int, n_in_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best partners of each left vertex for pairs and for stars, the best first.

    Returns
    -------
    in_pairs : (n, n_in_pairs) int32
        Partners; -1 for none. The same for `in_stars`.
    in_stars : (n, IN_STAR) int32
    """
    offsets, degrees = lists[0], np.diff(lists[2])
    kinds, counts = np.unique(degrees, return_counts=True)
    most_steps = max(LEAST_STEPS, STEPS_PER_EDGE * lists[1].size)
    # In floating point, because squares may exceed 64 bits, far above any limit.
    largest = kinds[np.cumsum(counts * kinds.astype(np.float64) ** 2) <= most_steps].max(initial=0)
    partners = [np.full((offsets.size - 1, n), -1, np.int32) for n in (n_in_pairs, IN_STAR)]
    n_threads = Execution(threads=threads).worker_count
    # Parts with equal numbers of edges, to spread the hubs.
    edges = np.linspace(0, offsets[-1], 4 * n_threads + 1)[1:-1]
    bounds = [0, *np.searchsorted(offsets[:-1], edges).tolist(), offsets.size - 1]
    with ThreadPoolExecutor(n_threads) as pool:
        flat = [each.reshape(-1) for each in partners]
        list(pool.map(lambda *part: _find_partners(part, largest, lists, *flat), bounds[:-1], bounds[1:]))
    return partners[0], partners[1]


def _with_shared(rows: np.ndarray, lists: _Lists) -> GroupMembers:
    """Return groups with the neighbours that the first left member shares with another member.

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
        Right vertices of higher degree are omitted from the walk.
    lists : tuple
        Offsets and members of the neighbour lists of left and of right vertices.
    in_pairs, in_stars : (n_best * n_left,) int32
        Receive each vertex's partners for pairs (unless empty) and for stars, the best first, ties by id. Entries
        without a partner stay unchanged.
    """
    offsets, members, other_offsets, other_members = lists
    n = offsets.size - 1
    n_in_pairs, n_in_stars = in_pairs.size // max(1, n), in_stars.size // max(1, n)
    # For each left vertex: the number of shared neighbours, and the degree beside it in the cache.
    counts = np.zeros((n, 2), np.int32)
    for vertex in range(n):
        counts[vertex, 1] = offsets[vertex + 1] - offsets[vertex]
    # The last entry is scratch space.
    met, values, often = np.empty(n + 1, np.int32), np.empty(n + 1, np.float64), np.empty(n + 1, np.int32)
    kept = np.empty(max(n_in_pairs, n_in_stars), np.float64)
    for vertex in range(part[0], part[1]):
        n_met, n_often, seen = 0, 0, np.int32(0)
        # Loads without other work between them overlap. Their result is used, so that the compiler keeps them.
        for v in members[offsets[vertex] : offsets[vertex + 1]]:
            seen ^= other_members[other_offsets[v]]
        often[n] = seen
        for v in members[offsets[vertex] : offsets[vertex + 1]]:
            if other_offsets[v + 1] - other_offsets[v] <= largest:
                for other in other_members[other_offsets[v] : other_offsets[v + 1]]:
                    # No branch here and below: it would be unpredictable.
                    met[n_met] = other
                    n_met += counts[other, 0] == 0
                    counts[other, 0] += 1
        counts[vertex, 0] = 0
        for i in range(n_met):
            other, common = met[i], np.float64(counts[met[i], 0])
            counts[other, 0] = 0
            # Squared, because a single division of exact numbers is rounded the same everywhere.
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
    """Write the best partners, ties by id; entries without a partner stay unchanged.

    Parameters
    ----------
    met, values : int32 and float64
        Ids and values of the `n_met` vertices; the vertex itself has value 0.
    best : (n_best,) int32
        Receives the partners.
    kept : float64
        Scratch space for their values.
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
    """Write the neighbours of each row's first member that another member shares.

    Parameters
    ----------
    rows : (k * n,) int32
        As in `_with_shared`.
    starts : (n + 1,) int64
        Offset of the neighbours of each first member in `shared`.
    shared : int32

    Returns
    -------
    int32
        Of no meaning; it keeps the compiler from removing loads.
    """
    offsets, members = lists[0], lists[1]
    n, seen = starts.size - 1, np.int32(0)
    k = rows.size // max(1, n)
    for row in range(n):
        start, end = offsets[rows[k * row]], offsets[rows[k * row] + 1]
        # Distance from a neighbour's position in `members` to its entry in `shared`.
        ahead = starts[row] - start
        # Overlapping loads, as in `_find_partners`.
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
