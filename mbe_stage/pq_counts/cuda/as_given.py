"""Bicliques of two or three rows on the lists as they are given: nothing is made but the ranks of rows.

Wedges and triples read every list a few times. Taking the core and writing it in order does so some ten times, which
pays only where more is done with it.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import NamedTuple

import cupy as cp

from mbe_stage.device.graph import copy_bytes, on_device
from mbe_stage.device.memory_budget import device_work
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pq_counts.cuda.ascending import SHORT_LIST
from mbe_stage.pq_counts.cuda.layout import Graph
from mbe_stage.pq_counts.cuda.memory_plan import QUANTUM_SECONDS
from mbe_stage.pq_counts.cuda.searches import MOST_EDGES, ROWS_PER_PATH, Job, Search, make_way
from mbe_stage.pq_counts.cuda.triples.layout import MOST_PARTNERS, Needs, Roots, Triples
from mbe_stage.pq_counts.cuda.triples.partners import count_partners_block_per_root
from mbe_stage.pq_counts.cuda.wedge_session import (
    PAIR,
    TRIPLE,
    Asked,
    WedgeSession,
    run_quantum,
    wedge_bytes,
    wedges_of,
)
from mbe_stage.pq_counts.cuda.wedges import Wedges, wedge_blocks

__all__ = ["RowsAsGiven", "as_given"]

_SQUARE_BYTES, _RANK_BYTES, _PARTNER_BYTES = 24, 64, 48
"""Of device memory for a vertex: while two-step paths are added up, while rows get their ranks, and while roots of
triples are put in order."""
_MOST_PATHS = 1 << 37
"""Two-step paths up to which all roots have their partners counted beforehand: two seconds of an H100."""
_MOST_ROOT_WORDS = 1 << 32
"""Words of masks that are compared below one root, by one block."""


class _Ranked(NamedTuple):
    """A graph whose rows have ranks, by degree.

    Attributes
    ----------
    lists : Graph
        Its order is that in which roots are taken.
    ranks : (n_rows,) int32
    asked : Asked
    """

    lists: Graph
    ranks: cp.ndarray
    asked: Asked


class RowsAsGiven:
    """One search of all bicliques of two or of three rows.

    Parameters
    ----------
    ranked : _Ranked
    n_rows : int
        Of a biclique.
    rows_are_left : bool
        Whether they are the user's left vertices.
    job : Job
    roots : _Roots or None
        Of triples.

    Attributes
    ----------
    rows_are_left : bool
    """

    def __init__(self, ranked: _Ranked, rows_are_left: bool, job: Job, roots: _Roots | None) -> None:
        self.rows_are_left, self._ranked, self._job, self._roots = rows_are_left, ranked, job, roots

    def searches(self) -> Generator[Search]:
        """The search, of all rows as roots; none where there are too few."""
        job, (lists, ranks, asked), roots = self._job, self._ranked, self._roots
        n_entries = 2 * int(lists.row_members.size)
        if lists.order.size == 0 or (roots is not None and roots.order.size == 0):
            return
        job.tell(parts=1, entries=n_entries, core_entries=n_entries)
        n_bytes, n_blocks = wedge_bytes(asked.max_row_degree), wedge_blocks()
        with device_work(job.budget):
            shared: Wedges | Triples
            if roots is None:
                shared = wedges_of(asked, ranks)
            else:
                n_bytes, n_blocks = n_bytes + 4 * roots.scratch_words * roots.n_blocks, roots.n_blocks
                make_way(n_bytes, job.budget)
                scratch = cp.empty(max(1, roots.scratch_words * n_blocks), cp.uint32)
                shared, lists = (
                    Triples(*wedges_of(asked, ranks), roots.partners, scratch),
                    lists._replace(order=roots.order),
                )
            session = WedgeSession(lists, shared, n_blocks, n_bytes)
        yield Search(session, 0.0, 1.0)


class _Roots(NamedTuple):
    """What is below the roots of triples.

    Attributes
    ----------
    order : (n,) int32
        Those that have two partners at least, the heaviest first.
    partners : (n_rows,) int32
    scratch_words : int
        That a block needs beside shared memory.
    n_blocks : int
    """

    order: cp.ndarray
    partners: cp.ndarray
    scratch_words: int
    n_blocks: int


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
        roots = _roots(ranked, job.budget - copied - needed, job) if is_of_triples else None
    return None if is_of_triples and roots is None else RowsAsGiven(ranked, rows_are_left, job, roots)


def _paths(graph: BipartiteCSR) -> int:
    """Two-step paths between left vertices, which go through right ones."""
    return int((cp.diff(graph.right_offsets) ** 2).sum())


def _seconds(job: Job) -> float:
    """Of a quantum."""
    return float(job.overrides.get("quantum_seconds", QUANTUM_SECONDS))


def _ranked(graph: BipartiteCSR, asked: Asked, job: Job) -> _Ranked:
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
    return _Ranked(lists, ranks, asked)


def _roots(ranked: _Ranked, room: int, job: Job) -> _Roots | None:
    """Count the partners of all rows, and see what each root takes; None where that is too much.

    Parameters
    ----------
    ranked : _Ranked
    room : int
        Bytes, for areas of blocks.
    job : Job
    """
    lists, ranks, asked = ranked
    roots = Roots(cp.zeros(ranks.size, cp.int32), cp.zeros(ranks.size, cp.int64), cp.zeros(len(Needs), cp.int64))
    kernel, shared, n_taken = count_partners_block_per_root, wedges_of(asked, ranks), 0
    began = time.perf_counter()
    while n_taken < lists.order.size:
        n_taken = run_quantum(kernel, wedge_blocks(), lists, (shared, roots), n_taken)
    job.tell_time("kernel_us", began)
    needs = cp.asnumpy(roots.needs).tolist()
    scratch_words = needs[Needs.SCRATCH]
    if needs[Needs.PARTNERS] > MOST_PARTNERS or needs[Needs.WORDS] > _MOST_ROOT_WORDS or 4 * scratch_words > room:
        return None
    n_blocks = min(wedge_blocks(), room // max(1, 4 * scratch_words))
    # Argsort is ascending: those without partners stand first.
    heaviest = cp.argsort(roots.costs)[::-1][: needs[Needs.ROOTS]]
    return _Roots(cp.ascontiguousarray(heaviest.astype(cp.int32)), roots.partners, scratch_words, n_blocks)
