"""Give bicliques their keys and scores."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from mbe_stage.bicliques.best.bounds import OF_SIZES, Bounds
from mbe_stage.bicliques.best.completing import completed
from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.reference import hashes_of_ids
from mbe_stage.bicliques.best.results import Ranked, taken
from mbe_stage.bicliques.best.weighing import sums, surprise_weights
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.null_model import UNIT, NullModel
from mbe_stage.ragged import long_offsets

# Bicliques between pauses.
_UNTIL_PAUSE = 1024


class Scorer:
    """Gives bicliques their keys and scores."""

    def __init__(self, graph: BipartiteCSR, query: BestQuery, bounds: Bounds) -> None:
        self._graph, self._query, self._bounds = graph, query, bounds
        self._model = NullModel.of(graph) if query.by == "surprise" else None
        self._weights = query.weights if self._model is None else surprise_weights(graph, self._model)
        self._hashes = query.hashes or hashes_of_ids(graph)

    def nothing(self) -> Ranked:
        """Return no bicliques."""
        scores = np.empty(0, np.int64 if self._query.by in OF_SIZES else np.float64)
        none = np.empty(0, np.int64)
        return Ranked(scores, none, none, BicliqueBlock.empty(Detail.MEMBERS, 0.0))

    def of_block(self, block: Any, cutoff: float) -> Generator[None, None, Ranked]:
        """Return the bicliques of a block, or their completions, whose codes are not below the cutoff.

        It yields now and then.
        """
        by, n_missing = self._query.by, np.zeros(len(block), np.int64)
        if self._query.missing and len(block):
            block, n_missing = yield from completed(block, self._graph, self._bounds, cutoff)
        n_left, n_right = (sizes.astype(np.int64) for sizes in (block.left_sizes, block.right_sizes))
        codes = self._bounds.codes(n_left, n_right) - n_missing if by in OF_SIZES else self._sums(block)
        # A sum is rounded.
        kept = np.flatnonzero(codes >= cutoff * (1 - self.slack))
        if by == "weight":
            exact = yield from self._exact(taken(block, kept))
            codes[kept], kept = exact, kept[exact >= cutoff]
        block, codes = taken(block, kept), codes[kept]
        n_edges = (n_left * n_right - n_missing)[kept]
        scores = self._bounds.scores(codes) if by in OF_SIZES else codes
        return Ranked(scores, n_edges, biclique_keys(block, *self._hashes), block)

    @property
    def slack(self) -> float:
        """The share of a sum that rounding may take."""
        return 4e-16 * (self._graph.n_edges + 1) if self._query.by == "weight" else 0.0

    def _sums(self, block: Any) -> np.ndarray:
        graph, sides = self._graph, (block.left_sizes, block.left_members, block.right_sizes, block.right_members)
        ragged = long_offsets(sides[0]), sides[1], long_offsets(sides[2]), sides[3]
        found = sums(*ragged, graph.left_offsets, graph.left_members, self._weights, graph.n_right)
        return found if self._model is None else found - self._model.naming_costs(sides[0], sides[2]) / UNIT

    def _exact(self, block: Any) -> Generator[None, None, np.ndarray]:
        """The sums of the weights of the bicliques' edges, correctly rounded, so that they depend on no order."""
        graph, weights, totals = self._graph, self._weights, np.empty(len(block))
        assert weights is not None
        left_offsets, right_offsets = block.left_offsets, block.right_offsets
        for i in range(len(block)):
            if i % _UNTIL_PAUSE == _UNTIL_PAUSE - 1:
                yield
            right, parts = block.right_members[right_offsets[i] : right_offsets[i + 1]], []
            for u in block.left_members[left_offsets[i] : left_offsets[i + 1]].tolist():
                first = graph.left_offsets[u]
                parts.append(weights[first + np.searchsorted(graph.neighbours_of_left(u), right)])
            totals[i] = math.fsum(np.concatenate(parts).tolist())
        return totals
