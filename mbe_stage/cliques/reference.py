"""The specification of maximal clique enumeration in plain Python sets; every engine must equal it.

A clique is a non-empty set of vertices with an edge between any two. It is maximal if no other vertex is adjacent to
all of its members. So an isolated vertex is a maximal clique.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.cliques.results import CliqueBlock, Detail
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.options import Execution
from mbe_stage.plain_engine import compile_steps, device, unavailable_reason
from mbe_stage.tasks import Roots, Task, cut, positions, ranges_of

__all__ = ["compile_steps", "device", "matches", "maximal_cliques", "run", "tasks_of", "unavailable_reason"]


def maximal_cliques(graph: UndirectedCSR) -> set[tuple[int, ...]]:
    """Return every maximal clique as its members, ascending.

    Examples
    --------
    >>> sorted(maximal_cliques(UndirectedCSR.from_edges([0, 1, 2, 2], [1, 2, 0, 3], n=5)))
    [(0, 1, 2), (2, 3), (4,)]
    """
    adjacent = [frozenset(graph.neighbours(v).tolist()) for v in range(graph.n)]
    return set(_grown((), set(range(graph.n)), set(), adjacent)) if graph.n else set()


def _grown(
    clique: tuple[int, ...], candidates: set[int], excluded: set[int], adjacent: list[frozenset[int]]
) -> Iterator[tuple[int, ...]]:
    """Yield the maximal cliques that contain `clique`, some candidates and no excluded vertex.

    Bron and Kerbosch, CACM 16(9), 1973, with the pivot of Tomita, Tanaka and Takahashi, TCS 363, 2006: a maximal clique
    contains the pivot or a vertex not adjacent to it.

    Parameters
    ----------
    candidates, excluded : set of int
        Vertices adjacent to the whole clique: those that may join, and those whose cliques have been found.
    adjacent : list of frozenset of int
        The neighbours of each vertex.
    """
    if not candidates and not excluded:
        yield tuple(sorted(clique))
        return
    pivot = max(candidates | excluded, key=lambda vertex: len(candidates & adjacent[vertex]))
    for vertex in sorted(candidates - adjacent[pivot]):
        yield from _grown((*clique, vertex), candidates & adjacent[vertex], excluded & adjacent[vertex], adjacent)
        candidates = candidates - {vertex}
        excluded = excluded | {vertex}


def matches(clique: tuple[int, ...], query: CliqueQuery) -> bool:
    """True if a maximal clique satisfies the query."""
    return query.accepts(len(clique)) and set(query.containing) <= set(clique)


def tasks_of(graph: UndirectedCSR, query: CliqueQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks; a clique belongs to its first vertex."""
    return cut(_roots(graph, query), graph.degrees + 1.0, n)


def run(
    graph: UndirectedCSR,
    query: CliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
) -> Iterator[CliqueBlock]:
    """Run the specification as an engine, for small graphs and tests."""
    found = sorted(clique for clique in maximal_cliques(graph) if matches(clique, query))
    if tasks is not None:
        wanted = set(positions(ranges_of(tasks, _roots(graph, query))).tolist())
        found = [clique for clique in found if clique[0] in wanted]
    cliques_per_block = max(1, execution.block_bytes // (4 * max(1, graph.n)))
    for start in range(0, len(found), cliques_per_block):
        cliques = found[start : start + cliques_per_block]
        yield _block(cliques, detail, work_done=(start + len(cliques)) / len(found))


def _roots(graph: UndirectedCSR, query: CliqueQuery) -> Roots:
    return Roots.of("cliques", np.arange(graph.n), *query.identity, graph.n, graph.edges_checksum)


def _block(cliques: list[tuple[int, ...]], detail: Detail, work_done: float) -> CliqueBlock:
    sizes = np.array([len(clique) for clique in cliques], dtype=np.int32)
    members = np.array([vertex for clique in cliques for vertex in clique], dtype=np.int32)
    return CliqueBlock(
        n_cliques=len(cliques),
        sizes=sizes if detail >= Detail.SIZES else None,
        members=members if detail >= Detail.MEMBERS else None,
        work_done=work_done,
    )
