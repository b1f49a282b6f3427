"""Undirected edges: both columns name vertices of one set, and loops are not edges.

The clean edges are those of `pipeline.clean.cleaning` with the same keys on both sides. Each edge occurs once, with the
smaller id on the left. Each isolated vertex occurs as a pair with itself, so every vertex is in some pair.
"""

from __future__ import annotations

from typing import Any

from mbe_stage.pipeline.backends.backend import Backend, Edges, HostNeeded
from mbe_stage.pipeline.clean.doubts import with_doubts
from mbe_stage.pipeline.clean.facts import UndirectedFacts
from mbe_stage.pipeline.clean.keys import KeptRows, facts_of_rows, log_read, number_keys
from mbe_stage.pipeline.errors import InputError


def clean_undirected(kept: KeptRows) -> Edges[Any, Any]:
    """Clean the edges of an undirected graph, from the rows that passed the filters."""
    rows, backend = kept.rows, kept.backend
    sources, targets, keys = _numbered(kept)
    n_vertices, n_rows = len(keys), int(sources.size)
    of_columns = {side: _distinct(ids, n_vertices, backend) for side, ids in (("left", sources), ("right", targets))}
    is_edge = sources != targets
    sources, targets = sources[is_edge], targets[is_edge]
    directed, _ = backend.distinct_pairs(sources, targets, n_vertices, n_vertices)
    xp = backend.xp
    ends = backend.distinct_pairs(xp.minimum(sources, targets), xp.maximum(sources, targets), n_vertices, n_vertices)
    n_edges = int(ends[0].size)
    is_alone = xp.ones(n_vertices, bool)
    for side in ends:
        is_alone[side] = False
    alone = xp.flatnonzero(is_alone).astype(xp.int32)
    first, second = (xp.concatenate([side, alone]) for side in ends)
    ends = backend.distinct_pairs(first, second, n_vertices, n_vertices)
    hashes = backend.key_hashes(keys, "left"), backend.key_hashes(keys, "right")
    facts = facts_of_rows(
        rows,
        kept.dropped,
        (n_vertices, n_vertices, n_edges),
        _fingerprint(ends, hashes, backend),
        # Readers add rows for isolated vertices, which are not rows of the input.
        rows_read=rows.n_rows - rows.n_lone,
        duplicate_edges=int(sources.size - directed.size),
        warnings=rows.warnings,
        undirected=UndirectedFacts(
            loops=n_rows - int(sources.size) - rows.n_lone,
            reversed_edges=int(directed.size) - n_edges,
            lone_vertices=int(alone.size),
        ),
    )
    log_read(facts, rows.reader)
    return with_doubts(backend.edges(*ends, keys, keys, facts, hashes), kept.config, of_columns)


def _numbered(kept: KeptRows) -> tuple[Any, Any, Any]:
    """Return both ends of each remaining row, and the keys they index."""
    both = kept.backend.joined(*map(kept.values, ("left", "right")))
    of_sides = kept.refusal("left"), kept.refusal("right")

    def refuse(row: int | None, **texts: str) -> InputError | HostNeeded:
        side = 0 if row is None else row // kept.n
        return of_sides[side](None if row is None else row % kept.n, **texts)

    ids, keys = number_keys(both, kept.config.key_type, kept.rows.keys, refuse, kept.backend)
    return ids[: kept.n], ids[kept.n :], keys


def _distinct(ids: Any, n_vertices: int, backend: Backend) -> Any:
    """Return each id once, ascending."""
    is_there = backend.xp.zeros(n_vertices, bool)
    is_there[ids] = True
    return backend.xp.flatnonzero(is_there)


def _fingerprint(ends: tuple[Any, Any], hashes: tuple[Any, Any], backend: Backend) -> str:
    """Return a fingerprint of the edges and isolated vertices; the end with the smaller left hash is the left end."""
    first, second = ends
    is_turned = hashes[0][first] > hashes[0][second]
    left, right = backend.xp.where(is_turned, second, first), backend.xp.where(is_turned, first, second)
    return backend.edge_fingerprint(left, right, *hashes)
