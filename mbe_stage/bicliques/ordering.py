"""Choose the side that is enumerated, and the order."""

from __future__ import annotations

import numpy as np

from mbe_stage.bicliques.reduction import Groups, ReducedGraph
from mbe_stage.graphs.bipartite import BipartiteCSR, wedge_counts
from mbe_stage.graphs.csr import reordered, transposed
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of


def enumerates_left(graph: BipartiteCSR) -> bool:
    """True if the left side should take the part of the enumerated one: where its two-step paths are fewer.

    Measured on nine public graphs whose sums differ by more than twice: this side is 1.2 to 158 times faster (the last
    on mushroom). Where they differ by twice, on actor_movies, both sides take about the same time.
    """
    through_left, through_right = wedge_counts(graph)
    return through_right < through_left


def rows_by_degree(reduced: ReducedGraph) -> ReducedGraph:
    """The graph with its right vertices renumbered in enumeration order: ascending degree.

    Vertices with many neighbours come last, where few candidates are left for them: iMBEA's order of candidates, which
    also makes for balanced trees (cuMBE 3.1.2).
    """
    degrees = reduced.graph.right_degrees
    # NumPy sorts 16-bit integers in linear time; few graphs need more.
    narrow = degrees.astype(np.uint16) if degrees.size and degrees.max() < 2**16 else degrees
    return _reordered(reduced, np.argsort(narrow, kind="stable"))


def rows_among(reduced: ReducedGraph, roots: Groups) -> tuple[ReducedGraph, np.ndarray]:
    """The graph with its right vertices in the order of `roots`: a right vertex stands for one or several of them.

    Returns
    -------
    reordered : ReducedGraph
    places : (n_right,) int64
        The first root of each right vertex: its position in `roots`.
    """
    place_of = np.empty(int(roots.members.max(initial=-1)) + 1, np.int64)
    place_of[roots.members] = np.repeat(np.arange(roots.offsets.size - 1), roots.multiplicities)
    groups = reduced.right_groups
    places = np.minimum.reduceat(place_of[groups.members], groups.offsets[:-1])
    order = np.argsort(places)
    return _reordered(reduced, order), places[order]


def _reordered(reduced: ReducedGraph, order: np.ndarray) -> ReducedGraph:
    """The graph with its right vertices renumbered: ``i`` is the former ``order[i]``."""
    graph = reduced.graph
    right_offsets, right_members = reordered(graph.right_offsets, graph.right_members, order)
    renumbered = BipartiteCSR(
        n_left=graph.n_left,
        n_right=graph.n_right,
        left_offsets=graph.left_offsets,
        left_members=transposed(right_offsets, right_members, graph.left_offsets),
        right_offsets=right_offsets,
        right_members=right_members,
    )
    return ReducedGraph(renumbered, reduced.left_groups, reduced.right_groups.reordered(order))


def task_costs(graph: BipartiteCSR) -> np.ndarray:
    """Expected work below each right vertex, ``(n_right,) float64``, in no unit.

    An estimate from its two-step paths. The work grows faster than they do: with the power of 1.5 the share of the work
    that is reported follows the time on the benchmark's graphs.
    """
    paths = _path_counts(graph.right_offsets, graph.right_members, graph.left_offsets) + 1.0
    return paths * np.sqrt(paths)


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module, except the adjacency arrays, which `reduction` compiles."""
    return steps_of(_path_counts)


@compiled(LONGS, INTS, LONGS)
def _path_counts(offsets, members, other_offsets):
    """Two-step paths from each row, ``(n_rows,) float64``."""
    counts = np.zeros(offsets.size - 1)
    for row in range(counts.size):
        for k in range(offsets[row], offsets[row + 1]):
            counts[row] += other_offsets[members[k] + 1] - other_offsets[members[k]]
    return counts
