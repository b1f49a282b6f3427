"""Edges in memory: Arrow tables, data frames, pairs of arrays, sparse matrices, graphs of networkx and igraph."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse

from mbe_stage.graphs.given import are_edges
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io.raw import FIRST_ROWS, Place, RawEdges, as_array, choose_columns, values_of
from mbe_stage.pipeline.io.sparse import matrix_edges
from mbe_stage.pipeline.io.text.biadjacency import matrix_of_table
from mbe_stage.pipeline.io.text.layout import MATRIX_SAMPLE, is_matrix, refuse_matrix, refuse_matrix_table

_PAIR_NAMES = ("left", "right", "weight", "timestamp")
# These have columns by position only.
_OWN_ORDER = ("numpy", "networkx", "igraph", "cugraph")


def polars_table(frame: Any, config: InputConfig) -> pa.Table:
    """Return the frame as an Arrow table. Columns that are not chosen are null below the first rows."""
    import polars
    from polars import selectors

    try:
        names = frame.collect_schema().names()
        positions = set(range(len(names)))
        if config.format != "biadjacency":
            head = frame.lazy().head(FIRST_ROWS).collect() if config.tries_keys else None
            look = None if head is None else lambda at: values_of(_column(head[names[at]]))
            positions = set(choose_columns(names, config, "memory:polars", look).positions.values())
        chosen = [names[position] for position in positions]
        taken = frame.lazy().select(selectors.by_name(chosen)).collect()
        columns = {name: _column(taken[name]) for name in chosen}
    except (polars.exceptions.PolarsError, pa.ArrowException, TypeError, OSError) as error:
        lack_of_memory.pass_on(error)
        raise InputError.at(
            "memory:polars",
            found=f"a frame that Arrow cannot take ({' '.join(str(error).split())})",
            expected="a query that succeeds, and columns of integers or text",
            remedy="check frame.lazy().collect(), and convert other columns, for example with "
            ".map_elements(str, polars.String)",
        ) from None
    for name in names:
        if name not in columns:
            columns[name] = _first_rows(frame, name, taken.height, config)
    return pa.Table.from_arrays([columns[name] for name in names], names=names)


def _first_rows(frame: Any, name: str, height: int, config: InputConfig) -> pa.ChunkedArray:
    """Return the part of an unread column that `refuse_matrix_table` checks; nulls if it cannot be read."""
    import polars
    from polars import selectors

    try:
        if not config.names_columns:
            head = _column(frame.lazy().select(selectors.by_name(name)).head(MATRIX_SAMPLE).collect()[name])
            return pa.chunked_array([*head.chunks, pa.nulls(height - len(head), head.type)])
    except (polars.exceptions.PolarsError, pa.ArrowException, TypeError, OSError) as error:
        lack_of_memory.pass_on(error)
    return pa.chunked_array([pa.nulls(height)])


def _column(values: Any) -> pa.ChunkedArray:
    import polars

    if values.dtype == polars.Object:
        # Arrow would get the addresses of the objects.
        raise TypeError(f"column {values.name!r} holds Python objects")
    if str(values.dtype) in ("Int128", "UInt128"):
        # Arrow has no 128-bit integers: use int64 or, if the values do not fit, decimals.
        fits = values.drop_nulls().is_between(-(2**63), 2**63 - 1).all()
        values = values.cast(polars.Int64 if fits else polars.Decimal(38, 0))
    return pa.chunked_array(values)


def read_cugraph(graph: Any, config: InputConfig) -> tuple[pa.Table, int]:
    """Return a table of `left`, `right` and the other columns of the edge list, and the number of isolated vertices.

    Isolated vertices are the last rows, each as a loop.
    """
    if not config.is_undirected:
        found, remedy = "a cuGraph graph, which does not store the side of a vertex", "pass its edges as a cuDF frame"
        raise InputError.at("memory:cugraph", found=found, expected="a table of edges", remedy=remedy)
    edges = graph.view_edge_list().to_arrow(preserve_index=False)
    first, second, *others = edges.columns
    nodes = graph.nodes().to_arrow()
    ends = pa.chunked_array([*first.chunks, *second.chunks], first.type)
    alone = nodes.filter(pc.invert(pc.is_in(nodes, value_set=ends.combine_chunks())))
    columns = {"left": _followed(first, alone), "right": _followed(second, alone)}
    for name, values in zip(edges.column_names[2:], others, strict=True):
        columns[name] = _followed(values, pa.nulls(len(alone), values.type))
    return pa.table(columns), len(alone)


def _followed(values: pa.ChunkedArray, more: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([*values.chunks, more.cast(values.type)], values.type)


def read_object(source: Any, config: InputConfig) -> RawEdges:
    """Read the edges of an object.

    Parameters
    ----------
    source
        pyarrow Table, RecordBatch or RecordBatchReader; pandas or cuDF DataFrame (without its index); any object with
        ``__arrow_c_stream__`` (DuckDB); polars DataFrame or LazyFrame; a tuple of two to four flat arrays: left, right,
        weight, timestamp; a NumPy array of shape (n, 2); SciPy sparse array or matrix (rows are left, from 0); graph of
        networkx or igraph. Its nodes have the attribute `bipartite` (igraph: `type`) 0 (left) or 1 (right), or the
        graph is connected and bipartite (the side of its first node is then left). The keys of igraph's vertices are
        their names if they have some. An undirected graph may be any graph of networkx, igraph or cuGraph, with its
        isolated vertices. With the format `biadjacency`, frames and 2-D arrays are matrices: a row is a left vertex
        (pandas: by its index, if that has names), a column a right vertex.
    """
    # Users may derive their own classes from a library's class.
    modules = [each.__module__.partition(".")[0] for each in type(source).__mro__]
    if isinstance(source, pa.Table):
        return _table(source, "pyarrow", config)
    if isinstance(source, pa.RecordBatch):
        return _table(pa.Table.from_batches([source]), "pyarrow", config)
    if scipy.sparse.issparse(source):
        return matrix_edges(source, "memory:scipy", "memory", config)
    if ("networkx" in modules and hasattr(source, "nodes")) or ("igraph" in modules and hasattr(source, "vs")):
        from mbe_stage.pipeline.io.graph_objects import read_graph

        table, n_lone = read_graph(source, config)
        return _table(table, "igraph" if "igraph" in modules else "networkx", config, n_lone=n_lone)
    if "cugraph" in modules and hasattr(source, "view_edge_list"):
        table, n_lone = read_cugraph(source, config)
        return _table(table, "cugraph", config, n_lone=n_lone)
    if "pandas" in modules and hasattr(source, "columns"):
        names = list(map(str, source.columns))
        columns = [_array(source.iloc[:, i], "pandas", name) for i, name in enumerate(names)]
        return _table(pa.Table.from_arrays(columns, names=names), "pandas", config, rows=_row_names(source))
    if "cudf" in modules and hasattr(source, "to_arrow"):
        return _table(source.to_arrow(preserve_index=False), "cudf", config)
    if isinstance(source, np.ndarray) and source.ndim == 2:
        if config.format == "biadjacency":
            return matrix_edges(source, "memory:numpy", "memory", config.model_copy(update={"left": 0}))
        sample = source[:MATRIX_SAMPLE].T.astype(str).tolist()
        if not config.names_columns and (source.dtype == bool or is_matrix(sample, has_names=False)):
            raise refuse_matrix("memory:numpy", f"an array of 0s and other values of shape {source.shape}")
    if "polars" in modules and hasattr(source, "collect_schema"):
        return _table(polars_table(source, config), "polars", config)
    if isinstance(source, tuple | np.ndarray):
        return _table(_from_arrays(source), "numpy", config)
    if hasattr(source, "__arrow_c_stream__") and not hasattr(source, "to_frame") and not hasattr(source, "chunks"):
        return _table(pa.table(source), modules[0], config)
    raise InputError.at(
        f"memory:{modules[0]}",
        found=f"an object of type {type(source).__qualname__}",
        expected="an Arrow table, a data frame, a tuple (u, v) of arrays, a SciPy sparse matrix, or a graph of "
        "networkx, igraph or, for cliques, cuGraph",
        remedy="convert it, for example with pyarrow.table({'left': u, 'right': v})",
    )


def _table(table: pa.Table, kind: str, config: InputConfig, rows: pa.Array | None = None, n_lone: int = 0) -> RawEdges:
    """Return edges or, with the format `biadjacency`, a matrix whose rows have these names."""
    source = f"memory:{kind}"
    is_frame = kind not in _OWN_ORDER
    if is_frame and config.format == "biadjacency":
        names, columns = table.column_names, table.columns
        if rows is not None:
            names, columns = ["", *names], [rows, *columns]
        return matrix_of_table(names, columns, config, source, has_names=True, in_memory=True)
    if is_frame:
        refuse_matrix_table(table, source, config, rows)
    chosen = choose_columns(
        table.column_names,
        config,
        source,
        lambda at: values_of(table.column(at).slice(0, FIRST_ROWS)) if is_frame else (),
        # Arrays have no column names.
        are_named=kind != "numpy",
    )
    sizes = {"n_columns": table.num_columns if is_frame else None, "n_lone": n_lone}
    return chosen.edges("memory", chosen.of(table.columns), lambda row: Place(f"{source}, row {row + 1}"), **sizes)


def _row_names(frame: Any) -> pa.Array | None:
    """Return the row names of a pandas frame; None for a default index."""
    index = frame.index
    counts = index.name is None and list(index[:1]) == [0] and type(index).__name__ == "RangeIndex"
    return None if counts or type(index).__name__ == "MultiIndex" else _array(index, "pandas", "index")


def _from_arrays(source: Any) -> pa.Table:
    refused, either = partial(InputError.at, "memory:numpy"), ", which could be two edges or two columns"
    if isinstance(source, np.ndarray):
        found, expected = f"an array of shape {source.shape}", "shape (n, 2), one edge a row"
        if source.ndim != 2 or source.shape[1] not in (2, 3, 4):
            remedy = "pass a tuple (u, v), or a SciPy sparse matrix for an adjacency matrix"
            raise refused(found=found, expected=expected, remedy=remedy)
        if source.shape in ((2, 3), (2, 4)):
            remedy = "pass array.T if its rows are u and v, or tuple(array.T) if each row is an edge"
            raise refused(found=found + either, expected=f"{expected}, or a tuple (u, v) of columns", remedy=remedy)
        source = tuple(source.T)
    elif are_edges(source):
        remedy = f"pass {tuple(map(list, zip(*source, strict=True)))} if these are edges, else two lists or arrays"
        raise refused(found=f"{source!r}{either}", expected="a tuple (left, right) of columns", remedy=remedy)
    if not 2 <= len(source) <= len(_PAIR_NAMES):
        expected = "(left, right), (left, right, weight) or (left, right, weight, timestamp)"
        raise refused(found=f"a tuple of {len(source)}", expected=expected, remedy="pass one array per column")
    columns = {name: _array(values, "numpy", name) for name, values in zip(_PAIR_NAMES, source, strict=False)}
    if len(set(map(len, columns.values()))) > 1:
        sizes = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        found, remedy = f"arrays of different lengths ({sizes})", "pass flat arrays of one length"
        raise refused(found=found, expected="one entry per edge", remedy=remedy)
    return pa.table(columns)


def _array(values: Any, kind: str, column: str) -> pa.Array | pa.ChunkedArray:
    expected, remedy = "a flat column of integers or of text", "convert it, for example with .astype(str)"
    return as_array(values, f"memory:{kind}", column, found="values of mixed types", expected=expected, remedy=remedy)
