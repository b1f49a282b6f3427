"""Estimate the number of maximal bicliques with growing precision while they are enumerated.

Descents come in rounds, with more subtrees in each round. The descents of a round are independent and give one
interval, which is reported once there are enough of them. Until then the interval of the last round stays. Unlike
`estimate`, no budget fixes the number of subtrees in advance.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import numpy as np

from mbe_stage.bicliques import ordering, reduction
from mbe_stage.bicliques.cpu import tree
from mbe_stage.bicliques.estimation import growth
from mbe_stage.bicliques.estimation.descent import Budget, descend, roots_of
from mbe_stage.bicliques.estimation.growth import GrowthModel
from mbe_stage.bicliques.estimation.interval import interval_of, whole_number
from mbe_stage.bicliques.estimation.walk import Walk
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.forecast import Outlook
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.sampling import memory_bytes

log = logging.getLogger(__name__)

_PILOTS, _PILOT_SUBTREES = 5, 8
# Subtrees per descent, and descents, of each round.
_ROUNDS = ((16, 16), (64, 48))
# Number of descents in a round before its interval replaces that of the last round.
_ENOUGH = 8


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for sampling beside those of the CPU engine."""
    return growth.compile_steps()


def outlooks(
    graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, goes_on: Callable[[], bool], seed: int = 0
) -> Iterator[Outlook]:
    """Yield estimates of the number of maximal bicliques that satisfy `query`, each after another descent.

    It ends when more descents would not improve the estimate much. It ends at once if memory is short, or if code is
    not compiled yet, because compiling would take time from the search.

    Parameters
    ----------
    execution : Execution
        Its memory budget applies to the search; sampling takes `memory_bytes` in addition.
    goes_on : callable
        Called before and after preparing the graph, before each pilot and round, and before each visit. It may wait; if
        it returns False, sampling ends.
    """
    if memory_bytes(graph, execution) == 0:
        log.debug("not sampled: that would take much beside the engine's budget of memory")
        return
    collects = _walk_that_is_compiled()
    if collects is None:
        log.debug("not sampled: what it needs is not compiled yet; `mbe compile` does it")
        return
    # Preparing the graph again is a single step, and the longest.
    if not goes_on():
        return
    walk = Walk(graph, query, collects=collects)
    if not goes_on():
        return
    yield from _in_rounds(walk, Budget(None, None, goes_on), np.random.default_rng(seed))


def _in_rounds(walk: Walk, budget: Budget, rng: np.random.Generator) -> Iterator[Outlook]:
    model = GrowthModel()
    for _ in range(_PILOTS):
        # A descent computes its start before its first visit.
        if budget.is_spent:
            return
        descent = descend(walk, model, _PILOT_SUBTREES, rng, budget)
        if descent is None:
            return
        if descent.exact:
            yield Outlook.exactly(whole_number(descent.log_bicliques))
            return
        model.learn(descent.features, descent.log_counts)
    for number, (n_subtrees, n_descents) in enumerate(_ROUNDS):
        if budget.is_spent:
            return
        roots = roots_of(walk, model, n_subtrees)
        logs: list[float] = []
        while len(logs) < n_descents:
            descent = descend(walk, model, n_subtrees, rng, budget, roots)
            if descent is None:
                return
            logs.append(descent.log_bicliques)
            if number == 0 or len(logs) >= _ENOUGH:
                interval = interval_of(np.array(logs))
                yield Outlook(interval.low, interval.middle, interval.high)


def _walk_that_is_compiled() -> bool | None:
    """Return True for the compiled walk that collects members, False for the one that counts, None if neither is."""
    return next((collects for collects in (False, True) if _is_compiled(collects)), None)


def _is_compiled(collects: bool) -> bool:
    preparing = (*reduction.compile_steps(), *ordering.compile_steps())
    steps = (*preparing, *tree.compile_steps(collects), *compile_steps())
    return all(step.is_loaded() or step.is_kept() for step in steps)
