"""Bicliques of two rows on the lists as they are given: no core is taken, and nothing is made but the ranks of rows.

Wedges read every list a few times. Taking the core and writing it in order does so some ten times, which pays only
where more is done with it.
"""

from __future__ import annotations

from collections.abc import Generator

import cupy as cp

from mbe_stage.device.graph import copy_bytes, on_device
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.ascending import SHORT_LIST
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.memory_plan import QUANTUM_SECONDS
from mbe_stage.pq_counts.cuda.searches import MOST_EDGES, ROWS_PER_PATH, Job, Search, make_way
from mbe_stage.pq_counts.cuda.wedge_session import PAIR, WedgeSession, wedge_bytes
from mbe_stage.pq_counts.cuda.wedges import wedge_blocks

__all__ = ["PairsAsGiven", "pairs_as_given"]

_SQUARE_BYTES, _RANK_BYTES = 24, 64
"""Of device memory for a vertex: while two-step paths are added up, and while rows get their ranks."""


class PairsAsGiven:
    """One search of all pairs of rows.

    Parameters
    ----------
    graph : BipartiteCSR
        On the device; its left vertices are the rows.
    rows_are_left : bool
        Whether they are the user's left vertices, too.
    job : Job

    Attributes
    ----------
    rows_are_left : bool
    """

    def __init__(self, graph: BipartiteCSR, rows_are_left: bool, job: Job) -> None:
        self.rows_are_left, self._graph, self._job = rows_are_left, graph, job

    def searches(self) -> Generator[Search]:
        """The search, of all rows as roots; none where no two of them have enough columns."""
        job, graph = self._job, self._graph
        fewest = job.asked(self.rows_are_left)[2]
        with device_work(job.budget):
            make_way(_RANK_BYTES * graph.n_left, job.budget)
            degrees = cp.diff(graph.left_offsets).astype(cp.int32)
            ascending = cp.argsort(degrees)
            facts = cp.stack([(degrees < fewest).sum(), degrees[ascending[-1]]])
            n_low, longest = (int(fact) for fact in cp.asnumpy(facts))
            n_ranked = graph.n_left - n_low
            if n_ranked < PAIR:
                return
            ranks = cp.full(graph.n_left, -1, cp.int32)
            ranks[ascending[n_low:]] = cp.arange(n_ranked, dtype=cp.int32)
            # A row with many columns is the longest to read.
            order = cp.ascontiguousarray(ascending[n_low:][::-1].astype(cp.int32))
            del ascending, degrees
            job.tell(parts=1, entries=2 * graph.n_edges, core_entries=2 * graph.n_edges)
            make_way(wedge_bytes(longest), job.budget)
            lists = Graph(
                graph.left_offsets,
                graph.left_members,
                cp.empty(1, cp.int64),
                graph.right_offsets,
                graph.right_members,
                order,
            )
            seconds = job.overrides.get("quantum_seconds", QUANTUM_SECONDS)
            session = WedgeSession(lists, ranks, n_ranked, fewest, longest, wedge_blocks(), SHORT_LIST, seconds)
        yield Search(session, 0.0, 1.0)


def pairs_as_given(job: Job) -> PairsAsGiven | None:
    """The search where it is one of pairs of rows, which are close enough, and fits the budget.

    Else None: where there are few paths for all the rows that are looked at, a search of nodes is faster.

    Parameters
    ----------
    job : Job
    """
    graph, techniques = job.part.graph, job.techniques
    wanted = [are_left for are_left in (True, False) if job.asked(are_left)[:2] == (PAIR, PAIR)]
    if not techniques.layer_choice:
        wanted = [are_left for are_left in wanted if are_left]
    copied = copy_bytes(graph)
    if not techniques.wedges or not wanted or not 0 < graph.n_edges < MOST_EDGES:
        return None
    with device_work(job.budget):
        if copied + _SQUARE_BYTES * max(graph.n_left, graph.n_right) > job.budget:
            return None
        given = on_device(graph)
        paths, rows_are_left = min((_paths(given if are_left else given.swapped()), are_left) for are_left in wanted)
        given = given if rows_are_left else given.swapped()
        needed = max(_RANK_BYTES * given.n_left, 8 * given.n_left + wedge_bytes(given.n_right))
        n_ranked = int((cp.diff(given.left_offsets) >= job.asked(rows_are_left)[2]).sum())
    if copied + needed > job.budget or n_ranked**2 > ROWS_PER_PATH * paths:
        return None
    return PairsAsGiven(given, rows_are_left, job)


def _paths(graph: BipartiteCSR) -> int:
    """Two-step paths between left vertices, which go through right ones."""
    return int((cp.diff(graph.right_offsets) ** 2).sum())
