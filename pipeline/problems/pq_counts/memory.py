"""The memory of local counts, known before counting."""

from __future__ import annotations

from math import comb

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.problems.base import TableMemory
from mbe_stage.pipeline.problems.pq_counts.query import detail_of
from mbe_stage.pipeline.wording import bytes_text, plural
from mbe_stage.pq_counts.digits import n_digits
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Detail

_DIGIT_BYTES = 8
# The engine's sums, and a copy that was already handed over.
_COPIES = 2


def table_memory(config: Config, query: PqQuery, graph: BipartiteCSR) -> TableMemory:
    """Return the reserved bytes, and the refusal if they do not fit."""
    detail, degrees = detail_of(config.problem_section), (graph.left_degrees, graph.right_degrees)
    if detail < Detail.VERTICES:
        return TableMemory()
    n_bytes = local_bytes(query, detail, *degrees)
    n_rows = len(query.cells) * (graph.n_left + graph.n_right + (graph.n_edges if detail >= Detail.EDGES else 0))
    lines = [("local", f"{plural(n_rows, 'row')}, for which {bytes_text(n_bytes)} of memory are set aside")]
    lack = local_memory_error(query, detail, degrees, config.execution.memory_bytes)
    return TableMemory(n_bytes, lines if lack is None else [*lines, ("refused", f"a run of this ends here: {lack}")])


def most_of_cell(p: int, q: int, left_degrees: np.ndarray, right_degrees: np.ndarray) -> int:
    """Return an upper bound on the number of (p, q)-bicliques.

    Each left vertex is the first of at most C(degree, q) * C(largest right degree - 1, p - 1) bicliques: it chooses q
    neighbours, and the other p - 1 left vertices are neighbours of one of these. The same holds with sides swapped; the
    smaller bound counts.
    """
    sides = ((q, left_degrees, p, right_degrees), (p, right_degrees, q, left_degrees))
    return min(
        sum(int(n) * comb(int(degree), size) for degree, n in zip(*np.unique(degrees, return_counts=True), strict=True))
        * comb(max(0, int(others.max(initial=0)) - 1), other - 1)
        for size, degrees, other, others in sides
    )


def local_bytes(query: PqQuery, detail: Detail, left_degrees: np.ndarray, right_degrees: np.ndarray) -> int:
    """Return the bytes of the digits of all local counts while they are counted; 0 if none are requested."""
    if detail < Detail.VERTICES:
        return 0
    n_rows = left_degrees.size + right_degrees.size
    if detail >= Detail.EDGES:
        n_rows += int(left_degrees.sum())
    digits = sum(n_digits(most_of_cell(p, q, left_degrees, right_degrees)) for p, q in query.cells)
    return _COPIES * _DIGIT_BYTES * n_rows * digits


def check_local_memory(query: PqQuery, detail: Detail, degrees: tuple[np.ndarray, ...], budget: int) -> None:
    """Refuse local counts that do not fit.

    Raises
    ------
    MemoryBudgetExceeded
        The message names a sufficient budget, and settings that need less.
    """
    refused = local_memory_error(query, detail, degrees, budget)
    if refused is not None:
        raise refused


def local_memory_error(
    query: PqQuery, detail: Detail, degrees: tuple[np.ndarray, ...], budget: int
) -> MemoryBudgetExceeded | None:
    """Return the error of `check_local_memory`, or None if local counts fit."""
    needed = local_bytes(query, detail, *degrees)
    if needed <= budget:
        return None
    return MemoryBudgetExceeded(
        f"local counts of {'edges' if detail >= Detail.EDGES else 'vertices'} need {needed:,} bytes "
        f"({bytes_text(needed)}) of memory, and {setting('execution.memory_budget')} is {budget:,}: "
        f"{_remedy(len(query.cells), detail)}",
        needed_bytes=needed,
    )


def _remedy(n_cells: int, detail: Detail) -> str:
    ways = ["raise it"]
    ways += [f"ask for one count instead of {n_cells:,}"] if n_cells > 1 else []
    ways += [f"set {setting('pq_counts.local')} to vertices"] if detail >= Detail.EDGES else []
    *others, last = ways
    return f"{', '.join(others)}, or {last}" if others else last
