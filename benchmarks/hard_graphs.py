"""Generated graphs that are hard in ways the real ones are not, from fixed seeds.

``python -m benchmarks.hard_graphs`` prints their sizes and known figures; ``python -m benchmarks.hard_graphs NAME...``
also counts these, on the engine that `MBE_ENGINE` names, by default `auto`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mbe_stage import BicliqueQuery, BipartiteCSR, CountSink, UndirectedCSR, count_maximal_cliques, enumerate_into

Graph = BipartiteCSR | UndirectedCSR


@dataclass(frozen=True, slots=True)
class HardGraph:
    """One graph.

    Attributes
    ----------
    build : callable
    why : str
        Why it is hard.
    n_found : int
        Number of maximal bicliques or cliques that satisfy `query`.
    known : str
        "counted" by an engine, or "expected" in a random graph of these sizes, to a few percent.
    query : BicliqueQuery
        For bipartite graphs.
    """

    build: Callable[[], Graph]
    why: str
    n_found: int
    known: str
    query: BicliqueQuery | None = None

    def count(self, engine: str = "auto") -> int:
        graph = self.build()
        if isinstance(graph, UndirectedCSR):
            return count_maximal_cliques(graph, engine=engine)
        sink = CountSink()
        enumerate_into(sink, graph, self.query, engine=engine)
        return sink.n_bicliques


def overlapping_cliques() -> UndirectedCSR:
    """Return 165 cliques of 40 out of 740 vertices: a thousand times more maximal cliques than edges."""
    rng = np.random.default_rng(1)
    is_edge = np.zeros((740, 740), np.bool_)
    for _ in range(165):
        members = rng.choice(740, 40, replace=False)
        is_edge[np.ix_(members, members)] = True
    return UndirectedCSR.from_edges(*np.nonzero(np.triu(is_edge, 1)), 740)


def dense_random() -> UndirectedCSR:
    """Return 66 % of all edges on 447 vertices: billions of maximal cliques."""
    rng = np.random.default_rng(2)
    return UndirectedCSR.from_edges(*np.nonzero(np.triu(rng.random((447, 447)) < 0.66, 1)), 447)


def giant_roots() -> BipartiteCSR:
    """Return 900 x 1,700, dense and skewed: most bicliques are below few roots."""
    rng = np.random.default_rng(3)
    left, right = (0.95 * np.arange(1, n + 1) ** -0.28 for n in (900, 1_700))
    is_edge = rng.random((900, 1_700)) < np.sqrt(np.outer(left, right))
    return BipartiteCSR.from_edges(*np.nonzero(is_edge), 900, 1_700)


def small_bicliques() -> BipartiteCSR:
    """Return five random matchings, 70 % of each, on 2 x 2 million vertices: stars of two to six members."""
    rng = np.random.default_rng(4)
    n = 2_000_000
    left, right = (np.concatenate([rng.permutation(n).astype(np.int32) for _ in range(5)]) for _ in range(2))
    is_kept = rng.random(5 * n) < 0.7
    return BipartiteCSR.from_edges(left[is_kept], right[is_kept], n, n)


def zipf_baskets() -> BipartiteCSR:
    """Return 500,000 sessions of at least 2 products, 5 on average, of 20,000 with a demand after Zipf's law."""
    rng = np.random.default_rng(5)
    lengths = 1 + rng.geometric(0.25, 500_000)
    demand = np.arange(1, 20_001) ** -1.05
    products = rng.choice(20_000, int(lengths.sum()), p=demand / demand.sum())
    sessions = np.repeat(np.arange(500_000), lengths)
    return BipartiteCSR.from_edges(sessions, products, 500_000, 20_000)


HARD_GRAPHS: dict[str, HardGraph] = {
    "overlapping_cliques": HardGraph(overlapping_cliques, "more output than edges", 331_668_912, "counted"),
    "dense_random": HardGraph(dense_random, "a long search", 17_700_000_000, "expected"),
    "giant_roots": HardGraph(giant_roots, "few roots", 4_062_577_260, "counted"),
    "small_bicliques": HardGraph(small_bicliques, "many small results", 3_877_621, "counted"),
    "zipf_baskets": HardGraph(zipf_baskets, "popular products", 668_149, "counted", BicliqueQuery(4, 3)),
}


def _main(names: list[str]) -> None:
    for name, hard in HARD_GRAPHS.items():
        graph = hard.build()
        sides = f"{graph.n:,}" if isinstance(graph, UndirectedCSR) else f"{graph.n_left:,} x {graph.n_right:,}"
        print(f"{name:20}{sides:>24}{graph.n_edges:>12,} edges{hard.n_found:>16,} {hard.known}: {hard.why}", flush=True)
        if name in names:
            began = time.perf_counter()
            n_found = hard.count(os.environ.get("MBE_ENGINE", "auto"))
            print(f"{'':20}{n_found:,} counted in {time.perf_counter() - began:.2f} s", flush=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
