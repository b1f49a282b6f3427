"""`shared_neighbour_pairs`: the pairs of left vertices that share neighbours, in memory."""

from __future__ import annotations

import numpy as np

from mbe_stage import stream
from mbe_stage.engines import AUTO
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.given import as_bipartite
from mbe_stage.options import Execution
from mbe_stage.shared_neighbours.problem import PROBLEM, SharedQuery
from mbe_stage.shared_neighbours.results import MEASURES, Measure, PairSink, SharedNeighbours


def shared_neighbour_pairs(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray],
    *,
    min_shared: int = 1,
    top: int | None = None,
    by: Measure = "p_value",
    engine: str = AUTO,
    threads: int = 0,
) -> SharedNeighbours:
    """Return the pairs of left vertices that share neighbours, with their similarity.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids. A pair is ``(left, right)``, the ends of each edge. Use ``graph.swapped()`` for the right side.
    min_shared : int
        Fewest shared neighbours of a pair.
    top : int, optional
        Return only this many best pairs. Memory then does not grow with the number of all pairs.
    by : str
        The measure for `top`: ``p_value`` (smallest first), ``jaccard``, ``cosine`` or ``shared``. Ties go to the
        smaller first and second id.
    engine : str
        ``auto``, ``cuda``, ``cpu`` or ``reference``.
    threads : int
        0 means every core.

    Returns
    -------
    SharedNeighbours
        In rank order with `top`, else in the order of the ids.

    Raises
    ------
    InvalidArgument
        `min_shared` or `top` is below 1, or a measure or engine is unknown.
    MemoryBudgetExceeded
        Working memory exceeds 1 GiB.

    Examples
    --------
    >>> found = shared_neighbour_pairs(([0, 0, 1, 1, 2], [0, 1, 0, 1, 1]), engine="reference")
    >>> found.first.tolist(), found.second.tolist(), found.shared.tolist()
    ([0, 0, 1], [1, 2, 2], [2, 1, 1])

    References
    ----------
    Newman, "Scientific collaboration networks II", Phys. Rev. E 64, 2001 (weighted projections); Tumminello et al.,
    "Statistically validated networks in bipartite complex systems", PLoS ONE 6(3), 2011 (hypergeometric p-values).
    """
    if top is not None and top < 1:
        raise InvalidArgument(f"top is {top}: expected 1 pair or more, or None for all")
    if by not in MEASURES:
        raise InvalidArgument(f"by is {by!r}: expected one of {', '.join(MEASURES)}")
    given = as_bipartite(graph)
    sink = PairSink(given, top, by)
    stream.stream(PROBLEM, sink, given, SharedQuery(min_shared), Execution(threads=threads), engine)
    return sink.table()
