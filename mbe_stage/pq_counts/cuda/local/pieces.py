"""Turn a submatrix of local counts into leaves, a frame or a node, as `cuda.pieces`; its vertices stay known.

After its matrix, a node has the graph's vertex of each row and column, and its path.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.warp import count_bits, next_one, next_tile
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.child_piece import nth_missed
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.wide_leaves import add_submatrix
from mbe_stage.pq_counts.cuda.matrices import Opening, keep_columns, keep_rows, optional_vertex
from mbe_stage.pq_counts.cuda.pieces import DONE, FRAME, NODE, is_over, write_node
from mbe_stage.search.cuda.nodes import publish, take_words

_I = np.int32
_L = np.int64
_U = np.uint32


class MatrixVertices(NamedTuple):
    """The graph's vertices of a matrix's rows and columns: in the pool, rows from `rows_at` on.

    Attributes
    ----------
    words : uint32, global
    rows_at, columns_at : int64
    """

    words: Any
    rows_at: Any
    columns_at: Any


@cuda.jit(device=True, forceinline=True)
def open_root(root, n_rows, n_columns, work):
    """Write the vertices of a root's rows and columns, and begin the path with the root.

    Parameters
    ----------
    root, n_rows, n_columns : int32
        The rows are on the warp's list, which becomes one of the matrix's rows.

    Returns
    -------
    int64
        First of them; -1 if the pool is short.
    """
    own, mine, graph, device, launch = work.own, work.mine, work.graph, work.device, work.launch
    place = take_words(_L(_L(n_rows) + n_columns), True, device.control, device.settings)
    if place >= 0:
        k = _I(cuda.laneid)
        tile = _I(0)
        while tile < n_rows:
            if k < n_rows:
                device.words[place + k] = _U(own.rows[k])
                own.rows[k] = k
            k = next_tile(k)
            tile = next_tile(tile)
        first = graph.row_offsets[root]
        k = _I(cuda.laneid)
        tile = _I(0)
        while tile < n_columns:
            if k < n_columns:
                device.words[place + n_rows + k] = _U(graph.row_members[first + k] + launch.n_rows)
            k = next_tile(k)
            tile = next_tile(tile)
        if cuda.laneid == 0:
            mine[local_layout.PATH_AT] = _L(_L(root) << _L(1))
        cuda.syncwarp()
    return place


@cuda.jit(device=True, forceinline=True)
def open_child(node, child, work):
    """Return the vertices of a node's matrix, and copy the path of its child to this warp's place.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    lines_at : int64
        Vertices of the node's first row.
    n_path : int32
    """
    mine, device = work.mine, work.device
    fields, words = device.nodes[node], device.words
    all_rows, all_columns = _I(fields[layout.N_ROWS]), _I(fields[layout.N_COLUMNS])
    row_words, column_words = _I((all_columns + 31) >> 5), _I((all_rows + 31) >> 5)
    columns_place = _L(fields[layout.OFFSET] + _L(all_rows) * _L(row_words))
    rows_at = _L(columns_place + _L(all_columns) * _L(column_words))
    columns_at = _L(rows_at + all_rows)
    path_at, n_path = _L(columns_at + all_columns), _I(fields[local_layout.N_PATH])
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            mine[local_layout.PATH_AT + k] = _L(words[path_at + k])
        k = next_tile(k)
        tile = next_tile(tile)
    pivot = _I(fields[layout.PIVOT])
    pivot_is_row = fields[layout.KIND] & layout.COLUMN_PIVOT == 0
    n_others = all_columns if pivot_is_row else all_rows
    if fields[layout.KIND] & layout.HAS_NO_PIVOT != 0:
        member, pivot = child if child < n_others else _I(-1), _I(-1)
    elif pivot_is_row:
        member = nth_missed(_L(fields[layout.OFFSET] + _L(pivot) * _L(row_words)), n_others, child, words)
    else:
        member = nth_missed(_L(columns_place + _L(pivot) * _L(column_words)), n_others, child, words)
    code, is_vertex = _U(0), True
    if member >= 0:
        code = _U(_U(words[_L((columns_at if pivot_is_row else rows_at) + member)]) << _U(1))
    elif pivot >= 0:
        code = optional_vertex(words[_L((rows_at if pivot_is_row else columns_at) + pivot)])
    else:
        is_vertex = False
    if is_vertex:
        if cuda.laneid == 0:
            mine[local_layout.PATH_AT + n_path] = _L(code)
        n_path = _I(n_path + 1)
    cuda.syncwarp()
    return rows_at, n_path


@cuda.jit(device=True, forceinline=True)
def process_local_submatrix(submatrix, vertices, n_rows, n_columns, chosen, n_path, narrow, work):
    """Process a submatrix as `pieces.process_submatrix`. Vertices adjacent to everything are put on the path.

    Parameters
    ----------
    vertices : MatrixVertices
    n_rows, n_columns : int32
    n_path, narrow : int32
        Vertices on the path; most rows and columns of a frame.

    Returns
    -------
    outcome : int
    n_rows, n_columns : int32
    chosen : Chosen
    n_path, pivot : int32
    """
    mine, launch = work.mine, work.launch
    bounds = launch.bounds
    outcome = NODE
    best_column, most_column = _I(0), _I(-1)
    is_first = True
    pivot = _I(0)
    while True:
        if is_over(n_rows, n_columns, chosen, bounds):
            outcome = DONE
            break
        if (
            n_rows == 0
            or n_columns == 0
            or chosen.held_rows >= bounds.most_rows - 1
            or chosen.held_columns >= bounds.most_columns - 1
        ):
            add_submatrix(submatrix, vertices, n_rows, n_columns, chosen, n_path, work)
            outcome = DONE
            break
        if n_rows <= narrow and n_columns <= narrow:
            outcome = FRAME
            break
        fewest = _I(bounds.fewest_columns - chosen.held_columns - chosen.optional_columns)
        opening = Opening(
            mine, _I(local_layout.PATH_AT + n_path), vertices.words, vertices.rows_at, vertices.columns_at
        )
        kept, n_full, best_row, most_row = keep_rows(submatrix, n_rows, n_columns, fewest, opening)
        is_same = kept == n_rows and not is_first
        n_rows, n_path = kept, _I(n_path + n_full)
        chosen = Chosen(
            chosen.held_rows, _I(chosen.optional_rows + n_full), chosen.held_columns, chosen.optional_columns
        )
        if not is_same and n_rows > 0:
            fewest = _I(bounds.fewest_rows - chosen.held_rows - chosen.optional_rows)
            opening = Opening(
                mine, _I(local_layout.PATH_AT + n_path), vertices.words, vertices.rows_at, vertices.columns_at
            )
            kept, n_full, best_column, most_column = keep_columns(submatrix, n_rows, fewest, opening)
            is_same = kept == n_columns
            n_columns, n_path = kept, _I(n_path + n_full)
            chosen = Chosen(
                chosen.held_rows, chosen.optional_rows, chosen.held_columns, _I(chosen.optional_columns + n_full)
            )
        is_first = False
        if is_same:
            pivot = best_row if n_columns - most_row <= n_rows - most_column else _I(-1 - best_column)
            break
    cuda.syncwarp()
    return outcome, n_rows, n_columns, chosen, n_path, pivot


@cuda.jit(device=True, forceinline=True)
def _write_vertices(submatrix, vertices, n_rows, to, rows_to, columns_to):
    """Copy the vertices of a submatrix's rows and columns.

    Parameters
    ----------
    vertices : MatrixVertices
    n_rows : int32
    to : uint32, global
    rows_to, columns_to : int64
        Target positions.
    """
    lane = _I(cuda.laneid)
    k = lane
    tile = _I(0)
    while tile < n_rows:
        if k < n_rows:
            to[rows_to + k] = vertices.words[vertices.rows_at + submatrix.rows[k]]
        k = next_tile(k)
        tile = next_tile(tile)
    n_before = _I(0)
    word = _I(0)
    while word < submatrix.n_words:
        mask = _U(submatrix.mask[word])
        if _U(mask >> _U(lane)) & _U(1) != 0:
            number = _I(n_before + count_bits(_U(mask & _U(_U(_U(1) << _U(lane)) - _U(1)))))
            to[columns_to + number] = vertices.words[vertices.columns_at + 32 * word + lane]
        n_before = _I(n_before + count_bits(mask))
        word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def frame_vertices(submatrix, vertices, n_rows, mine):
    """Note the vertices of a submatrix's rows and columns as those of its frame."""
    _write_vertices(
        submatrix,
        vertices,
        n_rows,
        mine,
        _L(local_layout.VERTICES_AT),
        _L(local_layout.VERTICES_AT + layout.FRAME_WIDTH),
    )


@cuda.jit(device=True, forceinline=True)
def local_node_of(submatrix, vertices, n_rows, n_columns, key, pivot, kind, newest, n_path, work):
    """Write a submatrix as a node; return the node, int32, or -1 if there is no room.

    Parameters
    ----------
    vertices : MatrixVertices
    n_rows, n_columns : int32
    key : int64
    pivot, kind, newest : int32
        As in `pieces.write_node`.
    n_path : int32
    """
    own, mine, device = work.own, work.mine, work.device
    n_more = _L(_L(n_rows) + n_columns + n_path)
    node, n_children, more_at = write_node(
        submatrix, n_rows, n_columns, key, pivot, kind, newest, own.mask, n_more, device
    )
    if node < 0:
        return node
    _write_vertices(submatrix, vertices, n_rows, device.words, more_at, _L(more_at + n_rows))
    path_at = _L(more_at + n_rows + n_columns)
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            device.words[path_at + k] = _U(mine[local_layout.PATH_AT + k])
        k = next_tile(k)
        tile = next_tile(tile)
    if cuda.laneid == 0:
        device.nodes[node, local_layout.N_PATH] = _L(n_path)
    publish(node, n_children, device.nodes, device.control)
    return node
