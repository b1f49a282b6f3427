"""Subgraphs in the pool: offsets of their parts, vertices of their columns, bounds on their subtrees.

Parts have 32-bit offsets from the node's begin: positions in the whole pool would take twice the registers. Bounds are
computed only if the query has size constraints.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import ACTIVE, MAX_RIGHT, MIN_EDGES, MIN_RIGHT
from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.walk_bundles import Node
from mbe_stage.device.warp import count_bits, exclusive_sums, lowest_bits, next_one, next_tile, sum_small

_U = np.uint32
_ONE = _U(1)


@cuda.jit(device=True, forceinline=True)
def entry(node, place):
    """Index in `Pool.ints` of an entry of the node's segment, uint64."""
    return np.uint64(node.offset + np.int64(_U(place)))


@cuda.jit(device=True, forceinline=True)
def parts_of(offset, n_columns, n_rows, n_edges, n_ids, n_path, shift):
    """Return the `Node` that begins at `offset` with parts of these sizes.

    Parameters
    ----------
    offset : int64
        First entry of its segment of the pool.
    shift : int32
        See `layout.NODE_SHIFT`.
    """
    ids = _U(n_columns + 1)
    row_ids = _U(ids + _U(n_ids))
    row_offsets = _U(row_ids + _U(n_rows))
    column_offsets = _U(row_offsets + _U(n_rows + 1))
    row_members = _U(column_offsets + _U(n_columns + 1))
    column_members = _U(row_members + _U(n_edges))
    path = _U(column_members + _U(n_edges))
    lists = ids, row_ids, row_offsets, column_offsets, row_members, column_members
    return Node(np.int64(offset), *lists, path, np.int32(n_path), _U(path + _U(n_path)), np.int32(shift))


@cuda.jit(device=True, forceinline=True)
def node_at(number, pool):
    """The subgraph with this number."""
    fields = pool.nodes[number]
    return parts_of(
        fields[layout.NODE_OFFSET],
        fields[layout.NODE_COLUMNS],
        fields[layout.NODE_ROWS],
        fields[layout.NODE_EDGES],
        fields[layout.NODE_IDS],
        fields[layout.NODE_PATH],
        fields[layout.NODE_SHIFT],
    )


@cuda.jit(device=True, forceinline=True)
def set_bit(row, column, new, numbers):
    """Note in its bitmap that a column has a row, if the node has bitmaps (`column_bitmaps`)."""
    if new.shift > 0:
        word = _U(_U(_U(column) << _U(new.shift)) + _U(_U(row) & _U((_ONE << _U(new.shift)) - _ONE)))
        bit = np.int32(_U(_ONE << _U(_U(row) >> _U(new.shift))))
        cuda.atomic.or_(numbers, entry(new, new.bitmaps + word), bit)


@cuda.jit(device=True, forceinline=True)
def count_ids(node, child, own, numbers):
    """Count the vertices of the reduced graph in the kept columns."""
    n_ids = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < child.n_left:
        if own.columns[_U(k)] >= 0:
            first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
            n_ids = np.int32(n_ids + (end - first))
        k = next_tile(k)
    return sum_small(n_ids)


@cuda.jit(device=True, forceinline=True)
def are_groups(columns):
    """True if the columns are groups (`prefix_groups`); the sizes of other merged columns have a larger offset."""
    return columns.is_merged and columns.sizes <= 2


@cuda.jit(device=True, forceinline=True)
def group_at(k, columns, node, child, own, numbers):
    """First position of the k-th kept group in the left set, its first column in the node, and its size; -1, 0, 0."""
    place, column, size = np.int32(-1), np.int32(0), np.int32(0)
    if k < columns.n_columns:
        at = np.int32((columns.sizes >> 1) + k)
        place = own.columns[_U(at)]
        size = np.int32((own.columns[_U(at + 1)] if k + 1 < columns.n_columns else child.n_left) - place)
        column = numbers[entry(node, child.left_at + place)]
    return place, column, size


@cuda.jit(device=True, forceinline=True)
def fill(entries, first, n, value):
    """Set `n` entries from `first` on to a value."""
    k = np.int32(cuda.laneid)
    while k < n:
        entries[np.uint64(first + k)] = value
        k = next_tile(k)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def write_sizes(node, child, columns, own, target, at, n_columns, numbers, mode):
    """Write how many vertices each of the columns numbered in `columns` has, from ``target[at]`` on.

    In modes without ids these are the user's vertices. The target is the pool, or the warp's arena of ints. For a word,
    `n_columns` is larger than the number of the child's columns.
    """
    lane = np.int32(cuda.laneid)
    fill(target, at, n_columns, 0)
    tile = np.int32(0)
    if mode < layout.MEMBERS and are_groups(columns):
        while tile < columns.n_columns:
            place, first_column, size = group_at(np.int32(tile + lane), columns, node, child, own, numbers)
            if place >= 0:
                first, _ = ids_of(node, first_column, numbers)
                _, end = ids_of(node, first_column + size - 1, numbers)
                target[np.uint64(at + tile + lane)] = np.int32(end - first)
            tile = next_tile(tile)
    else:
        while tile < child.n_left:
            column, first, end = _ids_at(tile, node, child, own, numbers)
            if column >= 0:
                cuda.atomic.add(target, np.uint64(at + column), np.int32(end - first))
            tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def write_ids(node, child, columns, own, target, offsets, n_columns, ids, numbers, mode):
    """Write the vertices of the reduced graph of each of the columns numbered in `columns`.

    ``target[offsets:]`` receives `n_columns` + 1 offsets, ``target[ids:]`` the vertices. In modes without ids, the
    offsets count the user's vertices. Other parameters are those of `write_sizes`.
    """
    # If there are ids, each offset is first the begin of its list and, after filling, its end: the begin of the next.
    shift = np.int32(0 if mode < layout.MEMBERS else 1)
    if cuda.laneid == 0:
        target[np.uint64(offsets + (0 if mode >= layout.MEMBERS else n_columns))] = 0
    write_sizes(node, child, columns, own, target, offsets + shift, n_columns, numbers, mode)
    exclusive_sums(target, np.int64(offsets + shift), np.int32(n_columns + 1 - shift))
    tile = np.int32(0)
    while tile < (0 if mode < layout.MEMBERS else child.n_left):
        column, first, end = _ids_at(tile, node, child, own, numbers)
        if column >= 0:
            place = cuda.atomic.add(target, np.uint64(offsets + 1 + column), np.int32(end - first))
            to = np.int64(ids + place - first)
            while first < end:
                target[np.uint64(to + first)] = numbers[entry(node, node.ids + first)]
                first = next_one(first)
        tile = next_tile(tile)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _ids_at(tile, node, child, own, numbers):
    """The new column at this lane's position in the left set, -1 for none, and the positions of its vertices."""
    k = np.int32(tile + cuda.laneid)
    column = np.int32(layout.NO_COLUMN)
    first, end = np.int32(0), np.int32(0)
    if k < child.n_left:
        column = own.columns[_U(k)]
        first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
    return column, first, end


@cuda.jit(device=True, forceinline=True)
def ids_of(node, column, numbers):
    """Begin and end, among the node's ids, of a column's vertices of the reduced graph."""
    return numbers[entry(node, column)], numbers[entry(node, column + 1)]


@cuda.jit(device=True, forceinline=True)
def has_constraints(mode, pool):
    """True if there are constraints. Modes that only count or write members are compiled without the check."""
    return mode == layout.WITHIN or (
        (mode == layout.SIZES or mode == layout.CONSTRAINED) and pool.constraints[ACTIVE] != 0
    )


@cuda.jit(device=True, forceinline=True)
def left_sizes(node, child, counts_twins, pool, mode):
    """This lane's share of the vertices of the reduced graph in a child's left set, and, if `counts_twins`, the user's.

    In modes without ids, both are the user's.
    """
    numbers = pool.ints
    n_members = np.int32(0)
    multiplicity = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < child.n_left:
        first, end = ids_of(node, numbers[entry(node, child.left_at + k)], numbers)
        n_members = np.int32(n_members + (end - first))
        while counts_twins and mode >= layout.MEMBERS and first < end:
            multiplicity = np.int32(
                multiplicity + pool.column_multiplicities[_U(numbers[entry(node, node.ids + first)])]
            )
            first = next_one(first)
        k = next_tile(k)
    return n_members, multiplicity if mode >= layout.MEMBERS else n_members


@cuda.jit(device=True, forceinline=True)
def right_bounds(seen, node, child, needs_most, own, pool):
    """Fewest and, if `needs_most`, most of the user's right vertices of the bicliques from a child on.

    At least: the path, the child and the later rows that hold all of its left set. At most: all later rows that see it,
    too. An earlier row is on no right side below, since left sets inside it were found before. Without these bounds, a
    large minimum on the right would have rows tried in all their subsets although it leaves no choice, and a small
    maximum would have all larger bicliques visited.
    """
    numbers = pool.ints
    least = np.int32(0)
    more = np.int32(0)
    k = np.int32(cuda.laneid)
    while k < node.n_path:
        least = np.int32(least + pool.row_multiplicities[_U(numbers[entry(node, node.path + k)])])
        k = next_tile(k)
    whole = child.whole if seen.is_list else np.int32(lowest_bits(child.n_left))
    k = np.int32(cuda.laneid)
    while k < seen.n_nonzero:
        other = own.nonzero[_U(k)]
        if other >= child.row:
            multiplicity = pool.row_multiplicities[_U(numbers[entry(node, node.row_ids + other)])]
            held = own.counts[_U(other)] if seen.is_list else np.int32(own.bits[_U(other)])
            if held == whole:
                least = np.int32(least + multiplicity)
            elif needs_most and (held if seen.is_list else count_bits(held)) >= child.fewest:
                more = np.int32(more + multiplicity)
        k = next_tile(k)
    least = sum_small(least)
    return least, np.int32(least + sum_small(more))


@cuda.jit(device=True, forceinline=True)
def allows(left_most, right_least, right_most, pool):
    """True if sides within these bounds, in the user's vertices, may have a wanted right size and enough edges."""
    return (
        right_least <= pool.constraints[MAX_RIGHT]
        and right_most >= pool.constraints[MIN_RIGHT]
        and np.int64(left_most) * right_most >= pool.constraints[MIN_EDGES]
    )
