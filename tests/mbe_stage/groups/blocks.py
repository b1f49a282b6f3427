"""Sparse graphs with dense blocks, and copies with swapped edges."""

from __future__ import annotations

import numpy as np

from mbe_stage import BipartiteCSR
from mbe_stage.bicliques.reference import maximal_bicliques

Group = tuple[tuple[int, ...], tuple[int, ...]]


def with_blocks(seed: int, n: int = 40, n_blocks: int = 3, side: int = 6, density: float = 0.8) -> BipartiteCSR:
    """Return a graph with as many noise edges as vertices, two hubs, and random blocks, which may overlap."""
    rng = np.random.default_rng(seed)
    matrix = np.zeros((n, n), bool)
    matrix[rng.integers(0, n, n), rng.integers(0, n, n)] = True
    matrix[rng.random(n) < 0.5, 0] = True
    matrix[1, rng.random(n) < 0.5] = True
    for left, right in places(seed, n, n_blocks, side):
        matrix[np.ix_(left, right)] |= rng.random((len(left), len(right))) < density
    return BipartiteCSR.from_edges(*np.nonzero(matrix), n, n)


def places(seed: int, n: int, n_blocks: int, side: int) -> list[Group]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(side // 2, side + 1, (n_blocks, 2)).tolist()
    return [tuple(tuple(sorted(rng.choice(n, size, False).tolist())) for size in pair) for pair in sizes]  # type: ignore[misc]


def amid(graph: BipartiteCSR, n: int) -> BipartiteCSR:
    """Return the graph followed by `n` unrelated edges, so that any dense part is surprising."""
    left, right = graph.edges()
    more = np.arange(n)
    return BipartiteCSR.from_edges(
        np.concatenate([left, graph.n_left + more]), np.concatenate([right, graph.n_right + more])
    )


def bicliques_of(graph: BipartiteCSR, least: int = 2) -> list[Group]:
    """Return the maximal bicliques with this many vertices per side, in order."""
    return sorted(group for group in maximal_bicliques(graph) if min(map(len, group)) >= least)


def some_groups(seed: int, graph: BipartiteCSR, n: int) -> list[Group]:
    """Return bicliques, some with two more vertices per side, and two overlapping ones as one."""
    rng = np.random.default_rng(seed)
    bicliques = bicliques_of(graph)
    groups = [bicliques[i] for i in rng.choice(len(bicliques), min(n, len(bicliques)), replace=False)]
    for left, right in groups[: n // 2]:
        near = [other for other in bicliques if set(left) & set(other[0]) and set(right) & set(other[1])]
        both = near[rng.integers(0, len(near))]
        more = [rng.choice(size, 2).tolist() for size in (graph.n_left, graph.n_right)]
        for other_left, other_right in (both, more):
            groups.append((tuple(sorted({*left, *other_left})), tuple(sorted({*right, *other_right}))))
    return groups


def swapped(graph: BipartiteCSR, seed: int, n_swaps: int = 20) -> BipartiteCSR:
    """Return a copy with the same degrees and no structure: pairs of edges are swapped this many times per edge."""
    rng = np.random.default_rng(seed)
    edges = list(zip(*(side.tolist() for side in graph.edges()), strict=True))
    present = set(edges)
    for i, k in rng.integers(0, len(edges), (n_swaps * len(edges), 2)).tolist():
        (u, v), (w, x) = edges[i], edges[k]
        if (u, x) not in present and (w, v) not in present:
            present -= {(u, v), (w, x)}
            present |= {(u, x), (w, v)}
            edges[i], edges[k] = (u, x), (w, v)
    return BipartiteCSR.from_edges(*zip(*edges, strict=True), graph.n_left, graph.n_right)
