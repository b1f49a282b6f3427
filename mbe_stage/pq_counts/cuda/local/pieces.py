"""What becomes of a piece in local counts: as in `cuda.pieces`, with which lines of the graph its rows and columns are.

A node has, behind its matrix, the line of the graph that each row is and each column, and its path.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.warp import count_bits, next_one, next_tile
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.child_piece import nth_missed
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.local import layout as own_at
from mbe_stage.pq_counts.cuda.local.wide_leaves import add_piece
from mbe_stage.pq_counts.cuda.matrices import Opening, keep_columns, keep_rows, optional_line
from mbe_stage.pq_counts.cuda.pieces import DONE, FRAME, NODE, is_over, write_node
from mbe_stage.search.cuda.nodes import publish, take_words

_I = np.int32
_L = np.int64
_U = np.uint32


class MatrixLines(NamedTuple):
    """Which lines of the graph the rows and columns of a matrix are: in the pool, rows from `rows_at` on.

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
    """Write which lines the rows and columns of a root's matrix are, and begin the path with the root.

    Parameters
    ----------
    root, n_rows, n_columns : int32
        The rows are on the warp's list, which becomes one of the matrix's rows.

    Returns
    -------
    int64
        Where they begin; -1 where the pool is short.
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
            mine[own_at.PATH_AT] = _L(_L(root) << _L(1))
        cuda.syncwarp()
    return place


@cuda.jit(device=True, forceinline=True)
def open_child(node, child, work):
    """The lines of a node's matrix; and the path of a child of it into this warp's place for it.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    lines_at : int64
        Where those of its rows begin.
    n_path : int32
    """
    mine, device = work.mine, work.device
    fields, words = device.nodes[node], device.words
    all_rows, all_columns = _I(fields[at.N_ROWS]), _I(fields[at.N_COLUMNS])
    row_words, column_words = _I((all_columns + 31) >> 5), _I((all_rows + 31) >> 5)
    columns_place = _L(fields[at.OFFSET] + _L(all_rows) * _L(row_words))
    rows_at = _L(columns_place + _L(all_columns) * _L(column_words))
    columns_at = _L(rows_at + all_rows)
    path_at, n_path = _L(columns_at + all_columns), _I(fields[own_at.N_PATH])
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            mine[own_at.PATH_AT + k] = _L(words[path_at + k])
        k = next_tile(k)
        tile = next_tile(tile)
    pivot = _I(fields[at.PIVOT])
    pivot_is_row = fields[at.KIND] & at.COLUMN_PIVOT == 0
    n_others = all_columns if pivot_is_row else all_rows
    if fields[at.KIND] & at.HAS_NO_PIVOT != 0:
        member, pivot = child if child < n_others else _I(-1), _I(-1)
    elif pivot_is_row:
        member = nth_missed(_L(fields[at.OFFSET] + _L(pivot) * _L(row_words)), n_others, child, words)
    else:
        member = nth_missed(_L(columns_place + _L(pivot) * _L(column_words)), n_others, child, words)
    code, is_line = _U(0), True
    if member >= 0:
        code = _U(_U(words[_L((columns_at if pivot_is_row else rows_at) + member)]) << _U(1))
    elif pivot >= 0:
        code = optional_line(words[_L((rows_at if pivot_is_row else columns_at) + pivot)])
    else:
        is_line = False
    if is_line:
        if cuda.laneid == 0:
            mine[own_at.PATH_AT + n_path] = _L(code)
        n_path = _I(n_path + 1)
    cuda.syncwarp()
    return rows_at, n_path


@cuda.jit(device=True, forceinline=True)
def settle_local_piece(piece, lines, n_rows, n_columns, chosen, n_path, narrow, work):
    """As `pieces.settle_piece`; what is taken out because it is adjacent to everything goes onto the path.

    Parameters
    ----------
    lines : MatrixLines
    n_rows, n_columns : int32
    n_path, narrow : int32
        Lines on the path; rows and columns of a frame at most.

    Returns
    -------
    outcome : int
    n_rows, n_columns : int32
    chosen : Chosen
    n_path, pivot : int32
    """
    mine, launch = work.mine, work.launch
    limits = launch.limits
    outcome = NODE
    best_column, most_column = _I(0), _I(-1)
    is_first = True
    pivot = _I(0)
    while True:
        if is_over(n_rows, n_columns, chosen, limits):
            outcome = DONE
            break
        if (
            n_rows == 0
            or n_columns == 0
            or chosen.held_rows >= limits.most_rows - 1
            or chosen.held_columns >= limits.most_columns - 1
        ):
            add_piece(piece, lines, n_rows, n_columns, chosen, n_path, work)
            outcome = DONE
            break
        if n_rows <= narrow and n_columns <= narrow:
            outcome = FRAME
            break
        fewest = _I(limits.fewest_columns - chosen.held_columns - chosen.optional_columns)
        opening = Opening(mine, _I(own_at.PATH_AT + n_path), lines.words, lines.rows_at, lines.columns_at)
        kept, n_full, best_row, most_row = keep_rows(piece, n_rows, n_columns, fewest, opening)
        is_same = kept == n_rows and not is_first
        n_rows, n_path = kept, _I(n_path + n_full)
        chosen = Chosen(
            chosen.held_rows, _I(chosen.optional_rows + n_full), chosen.held_columns, chosen.optional_columns
        )
        if not is_same and n_rows > 0:
            fewest = _I(limits.fewest_rows - chosen.held_rows - chosen.optional_rows)
            opening = Opening(mine, _I(own_at.PATH_AT + n_path), lines.words, lines.rows_at, lines.columns_at)
            kept, n_full, best_column, most_column = keep_columns(piece, n_rows, fewest, opening)
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
def _write_lines(piece, lines, n_rows, to, rows_to, columns_to):
    """Copy which lines the rows and columns of a piece are.

    Parameters
    ----------
    lines : MatrixLines
    n_rows : int32
    to : uint32, global
    rows_to, columns_to : int64
        Where they go.
    """
    lane = _I(cuda.laneid)
    k = lane
    tile = _I(0)
    while tile < n_rows:
        if k < n_rows:
            to[rows_to + k] = lines.words[lines.rows_at + piece.rows[k]]
        k = next_tile(k)
        tile = next_tile(tile)
    n_before = _I(0)
    word = _I(0)
    while word < piece.n_words:
        mask = _U(piece.mask[word])
        if _U(mask >> _U(lane)) & _U(1) != 0:
            number = _I(n_before + count_bits(_U(mask & _U(_U(_U(1) << _U(lane)) - _U(1)))))
            to[columns_to + number] = lines.words[lines.columns_at + 32 * word + lane]
        n_before = _I(n_before + count_bits(mask))
        word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def frame_lines(piece, lines, n_rows, mine):
    """Note which lines of the graph those of the frame are that a piece becomes."""
    _write_lines(piece, lines, n_rows, mine, _L(own_at.LINES_AT), _L(own_at.LINES_AT + at.FRAME_WIDTH))


@cuda.jit(device=True, forceinline=True)
def local_node_of(piece, lines, n_rows, n_columns, key, pivot, kind, newest, n_path, work):
    """Write a piece as a node of its own; which, int32, or -1 where there is no room.

    Parameters
    ----------
    lines : MatrixLines
    n_rows, n_columns : int32
    key : int64
    pivot, kind, newest : int32
        As `pieces.write_node` takes them.
    n_path : int32
    """
    own, mine, device = work.own, work.mine, work.device
    n_more = _L(_L(n_rows) + n_columns + n_path)
    node, n_children, more_at = write_node(piece, n_rows, n_columns, key, pivot, kind, newest, own.mask, n_more, device)
    if node < 0:
        return node
    _write_lines(piece, lines, n_rows, device.words, more_at, _L(more_at + n_rows))
    path_at = _L(more_at + n_rows + n_columns)
    k = _I(cuda.laneid)
    tile = _I(0)
    while tile < n_path:
        if k < n_path:
            device.words[path_at + k] = _U(mine[own_at.PATH_AT + k])
        k = next_tile(k)
        tile = next_tile(tile)
    if cuda.laneid == 0:
        device.nodes[node, own_at.N_PATH] = _L(n_path)
    publish(node, n_children, device.nodes, device.control)
    return node
