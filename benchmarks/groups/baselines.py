"""Published methods for comparison on the same graph: FRAUDAR, D-Cube, Leiden, HITS, fBox, and simple scores.

References
----------
Kleinberg: Authoritative sources in a hyperlinked environment. JACM 1999.
Shin, Hooi, Kim, Faloutsos: D-Cube: dense-block detection in terabyte-scale tensors. WSDM 2017.
Traag, Waltman, van Eck: From Louvain to Leiden: guaranteeing well-connected communities. Scientific Reports 2019.
Hooi, Song, Beutel, Shah, Shin, Faloutsos: FRAUDAR: bounding graph fraud in the face of camouflage. KDD 2016.
Shah, Beutel, Gallagher, Faloutsos: Spotting suspicious link behavior with fBox. ICDM 2014.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = [
    "Block",
    "best_pair",
    "best_pair_cosine",
    "column_weights",
    "core_number",
    "dcube_blocks",
    "degree",
    "fbox",
    "fraudar_block",
    "fraudar_blocks",
    "fraudar_score",
    "hits",
    "leiden_communities",
    "opposite_degree",
]

UNIT = 1 << 24
"""Weights are integers in units of 2^-24: sums do not depend on their order, and ties are ties."""
_LOG_OFFSET = 5
"""The paper's small constant c in 1 / log(degree + c)."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """FRAUDAR's result: left and right members, ascending, and the block's weight per vertex."""

    left: np.ndarray
    right: np.ndarray
    density: float


def column_weights(right_degrees: np.ndarray) -> np.ndarray:
    """Return the weight of edges into each right vertex, ``1 / ln(degree + 5)`` in units (section 4.2)."""
    return np.rint(UNIT / np.log(right_degrees + float(_LOG_OFFSET))).astype(np.int64)


def fraudar_block(graph: BipartiteCSR) -> Block:
    """Return the block of algorithm 1: repeatedly remove the vertex that leaves the most weight; keep the densest.

    Density is the weight of the edges inside per vertex. Ties: a left vertex before a right one, then the lower id; of
    equally dense blocks the largest.
    """
    weights = column_weights(graph.right_degrees)
    order, removed = _peeled(graph, weights)
    n = order.size
    if not n:
        return Block(np.empty(0, np.int64), np.empty(0, np.int64), 0.0)
    total = int(removed.sum())
    if total * n >= 2**63:
        raise ValueError(f"{graph.n_edges} edges and {n} vertices: their products do not fit 64 bits")
    n_removed = int(_densest(removed, total))
    kept = np.sort(order[n_removed:])
    weight = total - int(removed[:n_removed].sum())
    split = np.searchsorted(kept, graph.n_left)
    return Block(kept[:split], kept[split:] - graph.n_left, weight / UNIT / (n - n_removed))


def fraudar_blocks(graph: BipartiteCSR, n: int = 10) -> list[Block]:
    """Yield the first block, then that of the graph without its edges, and so on; weights are recomputed as in its
    code.
    """
    blocks = []
    left, right = graph.edges()
    for _ in range(n):
        if not left.size:
            break
        rest = BipartiteCSR.from_edges(left, right, graph.n_left, graph.n_right)
        block = fraudar_block(rest)
        blocks.append(block)
        inside = np.isin(left, block.left) & np.isin(right, block.right)
        left, right = left[~inside], right[~inside]
    return blocks


def fraudar_score(graph: BipartiteCSR) -> np.ndarray:
    """Return how late the first block's greedy algorithm removes each left vertex; ``(n_left,) float64``.

    The paper scores blocks, not vertices. On five of the seven development cases this order is better for it than the
    density of the densest of ten blocks that hold a vertex, on the others at most .012 worse; the sum of densities and
    the first block alone were worse on most.
    """
    order, _ = _peeled(graph, column_weights(graph.right_degrees))
    scores = np.empty(order.size)
    scores[order] = np.arange(order.size)
    return scores[: graph.n_left]


def dcube_blocks(graph: BipartiteCSR, n: int = 10) -> list[Block]:
    """Return D-Cube's blocks for two modes with arithmetic density, each without the edges of earlier ones.

    Density is the number of edges inside by the mean number of members of a side. The greedy algorithm chooses the side
    whose lightest members, those of at most the side's mean, leave the denser rest, and removes them one by one
    (algorithm 2 with theta 1, and the choice by density).
    """
    blocks = []
    ends = tuple(side.astype(np.int64) for side in graph.edges())
    sizes = graph.n_left, graph.n_right
    for _ in range(n):
        if not ends[0].size:
            break
        left, right, density = _dcube_block(ends, sizes)
        blocks.append(Block(np.flatnonzero(left), np.flatnonzero(right), density))
        outside = ~(left[ends[0]] & right[ends[1]])
        ends = ends[0][outside], ends[1][outside]
    return blocks


def _dcube_block(
    ends: tuple[np.ndarray, np.ndarray], n_vertices: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return masks of the members of each side, and the density."""
    alive = [np.bincount(side, minlength=n) > 0 for side, n in zip(ends, n_vertices, strict=True)]
    # When each vertex was removed; the block is the content at the best moment.
    removed = [np.where(some, np.iinfo(np.int64).max, -1) for some in alive]
    mass, n, step = ends[0].size, sum(int(some.sum()) for some in alive), 0
    best, best_step = 2 * mass / n, 0
    while mass:
        inside = alive[0][ends[0]] & alive[1][ends[1]]
        masses = [np.bincount(side[inside], minlength=some.size) for side, some in zip(ends, alive, strict=True)]
        light = [some & (own * some.sum() <= mass) for some, own in zip(alive, masses, strict=True)]
        rest = [(mass - own[some].sum()) / max(n - some.sum(), 1) for some, own in zip(light, masses, strict=True)]
        side = int(np.argmax(rest))
        chosen = np.flatnonzero(light[side])
        chosen = chosen[np.argsort(masses[side][chosen], kind="stable")]
        left_over = mass - np.cumsum(masses[side][chosen])
        removed[side][chosen] = step + np.arange(chosen.size)
        densities = 2 * left_over / np.maximum(n - 1 - np.arange(chosen.size), 1)
        if densities.max() > best:
            best, best_step = float(densities.max()), step + int(densities.argmax()) + 1
        alive[side][chosen] = False
        mass, n, step = int(left_over[-1]), n - chosen.size, step + chosen.size
    return removed[0] >= best_step, removed[1] >= best_step, best


def leiden_communities(graph: BipartiteCSR, *, projected: bool, n: int = 10) -> list[np.ndarray] | None:
    """Return left members of the communities, largest first, at least two each; None without ``igraph``.

    Communities are those of the graph, or of its projection, where the weight of two left vertices is the number of
    neighbours they share; by modularity.
    """
    try:
        import igraph
    except ImportError:
        return None
    left, right = (side.astype(np.int64) for side in graph.edges())
    n_vertices, weights = graph.n_left + graph.n_right, None
    if projected:
        rows = _matrix(graph)
        shared = (rows @ rows.T).tocoo()
        above = shared.row < shared.col
        left, right, weights = shared.row[above], shared.col[above] - graph.n_left, shared.data[above].tolist()
        n_vertices = graph.n_left
    network = igraph.Graph(n=n_vertices, edges=np.column_stack([left, right + graph.n_left]))
    random.seed(1)
    found = network.community_leiden(objective_function="modularity", weights=weights, n_iterations=-1)
    members = [np.array([v for v in one if v < graph.n_left], np.int64) for one in found]
    return sorted((one for one in members if one.size > 1), key=len, reverse=True)[:n]


def hits(graph: BipartiteCSR) -> np.ndarray:
    """Return each left vertex's entry in the first singular vector, its hub score; ``(n_left,) float64``."""
    from scipy.sparse.linalg import svds

    rows = _matrix(graph)
    hubs, _, _ = svds(rows, k=1, v0=np.ones(min(rows.shape)))
    # Signs are arbitrary; vertices not connected to the centre tie at 0.
    return np.round(np.abs(hubs[:, 0]), 12)


def degree(graph: BipartiteCSR) -> np.ndarray:
    """Return the degree of each left vertex, as a score."""
    return graph.left_degrees.astype(np.float64)


def opposite_degree(graph: BipartiteCSR) -> np.ndarray:
    """Return the negative degree: the least active is the most suspicious."""
    return -degree(graph)


def core_number(graph: BipartiteCSR) -> np.ndarray:
    """Return the largest k for which each left vertex is in a subgraph of minimum degree k; ``(n_left,) float64``."""
    order, removed = _peeled(graph, np.ones(graph.n_right, np.int64))
    cores = np.empty(order.size)
    cores[order] = np.maximum.accumulate(removed)
    return cores[: graph.n_left]


def fbox(graph: BipartiteCSR, n_factors: int = 25) -> np.ndarray:
    """Return how badly the first singular vectors reproduce each left vertex, among those of similar degree.

    The reconstructed degree is the squared length of the vertex's row projected on the first right singular vectors;
    fBox suspects the lowest for their degree. Degrees are compared within powers of two; 1 is the lowest share.

    Returns
    -------
    (n_left,) float64
        0 to 1; 0 for a vertex without edges.
    """
    from scipy.sparse.linalg import svds

    n_factors = min(n_factors, graph.n_left - 1, graph.n_right - 1)
    scores = np.zeros(graph.n_left)
    if n_factors < 1:
        return scores
    rows = _matrix(graph)
    start = np.random.default_rng(1).random(min(rows.shape))
    _, _, vectors = svds(rows, k=n_factors, v0=start)
    degrees = graph.left_degrees
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(degrees > 0, ((rows @ vectors.T) ** 2).sum(axis=1) / degrees, 0.0)
    bins = np.where(degrees > 0, np.floor(np.log2(np.maximum(degrees, 1))), -1)
    for one in np.unique(bins[bins >= 0]):
        members = np.flatnonzero(bins == one)
        # Rounded, so that vertices with the same neighbours tie.
        _, rank, counts = np.unique(np.round(share[members], 9), return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - counts / 2
        scores[members] = 1.0 - middle[rank] / members.size
    return scores


def best_pair(graph: BipartiteCSR) -> np.ndarray:
    """Return the most neighbours shared with another left vertex over the root of the degree; ``(n_left,) float64``."""
    shared, _ = _pairs(graph)
    return shared / np.sqrt(np.maximum(graph.left_degrees, 1))


def best_pair_cosine(graph: BipartiteCSR) -> np.ndarray:
    """Return the same, over the root of the product of both degrees; ``(n_left,) float64``."""
    return _pairs(graph)[1]


def _matrix(graph: BipartiteCSR) -> Any:
    """Return a sparse SciPy array with ones at the edges."""
    from scipy import sparse

    ones, shape = np.ones(graph.n_edges), (graph.n_left, graph.n_right)
    return sparse.csr_array((ones, graph.left_members, graph.left_offsets), shape=shape)


def _pairs(graph: BipartiteCSR) -> tuple[np.ndarray, np.ndarray]:
    return _best_pairs(graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members)


def _peeled(graph: BipartiteCSR, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices (left, then right) in the order of removal, and each one's weight at that moment."""
    return _peel(graph.left_offsets, graph.left_members, graph.right_offsets, graph.right_members, weights)


@njit(cache=True, nogil=True)
def _best_pairs(left_offsets, left_members, right_offsets, right_members):
    n_left = left_offsets.size - 1
    shared = np.zeros(n_left, np.float64)
    cosine = np.zeros(n_left, np.float64)
    counts = np.zeros(n_left, np.int64)
    touched = np.empty(n_left, np.int64)
    for u in range(n_left):
        n_touched = 0
        for i in range(left_offsets[u], left_offsets[u + 1]):
            v = left_members[i]
            for j in range(right_offsets[v], right_offsets[v + 1]):
                other = right_members[j]
                if other == u:
                    continue
                if counts[other] == 0:
                    touched[n_touched] = other
                    n_touched += 1
                counts[other] += 1
        own = left_offsets[u + 1] - left_offsets[u]
        for k in range(n_touched):
            other = touched[k]
            of_other = left_offsets[other + 1] - left_offsets[other]
            shared[u] = max(shared[u], counts[other])
            cosine[u] = max(cosine[u], counts[other] / np.sqrt(np.float64(own * of_other)))
            counts[other] = 0
    return shared, cosine


@njit(cache=True, nogil=True)
def _is_before(weights, one, other):
    return weights[one] < weights[other] or (weights[one] == weights[other] and one < other)


@njit(cache=True, nogil=True)
def _rise(heap, places, weights, place):
    """Move a vertex that has become lighter up to its place."""
    vertex = heap[place]
    while place > 0:
        parent = (place - 1) // 2
        if not _is_before(weights, vertex, heap[parent]):
            break
        heap[place] = heap[parent]
        places[heap[place]] = place
        place = parent
    heap[place] = vertex
    places[vertex] = place


@njit(cache=True, nogil=True)
def _sink(heap, places, weights, place, size):
    """Move a vertex that is too far up down to its place."""
    vertex = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(weights, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(weights, heap[child], vertex):
            break
        heap[place] = heap[child]
        places[heap[place]] = place
        place = child
    heap[place] = vertex
    places[vertex] = place


@njit(cache=True, nogil=True)
def _peel(left_offsets, left_members, right_offsets, right_members, column_weights):
    n_left, n_right = left_offsets.size - 1, right_offsets.size - 1
    n = n_left + n_right
    weights = np.zeros(n, np.int64)
    for u in range(n_left):
        for i in range(left_offsets[u], left_offsets[u + 1]):
            weights[u] += column_weights[left_members[i]]
    for v in range(n_right):
        weights[n_left + v] = column_weights[v] * (right_offsets[v + 1] - right_offsets[v])
    heap, places = np.arange(n), np.arange(n)
    for place in range(n // 2 - 1, -1, -1):
        _sink(heap, places, weights, place, n)
    order, removed = np.empty(n, np.int64), np.empty(n, np.int64)
    for step in range(n):
        vertex = heap[0]
        order[step], removed[step] = vertex, weights[vertex]
        size = n - step - 1
        places[vertex] = -1
        if size:
            heap[0] = heap[size]
            _sink(heap, places, weights, 0, size)
        if vertex < n_left:
            for i in range(left_offsets[vertex], left_offsets[vertex + 1]):
                other = n_left + left_members[i]
                if places[other] >= 0:
                    weights[other] -= column_weights[left_members[i]]
                    _rise(heap, places, weights, places[other])
        else:
            v = vertex - n_left
            for i in range(right_offsets[v], right_offsets[v + 1]):
                other = right_members[i]
                if places[other] >= 0:
                    weights[other] -= column_weights[v]
                    _rise(heap, places, weights, places[other])
    return order, removed


@njit(cache=True, nogil=True)
def _densest(removed, total):
    """Return the number of removals when the rest is densest; the fewest of ties, by exact comparison."""
    n = removed.size
    best, best_weight, best_size = 0, total, n
    weight = total
    for step in range(n - 1):
        weight -= removed[step]
        size = n - step - 1
        if weight * best_size > best_weight * size:
            best, best_weight, best_size = step + 1, weight, size
    return best
