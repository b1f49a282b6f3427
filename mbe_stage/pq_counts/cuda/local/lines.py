"""Add to the graph's sums: of vertices, of vertices on a path, of edges; flush the sums of a frame."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import next_one, next_tile
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.layout import FRAME_VERTICES, HELD, SUMS, TOTALS, Values
from mbe_stage.pq_counts.cuda.local.leaves import of_kinds, reduced

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def add_to_vertex(vertex, number, work):
    """Add a lane's number to a vertex of the graph."""
    sums = work.sums
    if number != 0:
        cuda.atomic.add(sums.vertices, vertex, reduced(number, sums))


@cuda.jit(device=True, forceinline=True)
def add_to_edge(row, column, number, work):
    """Add a lane's number to an existing edge of the graph; `column` is the number of a vertex."""
    graph, sums, launch = work.graph, work.sums, work.launch
    if number != 0:
        member = _I(column - launch.n_rows)
        first, end = graph.row_offsets[row], graph.row_offsets[row + 1]
        while end - first > 1:
            middle = _L((first + end) >> 1)
            if graph.row_members[middle] <= member:
                first = middle
            else:
                end = middle
        cuda.atomic.add(sums.edges, first, reduced(number, work.sums))


@cuda.jit(device=True, forceinline=True)
def add_path(n_path, values, work):
    """Add leaves to the graph's vertices on the path, to their edges, and to the total.

    Parameters
    ----------
    n_path : int32
    values : Values
        The same for all lanes.
    """
    mine, sums, launch = work.mine, work.sums, work.launch
    k = _I(cuda.laneid)
    if k == 0 and values.held_held != 0:
        cuda.atomic.add(sums.total, 0, reduced(values.held_held, sums))
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            code = _U(mine[local_layout.PATH_AT + k])
            vertex, kind = _I(code >> _U(1)), _I(code & _U(1))
            number = values.held_held
            if kind != HELD:
                number = values.optional_held if vertex < launch.n_rows else values.held_optional
            add_to_vertex(vertex, number, work)
        k = next_tile(k)
        tile = next_tile(tile)
    if launch.with_edges:
        _add_path_edges(n_path, values, work)


@cuda.jit(device=True, forceinline=True)
def _add_path_edges(n_path, values, work):
    """Add leaves to the edges between vertices on the path, which all exist.

    Parameters
    ----------
    n_path, values, work
        As in `add_path`.
    """
    mine, launch = work.mine, work.launch
    one = _I(0)
    while one < n_path:
        code = _U(mine[local_layout.PATH_AT + one])
        row, row_kind = _I(code >> _U(1)), _I(code & _U(1))
        k = _I(cuda.laneid)
        tile = _I(0)
        while row < launch.n_rows and tile < n_path:
            if k < n_path:
                other = _U(mine[local_layout.PATH_AT + k])
                column = _I(other >> _U(1))
                if column >= launch.n_rows:
                    number = of_kinds(values, row_kind, _I(other & _U(1)))
                    add_to_edge(row, column, number, work)
            k = next_tile(k)
            tile = next_tile(tile)
        one = next_one(one)


@cuda.jit(device=True, forceinline=True)
def flush_frame(n_path, work):
    """Add the sums of a frame to the graph's sums. No row of the frame is open.

    Parameters
    ----------
    n_path : int32
        Number of vertices on the path outside the frame.
    """
    own, mine, launch = work.own, work.mine, work.launch
    cuda.syncwarp()
    lane = _I(cuda.laneid)
    frame, sums_at, totals_at = own.frame, _I(own.frame_at + SUMS), _I(own.frame_at + TOTALS)
    for k in range(FRAME_VERTICES // 32):
        vertex = _I(32 * k + lane)
        number = _L(frame[sums_at + vertex])
        if number != 0:
            add_to_vertex(_I(mine[local_layout.VERTICES_AT + vertex]), number, work)
    values = Values(_L(frame[totals_at]), _L(frame[totals_at + 1]), _L(frame[totals_at + 2]), _L(frame[totals_at + 3]))
    add_path(n_path, values, work)
    if launch.with_edges:
        _flush_pairs(work)
        _flush_path_edges(n_path, work)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _flush_pairs(work):
    """Flush the numbers of the frame's pairs of a row and a column."""
    own, mine = work.own, work.mine
    lane = _I(cuda.laneid)
    row = _I(0)
    while row < layout.FRAME_WIDTH:
        if own.frame[own.frame_at + row] != np.uint64(0):
            for half in range(2):
                column = _I(32 * half + lane)
                pair = _I(layout.FRAME_WIDTH * row + column)
                number = mine[local_layout.PAIRS_AT + pair]
                if number != 0:
                    mine[local_layout.PAIRS_AT + pair] = _L(0)
                    in_graph = _I(mine[local_layout.VERTICES_AT + layout.FRAME_WIDTH + column])
                    add_to_edge(_I(mine[local_layout.VERTICES_AT + row]), in_graph, number, work)
        row = next_one(row)


@cuda.jit(device=True, forceinline=True)
def _flush_path_edges(n_path, work):
    """Flush the numbers of pairs of a vertex on the path outside and a vertex of the frame.

    Parameters
    ----------
    n_path, work
        As in `flush_frame`.
    """
    own, mine, launch = work.own, work.mine, work.launch
    lane = _I(cuda.laneid)
    one = _I(0)
    while one < n_path:
        code = _U(mine[local_layout.PATH_AT + one])
        vertex, kind = _I(code >> _U(1)), _I(code & _U(1))
        is_row = vertex < launch.n_rows
        for half in range(2):
            other = _I(32 * half + lane)
            if is_row:
                other = _I(other + layout.FRAME_WIDTH)
            number = _L(own.frame[own.frame_at + local_layout.SUMS + FRAME_VERTICES * kind + other])
            if number != 0:
                in_graph = _I(mine[local_layout.VERTICES_AT + other])
                row, column = (vertex, in_graph) if is_row else (in_graph, vertex)
                add_to_edge(row, column, number, work)
        one = next_one(one)
