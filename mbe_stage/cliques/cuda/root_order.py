"""The roots of a search in the order of their tasks, by ascending degree; computed on demand.

Needs neither numba-cuda nor a GPU, unless the graph is on one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.cliques.reduction import CommonPart
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.tasks import OpenWork, Roots, Task, positions, ranges_of


class RootOrder:
    """The roots of a search for cliques in a part of a graph.

    Parameters
    ----------
    graph : UndirectedCSR
        The user's graph; the arrays may be CuPy's.
    query : CliqueQuery
    part : CommonPart
        The part of the graph for the query.
    """

    def __init__(self, graph: UndirectedCSR, query: CliqueQuery, part: CommonPart) -> None:
        self._graph, self._query, self._part = graph, query, part

    @cached_property
    def order(self) -> np.ndarray:
        """The part's vertex of each root, (n,) int64."""
        degrees = self._part.graph.degrees
        if not self._part.graph.is_on_host:
            import cupy as cp

            degrees = cp.asnumpy(degrees)
        return np.argsort(degrees, kind="stable")

    @cached_property
    def ranks(self) -> np.ndarray:
        """The root of each vertex of the part, (n,) int64."""
        ranks = np.empty(self.order.size, np.int64)
        ranks[self.order] = np.arange(ranks.size)
        return ranks

    @cached_property
    def identity(self) -> Roots:
        """The roots for tasks, identified by the user's vertices.

        If the part is empty, a required vertex is the root.
        """
        part = self._part
        vertices = self.order
        if part.graph.n == 0:
            vertices = np.array(part.held[:1] if part.is_possible else (), np.int64)
        elif part.held:
            vertices = part.vertices[vertices]
        return Roots.of("cliques", vertices, *self._query.identity, self._graph.n, self._graph.edges_checksum)

    def of_tasks(self, tasks: Iterable[Task | OpenWork]) -> np.ndarray:
        """Return the roots of the given tasks, (n,) int64.

        Raises
        ------
        InvalidArgument
            Tasks belong to another graph or query, or overlap.
        """
        return positions(ranges_of(tasks, self.identity))


def task_costs(n_later: np.ndarray) -> np.ndarray:
    """Return the expected work below vertices from their numbers of later neighbours; float64, in no unit."""
    return 1.0 + np.asarray(n_later, np.float64) ** 2
