"""The functions that networkx calls: conversions, and algorithms by networkx's names."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from mbe_stage.cliques import enumerate as cliques
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.pipeline.io.graph_objects import double_cover
from mbe_stage.pq_counts.count import pq_local_counts

__all__ = [
    "MbeGraph",
    "butterflies",
    "can_run",
    "convert_from_nx",
    "convert_to_nx",
    "find_cliques",
    "find_cliques_recursive",
    "should_run",
]

# With fewer edges, networkx finishes before a graph is converted and the engine has started.
_WORTH_CONVERTING = 2000


@dataclass(frozen=True, eq=False)
class MbeGraph:
    """An undirected simple graph without attributes: loops are dropped, parallel edges merged.

    Attributes
    ----------
    nodes : list
        Position is the id.
    ids : dict
        The id of each node.
    """

    # networkx requires this of a backend's graph.
    __networkx_backend__: ClassVar[str] = "mbe"

    csr: UndirectedCSR
    nodes: list[Hashable]
    ids: dict[Hashable, int]
    __networkx_cache__: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: nx.Graph) -> MbeGraph:
        """Convert a graph.

        Raises
        ------
        networkx.NetworkXNotImplemented
            The graph is directed.
        """
        if graph.is_directed():
            raise nx.NetworkXNotImplemented(
                "the backend 'mbe' has undirected graphs only; expected Graph or MultiGraph; take G.to_undirected()"
            )
        nodes, adjacency = list(graph), graph.adj
        ids = {node: i for i, node in enumerate(nodes)}
        degrees = np.fromiter((len(adjacency[node]) for node in nodes), np.int64, len(nodes))
        ends = chain.from_iterable(adjacency[node] for node in nodes)
        targets = np.fromiter((ids[node] for node in ends), np.int32, int(degrees.sum()))
        sources = np.repeat(np.arange(len(nodes), dtype=np.int32), degrees)
        return cls(UndirectedCSR.from_edges(sources, targets, len(nodes)), nodes, ids)

    def to_networkx(self) -> nx.Graph:
        """Return a `networkx.Graph` with the same nodes and edges."""
        graph = nx.Graph()
        graph.add_nodes_from(self.nodes)
        sources, targets = self.csr.edges()
        graph.add_edges_from((self.nodes[u], self.nodes[v]) for u, v in zip(sources, targets, strict=True))
        return graph

    def is_directed(self) -> bool:
        """Return False."""
        return False

    def is_multigraph(self) -> bool:
        """Return False."""
        return False

    def __len__(self) -> int:
        return self.csr.n

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.nodes)


def convert_from_nx(graph: Any, *_: Any, **__: Any) -> MbeGraph:
    """Convert a networkx graph; requests for attributes are ignored, because this graph has none."""
    return graph if isinstance(graph, MbeGraph) else MbeGraph.of(graph)


def convert_to_nx(found: Any, *, name: str | None = None) -> Any:  # noqa: ARG001 - networkx's signature
    """Convert a result to networkx's form."""
    return found.to_networkx() if isinstance(found, MbeGraph) else found


def can_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:  # noqa: ARG001 - networkx's signature
    """Return True if the backend supports the call, else the reason."""
    graph = _to_be_converted(args, kwargs)
    if graph is not None and graph.is_directed():
        return "the graph is directed"
    return True


def should_run(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool | str:  # noqa: ARG001 - networkx's signature
    """Return True if converting the graph pays off, else the reason."""
    graph = _to_be_converted(args, kwargs)
    if graph is not None and graph.number_of_edges() < _WORTH_CONVERTING:
        return f"the graph has fewer than {_WORTH_CONVERTING:,} edges: networkx is done before it is converted"
    return True


def find_cliques(
    G: MbeGraph,
    nodes: Sequence[Hashable] | None = None,
    *,
    engine: str = "auto",
) -> Generator[list[Hashable]]:
    """Yield the results of `networkx.find_cliques` in another order; closing the generator ends the search.

    Parameters
    ----------
    nodes : list, optional
        Vertices that every clique must contain.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.

    Raises
    ------
    ValueError
        `nodes` is not a clique of the graph; raised with the first clique, as in networkx.
    """
    wanted = [] if nodes is None else list(nodes)
    ids = [G.ids.get(node, -1) for node in wanted]
    if len(G) == 0:
        return
    if not _is_clique(G, ids):
        raise ValueError(f"The given `nodes` {nodes} do not form a clique")
    with closing(cliques.find_cliques(G.csr, containing=tuple(ids), engine=engine)) as found:
        members = set(ids)
        for clique in found:
            # As in networkx, the requested nodes come first.
            yield [*wanted, *(G.nodes[i] for i in clique if i not in members)]


find_cliques_recursive = find_cliques
"""networkx's recursive variant has the same result."""


def butterflies(
    G: MbeGraph,
    nodes: Iterable[Hashable] | None = None,
    *,
    engine: str = "auto",
) -> dict[Hashable, int]:
    """Return the number of 2 x 2 bicliques of each node, as `networkx.bipartite.butterflies`.

    Parameters
    ----------
    nodes : iterable, optional
        Report only these; nodes outside the graph are ignored.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.

    Raises
    ------
    networkx.NetworkXError
        The graph is not bipartite.
    """
    is_right = _sides(G)
    place = np.where(is_right, np.cumsum(is_right), np.cumsum(~is_right)) - 1
    sources, targets = G.csr.edges()
    left = np.where(is_right[sources], targets, sources)
    right = np.where(is_right[sources], sources, targets)
    n_right = int(np.count_nonzero(is_right))
    sides = BipartiteCSR.from_edges(place[left], place[right], len(G) - n_right, n_right)
    found = pq_local_counts(sides, 2, 2, engine=engine)
    numbers = found.left.tolist(), found.right.tolist()
    counts = {node: numbers[int(is_right[i])][place[i]] for i, node in enumerate(G.nodes)}
    return counts if nodes is None else {node: counts[node] for node in nodes if node in counts}


def _to_be_converted(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the graph of a call if it is networkx's; it is given by position or as ``G``."""
    graph = args[0] if args else kwargs.get("G")
    return None if isinstance(graph, MbeGraph) else graph


def _sides(graph: MbeGraph) -> np.ndarray:
    """Return the vertices on the right: (n,) bool. The first vertex of each component is on the left."""
    one, other = double_cover(len(graph), *graph.csr.edges())
    if (one == other).any():
        raise nx.NetworkXError("Graph is not bipartite.")
    return one > other


def _is_clique(graph: MbeGraph, ids: Sequence[int]) -> bool:
    if -1 in ids or any(u == v for u, v in pairwise(sorted(ids))):
        return False
    return all(np.isin([v for v in ids if v != u], graph.csr.neighbours(u)).all() for u in ids)
