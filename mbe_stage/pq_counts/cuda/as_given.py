"""Bicliques of two or three rows, counted on the given lists: only ranks of rows are computed.

These searches (`wedges`, `triples`) read every list a few times. Preparing an ordered core would read the lists about
ten times, which pays off only for other searches.
"""

from __future__ import annotations

import time
from collections.abc import Generator

import cupy as cp

from mbe_stage.device.graph import copy_bytes, on_device
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.rank_windows import SHORT_LIST
from mbe_stage.pq_counts.cuda.searches import MOST_EDGES, ROWS_PER_PATH, AllocatedSearch, Job, make_way
from mbe_stage.pq_counts.cuda.triples.layout import WINDOW
from mbe_stage.pq_counts.cuda.triples.plan import PlannedRoots, planned_roots
from mbe_stage.pq_counts.cuda.wedge_session import (
    PAIR,
    TRIPLE,
    Ranked,
    WedgeSession,
    WindowSettings,
    wedge_bytes,
    wedges_of,
)
from mbe_stage.pq_counts.cuda.wedges import wedge_blocks
from mbe_stage.pq_counts.ordering import left_vertices_are_roots
from mbe_stage.search.cuda.plan import QUANTUM_SECONDS

_SQUARE_BYTES, _RANK_BYTES, _HELD_BYTES, _PARTNER_BYTES = 24, 64, 8, 48
"""Device memory per vertex, in bytes: to sum two-step paths, to rank rows, for the ranks, to order the roots of
triples."""
_MOST_PATHS = 1 << 35
"""Maximum of two-step paths times windows of ranks to count partners in advance: half a second on an H100."""


class RowsAsGiven:
    """One search of all bicliques of two or of three rows.

    Parameters
    ----------
    ranked : Ranked
    rows_are_left : bool
        True if rows are the user's left vertices.
    job : Job
    roots : PlannedRoots or None
        Roots of triples; None for pairs.
    held_bytes : int
        Device memory of the graph and its ranks.

    Attributes
    ----------
    rows_are_left : bool
    """

    def __init__(
        self, ranked: Ranked, rows_are_left: bool, job: Job, roots: PlannedRoots | None, held_bytes: int
    ) -> None:
        self.rows_are_left, self._ranked, self._job, self._roots = rows_are_left, ranked, job, roots
        self._held_bytes = held_bytes

    def searches(self) -> Generator[AllocatedSearch]:
        """Yield the search, with all rows as roots; nothing if there are too few."""
        job, (lists, ranks, window_settings), roots = self._job, self._ranked, self._roots
        if roots is not None:
            lists = lists._replace(order=roots.order)
        if lists.order.size == 0:
            return
        n_entries = 2 * int(lists.row_members.size)
        job.add_facts(parts=1, entries=n_entries, core_entries=n_entries)
        n_bytes = wedge_bytes(window_settings.max_row_degree) + (0 if roots is None else roots.n_bytes)
        with device_work(job.budget):
            make_way(self._held_bytes + n_bytes, job.budget)
            shared = wedges_of(window_settings, ranks)
            if roots is None:
                session = WedgeSession(lists, shared, wedge_blocks(), n_bytes)
            else:
                session = WedgeSession(lists, roots.triples(shared), roots.n_blocks, n_bytes)
        yield AllocatedSearch(session, 0.0, 1.0)


def as_given(job: Job, *, in_brief: bool) -> RowsAsGiven | None:
    """Plan the search for bicliques of two or three rows; None if another search is faster or the budget too small.

    A search of nodes is faster if there are few paths per visited row.

    Parameters
    ----------
    job : Job
    in_brief : bool
        True to return None also for triples that would take more than a few seconds, since the caller waits for the
        end.
    """
    graph = job.part.graph
    copied = copy_bytes(graph)
    if not 0 < graph.n_edges < MOST_EDGES or copied + _SQUARE_BYTES * max(graph.n_left, graph.n_right) > job.budget:
        return None
    with device_work(job.budget):
        chosen = _chosen(job)
        if chosen is None:
            return None
        n_rows, paths, rows_are_left = chosen
        given = on_device(graph)
        given = given if rows_are_left else given.swapped()
        fewest = job.size_bounds(rows_are_left)[2]
        degrees = cp.diff(given.left_offsets)
        n_ranked, longest = map(int, cp.asnumpy(cp.stack([(degrees >= fewest).sum(), degrees.max()])))
        del degrees
        held = copied + _HELD_BYTES * given.n_left
        needed = held + wedge_bytes(longest) + (_PARTNER_BYTES * given.n_left if n_rows == TRIPLE else 0)
        if max(copied + _RANK_BYTES * given.n_left, needed) > job.budget or n_ranked**2 > ROWS_PER_PATH * paths:
            return None
        window_settings = WindowSettings(n_ranked, fewest, longest, SHORT_LIST, _seconds(job))
        if n_rows == PAIR:
            return RowsAsGiven(_ranked(given, window_settings, job), rows_are_left, job, None, held)
        if paths * -(-n_ranked // WINDOW) > _MOST_PATHS:
            return None
        began, ranked = time.perf_counter(), _ranked(given, window_settings, job)
        roots = planned_roots(ranked, job.budget - needed, in_brief=in_brief)
        job.add_time("kernel_us", began)
    return None if roots is None else RowsAsGiven(ranked, rows_are_left, job, roots, held)


def _chosen(job: Job) -> tuple[int, int, bool] | None:
    """Return the number of rows per biclique, two-step paths, and True if rows are left vertices; None for more rows.

    If two rows are wanted on one side and three on the other, pairs are counted. Triples are counted only if the search
    of nodes would have the same roots.
    """
    graph, techniques = job.part.graph, job.techniques
    sides = (True, False) if techniques.layer_choice else (True,)

    def wanted(n_rows: int) -> list[bool]:
        return [are_left for are_left in sides if job.size_bounds(are_left)[:2] == (n_rows, n_rows)]

    pairs, triples = wanted(PAIR), wanted(TRIPLE)
    if not pairs and not triples:
        return None
    paths = {True: _paths(graph.right_offsets), False: _paths(graph.left_offsets)}
    of_nodes = left_vertices_are_roots(paths[True], paths[False], job.part.max_p, job.part.max_q)
    if len(triples) == 1 and techniques.layer_choice:
        triples = [are_left for are_left in triples if are_left == of_nodes]
    for n_rows, found, is_used in ((PAIR, pairs, techniques.wedges), (TRIPLE, triples, techniques.triples)):
        if found and is_used:
            return (n_rows, *min((paths[are_left], are_left) for are_left in found))
    return None


def _paths(offsets: cp.ndarray) -> int:
    """Return the number of two-step paths through the vertices of these lists."""
    return int((cp.diff(cp.asarray(offsets)) ** 2).sum())


def _seconds(job: Job) -> float:
    """Return the seconds of a quantum."""
    return float(job.overrides.get("quantum_seconds", QUANTUM_SECONDS))


def _ranked(graph: BipartiteCSR, window_settings: WindowSettings, job: Job) -> Ranked:
    """Rank the rows with enough columns by degree."""
    make_way(_RANK_BYTES * graph.n_left, job.budget)
    degrees = cp.diff(graph.left_offsets).astype(cp.int32)
    ascending = cp.argsort(degrees)
    n_low = graph.n_left - window_settings.n_ranked
    ranks = cp.full(graph.n_left, -1, cp.int32)
    ranks[ascending[n_low:]] = cp.arange(window_settings.n_ranked, dtype=cp.int32)
    # Rows with many columns take the longest, so they come first.
    order = cp.ascontiguousarray(ascending[n_low:][::-1].astype(cp.int32))
    lists = Graph(
        graph.left_offsets,
        graph.left_members,
        cp.empty(1, cp.int64),
        graph.right_offsets,
        graph.right_members,
        order,
    )
    return Ranked(lists, ranks, window_settings)
