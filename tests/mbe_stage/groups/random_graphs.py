"""Small graphs with all their maximal bicliques and keys, for tests of groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from mbe_stage import BicliqueBlock, BipartiteCSR
from mbe_stage.bicliques.keys import biclique_keys, hash_integers, vertex_hashes
from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.groups.reference import UNIT, Biclique, Bicliques, Null
from mbe_stage.groups.reference_selection import NearCopies, overlap_fraction
from tests.mbe_stage import graphs
from tests.mbe_stage.groups.reference_growth import Searched

Keyed = dict[int, Biclique]

# All or some of their bicliques have equal surprise, so that only tie-breaking decides.
WITH_TIES = [
    graphs.crown(5),
    graphs.cycle(7),
    graphs.path(9),
    graphs.blocks([(2, 3), (2, 3), (3, 2), (1, 1)]),
    graphs.half_graph(6),
    graphs.complete(3, 4),
    graphs.star(5),
    graphs.from_matrix(np.zeros((3, 4), bool)),
]


def small_graphs(n: int, most: int = 10) -> Iterator[BipartiteCSR]:
    """Generate graphs of all densities, with isolated vertices; then those with ties."""
    for seed in range(n):
        rng = np.random.default_rng(seed)
        n_left, n_right = (int(x) for x in rng.integers(1, most + 1, 2))
        yield graphs.from_matrix(graphs.random_matrix(seed, n_left, n_right, float(rng.random())))
    yield from WITH_TIES


def with_blocks(seed: int) -> BipartiteCSR:
    """Return a sparse graph with right vertices of high degree and some overlapping blocks."""
    rng = np.random.default_rng(seed)
    n_left, n_right = (int(x) for x in rng.integers(100, 200, 2))
    matrix = rng.random((n_left, n_right)) < 1.5 / n_right
    matrix[:, 0] |= rng.random(n_left) < 0.6
    for _ in range(int(rng.integers(1, 4))):
        left, right = (rng.choice(20, int(rng.integers(6, 10)), False) for _ in range(2))
        matrix[np.ix_(left, right)] = True
        # Not quite complete: several bicliques of each, which share edges.
        matrix[left[:3], right[:3]] = False
    return graphs.from_matrix(matrix)


@lru_cache(maxsize=2)
def null_of(graph: BipartiteCSR) -> Null:
    return Null((graph.left_degrees, graph.right_degrees), graph.n_edges)


def best_first(graph: BipartiteCSR, bicliques: Keyed) -> list[int]:
    """Return keys in order: most surprise, then the lowest key."""
    surprise = null_of(graph).surprise(Bicliques.of(bicliques)).tolist()
    return [key for _, key in sorted(zip((-s for s in surprise), bicliques, strict=True))]


def swapped(bicliques: Keyed) -> Keyed:
    return {key: (right, left) for key, (left, right) in bicliques.items()}


def best_of_left(graph: BipartiteCSR, bicliques: Keyed) -> dict[int, int]:
    """Return the key of each left vertex's best biclique, if it has one."""
    best: dict[int, int] = {}
    for key in best_first(graph, bicliques):
        for u in bicliques[key][0]:
            best.setdefault(u, key)
    return best


def candidates_of_sets(graph: BipartiteCSR, bicliques: Keyed, top: int) -> list[int]:
    ranked = best_first(graph, bicliques)
    kept = {*ranked[:top], *best_of_left(graph, bicliques).values()}
    kept |= set(best_of_left(graph.swapped(), swapped(bicliques)).values())
    return [key for key in ranked if key in kept]


def plain_edge_scores(graph: BipartiteCSR, bicliques: Sequence[Biclique], *, by_share: bool) -> list[list[float]]:
    """Return vertex scores per side, edge by edge, as `reference.edge_scores` defines them, up to rounding."""
    evidence = null_of(graph).evidence(Bicliques.of(dict(enumerate(bicliques))))
    scores = []
    for side, degrees in enumerate((graph.left_degrees.tolist(), graph.right_degrees.tolist())):
        best: dict[tuple[int, int], float] = {}
        for pair, ratio in zip(bicliques, (evidence / UNIT).tolist(), strict=True):
            for edge in ((u, v) for u in pair[0] for v in pair[1]):
                share = len(pair[1 - side]) / degrees[edge[side]] if by_share else 1.0
                best[edge] = max(best.get(edge, 0.0), ratio * share)
        scores.append([0.0] * len(degrees))
        for edge, most in best.items():
            scores[side][edge[side]] += math.sqrt(most) / degrees[edge[side]] ** 0.75
    return scores


def edges_of(graph: BipartiteCSR) -> Searched:
    return Searched(*graph.edges(), null_of(graph))


def block_of(bicliques: Sequence[Biclique]) -> BicliqueBlock:
    sizes = [np.array([len(one[side]) for one in bicliques], np.int32) for side in (0, 1)]
    members = [np.array([v for one in bicliques for v in one[side]], np.int32) for side in (0, 1)]
    return BicliqueBlock(len(bicliques), *sizes, *members)


def hashes_of(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray]:
    return (
        vertex_hashes(hash_integers(np.arange(graph.n_left)), "left"),
        vertex_hashes(hash_integers(np.arange(graph.n_right)), "right"),
    )


def keyed(graph: BipartiteCSR, hashes: tuple[np.ndarray, np.ndarray] | None = None) -> Keyed:
    """Return all maximal bicliques by key."""
    found = sorted(maximal_bicliques(graph))
    keys = biclique_keys(block_of(found), *(hashes or hashes_of(graph)))
    return dict(zip(keys.tolist(), found, strict=True))


def blocks_of(bicliques: Keyed, rng: np.random.Generator) -> Iterator[tuple[BicliqueBlock, np.ndarray]]:
    """Return them in blocks of any size, including empty ones, in any order, with their keys."""
    keys = np.array(list(bicliques), np.int64)[rng.permutation(len(bicliques))]
    cuts = np.sort(rng.integers(0, keys.size + 1, int(rng.integers(0, 12))))
    for part in np.split(keys, cuts):
        yield block_of([bicliques[key] for key in part.tolist()]), part.copy()


def by_definition(lefts: Sequence[Sequence[int]], max_overlap: float) -> list[int]:
    """Return the sets that are not near copies of an earlier kept one."""
    copies, kept = NearCopies(overlap_fraction(max_overlap)), list[int]()
    for row, left in enumerate(lefts):
        if copies.first(left) is None:
            copies.keep(left)
            kept.append(row)
    return kept
