"""Make the graph smaller without losing or adding a wanted biclique.

Four steps, each exact:

- `containing`: if a biclique must contain the left vertices A and the right vertices B, each member is a common
  neighbour of the required vertices on the other side. So only N(B) x N(A) matters, and there every maximal biclique
  contains A and B;
- the (p, q)-core: repeatedly remove left vertices with fewer than `min_right` neighbours, and right vertices with fewer
  than `min_left`;
- edges of no wanted biclique, if the core suggests that there are many: an edge u-v needs `min_left` neighbours of v,
  including u, that have `min_right` neighbours in common with u;
- twins: vertices with the same neighbours belong to the same bicliques; one represents all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import int64

from mbe_stage.bicliques.cpu.prefetch import prefetch
from mbe_stage.bicliques.cpu.techniques import TWINS
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.graphs import subgraphs
from mbe_stage.graphs.bipartite import BipartiteCSR, wedge_counts
from mbe_stage.graphs.csr import transposed
from mbe_stage.graphs.subgraphs import common_neighbours, peel_to_core, ranks, subgraph
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

# If a step keeps a smaller share of the edges, it is repeated. If the core is nearly as large as the graph, few edges
# belong to no wanted biclique.
_SPARSE = 0.4
# If the first step of the core would remove a smaller share of the edges, computing it takes longer than searching
# without it.
_FEW = 0.1
# Slots of the table of rows are prefetched this many rows ahead.
_AHEAD = 8
SUMS = 2048
"""Sums over this many entries of a graph are kept at a time, in the processor's nearest cache."""
# From the golden ratio: spreads the bits of a number over 32.
_MULTIPLIER = np.uint32(0x9E3779B1)


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Vertices of the whole graph that each vertex of the reduced graph represents.

    Attributes
    ----------
    offsets : (n_groups + 1,) int64
    members : int32
        Vertex ids of the whole graph, ascending within each group.
    """

    offsets: np.ndarray
    members: np.ndarray

    @property
    def n(self) -> int:
        """Number of groups."""
        return self.offsets.size - 1

    @property
    def multiplicities(self) -> np.ndarray:
        """Number of vertices in each group, ``(n_groups,) int32``."""
        return (self.offsets[1:] - self.offsets[:-1]).astype(np.int32)

    @property
    def first_members(self) -> np.ndarray:
        """The smallest vertex of each group, ``(n_groups,) int32``; it identifies the group."""
        return self.members[self.offsets[:-1]]


class Core(NamedTuple):
    """A part of the user's graph.

    Attributes
    ----------
    graph : BipartiteCSR
    left_vertices, right_vertices : int32
        The user's ids of its vertices, ascending; empty if it is the whole graph and they are not listed (`whole`).
    """

    graph: BipartiteCSR
    left_vertices: np.ndarray
    right_vertices: np.ndarray

    @property
    def arrays(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Offsets, members and the user's vertices, each of the left and of the right side."""
        offsets = self.graph.left_offsets, self.graph.right_offsets
        return offsets, (self.graph.left_members, self.graph.right_members), (self.left_vertices, self.right_vertices)

    def only(self, left_alive: np.ndarray, right_alive: np.ndarray) -> Core:
        """Return the part induced by the marked vertices."""
        if left_alive.all() and right_alive.all():
            return self
        part = subgraph(self.graph, left_alive, right_alive, ranks(left_alive), ranks(right_alive))
        # Indexing by flags takes longer than listing them.
        left, right = (np.flatnonzero(alive).astype(np.int32) for alive in (left_alive, right_alive))
        if self.left_vertices.size or self.right_vertices.size:
            left, right = self.left_vertices[left], self.right_vertices[right]
        return Core(part, left, right)

    def without_weak_edges(self, query: BicliqueQuery, n_edges: int) -> Core:
        """Return the part without edges of no wanted biclique, or itself if removing them does not pay.

        Parameters
        ----------
        n_edges : int
            Number of edges before the core was taken. If the core has nearly as many, few edges belong to no wanted
            biclique.
        """
        core = self
        while min(query.min_left, query.min_right) > 1 and core.graph.n_edges < _SPARSE * n_edges:
            n_edges = core.graph.n_edges
            graph = _without_weak_edges(core.graph, query.min_left, query.min_right)
            left_alive, right_alive = np.ones(graph.n_left, np.bool_), np.ones(graph.n_right, np.bool_)
            peel_to_core(graph, left_alive, right_alive, query.min_left, query.min_right)
            core = core._replace(graph=graph).only(left_alive, right_alive)
        return core


def whole(graph: BipartiteCSR, *, is_listed: bool = True) -> Core:
    """Return the user's whole graph, with its vertices if `is_listed`: a large graph takes memory for them."""
    n_left, n_right = (graph.n_left, graph.n_right) if is_listed else (0, 0)
    return Core(graph, np.arange(n_left, dtype=np.int32), np.arange(n_right, dtype=np.int32))


def core_of(graph: BipartiteCSR, query: BicliqueQuery, *, is_exact: bool = True) -> Core:
    """Return the part whose vertices pass the query's minimum sizes and are adjacent to all required vertices.

    Isolated vertices may stay; unless `is_exact`, a few others may stay too, and those of a whole graph are not listed.
    """
    if (query.min_left, query.min_right, query.containing_left, query.containing_right) == (1, 1, (), ()):
        return whole(graph, is_listed=is_exact)
    if not is_exact and not query.containing_left and not query.containing_right:
        n_left = _edges_of_few(graph.left_offsets, query.min_right)
        if n_left + _edges_of_few(graph.right_offsets, query.min_left) < _FEW * graph.n_edges:
            return whole(graph, is_listed=False)
    left_alive, right_alive = common_neighbours(graph, query.containing_left, query.containing_right)
    if not (left_alive[list(query.containing_left)].all() and right_alive[list(query.containing_right)].all()):
        left_alive[:] = False
    peel_to_core(graph, left_alive, right_alive, query.min_left, query.min_right)
    return whole(graph, is_listed=is_exact).only(left_alive, right_alive)


@compiled(LONGS, int64)
def _edges_of_few(offsets, least):
    """Return the number of edges of the vertices with fewer than `least`."""
    n_edges = 0
    for k in range(offsets.size - 1):
        degree = offsets[k + 1] - offsets[k]
        n_edges += degree if degree < least else 0
    return n_edges


def _without_weak_edges(graph: BipartiteCSR, min_left: int, min_right: int) -> BipartiteCSR:
    """Return the graph without edges u-v for which too few neighbours of v share enough neighbours with u.

    Side u is the one that gives fewer two-step paths. Vertices stay, and keep their ids.
    """
    through_left, through_right = wedge_counts(graph)
    if through_left < through_right:
        return _without_weak_edges(graph.swapped(), min_right, min_left).swapped()
    offsets, members = _strong_edges(
        graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members, min_left, min_right
    )
    if members.size == graph.n_edges:
        return graph
    right_offsets = np.zeros(graph.n_right + 1, np.int64)
    np.cumsum(np.bincount(members, minlength=graph.n_right), out=right_offsets[1:])
    right_members = transposed(offsets, members, right_offsets)
    return BipartiteCSR(graph.n_left, graph.n_right, offsets, members, right_offsets, right_members)


@compiled(LONGS, INTS, LONGS, INTS, int64, int64)
def _strong_edges(offsets, members, other_offsets, other_members, min_rows, min_members):
    """Return the rows without each member for which fewer than `min_rows` of its rows share `min_members` with the row.

    Parameters
    ----------
    offsets, members : (n_rows + 1,) int64 and (n_entries,) int32
    other_offsets, other_members : int64, int32
        The rows of each member.
    """
    n_rows = offsets.size - 1
    new_offsets = np.zeros(n_rows + 1, np.int64)
    new_members = np.empty(members.size, np.int32)
    n_common = np.zeros(n_rows, np.int32)
    nonzero = np.empty(n_rows + 1, np.int32)
    written = 0
    for row in range(n_rows):
        n_nonzero = 0
        for k in range(offsets[row], offsets[row + 1]):
            for j in range(other_offsets[members[k]], other_offsets[members[k] + 1]):
                other = other_members[j]
                nonzero[n_nonzero] = other
                n_nonzero += n_common[other] == 0
                n_common[other] += 1
        for k in range(offsets[row], offsets[row + 1]):
            n_partners = 0
            for j in range(other_offsets[members[k]], other_offsets[members[k] + 1]):
                n_partners += n_common[other_members[j]] >= min_members
                if n_partners == min_rows:
                    new_members[written] = members[k]
                    written += 1
                    break
        new_offsets[row + 1] = written
        for k in range(n_nonzero):
            n_common[nonzero[k]] = 0
    return new_offsets, new_members[:written].copy()


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module and those that filter adjacency arrays."""
    return (*subgraphs.compile_steps(), *steps_of(_edges_of_few, _strong_edges))


@compiled()
def merged_twins(offsets, members, n_members, vertices):
    """Merge equal rows: the first of them represents the others. Rows without members are left out.

    Parameters
    ----------
    offsets, members : (n_rows + 1,) int64 and (n_entries,) int32
    n_members : int
        All members are below it.
    vertices : (n_rows,) int32
        The user's vertex of each row, ascending; empty if it is the row itself.

    Returns
    -------
    ids : (n_rows,) int32
        The group of each row that represents one, ascending; -1 for other rows.
    rows : (n_groups,) int32
        The row that represents each group.
    starts, behind : (n_groups + 1,) int64 and int32
        The vertices of each group, ascending.
    """
    firsts = _first_twins(offsets, members, n_members)
    ids, rows, n_groups = np.empty(firsts.size, np.int32), np.empty(firsts.size, np.int32), 0
    for row in range(firsts.size):
        ids[row] = n_groups if firsts[row] == row else -1
        rows[np.uint64(n_groups)] = row
        n_groups += firsts[row] == row
    starts, n_before = np.zeros(n_groups + 2, np.int64), 0
    for row in range(firsts.size):
        starts[np.uint64(ids[np.uint64(max(firsts[row], 0))] + 2)] += firsts[row] >= 0
    for k in range(2, n_groups + 2):
        n_before += starts[k]
        starts[k] = n_before
    behind = np.empty(n_before, np.int32)
    # Each start begins as the begin of its group, and ends as its end.
    for row in range(firsts.size):
        if firsts[row] < 0:
            continue
        place = np.uint64(ids[np.uint64(firsts[row])] + 1)
        behind[np.uint64(starts[place])] = vertices[row] if vertices.size else row
        starts[place] += 1
    return ids, rows[:n_groups], starts[:-1], behind


@compiled()
def _hashes(offsets, members):
    """Return a hash of the entries of each row."""
    hashes, sums = np.empty(offsets.size - 1, np.uint32), np.empty(min(SUMS, members.size) + 1, np.uint32)
    # Each is a difference of sums over all entries: a loop over those of a row would end unpredictably.
    row, before, total = np.uint64(0), np.uint32(0), np.uint64(0)
    for start in range(0, members.size, SUMS):
        n = min(SUMS, members.size - start)
        for k in range(n):
            mixed = np.uint32(np.uint32(members[start + k] + 1) * _MULTIPLIER)
            mixed = np.uint32((mixed ^ (mixed >> np.uint32(15))) * _MULTIPLIER)
            sums[k + 1] = mixed ^ (mixed >> np.uint32(16))
        sums[0] = total
        for k in range(1, n + 1):
            total += np.uint64(sums[k])
            sums[k] = total
        while row < np.uint64(hashes.size) and offsets[row + np.uint64(1)] <= start + n:
            end = sums[np.uint64(offsets[row + np.uint64(1)] - start)]
            hashes[row] = end - before
            before = end
            row += np.uint64(1)
    return hashes


@compiled()
def _first_twins(offsets, members, n_members):
    """Return the first row with the same entries as each row; -1 for an empty row.

    Rows with one entry are looked up by that entry. For other rows there is a table with open addressing: the slot of a
    first row holds its number plus one.
    """
    n_rows = offsets.size - 1
    if members.size == 0:
        return np.full(n_rows, -1, np.int32)
    firsts, several, n_several = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32), np.uint64(0)
    # No branch on the number of entries: it would be unpredictable. The last two places are for rows with several
    # entries, which find themselves, and for empty ones.
    first_of_entry, last_entry = np.empty(n_members + 2, np.int32), np.uint64(members.size - 1)
    for row in range(n_rows - 1, -1, -1):
        start = np.uint64(offsets[np.uint64(row)])
        n, entry = offsets[np.uint64(row + 1)] - np.int64(start), np.int64(members[min(start, last_entry)])
        first_of_entry[np.uint64(entry if n == 1 and TWINS else n_members)] = row
    first_of_entry[n_members + 1] = -1
    for row in range(n_rows):
        start = np.uint64(offsets[row])
        n, entry = offsets[row + 1] - np.int64(start), np.int64(members[min(start, last_entry)])
        first_of_entry[n_members] = row
        firsts[row] = first_of_entry[np.uint64(entry if n == 1 and TWINS else n_members + (n == 0))]
        several[n_several] = row
        n_several += np.uint64(n > 1 and TWINS)
    hashes, n_slots = _hashes(offsets, members), 2
    while n_slots < 2 * n_several:
        n_slots *= 2
    slots, last = np.zeros(n_slots, np.uint32), np.uint64(n_slots - 1)
    for i in range(n_several):
        later = np.uint64(several[min(i + np.uint64(_AHEAD), n_several - np.uint64(1))])
        prefetch(slots, np.int64(np.uint64(hashes[later]) & last))
        own = np.uint64(several[i])
        start, n = np.uint64(offsets[own]), offsets[own + np.uint64(1)] - offsets[own]
        slot = np.uint64(hashes[own]) & last
        while slots[slot] != 0:
            other = np.uint64(slots[slot] - 1)
            if hashes[other] == hashes[own] and offsets[other + np.uint64(1)] - offsets[other] == n:
                other_start, difference = np.uint64(offsets[other]), np.int32(0)
                for k in range(np.uint64(n)):
                    difference |= members[start + k] ^ members[other_start + k]
                if difference == 0:
                    firsts[own] = other
                    break
            slot = (slot + np.uint64(1)) & last
        if firsts[own] == np.int64(own):
            slots[slot] = own + np.uint64(1)
    return firsts
