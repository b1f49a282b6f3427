"""The most surprising bicliques: all are listed and scored, as surprise has no bound that prunes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import numpy as np
from numba import int64

from mbe_stage import stream
from mbe_stage.bicliques.best.branch_and_bound import Standing
from mbe_stage.bicliques.best.query import BestQuery
from mbe_stage.bicliques.best.ranking import Ranked, nothing
from mbe_stage.bicliques.keys import biclique_keys
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.groups.null_model import PAIR_WEIGHTS, UNIT, NullModel
from mbe_stage.groups.quasi_bicliques import pair_weight
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of


def most_surprising(
    graph: BipartiteCSR,
    query: BestQuery,
    hashes: tuple[np.ndarray, np.ndarray],
    execution: Execution,
    deadline: float,
) -> Iterator[Standing]:
    """List all maximal bicliques; yield the most surprising so far after each block, and at the end."""
    model, ranked = NullModel.of(graph), nothing(query)
    sizes = BicliqueQuery(query.min_left, query.min_right)
    with closing(stream.pulled(PROBLEM, graph, sizes, execution, Detail.MEMBERS, "cpu")) as blocks:
        for block in blocks:
            left, right = block.left_offsets.astype(np.int64), block.right_offsets.astype(np.int64)
            logs = model.left_log_degrees, model.right_log_degrees
            evidence = _evidence(
                left, block.left_members, right, block.right_members, *logs, PAIR_WEIGHTS, model.log_edges
            )
            scores = (evidence - model.naming_costs(block.left_sizes, block.right_sizes)) / UNIT
            found = Ranked(scores, biclique_keys(block, *hashes), block)
            if len(ranked) == query.k:
                found = found.taken(np.flatnonzero(scores >= ranked.scores[-1]))
            ranked = ranked.followed_by(found).sorted()
            ranked = ranked.taken(np.arange(min(len(ranked), query.k)))
            yield Standing(ranked, np.inf, False)
            if time.perf_counter() > deadline:
                return
    yield Standing(ranked, float(ranked.scores[-1]) if len(ranked) else 0.0, True)


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the function of this module."""
    return steps_of(_evidence)


@compiled(LONGS, INTS, LONGS, INTS, LONGS, LONGS, LONGS, int64)
def _evidence(left_offsets, left, right_offsets, right, left_logs, right_logs, weights, log_edges):
    """The evidence of each biclique in units: the sum of its edges' weights (`mbe_stage.groups.null_model`).

    Parameters
    ----------
    left_offsets, left, right_offsets, right
        The members of each biclique.
    left_logs, right_logs, weights, log_edges
        Of the null model.
    """
    evidence = np.zeros(left_offsets.size - 1, np.int64)
    for i in range(evidence.size):
        for k in range(left_offsets[i], left_offsets[i + 1]):
            own = left_logs[left[k]] - log_edges
            for j in range(right_offsets[i], right_offsets[i + 1]):
                evidence[i] += pair_weight(own + right_logs[right[j]], weights)
    return evidence
