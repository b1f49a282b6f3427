"""The edges of a networkx graph, with sides from the node attribute `bipartite` or from its unique 2-colouring.

An undirected graph needs no sides: it gives every edge, and a loop for each isolated node.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import networkx as nx
import pyarrow as pa

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import as_array, shortened

_SOURCE = "memory:networkx"
_REMEDY = "give every node the attribute bipartite, 0 for left and 1 for right"


def read_graph(graph: Any, config: InputConfig) -> tuple[pa.Table, int]:
    """Return a table of `left`, `right` and the configured edge attributes, and the number of isolated nodes.

    Isolated nodes are the last rows, each as a loop.
    """
    if config.is_undirected:
        return _one_set(graph, config)
    sides = _sides(graph)
    left, right, attributes = [], [], []
    for u, v, data in graph.edges(data=True):
        if sides[u] == sides[v]:
            raise InputError.at(
                _SOURCE,
                found=f"edge {shortened((u, v))} joins two nodes of side {sides[u]}",
                expected="edges between side 0 and side 1",
                remedy="correct the attribute bipartite, or remove the edge",
            )
        left.append(u if sides[u] == 0 else v)
        right.append(v if sides[u] == 0 else u)
        attributes.append(data)
    columns = {"left": _nodes(left, "left"), "right": _nodes(right, "right")}
    return pa.table(columns | _attributes(attributes, config)), 0


def _one_set(graph: Any, config: InputConfig) -> tuple[pa.Table, int]:
    """Read a graph as `read_graph` does, with all nodes in one set."""
    edges = list(graph.edges(data=True))
    alone = [node for node in graph if not graph.degree(node)]
    # Numbered together, because 1 and "1" on two sides would be one key.
    ends = _nodes([*(u for u, _, _ in edges), *alone, *(v for _, v, _ in edges), *alone], "nodes", "of the graph")
    n = len(ends) // 2
    attributes = [*(data for _, _, data in edges), *({} for _ in alone)]
    named = _attributes(attributes, config, has_edges=bool(edges))
    table = pa.table({"left": ends.slice(0, n), "right": ends.slice(n)} | named)
    return table, len(alone)


def _attributes(
    attributes: list[dict[str, Any]], config: InputConfig, *, has_edges: bool = True
) -> dict[str, pa.Array]:
    """Return the configured edge attributes as columns. A graph without edges lacks none."""
    names = {
        name for name in (*config.right_columns, config.weight, config.timestamp, config.by) if isinstance(name, str)
    }
    return {
        name: _values([data.get(name) for data in attributes], name)
        for name in sorted(names - {"left", "right"})
        if any(name in data for data in attributes) or not has_edges
    }


def _sides(graph: Any) -> dict[Any, int]:
    given = {node: data["bipartite"] for node, data in graph.nodes(data=True) if "bipartite" in data}
    # Isolated nodes need no side.
    unmarked = [node for node in graph if node not in given and graph.degree(node)]
    wrong = next((node for node, side in given.items() if side not in (0, 1)), None)
    if wrong is not None or (given and unmarked):
        found = "no attribute bipartite" if wrong is None else f"bipartite={given[wrong]!r}"
        node = unmarked[0] if wrong is None else wrong
        raise InputError.at(_SOURCE, found=f"{found} on node {shortened(node)}", expected="0 or 1", remedy=_REMEDY)
    return given or _colouring(graph)


def _colouring(graph: Any) -> dict[Any, int]:
    used = nx.Graph(graph.to_undirected(as_view=True).edges())
    if used.number_of_nodes() == 0:
        return {}
    if not nx.is_connected(used):
        raise InputError.at(
            _SOURCE,
            found="a graph of several components, where each could have its sides swapped",
            expected="the sides of the nodes",
            remedy=_REMEDY,
        )
    try:
        colours = nx.bipartite.color(used)
    except nx.NetworkXError:
        raise InputError.at(
            _SOURCE,
            found="a graph with an odd cycle",
            expected="a bipartite graph",
            remedy="remove edges within a side",
        ) from None
    first = colours[next(node for node in graph if node in colours)]
    return {node: int(colour != first) for node, colour in colours.items()}


def _nodes(nodes: list[Any], column: str, of: str = "on a side") -> pa.Array:
    kinds = sorted({type(node).__name__ for node in nodes})
    integers = all(isinstance(node, Integral) and not isinstance(node, bool) for node in nodes)
    if not (integers or all(isinstance(node, str) for node in nodes)):
        raise InputError.at(
            _SOURCE,
            column=column,
            found=f"nodes of type {', '.join(kinds)}",
            expected=f"integers or strings, one of the two {of}",
            remedy="relabel them with networkx.relabel_nodes(graph, str)",
        )
    return _values(nodes, column)


def _values(values: list[Any], column: str) -> pa.Array:
    found, expected = "values that do not fit a column", "integers below 2**63, other numbers, or text"
    return as_array(values, _SOURCE, column, found=found, expected=expected, remedy="convert them")
