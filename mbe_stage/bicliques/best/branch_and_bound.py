"""The driver of the search for the best: thresholds, bands, and the standing in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import float64

from mbe_stage.bicliques.best import bands, greedy, layout, ranking, search
from mbe_stage.bicliques.best.bands import Band
from mbe_stage.bicliques.best.query import BestQuery
from mbe_stage.bicliques.best.ranking import Ranked, Scorer, nothing
from mbe_stage.bicliques.best.scores import EDGES, KINDS, WEIGHT
from mbe_stage.bicliques.ordering import enumerates_left, rows_by_degree
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.reduction import Core, core_of
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OUTPUT_FULL, QUANTUM_OVER

# Steps of a quantum, some milliseconds; roots that the greedy search starts from; first sizes of arenas and outputs.
_QUANTUM, _N_GREEDY, _FIRST = 4_000_000, 24, 1 << 14
# The next threshold, spare room for ties in the output.
_NEXT, _CAUTION, _SPARE = 0.7, 0.65, 1024


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a search.

    Attributes
    ----------
    ranked : Ranked
        The best so far, at most `k`.
    bound : float
        No other biclique has a higher score; the lowest of `ranked` once the search is complete.
    is_complete : bool
    """

    ranked: Ranked
    bound: float
    is_complete: bool


def compile_steps(weighted: bool | None = None) -> tuple[CompileStep, ...]:
    """Compile the search by sizes, the one by weights, or both."""
    own = steps_of(_aligned) if weighted is not False else ()
    return (*search.compile_steps(weighted), *greedy.compile_steps(), *ranking.compile_steps(), *own)


class BestSearch:
    """A search for the `k` best by edges, vertices, balance or weight.

    Parameters
    ----------
    graph : BipartiteCSR
    query : BestQuery
        Its `overlap` is not used.
    hashes, weights
        As `Scorer` takes them.
    memory_budget : int
        Bytes that the arenas of the search may take.
    """

    def __init__(
        self,
        graph: BipartiteCSR,
        query: BestQuery,
        hashes: tuple[np.ndarray, np.ndarray],
        weights: np.ndarray | None,
        memory_budget: int,
    ) -> None:
        self._query, self._weights, self._budget = query, weights, memory_budget
        self._kind, self._graph = KINDS[query.by], graph
        self._scale = float(graph.n_edges + 1)
        # Sums of weights, and codes that 53 bits do not hold, are rounded.
        is_exact = self._kind != WEIGHT and (graph.n_left + graph.n_right) * self._scale < 1 << 53
        self._slack = 0.0 if is_exact else 4e-16 * (graph.n_edges + 1)
        self._scorer = Scorer(graph, query, hashes, weights)
        self._ranked = nothing(query)
        self._threshold = 0.0

    def run(self) -> Iterator[Standing]:
        """Search; yield the standing now and then, and at the end the complete one."""
        query = self._query
        core = core_of(self._graph, BicliqueQuery(query.min_left, query.min_right))
        threshold, above = self._first(core), np.inf
        lowest = threshold / 100 if self._kind == WEIGHT else self._floor()
        while True:
            # All bicliques at or above a threshold are found with it. Too few: the next one is lower.
            self._threshold = threshold
            for bound in self._passed(core):
                yield self._standing(min(above, bound))
            if (len(self._ranked) >= query.k and self._code(query.k - 1) >= threshold) or threshold == 0.0:
                break
            above = threshold
            # A graph has about three times as many at .7 of a threshold. A step too far costs more than two short ones.
            n_steps = _CAUTION * np.log(query.k / max(1, len(self._ranked))) / np.log(3)
            threshold *= _NEXT ** max(0.5, n_steps)
            threshold = threshold if threshold > lowest else 0.0
        yield Standing(self._ranked, float(self._ranked.scores[-1]) if len(self._ranked) else 0.0, True)

    def _standing(self, bound: float) -> Standing:
        score = bound if self._kind in (EDGES, WEIGHT) else bound // self._scale
        return Standing(self._ranked, float(score), False)

    def _floor(self) -> float:
        least = np.array([self._query.min_left]), np.array([self._query.min_right])
        return float(bands.codes(self._kind, self._scale, *least)[0])

    def _code(self, place: int) -> float:
        """The code of a ranked biclique."""
        score, block = float(self._ranked.scores[place]), self._ranked.block
        if self._kind in (EDGES, WEIGHT):
            return score
        return score * self._scale + float(block.left_sizes[place]) * float(block.right_sizes[place])

    def _first(self, core: Core) -> float:
        """Rank what a greedy search finds on both sides; return the code of the best."""
        query, graph = self._query, core.graph
        kind, least = (EDGES if self._kind == WEIGHT else self._kind), (query.min_left, query.min_right)
        for are_right in (True, False):
            part, sizes = (graph, least) if are_right else (graph.swapped(), least[::-1])
            ids = core.right_vertices if are_right else core.left_vertices
            roots = np.argsort(-part.right_degrees, kind="stable")[:_N_GREEDY]
            _, rows = greedy.greedy_rows(part, roots, kind, self._scale, sizes)
            if rows.size:
                found = np.array([rows.size], np.int32), ids[rows].astype(np.int32)
                self._rank(self._scorer.of_rows(*found, are_right=are_right))
        return self._code(0) if len(self._ranked) else 0.0

    def _rank(self, found: Ranked) -> None:
        ranked = self._ranked.followed_by(found).sorted()
        self._ranked = ranked.taken(np.arange(min(len(ranked), self._query.k)))

    def _passed(self, core: Core) -> Iterator[float]:
        """Search all bands for the threshold; yield the bound of what may still come now and then."""
        least = self._query.min_left, self._query.min_right
        waiting = list(bands.bands_of(core.graph, self._kind, self._scale, self._threshold, least))
        # The one that may hold most comes first.
        waiting.sort(key=lambda band: -band.bound)
        while waiting:
            band = waiting.pop(0)
            rest = max((each.bound for each in waiting), default=-1.0)
            yield max(self._threshold, band.bound, rest)
            if band.bound >= self._threshold:
                for bound in self._searched(core, band):
                    yield max(self._threshold, bound, rest)

    def _searched(self, core: Core, band: Band) -> Iterator[float]:
        """Search a band; yield the bound of what may still come in it, now and then."""
        min_right = max(band.min_right, bands.least_right(self._kind, self._scale, self._threshold, band.max_left))
        sizes = BicliqueQuery(band.min_left, min_right)
        part = core_of(core.graph, sizes)
        if self._kind != WEIGHT or sizes.min_left * sizes.min_right > 4:
            part = part.without_weak_edges(sizes, core.graph.n_edges)
        if part.graph.n_edges == 0:
            return
        reduced = part.reduced(merge_twins=False)
        are_right = not enumerates_left(reduced.graph)
        bounds = [self._kind, band.min_left, band.max_left, min_right, bands.UNBOUNDED]
        columns, rows = core.left_vertices, core.right_vertices
        if not are_right:
            reduced, bounds = reduced.swapped(), [bounds[0], *bounds[3:], *bounds[1:3]]
            columns, rows = rows, columns
        reduced = rows_by_degree(reduced)
        ids = columns[reduced.left_groups.members], rows[reduced.right_groups.members]
        yield from self._run(reduced.graph, np.array(bounds, np.int64), ids, are_right=are_right, bound=band.bound)

    def _run(
        self,
        part: BipartiteCSR,
        bounds: np.ndarray,
        ids: tuple[np.ndarray, np.ndarray],
        *,
        are_right: bool,
        bound: float,
    ) -> Iterator[float]:
        """Search a reduced graph.

        Parameters
        ----------
        ids : pair of integer arrays
            The user's ids of its columns and rows.
        """
        weights = None if self._weights is None else self._of_part(part, ids, are_right=are_right)
        graph = layout.Graph(part.right_offsets, part.right_members, part.left_offsets, part.left_members)
        state = self._state(part, bounds)
        output = layout.Output(np.empty(self._query.k + _SPARE), *(np.empty(_FIRST, np.int32) for _ in range(2)))
        output = output._replace(sizes=np.empty(output.codes.size, np.int32))
        status = QUANTUM_OVER
        while status != DONE:
            status = search.run_quantum(graph, weights, state, output, _QUANTUM)
            self._threshold = max(self._threshold, float(state.threshold[0]))
            if status != QUANTUM_OVER or state.control[layout.N_OUT] > 0:
                self._collect(state, output, ids[1], are_right=are_right)
            if status == OUTPUT_FULL and state.control[layout.NEEDED] > output.members.size:
                output = output._replace(members=np.empty(2 * int(state.control[layout.NEEDED]), np.int32))
            elif status not in (DONE, QUANTUM_OVER, OUTPUT_FULL):
                state = self._grown(state, status)
            yield bound

    def _state(self, part: BipartiteCSR, bounds: np.ndarray) -> layout.State:
        larger = max(part.n_left, part.n_right) + 2
        state = layout.State(
            frames=np.zeros((part.n_right + 2, layout.FRAME_FIELDS), np.int64),
            words=np.empty(_FIRST, np.uint64),
            ints=np.empty(max(_FIRST, 4 * larger), np.int32),
            floats=np.empty(_FIRST),
            path=np.empty(part.n_right, np.int32),
            counts=np.zeros(larger, np.int32),
            histogram=np.zeros(larger, np.int32),
            places=np.zeros(larger, np.int32),
            bounds=bounds,
            control=np.zeros(layout.CONTROL_FIELDS, np.int64),
            # Those found before do not count: some may be found again.
            best=np.zeros(self._query.k),
            threshold=np.array([self._threshold, self._slack, self._scale]),
        )
        state.control[layout.DEPTH] = -1
        return state

    def _collect(self, state: layout.State, output: layout.Output, rows: np.ndarray, *, are_right: bool) -> None:
        """Rank the bicliques in the output, and empty it."""
        control = state.control
        n, used = int(control[layout.N_OUT]), int(control[layout.MEMBERS_USED])
        control[layout.N_OUT] = control[layout.MEMBERS_USED] = 0
        sizes, members = output.sizes[:n], output.members[:used]
        is_kept = output.codes[:n] >= state.threshold[0] * (1 - self._slack)
        if not is_kept.all():
            members = members[np.repeat(is_kept, sizes)]
            sizes = sizes[is_kept]
        if sizes.size:
            self._rank(self._scorer.of_rows(sizes.copy(), rows[members].astype(np.int32), are_right=are_right))
            if len(self._ranked) == self._query.k:
                state.threshold[0] = max(state.threshold[0], self._code(self._query.k - 1) * (1 - self._slack))

    def _grown(self, state: layout.State, status: int) -> layout.State:
        """Return the state with twice the needed room in the arena that is short."""
        name = {layout.WORDS_SHORT: "words", layout.INTS_SHORT: "ints", layout.FLOATS_SHORT: "floats"}[status]
        arena = getattr(state, name)
        needed = 2 * int(state.control[layout.NEEDED]) * arena.itemsize
        if needed > self._budget:
            raise MemoryBudgetExceeded(
                f"the search for the best bicliques needs {needed:,} bytes for a part of the graph, above the memory "
                f"budget of {self._budget:,}: raise it, or the minimum sizes"
            )
        larger = np.empty(2 * int(state.control[layout.NEEDED]), arena.dtype)
        larger[: arena.size] = arena
        return state._replace(**{name: larger})

    def _of_part(self, part: BipartiteCSR, ids: tuple[np.ndarray, np.ndarray], *, are_right: bool) -> np.ndarray:
        """The weights of a part's entries, in the order of its right members."""
        graph, weights = self._graph, self._weights
        assert weights is not None
        if are_right:
            weights = weights[np.argsort(graph.left_members, kind="stable")]
            graph = graph.swapped()
        columns, rows = (each.astype(np.int64) for each in ids)
        return _aligned(
            part.right_offsets, part.right_members, columns, rows, graph.left_offsets, graph.left_members, weights
        )


@compiled(LONGS, INTS, LONGS, LONGS, LONGS, INTS, float64[::1])
def _aligned(offsets, members, columns, rows, all_offsets, all_members, weights):
    aligned = np.empty(members.size)
    for row in range(offsets.size - 1):
        at = all_offsets[rows[row]]
        for k in range(offsets[row], offsets[row + 1]):
            while all_members[at] != columns[members[k]]:
                at += 1
            aligned[k] = weights[at]
    return aligned
