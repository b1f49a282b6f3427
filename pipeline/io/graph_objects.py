"""The edges of a graph of networkx or igraph; sides come from an attribute of the nodes or from the only 2-colouring.

An undirected graph needs no sides: it gives every edge, and a loop for each isolated node.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import as_array, refuse_repeated, shortened


class _Graph(NamedTuple):
    """A graph in Python objects.

    Attributes
    ----------
    source : str
        Name of the graph in messages.
    side_name : str
        The node attribute that holds the side.
    nodes : list
    sides : dict
        Side of each node that has the attribute.
    edges : list of (node, node, dict)
        Ends and attributes of each edge.
    """

    source: str
    side_name: str
    nodes: list[Any]
    sides: dict[Any, Any]
    edges: list[tuple[Any, Any, dict[str, Any]]]

    @property
    def remedy(self) -> str:
        return f"give every node the attribute {self.side_name}, 0 for left and 1 for right"

    @property
    def joined(self) -> set[Any]:
        return {node for u, v, _ in self.edges for node in (u, v)}


def read_graph(graph: Any, config: InputConfig) -> tuple[pa.Table, int]:
    """Return a table of `left`, `right` and the configured edge attributes, and the number of isolated nodes.

    Isolated nodes are the last rows, each as a loop.
    """
    given = _of_igraph(graph) if hasattr(graph, "vs") else _of_networkx(graph)
    if config.is_undirected:
        return _one_set(given, config)
    sides = _sides(given)
    within = next(((u, v) for u, v, _ in given.edges if sides[u] == sides[v]), None)
    if within is not None:
        raise InputError.at(
            given.source,
            found=f"edge {shortened(within)} joins two nodes of side {int(sides[within[0]])}",
            expected="edges between side 0 and side 1",
            remedy=f"correct the attribute {given.side_name}, or remove the edge",
        )
    left = _nodes([v if sides[u] else u for u, v, _ in given.edges], "left", given.source)
    right = _nodes([u if sides[u] else v for u, v, _ in given.edges], "right", given.source)
    attributes = _attributes([data for _, _, data in given.edges], config, given.source)
    return pa.table({"left": left, "right": right} | attributes), 0


def _of_networkx(graph: Any) -> _Graph:
    sides = {node: data["bipartite"] for node, data in graph.nodes(data=True) if "bipartite" in data}
    return _Graph("memory:networkx", "bipartite", list(graph), sides, list(graph.edges(data=True)))


def _of_igraph(graph: Any) -> _Graph:
    names = graph.vs.attributes()
    nodes = graph.vs["name"] if "name" in names else list(range(graph.vcount()))
    remedy = "rename them, or delete graph.vs['name'] to use the numbers of the vertices"
    refuse_repeated(nodes, "vertices", "memory:igraph", remedy)
    types = graph.vs["type"] if "type" in names else []
    sides = {node: side for node, side in zip(nodes, types, strict=bool(types)) if side is not None}
    edges = [(nodes[edge.source], nodes[edge.target], edge.attributes()) for edge in graph.es]
    return _Graph("memory:igraph", "type", nodes, sides, edges)


def double_cover(n: int, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the components of the double cover of a graph, (2, n) int.

    Each vertex has two copies, and edges lead from a copy of one end to the other copy of the other end.

    A component without odd cycles splits into two, and the copies that stay together give its sides. In one with odd
    cycles, both copies of a vertex are together.
    """
    ends = np.concatenate([sources, targets]), np.concatenate([targets, sources]) + n
    cover = coo_array((np.ones(ends[0].size, np.bool_), ends), shape=(2 * n, 2 * n))
    return connected_components(cover, directed=False)[1].reshape(2, n)


def _one_set(graph: _Graph, config: InputConfig) -> tuple[pa.Table, int]:
    """Read a graph as `read_graph` does, with all nodes in one set."""
    joined = graph.joined
    alone = [node for node in graph.nodes if node not in joined]
    # Numbered together, because 1 and "1" on two sides would be one key.
    both = [*(u for u, _, _ in graph.edges), *alone, *(v for _, v, _ in graph.edges), *alone]
    ends = _nodes(both, "nodes", graph.source, "of the graph")
    n = len(ends) // 2
    attributes = [*(data for _, _, data in graph.edges), *({} for _ in alone)]
    named = _attributes(attributes, config, graph.source, has_edges=bool(graph.edges))
    table = pa.table({"left": ends.slice(0, n), "right": ends.slice(n)} | named)
    return table, len(alone)


def _attributes(
    attributes: list[dict[str, Any]], config: InputConfig, source: str, *, has_edges: bool = True
) -> dict[str, pa.Array]:
    """Return the configured edge attributes as columns. A graph without edges lacks none."""
    names = {
        name for name in (*config.right_columns, config.weight, config.timestamp, config.by) if isinstance(name, str)
    }
    return {
        name: _values([data.get(name) for data in attributes], name, source)
        for name in sorted(names - {"left", "right"})
        if any(name in data for data in attributes) or not has_edges
    }


def _sides(graph: _Graph) -> dict[Any, Any]:
    given = graph.sides
    # Isolated nodes need no side.
    unmarked = [node for u, v, _ in graph.edges for node in (u, v) if given and node not in given]
    wrong = next((node for node, side in given.items() if side not in (0, 1)), None)
    if wrong is not None or unmarked:
        node = unmarked[0] if wrong is None else wrong
        found = f"no attribute {graph.side_name}" if wrong is None else f"{graph.side_name}={given[wrong]!r}"
        raise InputError.at(
            graph.source, found=f"{found} on node {shortened(node)}", expected="0 or 1", remedy=graph.remedy
        )
    return given or _colouring(graph)


def _colouring(graph: _Graph) -> dict[Any, int]:
    joined = graph.joined
    # The side of the first node is left.
    ids = {node: i for i, node in enumerate(node for node in graph.nodes if node in joined)}
    if not ids:
        return {}
    ends = np.array([(ids[u], ids[v]) for u, v, _ in graph.edges]).T
    one, other = double_cover(len(ids), *ends)
    if not (np.isin(one, [one[0], other[0]])).all():
        found, expected = (
            "a graph of several components, where each could have its sides swapped",
            "the sides of the nodes",
        )
        remedy = graph.remedy
    elif one[0] == other[0]:
        found, expected, remedy = "a graph with an odd cycle", "a bipartite graph", "remove edges within a side"
    else:
        return dict(zip(ids, (one != one[0]).tolist(), strict=True))
    raise InputError.at(graph.source, found=found, expected=expected, remedy=remedy)


def _nodes(nodes: list[Any], column: str, source: str, of: str = "on a side") -> pa.Array:
    kinds = sorted({type(node).__name__ for node in nodes})
    integers = all(isinstance(node, Integral) and not isinstance(node, bool) for node in nodes)
    if not (integers or all(isinstance(node, str) for node in nodes)):
        raise InputError.at(
            source,
            column=column,
            found=f"nodes of type {', '.join(kinds)}",
            expected=f"integers or strings, one of the two {of}",
            remedy="convert them to text: networkx.relabel_nodes(graph, str), or graph.vs['name'] of igraph",
        )
    return _values(nodes, column, source)


def _values(values: list[Any], column: str, source: str) -> pa.Array:
    found, expected = "values that do not fit a column", "integers below 2**63, other numbers, or text"
    return as_array(values, source, column, found=found, expected=expected, remedy="convert them")
