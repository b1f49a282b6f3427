"""Turn a submatrix of local counts into leaves, a frame or a node, as `cuda.submatrix_forms` does for counts.

After its matrix, a node has the graph's vertex of each row and column, and its path. Leaves of a submatrix of any width
are added to the graph's sums. If one more row is to be held, each row is a leaf. Its number of bicliques for each of
its columns is stored as its *weight*, and each column sums the weights of its rows in a register: one addition to the
graph per column, and no two lanes add to the same column. The same holds with sides exchanged if one more column is to
be held.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.warp import count_bits, first_bit, next_one, next_tile
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.child_piece import nth_missed
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.layout import HELD, Values
from mbe_stage.pq_counts.cuda.local.leaves import added, reduced, sum_of_lanes, values_of
from mbe_stage.pq_counts.cuda.local.lines import add_path, add_to_edge, add_to_vertex
from mbe_stage.pq_counts.cuda.matrices import (
    Opening,
    column_of_lane,
    keep_columns,
    keep_rows,
    list_words,
    met_by,
    met_column,
    optional_vertex,
)
from mbe_stage.pq_counts.cuda.submatrix_forms import DONE, FRAME, NODE, is_over, write_node
from mbe_stage.search.cuda.nodes import publish, take_words

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def add_submatrix(submatrix, vertices, n_rows, n_columns, chosen, n_path, work):
    """Add the leaves of a submatrix without rows or columns, or with at most one more to choose on a side.

    Parameters
    ----------
    vertices : MatrixVertices
    n_rows, n_columns : int32
    n_path : int32
    """
    launch = work.launch
    bounds = launch.bounds
    cuda.syncwarp()
    if (
        n_rows == 0
        or n_columns == 0
        or chosen.held_rows == bounds.most_rows
        or chosen.held_columns == bounds.most_columns
    ):
        total = _alone(n_rows, n_columns, chosen, work)
        _add_rows(submatrix, vertices, n_rows, False, total, n_path, work)
        _add_columns(submatrix, vertices, n_rows, False, total, n_path, work)
    elif chosen.held_rows == bounds.most_rows - 1:
        without = _alone(_I(0), n_columns, chosen, work)
        total = added(without, _leaves_of_rows(submatrix, vertices, n_rows, chosen, n_path, work))
        _add_columns(submatrix, vertices, n_rows, True, without, n_path, work)
    else:
        without = _alone(n_rows, _I(0), chosen, work)
        total = added(without, _leaves_of_columns(submatrix, vertices, n_rows, chosen, n_path, work))
        _add_rows(submatrix, vertices, n_rows, True, without, n_path, work)
    add_path(n_path, total, work)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _alone(n_rows, n_columns, chosen, work):
    """Return the values of a leaf whose remaining rows and columns are all optional; the same for all lanes."""
    launch = work.launch
    bounds = launch.bounds
    optional_rows, optional_columns = _I(chosen.optional_rows + n_rows), _I(chosen.optional_columns + n_columns)
    # If a side has enough held vertices, its remaining vertices do not belong to the leaf.
    if chosen.held_rows == bounds.most_rows:
        optional_rows = _I(0)
    if chosen.held_columns == bounds.most_columns:
        optional_columns = _I(0)
    leaf = Chosen(chosen.held_rows, optional_rows, chosen.held_columns, optional_columns)
    return values_of(True, leaf, work)


@cuda.jit(device=True, forceinline=True)
def _add_edges_of_vertex(vertex, is_row, with_held, with_optional, n_path, work):
    """Add to the edges between this lane's vertex and the path's vertices of the other side, by their kinds.

    Parameters
    ----------
    vertex : int32
        Number of the vertex; below 0 if the lane has none.
    is_row : bool
    with_held, with_optional : int64
    n_path, work
        As in `add_submatrix`.
    """
    mine, launch = work.mine, work.launch
    one = _I(0)
    while one < n_path:
        code = _U(mine[local_layout.PATH_AT + one])
        other = _I(code >> _U(1))
        if (other >= launch.n_rows) == is_row and vertex >= 0:
            number = with_held if code & _U(1) == HELD else with_optional
            if is_row:
                add_to_edge(vertex, other, number, work)
            else:
                add_to_edge(other, vertex, number, work)
        one = next_one(one)


@cuda.jit(device=True, forceinline=True)
def _leaves_of_rows(submatrix, vertices, n_rows, chosen, n_path, work):
    """Add the leaf of each row, held as the last one, to this row; store its weight for columns.

    Parameters
    ----------
    submatrix, vertices, n_rows, chosen, n_path, work
        As in `add_submatrix`.

    Returns
    -------
    Values
        Sum of these leaves.
    """
    mine, launch = work.mine, work.launch
    weights_at = _I(work.sums.constants[local_layout.WEIGHTS_AT])
    total = Values(_L(0), _L(0), _L(0), _L(0))
    bounds = launch.bounds
    n_listed = list_words(submatrix)
    tile = _I(0)
    while tile < n_rows:
        k = _I(tile + _I(cuda.laneid))
        is_leaf = k < n_rows
        met, row = _I(0), _I(-1)
        if is_leaf:
            met = met_by(submatrix.rows[k], submatrix, n_listed)
            row = _I(vertices.words[vertices.rows_at + submatrix.rows[k]])
        leaf = Chosen(bounds.most_rows, _I(0), chosen.held_columns, _I(chosen.optional_columns + met))
        values = values_of(is_leaf, leaf, work)
        total = added(total, values)
        if is_leaf:
            add_to_vertex(row, values.held_held, work)
            mine[weights_at + 2 * k] = values.held_optional
            mine[weights_at + 2 * k + 1] = values.optional_optional
        if launch.with_edges:
            _add_edges_of_vertex(row, True, values.held_held, values.held_optional, n_path, work)
        tile = next_tile(tile)
    cuda.syncwarp()
    return sum_of_lanes(total, launch)


@cuda.jit(device=True, forceinline=True)
def _leaves_of_columns(submatrix, vertices, n_rows, chosen, n_path, work):
    """Add the leaf of each column, held as the last one, to this column; store its weight for rows.

    Parameters
    ----------
    submatrix, vertices, n_rows, chosen, n_path, work
        As in `add_submatrix`.

    Returns
    -------
    Values
        Sum of these leaves.
    """
    mine, launch = work.mine, work.launch
    weights_at = _I(work.sums.constants[local_layout.WEIGHTS_AT])
    lane = _I(cuda.laneid)
    total = Values(_L(0), _L(0), _L(0), _L(0))
    bounds = launch.bounds
    word = _I(0)
    while word < submatrix.n_words:
        mask = _U(submatrix.mask[word])
        if mask != 0:
            met = met_column(submatrix, n_rows, word)
            leaf = Chosen(chosen.held_rows, _I(chosen.optional_rows + met), bounds.most_columns, _I(0))
            is_leaf = _U(mask >> _U(lane)) & _U(1) != 0
            values = values_of(is_leaf, leaf, work)
            total = added(total, values)
            k = _I(32 * word + lane)
            column = _I(-1)
            if is_leaf:
                column = _I(vertices.words[vertices.columns_at + k])
                add_to_vertex(column, values.held_held, work)
            mine[weights_at + 2 * k] = values.optional_held
            mine[weights_at + 2 * k + 1] = values.optional_optional
            if launch.with_edges:
                _add_edges_of_vertex(column, False, values.held_held, values.optional_held, n_path, work)
        word = next_one(word)
    cuda.syncwarp()
    return sum_of_lanes(total, launch)


@cuda.jit(device=True, forceinline=True)
def _add_columns(submatrix, vertices, n_rows, is_weighted, without, n_path, work):
    """Add to a submatrix's optional columns: one leaf, and the leaves of rows if they have weights.

    Parameters
    ----------
    submatrix, vertices, n_rows, n_path, work
        As in `add_submatrix`.
    is_weighted : bool
    without : Values
        Values of the one leaf.
    """
    mine, launch = work.mine, work.launch
    weights_at = _I(work.sums.constants[local_layout.WEIGHTS_AT])
    lane = _I(cuda.laneid)
    word = _I(0)
    while word < submatrix.n_words:
        mask = _U(submatrix.mask[word])
        if mask != 0:
            is_there = _U(mask >> _U(lane)) & _U(1) != 0
            column = _I(-1)
            if is_there:
                column = _I(vertices.words[vertices.columns_at + 32 * word + lane])
            with_held, with_optional = without.held_optional, without.optional_optional
            tile = _I(0)
            while is_weighted and tile < n_rows:
                rows = column_of_lane(submatrix, n_rows, word, tile)
                if not is_there:
                    rows = _U(0)
                while rows != 0:
                    k = _I(tile + first_bit(rows))
                    rows = _U(rows & _U(rows - _U(1)))
                    number = mine[weights_at + 2 * k]
                    with_held += number
                    if launch.with_edges:
                        with_optional += mine[weights_at + 2 * k + 1]
                        row = _I(vertices.words[vertices.rows_at + submatrix.rows[k]])
                        add_to_edge(row, column, number, work)
                tile = next_tile(tile)
            if is_there:
                add_to_vertex(column, with_held, work)
            if launch.with_edges:
                held, optional = reduced(with_held, work.sums), reduced(with_optional, work.sums)
                _add_edges_of_vertex(column, False, held, optional, n_path, work)
        word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _add_rows(submatrix, vertices, n_rows, is_weighted, without, n_path, work):
    """Add to a submatrix's optional rows: one leaf, and the leaves of columns if they have weights.

    Parameters
    ----------
    submatrix, vertices, n_rows, is_weighted, without, n_path, work
        As in `_add_columns`.
    """
    mine, launch = work.mine, work.launch
    weights_at = _I(work.sums.constants[local_layout.WEIGHTS_AT])
    tile = _I(0)
    while tile < n_rows:
        place = _I(tile + _I(cuda.laneid))
        row = _I(-1)
        with_held, with_optional = without.optional_held, without.optional_optional
        if place < n_rows:
            in_matrix = submatrix.rows[place]
            row = _I(vertices.words[vertices.rows_at + in_matrix])
            word = _I(0)
            while is_weighted and word < submatrix.n_words:
                columns = _U(
                    submatrix.words[_L(submatrix.offset + _L(in_matrix) * _L(submatrix.n_words) + word)]
                    & submatrix.mask[word]
                )
                while columns != 0:
                    k = _I(32 * word + first_bit(columns))
                    columns = _U(columns & _U(columns - _U(1)))
                    number = mine[weights_at + 2 * k]
                    with_held += number
                    if launch.with_edges:
                        with_optional += mine[weights_at + 2 * k + 1]
                        column = _I(vertices.words[vertices.columns_at + k])
                        add_to_edge(row, column, number, work)
                word = next_one(word)
            add_to_vertex(row, with_held, work)
        if launch.with_edges:
            held, optional = reduced(with_held, work.sums), reduced(with_optional, work.sums)
            _add_edges_of_vertex(row, True, held, optional, n_path, work)
        tile = next_tile(tile)
    cuda.syncwarp()


class MatrixVertices(NamedTuple):
    """The graph's vertex of each row and column of a matrix: rows from `rows_at` on, columns from `columns_at`.

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
    """Write the vertices of the rows and columns of a root's matrix, and begin the path with the root.

    Parameters
    ----------
    root, n_rows, n_columns : int32
        The graph's rows are on the warp's list, which is replaced by the matrix's rows.

    Returns
    -------
    int64
        Position of the vertices; -1 if the pool is too full.
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
    """Return the position of the vertices of a node's matrix, and copy the path of its child to this warp's scratch.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    lines_at : int64
        Position of the vertices of the node's rows.
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
    """Process a submatrix as `submatrix_forms.process_submatrix` does; put vertices adjacent to everything on the path.

    Parameters
    ----------
    vertices : MatrixVertices
    n_rows, n_columns : int32
    n_path, narrow : int32
        Number of vertices on the path; most rows and columns of a frame.

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
    """Copy the vertices of a submatrix's rows and columns to the vertices of the frame."""
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
    """Write a submatrix as a node; return the node's number, int32, or -1 without room.

    Parameters
    ----------
    vertices : MatrixVertices
    n_rows, n_columns : int32
    key : int64
    pivot, kind, newest : int32
        As in `submatrix_forms.write_node`.
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
