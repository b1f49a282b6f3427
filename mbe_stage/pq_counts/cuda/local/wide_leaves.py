"""Add the leaves of a submatrix of any width to the sums of the graph.

If one more row is to be held, each row is a leaf. Its bicliques for its columns are noted (`weights`), and each column
sums those of its rows in a register. So there is one addition to the graph for each column, and no two lanes add to the
same one. If columns are held it is the other way round.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import first_bit, next_one, next_tile
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.local import layout as local_layout
from mbe_stage.pq_counts.cuda.local.layout import HELD, Values
from mbe_stage.pq_counts.cuda.local.leaves import added, reduced, sum_of_lanes, values_of
from mbe_stage.pq_counts.cuda.local.lines import add_path, add_to_edge, add_to_vertex
from mbe_stage.pq_counts.cuda.matrices import column_of_lane, list_words, met_by, met_column

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
    """Bicliques of a leaf whose remaining rows and columns are all optional; the same for all lanes."""
    launch = work.launch
    bounds = launch.bounds
    optional_rows, optional_columns = _I(chosen.optional_rows + n_rows), _I(chosen.optional_columns + n_columns)
    # Enough vertices of one side are held, so its remaining vertices need no common neighbours.
    if chosen.held_rows == bounds.most_rows:
        optional_rows = _I(0)
    if chosen.held_columns == bounds.most_columns:
        optional_columns = _I(0)
    leaf = Chosen(chosen.held_rows, optional_rows, chosen.held_columns, optional_columns)
    return values_of(True, leaf, work)


@cuda.jit(device=True, forceinline=True)
def _add_edges_of_vertex(vertex, is_row, with_held, with_optional, n_path, work):
    """Add to the edges of this lane's vertex with vertices on the path of the other side, of both kinds.

    Parameters
    ----------
    vertex : int32
        A row, or a column as a vertex; below 0 if the lane has none.
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
    """Add a leaf for each row, held as the last one, to the rows; note its weight for columns.

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
    """Add a leaf for each column, held as the last one, to the columns; note its weight for rows.

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
    """Add to a submatrix's columns, which are optional: one leaf, and those of its rows if these have weights.

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
    """Add to a submatrix's rows, which are optional: one leaf, and those of its columns if these have weights.

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
