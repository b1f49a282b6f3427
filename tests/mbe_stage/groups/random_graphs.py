"""Small graphs with all their maximal bicliques and keys, for what is made of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mbe_stage import BicliqueBlock, BipartiteCSR
from mbe_stage.bicliques.keys import biclique_keys, hash_integers, vertex_hashes
from mbe_stage.bicliques.reference import maximal_bicliques
from mbe_stage.groups.reference import Biclique
from tests.mbe_stage import graphs

Keyed = dict[int, Biclique]

# Whose bicliques have the same surprise, all or in part: what ties are broken by is all that counts.
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
    """Of all densities, isolated vertices included; then those with ties."""
    for seed in range(n):
        rng = np.random.default_rng(seed)
        n_left, n_right = (int(x) for x in rng.integers(1, most + 1, 2))
        yield graphs.from_matrix(graphs.random_matrix(seed, n_left, n_right, float(rng.random())))
    yield from WITH_TIES


def with_blocks(seed: int) -> BipartiteCSR:
    """A sparse graph, with vertices of high degree on the right, and some overlapping blocks."""
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


def block_of(bicliques: Sequence[Biclique]) -> BicliqueBlock:
    """One block of them, in their order."""
    sizes = [np.array([len(one[side]) for one in bicliques], np.int32) for side in (0, 1)]
    members = [np.array([v for one in bicliques for v in one[side]], np.int32) for side in (0, 1)]
    return BicliqueBlock(len(bicliques), *sizes, *members)


def hashes_of(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray]:
    """Of the vertices' ids."""
    return (
        vertex_hashes(hash_integers(np.arange(graph.n_left)), "left"),
        vertex_hashes(hash_integers(np.arange(graph.n_right)), "right"),
    )


def keyed(graph: BipartiteCSR, hashes: tuple[np.ndarray, np.ndarray] | None = None) -> Keyed:
    """All maximal bicliques by their keys."""
    found = sorted(maximal_bicliques(graph))
    keys = biclique_keys(block_of(found), *(hashes or hashes_of(graph)))
    return dict(zip(keys.tolist(), found, strict=True))


def blocks_of(bicliques: Keyed, rng: np.random.Generator) -> Iterator[tuple[BicliqueBlock, np.ndarray]]:
    """All of them in blocks of any size, empty ones among them, in any order, with their keys."""
    keys = np.array(list(bicliques), np.int64)[rng.permutation(len(bicliques))]
    cuts = np.sort(rng.integers(0, keys.size + 1, int(rng.integers(0, 12))))
    for part in np.split(keys, cuts):
        yield block_of([bicliques[key] for key in part.tolist()]), part.copy()
