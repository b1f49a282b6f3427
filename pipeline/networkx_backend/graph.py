"""A graph of networkx as arrays, with the nodes that its ids stand for."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from mbe_stage.graphs.undirected import UndirectedCSR

__all__ = ["MbeGraph"]


@dataclass(frozen=True, eq=False)
class MbeGraph:
    """An undirected graph without attributes; loops are left out, and of several edges between two nodes one is kept.

    Attributes
    ----------
    csr : UndirectedCSR
    nodes : list
        Position is the id.
    ids : dict
        Of each node its id.
    """

    # What networkx asks of a graph that is of a backend.
    __networkx_backend__: ClassVar[str] = "mbe"

    csr: UndirectedCSR
    nodes: list[Hashable]
    ids: dict[Hashable, int]
    __networkx_cache__: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: nx.Graph) -> MbeGraph:
        """The same graph.

        Raises
        ------
        networkx.NetworkXNotImplemented
            Its edges have a direction.
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
        """A `networkx.Graph` of the same nodes and edges."""
        graph = nx.Graph()
        graph.add_nodes_from(self.nodes)
        sources, targets = self.csr.edges()
        graph.add_edges_from((self.nodes[u], self.nodes[v]) for u, v in zip(sources, targets, strict=True))
        return graph

    def is_directed(self) -> bool:
        """Never."""
        return False

    def is_multigraph(self) -> bool:
        """Never."""
        return False

    def __len__(self) -> int:
        return self.csr.n

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.nodes)
