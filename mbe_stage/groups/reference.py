"""The specification of groups, in plain Python numbers and sets; compiled code must equal it.

A biclique is a pair of ascending tuples of left and right ids, as `mbe_stage.bicliques.reference` gives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.null_model import UNIT

__all__ = [
    "best_of_left",
    "candidates",
    "degree_percentiles",
    "edge_sqrt",
    "exact_surprise",
    "left_share_size",
    "log_ratio_units",
    "surprise_units",
    "swapped",
]

Biclique = tuple[tuple[int, ...], tuple[int, ...]]


def exact_surprise(graph: BipartiteCSR, biclique: Biclique) -> float:
    """Surprise in nats: the logarithm of a fraction of whole numbers."""
    left, right = biclique
    n_edges = len(left) * len(right)
    ratio = Fraction(graph.n_edges**n_edges)
    ratio /= math.prod(int(graph.left_degrees[u]) for u in left) ** len(right)
    ratio /= math.prod(int(graph.right_degrees[v]) for v in right) ** len(left)
    ratio /= math.comb(graph.n_left, len(left)) * math.comb(graph.n_right, len(right))
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def log_ratio_units(graph: BipartiteCSR, biclique: Biclique) -> int:
    """The log-likelihood ratio in units: that of each logarithm, rounded to whole ones, summed up exactly."""
    left, right = biclique
    ratio = len(left) * len(right) * _units(graph.n_edges)
    ratio -= len(right) * sum(_units(int(graph.left_degrees[u])) for u in left)
    return ratio - len(left) * sum(_units(int(graph.right_degrees[v])) for v in right)


def surprise_units(graph: BipartiteCSR, biclique: Biclique) -> int:
    """Surprise in units: what is compared."""
    left, right = biclique
    costs = _units(math.comb(graph.n_left, len(left))) + _units(math.comb(graph.n_right, len(right)))
    return log_ratio_units(graph, biclique) - costs


def candidates(graph: BipartiteCSR, bicliques: Mapping[int, Biclique], top: int) -> list[int]:
    """Keys of the best of each vertex and of the `top` best of all, best first; `bicliques` has them by key."""
    ranked = _ranked(graph, bicliques)
    kept = set(ranked[:top])
    kept |= set(best_of_left(graph, bicliques).values())
    kept |= set(best_of_left(graph.swapped(), swapped(bicliques)).values())
    return [key for key in ranked if key in kept]


def best_of_left(graph: BipartiteCSR, bicliques: Mapping[int, Biclique]) -> dict[int, int]:
    """Key of the best biclique of each left vertex that is in one: highest surprise, then lowest key."""
    best: dict[int, int] = {}
    for key in _ranked(graph, bicliques):
        for u in bicliques[key][0]:
            best.setdefault(u, key)
    return best


def left_share_size(graph: BipartiteCSR, bicliques: Mapping[int, Biclique]) -> list[float]:
    """The largest ``b sqrt(a) / sqrt(d)`` of each left vertex; 0 for one that is in no biclique."""
    scores = [0.0] * graph.n_left
    for left, right in bicliques.values():
        for u in left:
            scores[u] = max(scores[u], len(right) * math.sqrt(len(left)) / math.sqrt(int(graph.left_degrees[u])))
    return scores


def edge_sqrt(graph: BipartiteCSR, bicliques: Sequence[Biclique], *, by_share: bool = False) -> list[list[float]]:
    """Sum, for each vertex of each side, of the roots of its edges' best evidence, over degree^(3/4).

    With `by_share` a biclique's evidence counts by the share of the vertex's edges that it has.
    """
    scores = []
    for side, degrees in enumerate((graph.left_degrees.tolist(), graph.right_degrees.tolist())):
        best: dict[tuple[int, int], float] = {}
        for pair in bicliques:
            ratio = log_ratio_units(graph, pair) / UNIT
            for edge in ((u, v) for u in pair[0] for v in pair[1]):
                share = len(pair[1 - side]) / degrees[edge[side]] if by_share else 1.0
                best[edge] = max(best.get(edge, 0.0), ratio * share)
        scores.append([0.0] * len(degrees))
        for edge, evidence in best.items():
            scores[side][edge[side]] += math.sqrt(evidence) / degrees[edge[side]] ** 0.75
    return scores


def degree_percentiles(degrees: Sequence[int]) -> list[float]:
    """The share of vertices with a smaller degree, plus half of those with the same."""
    return [sum((other < own) + (other == own) / 2 for other in degrees) / len(degrees) for own in degrees]


def swapped(bicliques: Mapping[int, Biclique]) -> dict[int, Biclique]:
    """The same with the sides exchanged."""
    return {key: (right, left) for key, (left, right) in bicliques.items()}


def _ranked(graph: BipartiteCSR, bicliques: Mapping[int, Biclique]) -> list[int]:
    return sorted(bicliques, key=lambda key: (-surprise_units(graph, bicliques[key]), key))


def _units(value: int) -> int:
    return round(math.log(value) * UNIT)
