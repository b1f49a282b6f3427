"""Two-hop degrees, recounted from the input by walking every two-step path; also checks whether they may be missing.

A run leaves them out if counting them takes more steps than its limit. The steps are recomputed here from the
definition. Vertices are grouped by their neighbour of the largest degree (ties: the smallest id), and a group costs the
smaller of

- the neighbours of all other neighbours of its vertices;
- for each of its vertices, its own neighbours and those of all vertices that the common neighbour does not reach; and,
  once, every vertex of the side.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.closure import Adjacency, in_parts
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

# Maximum two-step paths to walk, a few seconds; if there are more, only those of randomly drawn vertices.
_PATHS = 2_000_000_000


def check_presence(run: Path, side: str, most_steps: int) -> None:
    """Check without the graph that a side has all its two-hop degrees or none, and none if no step was allowed.

    Parameters
    ----------
    most_steps : int
        Most steps of the run (`InputFacts.most_two_hop_steps`).

    Raises
    ------
    VerificationError
        Only some are present, or all are although none should be.
    """
    path = run / f"{side}_vertices.parquet"
    column = pq.read_table(path, columns=["two_hop_degree"])["two_hop_degree"]
    if column.null_count not in ((0, len(column)) if most_steps else (len(column),)):
        raise VerificationError(
            f"{path}: {column.null_count} of {len(column)} two_hop_degree are null; counting them may take "
            f"{most_steps} steps: expected {'none or all' if most_steps else 'all'}"
        )


def check_two_hop(
    run: Path, side: str, adjacency: Adjacency, most_steps: int, rng: np.random.Generator, threads: int
) -> tuple[str, int]:
    """Check the column `two_hop_degree` of a side against the graph.

    Parameters
    ----------
    adjacency : Adjacency
        The graph, with this side as its left.
    most_steps : int
        Most steps of the run (`InputFacts.most_two_hop_steps`).

    Returns
    -------
    n_skipped : int
        Vertices not recounted, to save time.

    Raises
    ------
    VerificationError
        A figure is wrong, is present without reason, or is missing.
    """
    path = run / f"{side}_vertices.parquet"
    column = pq.read_table(path, columns=["two_hop_degree"])["two_hop_degree"]
    steps = _steps(adjacency) if most_steps else None
    is_asked = steps is not None and steps <= most_steps
    bound = f"counting takes {steps:,} steps, {most_steps:,} are allowed" if most_steps else "no steps are allowed"
    if column.null_count != (0 if is_asked else len(column)):
        raise VerificationError(
            f"{path}: {column.null_count} of {len(column)} two_hop_degree are null; {bound}: "
            f"expected {'none' if is_asked else 'all'}"
        )
    if not is_asked:
        return f"left out: {bound}", 0
    vertices = _affordable(adjacency, rng)
    found, counted = column.to_numpy()[vertices], np.empty(vertices.size, np.int64)
    # Each slice allocates marks for all vertices, so the number of slices is limited.
    step = max(1024, vertices.size // (16 * threads))
    in_parts(lambda part: _count(vertices[part], *adjacency.arrays(), counted[part]), vertices.size, threads, step)
    if (wrong := np.flatnonzero(found != counted)).size:
        first = wrong[0]
        raise VerificationError(
            f"{path}, row {vertices[first]}: two_hop_degree is {found[first]}; recounted {counted[first]}"
        )
    chosen = "all" if vertices.size == len(column) else f"a random sample of {vertices.size:,} of"
    return f"{chosen} {len(column):,} {side} vertices", len(column) - vertices.size


def _steps(adjacency: Adjacency) -> int:
    """Return the steps of counting for the left side; every vertex has an edge."""
    degrees, other_degrees = adjacency.degrees()
    n, n_other = degrees.size, other_degrees.size
    if n == 0:
        return 0
    starts, other_starts = adjacency.left_offsets[:-1], adjacency.right_offsets[:-1]
    neighbours = other_degrees[adjacency.left]
    # Most neighbours first, then the smallest id: both in one number.
    largest = np.maximum.reduceat(neighbours * n_other + (n_other - 1 - adjacency.left), starts)
    base = n_other - 1 - largest % n_other
    walk, own = np.zeros(n_other, np.int64), np.zeros(n_other, np.int64)
    np.add.at(walk, base, np.add.reduceat(neighbours, starts) - largest // n_other)
    np.add.at(own, base, degrees)
    not_reached = adjacency.left.size - np.add.reduceat(degrees[adjacency.right], other_starts)
    ask = n + own + np.bincount(base, minlength=n_other) * not_reached
    return int(np.minimum(walk, ask)[np.unique(base)].sum())


def _affordable(adjacency: Adjacency, rng: np.random.Generator) -> np.ndarray:
    """Return all left vertices, or a random sample that fits in `_PATHS`; ascending."""
    _, other_degrees = adjacency.degrees()
    paths = np.add.reduceat(other_degrees[adjacency.left], adjacency.left_offsets[:-1]) if adjacency.left.size else None
    if paths is None or paths.sum() <= _PATHS:
        return np.arange(adjacency.left_offsets.size - 1)
    order = rng.permutation(paths.size)
    return np.sort(order[: max(1, int(np.searchsorted(np.cumsum(paths[order]), _PATHS)))])


def compile_steps() -> tuple[CompileStep, ...]:
    """List the compiled functions of this module."""
    return steps_of(_count)


@compiled(LONGS, LONGS, INTS, LONGS, INTS, LONGS)
def _count(vertices, offsets, neighbours, other_offsets, other_neighbours, counted):
    """Count two-hop degrees of some vertices by walking every two-step path.

    Parameters
    ----------
    vertices : int32
        The vertices to count.
    offsets, neighbours
        Adjacency of their own side.
    other_offsets, other_neighbours
        Adjacency of the other side.
    counted : int64
        The result, one per vertex.
    """
    last_seen_by = np.full(offsets.size - 1, -1, np.int32)
    for i in range(vertices.size):
        vertex = vertices[i]
        last_seen_by[vertex] = vertex
        n = 0
        for neighbour in neighbours[offsets[vertex] : offsets[vertex + 1]]:
            for other in other_neighbours[other_offsets[neighbour] : other_offsets[neighbour + 1]]:
                if last_seen_by[other] != vertex:
                    last_seen_by[other] = vertex
                    n += 1
        counted[i] = n
