"""The specification of maximal biclique enumeration in plain Python sets; every engine must equal it.

A biclique is a set of left vertices and a set of right vertices, both non-empty, with every edge between them. It is
maximal if no vertex of either side can join. So each side of a maximal biclique is exactly the set of common neighbours
of the other side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.plain_engine import compile_steps, device, unavailable_reason
from mbe_stage.tasks import Roots, Task, cut, positions, ranges_of

__all__ = [
    "block_of",
    "compile_steps",
    "device",
    "matches",
    "maximal_bicliques",
    "run",
    "tasks_of",
    "unavailable_reason",
]


def maximal_bicliques(graph: BipartiteCSR) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return every maximal biclique as ``(left members, right members)``, both ascending.

    Every left side is an intersection of neighbourhoods of right vertices. So start from the neighbourhoods, and
    intersect until nothing new appears.

    Examples
    --------
    >>> sorted(maximal_bicliques(BipartiteCSR.from_edges([0, 0, 1], [0, 1, 1])))
    [((0,), (0, 1)), ((0, 1), (1,))]
    """
    neighbourhoods = [frozenset(graph.neighbours_of_right(v).tolist()) for v in range(graph.n_right)]
    left_sides: set[frozenset[int]] = set()
    for neighbourhood in neighbourhoods:
        left_sides |= {neighbourhood & known for known in left_sides}
        left_sides.add(neighbourhood)
    left_sides.discard(frozenset())
    return {
        (tuple(sorted(left)), tuple(v for v, neighbourhood in enumerate(neighbourhoods) if left <= neighbourhood))
        for left in left_sides
    }


def matches(left: tuple[int, ...], right: tuple[int, ...], query: BicliqueQuery) -> bool:
    """True if a maximal biclique satisfies the query."""
    return (
        query.accepts(len(left), len(right))
        and set(query.containing_left) <= set(left)
        and set(query.containing_right) <= set(right)
    )


def tasks_of(graph: BipartiteCSR, query: BicliqueQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks; a biclique belongs to its first right vertex."""
    return cut(_roots(graph, query), np.diff(graph.right_offsets) + 1.0, n)


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
) -> Iterator[BicliqueBlock]:
    """Run the specification as an engine, for small graphs and tests."""
    found = sorted(pair for pair in maximal_bicliques(graph) if matches(*pair, query))
    if tasks is not None:
        wanted = set(positions(ranges_of(tasks, _roots(graph, query))).tolist())
        found = [pair for pair in found if pair[1][0] in wanted]
    rows_per_block = max(1, execution.block_bytes // (8 * max(1, graph.n_left + graph.n_right)))
    for start in range(0, len(found), rows_per_block):
        rows = found[start : start + rows_per_block]
        yield block_of(rows, detail, work_done=(start + len(rows)) / len(found))


def _roots(graph: BipartiteCSR, query: BicliqueQuery) -> Roots:
    return Roots.of("bicliques", np.arange(graph.n_right), False, *query.identity, graph.n_right, graph.edges_checksum)


def block_of(rows: list[tuple[tuple[int, ...], tuple[int, ...]]], detail: Detail, work_done: float) -> BicliqueBlock:
    """Return a block of the given bicliques."""
    sizes = [np.array([len(row[side]) for row in rows], dtype=np.int32) for side in (0, 1)]
    members = [np.array([v for row in rows for v in row[side]], dtype=np.int32) for side in (0, 1)]
    return BicliqueBlock(
        n_bicliques=len(rows),
        left_sizes=sizes[0] if detail >= Detail.SIZES else None,
        right_sizes=sizes[1] if detail >= Detail.SIZES else None,
        left_members=members[0] if detail >= Detail.MEMBERS else None,
        right_members=members[1] if detail >= Detail.MEMBERS else None,
        work_done=work_done,
    )
