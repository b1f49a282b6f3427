"""Bicliques of two or three rows on the lists as they are given: nothing is made but the ranks of rows.

Wedges and triples read every list a few times. Taking the core and writing it in order does so some ten times, which
pays only where more is done with it.
"""

from __future__ import annotations

import time
from collections.abc import Generator

import cupy as cp

from mbe_stage.device.graph import copy_bytes, on_device
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.ascending import SHORT_LIST
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.memory_plan import QUANTUM_SECONDS
from mbe_stage.pq_counts.cuda.searches import MOST_EDGES, ROWS_PER_PATH, Job, Search, make_way
from mbe_stage.pq_counts.cuda.triples.plan import PlannedRoots, planned_roots
from mbe_stage.pq_counts.cuda.wedge_session import (
    PAIR,
    TRIPLE,
    Asked,
    Ranked,
    WedgeSession,
    wedge_bytes,
    wedges_of,
)
from mbe_stage.pq_counts.cuda.wedges import wedge_blocks

__all__ = ["RowsAsGiven", "as_given"]

_SQUARE_BYTES, _RANK_BYTES, _PARTNER_BYTES = 24, 64, 48
"""Of device memory for a vertex: while two-step paths are added up, while rows get their ranks, and while roots of
triples are put in order."""
_MOST_PATHS = 1 << 37
"""Two-step paths up to which all roots have their partners counted beforehand: two seconds of an H100."""


class RowsAsGiven:
    """One search of all bicliques of two or of three rows.

    Parameters
    ----------
    ranked : Ranked
    rows_are_left : bool
        Whether they are the user's left vertices.
    job : Job
    roots : PlannedRoots or None
        Of triples; None where two rows are asked for.

    Attributes
    ----------
    rows_are_left : bool
    """

    def __init__(self, ranked: Ranked, rows_are_left: bool, job: Job, roots: PlannedRoots | None) -> None:
        self.rows_are_left, self._ranked, self._job, self._roots = rows_are_left, ranked, job, roots

    def searches(self) -> Generator[Search]:
        """The search, of all rows as roots; none where there are too few."""
        job, (lists, ranks, asked), roots = self._job, self._ranked, self._roots
        if roots is not None:
            lists = lists._replace(order=roots.order)
        if lists.order.size == 0:
            return
        n_entries = 2 * int(lists.row_members.size)
        job.tell(parts=1, entries=n_entries, core_entries=n_entries)
        n_bytes = wedge_bytes(asked.max_row_degree) + (0 if roots is None else roots.n_bytes)
        with device_work(job.budget):
            make_way(n_bytes, job.budget)
            shared = wedges_of(asked, ranks)
            if roots is None:
                session = WedgeSession(lists, shared, wedge_blocks(), n_bytes)
            else:
                session = WedgeSession(lists, roots.triples(shared), roots.n_blocks, n_bytes)
        yield Search(session, 0.0, 1.0)


def as_given(job: Job) -> RowsAsGiven | None:
    """The search where it is one of two or three rows, which are close enough, and fits the budget.

    Else None: where there are few paths for all the rows that are looked at, a search of nodes is faster.

    Parameters
    ----------
    job : Job
    """
    graph, techniques = job.part.graph, job.techniques
    sides = (True, False) if techniques.layer_choice else (True,)
    sizes = ((PAIR, techniques.wedges), (TRIPLE, techniques.triples))
    wanted = [
        (n_rows, are_left)
        for n_rows, is_used in sizes
        for are_left in sides
        if is_used and job.asked(are_left)[:2] == (n_rows, n_rows)
    ]
    copied = copy_bytes(graph)
    if not wanted or not 0 < graph.n_edges < MOST_EDGES:
        return None
    with device_work(job.budget):
        if copied + _SQUARE_BYTES * max(graph.n_left, graph.n_right) > job.budget:
            return None
        given = on_device(graph)
        n_rows, paths, rows_are_left = min(
            (n_rows, _paths(given if are_left else given.swapped()), are_left) for n_rows, are_left in wanted
        )
        given = given if rows_are_left else given.swapped()
        is_of_triples, fewest = n_rows == TRIPLE, job.asked(rows_are_left)[2]
        degrees = cp.diff(given.left_offsets)
        n_ranked, longest = map(int, cp.asnumpy(cp.stack([(degrees >= fewest).sum(), degrees.max()])))
        del degrees
        needed = 8 * given.n_left + wedge_bytes(longest)
        if is_of_triples:
            needed += _PARTNER_BYTES * given.n_left
        needed = max(_RANK_BYTES * given.n_left, needed)
        if copied + needed > job.budget or n_ranked**2 > ROWS_PER_PATH * paths:
            return None
        if is_of_triples and paths > _MOST_PATHS:
            return None
        ranked = _ranked(given, Asked(n_ranked, fewest, longest, SHORT_LIST, _seconds(job)), job)
        if not is_of_triples:
            return RowsAsGiven(ranked, rows_are_left, job, None)
        began = time.perf_counter()
        roots = planned_roots(ranked, job.budget - copied - needed)
        job.tell_time("kernel_us", began)
    return None if roots is None else RowsAsGiven(ranked, rows_are_left, job, roots)


def _paths(graph: BipartiteCSR) -> int:
    """Two-step paths between left vertices, which go through right ones."""
    return int((cp.diff(graph.right_offsets) ** 2).sum())


def _seconds(job: Job) -> float:
    """Of a quantum."""
    return float(job.overrides.get("quantum_seconds", QUANTUM_SECONDS))


def _ranked(graph: BipartiteCSR, asked: Asked, job: Job) -> Ranked:
    """Rows that have enough columns get ranks by degree."""
    make_way(_RANK_BYTES * graph.n_left, job.budget)
    degrees = cp.diff(graph.left_offsets).astype(cp.int32)
    ascending = cp.argsort(degrees)
    n_low = graph.n_left - asked.n_ranked
    ranks = cp.full(graph.n_left, -1, cp.int32)
    ranks[ascending[n_low:]] = cp.arange(asked.n_ranked, dtype=cp.int32)
    # A row with many columns is the longest to read.
    order = cp.ascontiguousarray(ascending[n_low:][::-1].astype(cp.int32))
    lists = Graph(
        graph.left_offsets,
        graph.left_members,
        cp.empty(1, cp.int64),
        graph.right_offsets,
        graph.right_members,
        order,
    )
    return Ranked(lists, ranks, asked)
