"""Compute keys and scores of bicliques."""

from __future__ import annotations

import math

import numpy as np

from mbe_stage.bicliques.best.bounds import OF_SIZES, Bounds
from mbe_stage.bicliques.best.completing import completed
from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.reference import hashes_of_ids
from mbe_stage.bicliques.best.results import Ranked
from mbe_stage.bicliques.best.weighing import sums
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.members import GroupMembers
from mbe_stage.groups.null_model import UNIT, NullModel, pair_weights


class Scorer:
    """Computes keys and scores of bicliques."""

    def __init__(self, graph: BipartiteCSR, query: BestQuery, bounds: Bounds) -> None:
        self._graph, self._query, self._bounds = graph, query, bounds
        self._model = NullModel.of(graph) if query.by == "surprise" else None
        self._weights = query.weights
        if self._model is not None:
            # Evidence per edge in nats, exact in a float64.
            self._weights = pair_weights(self._model.log_expected(*graph.edges())) / UNIT
        self._hashes = query.hashes or hashes_of_ids(graph)

    def nothing(self) -> Ranked:
        """Return an empty ranking."""
        scores = np.empty(0, np.int64 if self._query.by in OF_SIZES else np.float64)
        none = np.empty(0, np.int64)
        return Ranked(scores, none, none, GroupMembers.of([]))

    def ranked(self, members: GroupMembers, cutoff: float, is_over: np.ndarray) -> Ranked:
        """Return the bicliques, or their completions, with codes of at least the cutoff.

        Another thread sets `is_over`, (1,) bool, to stop.
        """
        by, n_missing = self._query.by, np.zeros(len(members), np.int64)
        if self._query.missing:
            members, n_missing = completed(members, self._graph, self._bounds, cutoff, is_over)
        n_left, n_right = members.left_sizes, members.right_sizes
        codes = self._bounds.codes(n_left, n_right) - n_missing if by in OF_SIZES else self._sums(members)
        # Sums are rounded.
        kept = np.flatnonzero(codes >= cutoff * (1 - self.slack))
        if by == "weight":
            exact = self._exact(members.take(kept), is_over)
            codes[kept], kept = exact, kept[exact >= cutoff]
        members, codes = members.take(kept), codes[kept]
        n_edges = (n_left * n_right - n_missing)[kept]
        scores = self._bounds.scores(codes) if by in OF_SIZES else codes
        n_left, n_right = (sizes.astype(np.int32) for sizes in (members.left_sizes, members.right_sizes))
        block = BicliqueBlock(len(members), n_left, n_right, members.left_members, members.right_members)
        return Ranked(scores, n_edges, biclique_keys(block, *self._hashes), members)

    @property
    def slack(self) -> float:
        """Largest relative rounding error of a sum of weights."""
        return 4e-16 * (self._graph.n_edges + 1) if self._query.by == "weight" else 0.0

    def _sums(self, members: GroupMembers) -> np.ndarray:
        graph = self._graph
        sides = members.left_offsets, members.left_members, members.right_offsets, members.right_members
        found = sums(*sides, graph.left_offsets, graph.left_members, self._weights, graph.n_right)
        if self._model is None:
            return found
        return found - self._model.naming_costs(members.left_sizes, members.right_sizes) / UNIT

    def _exact(self, members: GroupMembers, is_over: np.ndarray) -> np.ndarray:
        """Return the correctly rounded sums of the bicliques' edge weights, independent of their order."""
        graph, weights, totals = self._graph, self._weights, np.empty(len(members))
        assert weights is not None
        for i, (left, right) in enumerate(members):
            if is_over[0]:
                break
            places = [graph.left_offsets[u] + np.searchsorted(graph.neighbours_of_left(u), right) for u in left]
            totals[i] = math.fsum(weights[np.concatenate(places)].tolist())
        return totals
