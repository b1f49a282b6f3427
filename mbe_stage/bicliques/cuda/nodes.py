"""Sparse nodes in the pool: where their parts are.

Parts are found from where the node begins, in 32 bits: places in the whole pool would take twice the registers.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at

__all__ = ["entry", "node_at", "parts_of", "write_edge"]

_U = np.uint32
_ONE = _U(1)


@cuda.jit(device=True, forceinline=True)
def entry(node, place):
    """Index in `Pool.ints` of an entry of the node's piece, uint64."""
    return np.uint64(node.base + np.int64(_U(place)))


@cuda.jit(device=True, forceinline=True)
def parts_of(base, n_columns, n_rows, n_edges, n_ids, n_path):
    """The `Node` that begins at `base` and has so many of everything."""
    ids = _U(n_columns + 1)
    row_ids = _U(ids + _U(n_ids))
    row_offsets = _U(row_ids + _U(n_rows))
    column_offsets = _U(row_offsets + _U(n_rows + 1))
    row_members = _U(column_offsets + _U(n_columns + 1))
    column_members = _U(row_members + _U(n_edges))
    path = _U(column_members + _U(n_edges))
    return at.Node(
        np.int64(base), ids, row_ids, row_offsets, column_offsets, row_members, column_members, path, np.int32(n_path)
    )


@cuda.jit(device=True, forceinline=True)
def node_at(number, pool):
    """The sparse node with this number."""
    fields = pool.nodes[number]
    return parts_of(
        fields[at.NODE_BASE],
        fields[at.NODE_COLUMNS],
        fields[at.NODE_ROWS],
        fields[at.NODE_EDGES],
        fields[at.NODE_IDS],
        fields[at.NODE_PATH],
    )


@cuda.jit(device=True, forceinline=True)
def write_edge(number, of, place, new, numbers):
    """Write one edge of the node `new`: at `place` among its column members, and where the row's list goes on.

    `number` is the row's, plus one, and `of` the column.
    """
    local = np.int32(number - _ONE)
    numbers[entry(new, new.column_members + place)] = local
    row_place = cuda.atomic.add(numbers, entry(new, new.row_offsets + 1 + local), 1)
    numbers[entry(new, new.row_members + row_place)] = of
