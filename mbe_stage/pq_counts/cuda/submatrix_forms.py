"""Turn a submatrix into leaves, a frame in shared memory, or a node of its own in the pool."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.masks import low_bits, transposed
from mbe_stage.device.warp import count_bits, next_one, next_tile
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.child_piece import n_missed
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import count_leaves, is_wanted, key_of, reserve_slots
from mbe_stage.pq_counts.cuda.matrices import (
    BINS,
    column_of_lane,
    count_leaves_by_columns,
    count_leaves_by_rows,
    count_leaves_in_bins,
    count_members,
    keep_columns,
    keep_rows,
    signatures_in_bins,
)
from mbe_stage.search.cuda.nodes import new_node, publish, take_words

DONE, FRAME, NODE, SHORT_OF = range(4)
"""Outcomes for a submatrix: finished, a frame, a node, or not processed for lack of memory."""

_I = np.int32
_L = np.int64
_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def is_over(n_rows, n_columns, chosen, bounds):
    """Return True if a submatrix has too few vertices for the smallest sizes."""
    return (
        chosen.held_rows + chosen.optional_rows + n_rows < bounds.fewest_rows
        or chosen.held_columns + chosen.optional_columns + n_columns < bounds.fewest_columns
    )


@cuda.jit(device=True, forceinline=True)
def _count_optional_leaf(n_rows, n_columns, chosen, device, bounds):
    """Count a leaf whose remaining vertices are all optional, if wanted; return the number of new signatures, int32."""
    optional_rows = _I(chosen.optional_rows + n_rows)
    optional_columns = _I(chosen.optional_columns + n_columns)
    if chosen.held_rows == bounds.most_rows:
        optional_rows = _I(0)
    if chosen.held_columns == bounds.most_columns:
        optional_columns = _I(0)
    leaf = Chosen(chosen.held_rows, optional_rows, chosen.held_columns, optional_columns)
    is_leaf = cuda.laneid == 0 and is_wanted(leaf, bounds)
    return count_leaves(is_leaf, key_of(leaf, bounds), 1, device.keys, device.times)


@cuda.jit(device=True, forceinline=True)
def _count_submatrix(submatrix, n_rows, n_columns, chosen, n_reserved, device, bounds):
    """Count the leaves of a submatrix without rows or columns, or with at most one more to choose on a side.

    Parameters
    ----------
    n_rows, n_columns : int32
    n_reserved : int32

    Returns
    -------
    outcome : int
        `DONE`; or `SHORT_OF` if slots could not be reserved, and then nothing is counted.
    n_reserved : int32
    """
    is_one = (
        n_rows == 0
        or n_columns == 0
        or chosen.held_rows == bounds.most_rows
        or chosen.held_columns == bounds.most_columns
    )
    by_rows = chosen.held_rows == bounds.most_rows - 1
    n_bins = _I(1 + (n_columns if by_rows else n_rows))
    is_binned = not is_one and n_bins <= BINS
    # Leaves of rows differ only in their number of columns, and vice versa.
    needed = _I(min(n_rows if by_rows else n_columns, n_bins) + 2)
    if is_one:
        needed = _I(1)
    elif is_binned:
        count_members(by_rows, submatrix, n_rows, n_bins)
        needed = _I(signatures_in_bins(by_rows, submatrix, n_bins, chosen, bounds) + 1)
    n_reserved = reserve_slots(needed, n_reserved, device.control, device.settings)
    if n_reserved < needed:
        return SHORT_OF, n_reserved
    alone_rows, alone_columns = n_rows, n_columns
    if not is_one and by_rows:
        alone_rows = _I(0)
    elif not is_one:
        alone_columns = _I(0)
    n_new = _count_optional_leaf(alone_rows, alone_columns, chosen, device, bounds)
    if is_binned:
        n_new = _I(n_new + count_leaves_in_bins(by_rows, submatrix, n_bins, chosen, device, bounds))
    elif not is_one and by_rows:
        n_new = _I(n_new + count_leaves_by_rows(submatrix, n_rows, chosen, device, bounds))
    elif not is_one:
        n_new = _I(n_new + count_leaves_by_columns(submatrix, n_rows, chosen, device, bounds))
    return DONE, _I(n_reserved - n_new)


@cuda.jit(device=True, forceinline=True)
def process_submatrix(submatrix, n_rows, n_columns, chosen, n_reserved, device, bounds):
    """Drop rows and columns adjacent to everything, or to too few, until a frame fits or nothing changes.

    Parameters
    ----------
    n_rows, n_columns : int32
    n_reserved : int32

    Returns
    -------
    outcome : int
        One of this module's outcomes; the caller has to write a `FRAME` or a `NODE`.
    n_rows, n_columns : int32
    chosen : Chosen
    n_reserved : int32
    pivot : int32
        A position in the list of rows; or below 0: -1 minus a column.
    """
    narrow = _I(device.settings[layout.NARROW])
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
            outcome, n_reserved = _count_submatrix(submatrix, n_rows, n_columns, chosen, n_reserved, device, bounds)
            break
        if n_rows <= narrow and n_columns <= narrow:
            outcome = FRAME
            break
        fewest = _I(bounds.fewest_columns - chosen.held_columns - chosen.optional_columns)
        kept, n_full, best_row, most_row = keep_rows(submatrix, n_rows, n_columns, fewest, None)
        is_same = kept == n_rows and not is_first
        n_rows = kept
        chosen = Chosen(
            chosen.held_rows, _I(chosen.optional_rows + n_full), chosen.held_columns, chosen.optional_columns
        )
        if not is_same and n_rows > 0:
            fewest = _I(bounds.fewest_rows - chosen.held_rows - chosen.optional_rows)
            kept, n_full, best_column, most_column = keep_columns(submatrix, n_rows, fewest, None)
            is_same = kept == n_columns
            n_columns = kept
            chosen = Chosen(
                chosen.held_rows, chosen.optional_rows, chosen.held_columns, _I(chosen.optional_columns + n_full)
            )
        is_first = False
        if is_same:
            pivot = best_row if n_columns - most_row <= n_rows - most_column else _I(-1 - best_column)
            break
    return outcome, n_rows, n_columns, chosen, n_reserved, pivot


@cuda.jit(device=True, forceinline=True)
def frame_of(submatrix, n_rows, n_columns, own):
    """Write the rows and columns of a submatrix as a frame into shared memory.

    Returns
    -------
    rows, columns : uint64
        Masks of all rows, and of all columns.
    """
    lane = _I(cuda.laneid)
    frame_at = own.frame_at
    for k in range(layout.STACK // 32):
        own.frame[frame_at + 32 * k + lane] = np.uint64(0)
    cuda.syncwarp()
    n_before = _I(0)
    word = _I(0)
    while word < submatrix.n_words:
        mask = _U(submatrix.mask[word])
        if mask != 0:
            low = column_of_lane(submatrix, n_rows, word, _I(0))
            high = _U(0)
            if n_rows > 32:
                high = column_of_lane(submatrix, n_rows, word, _I(32))
            if _U(mask >> _U(lane)) & _U(1) != 0:
                number = _I(n_before + count_bits(_U(mask & _U(_U(_U(1) << _U(lane)) - _U(1)))))
                column = np.uint64(np.uint64(np.uint64(high) << np.uint64(32)) | np.uint64(low))
                own.frame[frame_at + layout.FRAME_COLUMNS + number] = column
            n_before = _I(n_before + count_bits(mask))
        word = next_one(word)
    cuda.syncwarp()
    for half in range(2):
        # This lane's column for 32 rows; transposed, this lane's row.
        shift = np.uint64(32 * half)
        one = own.frame[frame_at + layout.FRAME_COLUMNS + lane]
        other = own.frame[frame_at + layout.FRAME_COLUMNS + 32 + lane]
        low = transposed(_U(np.uint64(one >> shift) & np.uint64(0xFFFFFFFF)))
        high = transposed(_U(np.uint64(other >> shift) & np.uint64(0xFFFFFFFF)))
        row = np.uint64(np.uint64(np.uint64(high) << np.uint64(32)) | np.uint64(low))
        own.frame[frame_at + 32 * half + lane] = row
    cuda.syncwarp()
    return low_bits(n_rows), low_bits(n_columns)


@cuda.jit(device=True, forceinline=True)
def _write_columns(submatrix, n_rows, place, n_words):
    """Write the columns of a submatrix contiguously, with `n_words` words each."""
    lane = _I(cuda.laneid)
    n_before = _I(0)
    word = _I(0)
    while word < submatrix.n_words:
        mask = _U(submatrix.mask[word])
        if mask != 0:
            is_there = _U(mask >> _U(lane)) & _U(1) != 0
            number = _I(n_before + count_bits(_U(mask & _U(_U(_U(1) << _U(lane)) - _U(1)))))
            to = _L(place + _L(number) * _L(n_words))
            tile = _I(0)
            while tile < n_rows:
                column = column_of_lane(submatrix, n_rows, word, tile)
                if is_there:
                    submatrix.words[to] = column
                to = _L(to + 1)
                tile = next_tile(tile)
            n_before = _I(n_before + count_bits(mask))
        word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _write_rows(words, place, n_rows, n_columns, columns_place):
    """Write the rows of a matrix from its written columns."""
    lane = _I(cuda.laneid)
    row_words, column_words = _I((n_columns + 31) >> 5), _I((n_rows + 31) >> 5)
    word = _I(0)
    while word < row_words:
        column = _I(32 * word + lane)
        part = _I(0)
        while part < column_words:
            mine = _U(0)
            if column < n_columns:
                mine = _U(words[_L(columns_place + _L(column) * _L(column_words) + part)])
            transposed_bits = transposed(mine)
            row = _I(32 * part + lane)
            if row < n_rows:
                words[_L(place + _L(row) * _L(row_words) + word)] = transposed_bits
            part = next_one(part)
        word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _number_of(column, mask):
    """Count the columns of a mask before `column`, int32."""
    number = _I(0)
    word = _I(0)
    while word < column >> 5:
        number = _I(number + count_bits(_U(mask[word])))
        word = next_one(word)
    last = _U(mask[column >> 5])
    return _I(number + count_bits(_U(last & _U(_U(_U(1) << _U(column & 31)) - _U(1)))))


@cuda.jit(device=True, forceinline=True)
def kind_of_node(n_rows, n_columns, chosen, pivot, lists_pairs, bounds):
    """Choose the kind of a node, int32.

    If two more vertices of a side are to be chosen, holding each vertex in turn gives children that are leaves, which
    several warps count in parallel. A chain of pivots would read the whole matrix for each pivot.

    Parameters
    ----------
    n_rows, n_columns : int32
    pivot : int32
        From `process_submatrix`.
    lists_pairs : bool
    """
    rows_are_last = chosen.held_rows == bounds.most_rows - 2
    columns_are_last = chosen.held_columns == bounds.most_columns - 2
    if lists_pairs and (rows_are_last or columns_are_last):
        if rows_are_last and (n_rows <= n_columns or not columns_are_last):
            return _I(layout.HAS_NO_PIVOT | layout.COLUMN_PIVOT)
        return _I(layout.HAS_NO_PIVOT)
    return _I(0) if pivot >= 0 else _I(layout.COLUMN_PIVOT)


@cuda.jit(device=True, forceinline=True)
def node_of(submatrix, n_rows, n_columns, key, pivot, kind, newest, mask, device):
    """Write a submatrix as an open node; return the node's number, int32, or -1 without room.

    Parameters
    ----------
    submatrix, n_rows, n_columns, key, pivot, kind, newest, mask, device
        As in `write_node`.
    """
    node, n_children, _ = write_node(submatrix, n_rows, n_columns, key, pivot, kind, newest, mask, _L(0), device)
    if node >= 0:
        publish(node, n_children, device.nodes, device.control)
    return node


@cuda.jit(device=True, forceinline=True)
def write_node(submatrix, n_rows, n_columns, key, pivot, kind, newest, mask, n_more, device):
    """Write a submatrix as a node whose children cannot be taken yet.

    Parameters
    ----------
    n_rows, n_columns : int32
    key : int64
        Key of the held and optional vertices.
    pivot : int32
        From `process_submatrix`.
    kind : int32
        From `kind_of_node`.
    newest : int32
        The newest node of this warp, or -1.
    mask : uint32, global
        The submatrix's columns.
    n_more : int64
        Further words after the matrix.

    Returns
    -------
    node : int32
        -1 if there is no room.
    n_children : int32
    more_at : int64
        Position of the further words.
    """
    row_words, column_words = _I((n_columns + 31) >> 5), _I((n_rows + 31) >> 5)
    n_matrix = _L(_L(n_rows) * _L(row_words) + _L(n_columns) * _L(column_words))
    n_words = _L(n_matrix + n_more)
    place = take_words(n_words, True, device.control, device.settings)
    if place < 0:
        return _I(-1), _I(0), place
    node = new_node(True, device.control, device.settings)
    if node < 0:
        return node, _I(0), place
    columns_place = _L(place + _L(n_rows) * _L(row_words))
    _write_columns(submatrix, n_rows, columns_place, column_words)
    _write_rows(device.words, place, n_rows, n_columns, columns_place)
    if kind & layout.HAS_NO_PIVOT != 0:
        pivot = _I(0)
        missed = n_columns if kind == layout.HAS_NO_PIVOT else n_rows
    elif pivot >= 0:
        missed = n_missed(_L(place + _L(pivot) * _L(row_words)), n_columns, device.words)
    else:
        pivot = _number_of(_I(-1 - pivot), mask)
        missed = n_missed(_L(columns_place + _L(pivot) * _L(column_words)), n_rows, device.words)
    if cuda.laneid == 0:
        device.nodes[node, layout.OFFSET] = place
        device.nodes[node, layout.WORDS] = n_words
        device.nodes[node, layout.N_ROWS] = _L(n_rows)
        device.nodes[node, layout.N_COLUMNS] = _L(n_columns)
        device.nodes[node, layout.KEY] = key
        device.nodes[node, layout.PIVOT] = _L(pivot)
        device.nodes[node, layout.KIND] = _L(kind)
        device.nodes[node, layout.LINK] = _L(newest)
    cuda.syncwarp()
    return node, _I(missed + 1), _L(place + n_matrix)
