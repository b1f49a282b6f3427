"""`enumerate_many`: enumerate the maximal bicliques of many small graphs in one search.

The search runs on the disjoint union of the graphs: its maximal bicliques are exactly those of the graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mbe_stage.bicliques.enumerate import enumerate_into
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueTable, TableSink
from mbe_stage.engines import AUTO
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.ids import MAX_VERTICES
from mbe_stage.options import Execution

# If the largest id exceeds this multiple of the number of edges, the vertices get new dense ids.
_IDS_PER_EDGE = 8
# Largest integer allowed as a graph's name, and largest as a float.
_LARGEST, _EXACT = 2**63 - 1, 2**53


@dataclass(frozen=True, slots=True, eq=False)
class ManyBicliques:
    """The maximal bicliques of many graphs.

    Attributes
    ----------
    names : (n_graphs,)
        The distinct names of graphs, ascending.
    graphs : (n_bicliques,) int32
        The graph of each biclique, as a position in `names`.
    table : BicliqueTable
        The bicliques, with the vertex ids of their own graphs.
    errors : mapping
        The reason why a graph was not searched, by its name. All other graphs are complete.
    """

    names: np.ndarray
    graphs: np.ndarray
    table: BicliqueTable
    errors: Mapping[Any, str]


def enumerate_many(
    graphs: ArrayLike,
    left_ids: ArrayLike,
    right_ids: ArrayLike,
    *,
    min_left: int = 1,
    min_right: int = 1,
    max_left: int | None = None,
    max_right: int | None = None,
    min_edges: int = 1,
    engine: str = AUTO,
    threads: int = 0,
) -> ManyBicliques:
    """Enumerate the maximal bicliques of each graph in a table of edges, in one search.

    Parameters
    ----------
    graphs : (n_edges,) integers or text
        The name of each edge's graph, in any order.
    left_ids, right_ids : (n_edges,) integers
        Ids from 0 to 2^31 - 2. Each graph has its own ids: vertex 0 of one graph is not vertex 0 of another.
    min_left, min_right, max_left, max_right, min_edges
        As in `BicliqueQuery`.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 means every core.

    Returns
    -------
    ManyBicliques
        A graph with a missing, negative or too large id is not searched; it is in `errors`.

    Raises
    ------
    InvalidArgument
        Lengths differ, ids are not numbers, or a row has no valid name.

    Examples
    --------
    >>> many = enumerate_many(["b", "a", "a"], [0, 0, 1], [5, 0, 0])
    >>> many.names[many.graphs].tolist(), sorted(many.table.as_set())
    (['a', 'b'], [((0,), (5,)), ((0, 1), (0,))])
    """
    query = BicliqueQuery(min_left, min_right, max_left, max_right, min_edges)
    names, numbers = _numbered(_flat(graphs, "graphs"))
    sides = {"left_ids": _as_numbers(left_ids, "left_ids"), "right_ids": _as_numbers(right_ids, "right_ids")}
    if any(ids.shape != numbers.shape for ids in sides.values()):
        sizes = ", ".join(f"{name} has {ids.size} entries" for name, ids in sides.items())
        raise InvalidArgument(f"graphs has {numbers.size} entries, {sizes}: give one of each per edge")
    errors = {names[number].item(): why for name, ids in sides.items() for number, why in _unusable(name, ids, numbers)}
    kept = ~np.isin(names, list(errors))[numbers] if errors else slice(None)
    left, right = (_Apart.of(ids[kept].astype(np.int64), numbers[kept], names.size) for ids in sides.values())
    sink = TableSink()
    union = BipartiteCSR.from_edges(left.ids, right.ids, left.n, right.n)
    enumerate_into(sink, union, query, Execution(threads=threads), engine)
    found = sink.table()
    of_graphs = left.graphs_of(found.left_members[found.left_offsets[:-1]])
    table = BicliqueTable(
        found.left_offsets,
        left.own_ids(found.left_members, np.repeat(of_graphs, np.diff(found.left_offsets))),
        found.right_offsets,
        right.own_ids(found.right_members, np.repeat(of_graphs, np.diff(found.right_offsets))),
    )
    return ManyBicliques(names, of_graphs.astype(np.int32), table, errors)


@dataclass(frozen=True, slots=True, eq=False)
class _Apart:
    """One side of the union: the vertices of each graph follow the vertices of the previous graph.

    Attributes
    ----------
    ids : (n_edges,) int64
        The vertex of each edge, in the union.
    starts : (n_graphs + 1,) int64
        First code of each graph; the code of a vertex is this plus its own id.
    codes : (n,) int64 or None
        The code of each vertex of the union, ascending; None if codes are used as vertices directly.
    """

    ids: np.ndarray
    starts: np.ndarray
    codes: np.ndarray | None

    @classmethod
    def of(cls, own_ids: np.ndarray, numbers: np.ndarray, n_graphs: int) -> _Apart:
        """Return the side for edges with these own ids, in these graphs."""
        starts = np.zeros(n_graphs + 1, np.int64)
        np.maximum.at(starts[1:], numbers, own_ids + 1)
        np.cumsum(starts, out=starts)
        codes = starts[numbers] + own_ids
        if starts[-1] <= _IDS_PER_EDGE * codes.size:
            return cls(codes, starts, None)
        distinct, ids = np.unique(codes, return_inverse=True)
        return cls(ids, starts, distinct)

    @property
    def n(self) -> int:
        """Number of vertices."""
        return int(self.starts[-1]) if self.codes is None else self.codes.size

    def graphs_of(self, vertices: np.ndarray) -> np.ndarray:
        """Return the graph of each vertex of the union."""
        return np.searchsorted(self.starts, self._codes_of(vertices), side="right") - 1

    def own_ids(self, vertices: np.ndarray, graphs: np.ndarray) -> np.ndarray:
        """Return the ids of vertices of the union within their graphs, int32."""
        return (self._codes_of(vertices) - self.starts[graphs]).astype(np.int32)

    def _codes_of(self, vertices: np.ndarray) -> np.ndarray:
        return vertices if self.codes is None else self.codes[vertices]


def _numbered(graphs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct names of graphs, and the number of the graph in each row.

    Raises
    ------
    InvalidArgument
        A row has neither an integer nor a text.
    """
    kind = graphs.dtype.kind
    is_text, is_usable = kind == "U" or isinstance(next(iter(graphs), None), str), np.ones(graphs.size, np.bool_)
    if kind in "iuf":
        is_usable = (graphs == np.floor(graphs)) & (np.abs(graphs) <= (_EXACT if kind == "f" else _LARGEST))
    elif kind != "U":
        # NumPy drops zero bytes at the end of texts.
        is_usable[:] = [
            (isinstance(each, str) and not each.endswith("\0"))
            if is_text
            else isinstance(each, int | np.integer) and -_LARGEST <= each <= _LARGEST
            for each in graphs
        ]
    for row in np.flatnonzero(~is_usable):
        expected = "text" if is_text else "an integer, or text in each row,"
        raise InvalidArgument(f"graphs holds {graphs[row]!r} in row {row}: expected {expected} as the graph's name")
    values = graphs.astype(object if kind == "T" else graphs.dtype).astype(str if is_text else np.int64)
    if (values[1:] < values[:-1]).any():
        return np.unique(values, return_inverse=True)
    is_first = np.ones(values.size, np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first], np.cumsum(is_first) - 1


def _flat(values: ArrayLike, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidArgument(f"{name} has {array.ndim} dimensions: expected one entry per edge, a flat array")
    return array


def _as_numbers(ids: ArrayLike, name: str) -> np.ndarray:
    """Return ids as an array of numbers, with NaN for missing ones."""
    values = _flat(ids, name)
    if values.dtype.kind == "O" or not values.size:
        values = np.array([each if isinstance(each, Real) else np.nan for each in values], np.float64)
    if values.dtype.kind not in "iuf":
        raise InvalidArgument(f"{name} has dtype {values.dtype}: expected integer ids")
    return values


def _unusable(name: str, ids: np.ndarray, numbers: np.ndarray) -> Iterator[tuple[int, str]]:
    """Yield each graph with unusable ids, and a message about the first one."""
    is_usable = (ids >= 0) & (ids < MAX_VERTICES) & (ids == np.floor(ids))
    rows = np.flatnonzero(~is_usable)
    for number, at in zip(*np.unique(numbers[rows], return_index=True), strict=True):
        row = int(rows[at])
        yield int(number), f"{name} holds {ids[row]} in row {row}: expected an id from 0 to {MAX_VERTICES - 1}"
