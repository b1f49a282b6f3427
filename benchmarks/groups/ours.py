"""Our groups of a graph: candidates from the stream, then the short list, cover, grown groups and scores.

A time bucket gives two graphs, one per offset: each is searched with its own null, a vertex has the better of its two
scores, and the groups of both share one list, in which near copies are dropped as usual.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.keys import biclique_keys, hash_integers, vertex_hashes
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups import selection
from mbe_stage.groups.bystanders import GrownGroups
from mbe_stage.groups.candidates import Candidates, CandidateSink
from mbe_stage.groups.eigenvector import tfidf_eigenvector
from mbe_stage.groups.listing import Pool, RankBy, arranged, listed, ranked
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import UNIT, NullModel
from mbe_stage.groups.vertex_scores import best_score, edge_sqrt, rank_score, share_size
from mbe_stage.options import Execution

__all__ = ["Kind", "Search", "groups", "grown_above_chance", "lefts", "scores_of", "search"]

Kind = Literal["both", "short_list", "grown_cover"]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """One graph and the candidates among its bicliques.

    Attributes
    ----------
    least : (int, int)
        Minimum members per side.
    n_bicliques : int
    is_truncated : bool
        The time limit ended the search.
    seconds : float
        Enumeration and sink.
    sink_seconds : float
        Sink only.
    """

    graph: BipartiteCSR
    model: NullModel
    sink: CandidateSink
    candidates: Candidates
    least: tuple[int, int]
    n_bicliques: int
    is_truncated: bool
    seconds: float
    sink_seconds: float


class _BlockSink:
    """Names each block's bicliques and passes them on."""

    detail = Detail.MEMBERS

    def __init__(self, graph: BipartiteCSR, sink: CandidateSink) -> None:
        self._hashes = tuple(
            vertex_hashes(hash_integers(np.arange(n)), side)
            for n, side in ((graph.n_left, "left"), (graph.n_right, "right"))
        )
        self._sink = sink

    def accept(self, block: BicliqueBlock) -> None:
        if block.n_bicliques:
            self._sink.accept(block, biclique_keys(block, *self._hashes))


def search(
    graph: BipartiteCSR, min_left: int = 2, min_right: int = 2, *, time_limit_seconds: float | None = None
) -> Search:
    """Send every biclique of at least this size to the sink, on one thread, within a time limit."""
    model = NullModel.of(graph)
    sink = CandidateSink(model, graph.n_left, graph.n_right)
    execution = Execution(threads=1, time_limit_seconds=time_limit_seconds)
    facts = enumerate_into(_BlockSink(graph, sink), graph, BicliqueQuery(min_left, min_right), execution, engine="cpu")
    begun = time.perf_counter()
    candidates = sink.finish()
    finishing = time.perf_counter() - begun
    return Search(
        graph,
        model,
        sink,
        candidates,
        (min_left, min_right),
        facts.n_bicliques,
        facts.truncated is not None,
        facts.seconds + finishing,
        facts.sink_seconds + finishing,
    )


def scores_of(searches: Sequence[Search]) -> dict[str, np.ndarray]:
    """Return each score of the left vertices, the best of several offsets; ``(n_left,) float64``."""
    by_edge = [edge_sqrt(one.graph, one.candidates, one.model) for one in searches]
    by_size = [share_size(one.sink.left_share, one.graph.left_degrees) for one in searches]
    by_growth = [
        best_score(*found.members.side(0), found.scores, one.graph.n_left) / UNIT
        for one, found in zip(searches, map(grown_above_chance, searches), strict=True)
    ]
    by_centrality = [tfidf_eigenvector(one.graph)[0] for one in searches]
    parts = np.max([found.left_share for found in by_edge], axis=0), np.max(by_growth, axis=0)
    return {
        "score": rank_score(*parts),
        "edge_share": parts[0],
        "grown_surprise": parts[1],
        "edge_sqrt": np.max([found.left for found in by_edge], axis=0),
        "share_size": np.max(by_size, axis=0),
        "tfidf_eigenvector": np.max(by_centrality, axis=0),
    }


def groups(searches: Sequence[Search], limit: int, kind: Kind = "both", rank_by: RankBy = "surprise") -> GroupMembers:
    """Return the groups that a run lists, best first."""
    # Keys of grown groups only break ties.
    grown = [grown_above_chance(one) for one in searches]
    pool = Pool.joined(
        [
            Pool.of(graph, one.candidates, of, np.arange(len(of.members)), one.model)
            for graph, (one, of) in enumerate(zip(searches, grown, strict=True))
        ]
    )
    best_first = order = ranked(pool, rank_by)
    if kind != "both":
        order = order[pool.is_grown[order] == (kind == "grown_cover")]
    rows = listed(arranged(order, pool), best_first, pool, np.zeros(len(pool), np.bool_), limit=limit)
    return pool.members.take(rows)


def lefts(members: GroupMembers) -> list[np.ndarray]:
    """Return the left members of each group."""
    return [left for left, _ in members]


@functools.lru_cache(maxsize=4)
def grown_above_chance(one: Search) -> GrownGroups:
    """Return the grown groups of one graph that are better than chance, best first, as a run makes them."""
    seeds = selection.seed_rows(len(one.candidates), one.sink.left_best, one.sink.right_best)
    least = {"min_left": one.least[0], "min_right": one.least[1]}
    partners = selection.grown_partners(one.graph, one.model, **least)
    return selection.grown_above_chance(one.graph, one.candidates, seeds, one.model, partners=partners, **least)
