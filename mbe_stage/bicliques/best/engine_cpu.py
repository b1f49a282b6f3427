"""The engine `cpu`: a walk over maximal bicliques with minimum sizes that follow from the best ones so far.

A greedy search finds a first biclique, whose score is the threshold of the first pass. A pass lists, band of sizes by
band, the bicliques that reach the threshold. Once `k` of them are known, the minimum number of edges rises during the
walk. If a pass finds fewer than `k`, the next one has a lower threshold. By surprise, all bicliques are listed, because
surprise has no bound for pruning.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mbe_stage.bicliques import engine_cpu as walk
from mbe_stage.bicliques.best import completing, greedy, weighing
from mbe_stage.bicliques.best.bounds import Bounds
from mbe_stage.bicliques.best.problem import BestQuery
from mbe_stage.bicliques.best.reference import roots_of, tasks_of
from mbe_stage.bicliques.best.results import Ranked, Standing
from mbe_stage.bicliques.best.scoring import Scorer
from mbe_stage.bicliques.best.weighing import heavy_part
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.reduction import Core, core_of
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.subgraphs import peel_to_core
from mbe_stage.groups import members as groups
from mbe_stage.groups.members import GroupMembers
from mbe_stage.options import Execution
from mbe_stage.ragged import long_offsets
from mbe_stage.run_limits import EmptyBlock
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.stoppable import stoppable
from mbe_stage.search.cpu.pool import device, unavailable_reason
from mbe_stage.tasks import Task, ranges_of

__all__ = ["compile_steps", "device", "run", "tasks_of", "unavailable_reason"]

# Factor for the next threshold, caution for its steps, growth of the ranked number if overlaps remove too many.
_NEXT, _CAUTION, _MORE = 0.7, 0.9, 4
_SMALL_BLOCK = 1 << 16


def compile_steps(query: BestQuery | None = None, detail: None = None) -> tuple[CompileStep, ...]:  # noqa: ARG001
    """Return the steps to compile for the search."""
    return (*own_steps(), *walk.compile_steps(None, Detail.MEMBERS))


def own_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile for the search, except those of the walk."""
    return tuple(step for part in (greedy, weighing, completing, groups) for step in part.compile_steps())


def run(
    graph: BipartiteCSR,
    query: BestQuery,
    execution: Execution,
    detail: None,  # noqa: ARG001 - the seam's signature
    tasks: Iterable[Task] | None = None,
    *,
    kind: type[Search] | None = None,
) -> Iterator[Standing | EmptyBlock]:
    """Yield the best bicliques so far from time to time, and the complete standing at the end.

    Parameters
    ----------
    kind : type, optional
        The class of the search; its subclasses may list bicliques with another engine.

    Raises
    ------
    MemoryBudgetExceeded
        A part of the graph is too large to search.
    """
    if not ranges_of(tasks, roots_of(graph, query)):
        return
    n_ranked, n_told, is_over, ranked = query.k, 0, False, None
    while not is_over:
        search = (kind or Search)(graph, replace(query, k=n_ranked), execution, ranked)
        with closing(search.run()) as standings:
            for standing in standings:
                ranked, n_best = standing.ranked, min(query.k, len(standing.ranked))
                # The best score so far may exceed the bound on the remaining ones.
                bound = max(standing.bound, float(ranked.scores.max(initial=0)))
                shown = Standing(query, ranked, bound, n_new=max(0, n_best - n_told))
                n_told = max(n_told, n_best)
                yield shown
                if standing.is_complete:
                    shown = replace(shown, n_new=0)
                    best = yield from stoppable(partial(replace, shown), ranked.apart, query.overlap, query.k)
                    if is_over := len(ranked) < n_ranked or len(best) == query.k:
                        yield replace(shown, bound=standing.bound, is_complete=True, apart=best)
        n_ranked *= _MORE
    yield EmptyBlock(1.0)


class Search:
    """A search for the `k` best bicliques, ignoring overlaps; `listed` lists the bicliques of a part.

    Parameters
    ----------
    ranked : Ranked or None
        The result of a complete search for fewer bicliques.
    """

    listed: ClassVar[Callable[..., Any]] = staticmethod(walk.run)

    def __init__(self, graph: BipartiteCSR, query: BestQuery, execution: Execution, ranked: Ranked | None) -> None:
        self._graph, self._query = graph, query
        # Completion is slow, so blocks are small: the results of each bound the next.
        block_bytes = min(execution.block_bytes, _SMALL_BLOCK) if query.missing else execution.block_bytes
        self._execution = replace(execution, block_bytes=block_bytes)
        self._bounds = Bounds(query.by, graph.n_edges + 1, query.min_left, query.min_right, query.missing)
        self._scorer = Scorer(graph, query, self._bounds)
        self._ranked = self._scorer.nothing() if ranked is None else ranked

    def run(self) -> Generator[Standing]:
        """Search; yield the standing from time to time, and the complete one at the end."""
        query, ranked = self._query, self._ranked
        core = self._core = core_of(self._graph, BicliqueQuery(query.min_left, query.min_right - query.missing))
        threshold, above = -np.inf, np.inf
        if len(ranked):
            above = self._codes()[-1]
        elif query.by != "surprise":
            yield from self._begun(core)
        if query.by != "surprise":
            threshold = min(above, self._codes().max(initial=0))
        lowest = threshold / 100 if query.by == "weight" else self._bounds.codes(query.min_left, query.min_right)
        while True:
            # A pass finds all bicliques at or above its threshold. If there are too few, lower the threshold.
            yield from self._passed(core, threshold, above)
            ranked = self._ranked
            n_found = int(np.count_nonzero(self._codes() >= threshold))
            if n_found >= query.k or threshold <= 0:
                break
            above = threshold
            # Typically, at 0.7 of a threshold there are three times as many.
            n_steps = _CAUTION * np.log(query.k / max(1, n_found)) / np.log(3)
            threshold *= _NEXT ** max(0.5, n_steps)
            threshold = 0 if threshold <= lowest else threshold if query.by == "weight" else int(threshold)
        yield Standing(query, ranked, float(ranked.scores[-1]) if len(ranked) else 0.0, is_complete=True)

    def _codes(self) -> np.ndarray:
        return self._bounds.of_ranked(self._ranked.scores, self._ranked.n_edges)

    def _standing(self, bound: float) -> Standing:
        return Standing(self._query, self._ranked, float(self._bounds.scores(bound) if bound < np.inf else bound))

    def _begun(self, core: Core) -> Iterator[Standing]:
        """Rank the results of greedy searches from both sides."""
        least = self._query.min_left, self._query.min_right
        bound = max((band.bound for band in self._bounds.bands(core.graph, 0)), default=0.0)
        for are_right in (True, False):
            graph, sizes = (core.graph, least) if are_right else (core.graph.swapped(), least[::-1])
            sides = greedy.greedy_biclique(graph, self._bounds.factors, sizes)
            left, right = sides if are_right else sides[::-1]
            if left.size:
                n_left, n_right = (np.array([each.size], np.int32) for each in (left, right))
                block = BicliqueBlock(1, n_left, n_right, left, right)
                if self._query.missing or self._query.by == "weight":
                    yield from stoppable(partial(self._standing, bound), self._take, block, core, -np.inf)
                else:
                    # Not in a thread, so that even the shortest search has a result.
                    self._take(block, core, -np.inf, np.zeros(1, np.bool_))
            yield self._standing(bound)

    def _passed(self, core: Core, threshold: float, above: float) -> Generator[Standing]:
        """Search all bands with this threshold."""
        for band in self._bounds.bands(core.graph, threshold):
            reached, bound = self._reached(threshold), band.bound
            if bound < reached:
                break
            yield self._standing(min(above, bound))
            sizes = self._bounds.query(band, reached)
            part, least_edges = self._part(core, sizes), partial(self._bounds.least_edges, band)
            if self._query.by == "weight":
                weighing = part, self._weights_of(part), sizes, self._rounded(reached)
                telling = partial(self._standing, min(above, bound))
                part, weights, bound = yield from stoppable(telling, heavy_part, *weighing)
                least_edges = partial(self._edges_of_weight, np.cumsum(-np.sort(-weights)))
                sizes = replace(sizes, min_edges=max(sizes.min_edges, least_edges(reached)))

            def newest(least: Callable[[float], int] = least_edges) -> int:
                return least(self._reached(threshold))

            with closing(self.listed(part.graph, sizes, self._execution, Detail.MEMBERS, least_edges=newest)) as blocks:
                for block in blocks:
                    if len(block):
                        reached = self._reached(threshold)
                        telling = partial(self._standing, min(above, max(reached, bound)))
                        yield from stoppable(telling, self._take, block, part, reached)
                    yield self._standing(min(above, max(self._reached(threshold), bound)))

    def _take(self, block: Any, part: Core, reached: float, is_over: np.ndarray) -> None:
        """Rank the bicliques of a block that reach a code, unless `is_over` is set."""
        left, right = part.left_vertices[block.left_members], part.right_vertices[block.right_members]
        offsets = long_offsets(block.left_sizes), long_offsets(block.right_sizes)
        members = GroupMembers(offsets[0], left.astype(np.int32), offsets[1], right.astype(np.int32))
        found = self._scorer.ranked(members, reached, is_over)
        if not is_over[0]:
            self._ranked = self._ranked.joined(found, self._query.k)

    def _part(self, core: Core, sizes: BicliqueQuery) -> Core:
        """Return the part of the graph that contains all bicliques of these sizes."""
        alive = np.ones(core.graph.n_left, np.bool_), np.ones(core.graph.n_right, np.bool_)
        peel_to_core(core.graph, *alive, sizes.min_left, sizes.min_right)
        return core.only(*alive)

    def _weights_of(self, part: Core) -> np.ndarray:
        """Return the weights of a part's edges."""
        graph, weights = self._graph, self._query.weights
        assert weights is not None
        is_left, is_right = np.zeros(graph.n_left, np.bool_), np.zeros(graph.n_right, np.bool_)
        is_left[part.left_vertices] = is_right[part.right_vertices] = True
        return weights[np.repeat(is_left, graph.left_degrees) & is_right[graph.left_members]]

    def _edges_of_weight(self, heaviest: np.ndarray, reached: float) -> int:
        """Return the fewest edges with such a weight, given the cumulative weights of the heaviest edges."""
        return int(np.searchsorted(heaviest, self._rounded(reached))) + 1

    def _rounded(self, weight: float) -> float:
        """Return a lower limit for sums that may equal this weight before rounding."""
        return weight * (1 - self._scorer.slack)

    def _reached(self, threshold: float) -> float:
        """Return the code that a biclique needs to rank among the best."""
        ranked = self._ranked
        return max(threshold, self._codes()[-1]) if len(ranked) == self._query.k else threshold
