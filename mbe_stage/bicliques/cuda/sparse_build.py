"""Building a sparse node in the pool: the part of a node's graph that a left set sees, with local numbers."""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.warp import ALL, ballot, inclusive_sum, owner_of, rank

__all__ = ["build_sparse_node"]

_U = np.uint64
_ONE = _U(1)


@cuda.jit(device=True, forceinline=True)
def build_sparse_node(
    row, n_left, left_at, path_at, n_path, column_ids_at, row_ids_at, column_offsets_at, column_members_at, n_columns,
    n_touched, own_nodes, state, bits, counts, touched, columns, pool, control, wide_control
):  # fmt: skip
    """Make the child of `row` a sparse node that any warp may work on.

    `counts` says how many of the left set every touched row holds, `columns` which columns stay and as which.
    Excluded rows come first, candidates in ascending size: then no candidate is dominated by an earlier one, unless
    they are equal.
    """
    lane = cuda.laneid
    n_edges = _count_rows(n_left, left_at, column_offsets_at, column_members_at, bits, counts, columns, pool.ints)
    n_rows = 0
    n_full = 0
    n_excluded = 0
    for tile in range(0, n_touched, 32):
        is_live = False
        is_full = False
        other = 0
        if tile + lane < n_touched:
            other = touched[tile + lane]
            is_live = bits[other] != _U(0)
            is_full = counts[other] == n_left
        n_rows += cuda.popc(ballot(is_live))
        n_excluded += cuda.popc(ballot(is_live and other < row))
        n_full += cuda.popc(ballot(is_full))

    size = n_columns + n_rows + n_rows + 1 + n_columns + 1 + 2 * n_edges + n_path + n_full
    node, base = _allocate(size, pool, control, wide_control)
    if node < 0:
        return at.PAUSED
    numbers = pool.ints
    rows_at = base + n_columns
    row_offsets_at = rows_at + n_rows
    new_offsets_at = row_offsets_at + n_rows + 1
    row_members_at = new_offsets_at + n_columns + 1
    new_members_at = row_members_at + n_edges
    new_path_at = new_members_at + n_edges

    for k in range(lane, n_left, 32):
        if columns[k] >= 0:
            numbers[base + columns[k]] = numbers[column_ids_at + numbers[left_at + k]]
    for k in range(lane, n_path, 32):
        numbers[new_path_at + k] = numbers[path_at + k]
    # The new column offsets serve as a histogram of the candidates' sizes first.
    for k in range(lane, n_columns + 1, 32):
        numbers[new_offsets_at + k] = 0
    cuda.syncwarp()
    for k in range(lane, n_touched, 32):
        other = touched[k]
        if other > row and bits[other] != _U(0):
            cuda.atomic.add(numbers, new_offsets_at + np.int64(bits[other]), 1)
    cuda.syncwarp()
    _exclusive_sums(numbers, new_offsets_at, n_columns + 1)
    n_before = 0
    n_paths = n_path
    for tile in range(0, n_touched, 32):
        is_live = False
        is_full = False
        other = 0
        if tile + lane < n_touched:
            other = touched[tile + lane]
            is_live = bits[other] != _U(0)
            is_full = counts[other] == n_left
        full_rows = ballot(is_full)
        if is_full:
            numbers[new_path_at + n_paths + rank(full_rows)] = numbers[row_ids_at + other]
        n_paths += cuda.popc(full_rows)
        earlier = ballot(is_live and other < row)
        if is_live:
            local = n_before + rank(earlier)
            if other > row:
                local = n_excluded + cuda.atomic.add(numbers, new_offsets_at + np.int64(bits[other]), 1)
            numbers[rows_at + local] = numbers[row_ids_at + other]
            numbers[row_offsets_at + local] = np.int32(bits[other])
            bits[other] = _U(local + 1)
        n_before += cuda.popc(earlier)
    cuda.syncwarp()
    _exclusive_sums(numbers, row_offsets_at, n_rows)
    if lane == 0:
        numbers[row_offsets_at + n_rows] = n_edges
    for k in range(lane, n_columns + 1, 32):
        numbers[new_offsets_at + k] = 0
    cuda.syncwarp()
    # Counts are not needed any more: they become the rows' places to write at.
    for k in range(lane, n_touched, 32):
        other = touched[k]
        if bits[other] != _U(0):
            counts[other] = numbers[row_offsets_at + np.int64(bits[other]) - 1]
    cuda.syncwarp()
    _fill(
        n_left, left_at, column_offsets_at, column_members_at, new_offsets_at, row_members_at, new_members_at, bits,
        counts, columns, numbers
    )  # fmt: skip
    _exclusive_sums(numbers, new_offsets_at, n_columns)
    if lane == 0:
        numbers[new_offsets_at + n_columns] = n_edges
        fields = pool.nodes[node]
        fields[at.NODE_BASE] = base
        fields[at.NODE_COLUMNS] = n_columns
        fields[at.NODE_ROWS] = n_rows
        fields[at.NODE_EDGES] = n_edges
        fields[at.NODE_PATH] = n_path + n_full
        pool.cursors[node] = n_excluded
        n_own = state[at.N_OWN]
        if n_own < at.MAX_OWN_NODES:
            own_nodes[n_own] = node
            state[at.N_OWN] = n_own + 1
        cuda.atomic.add(control, at.N_OPEN, 1)
    # Everything must be out before the end says that the node has children.
    cuda.threadfence()
    cuda.syncwarp()
    if lane == 0:
        cuda.atomic.exch(pool.nodes[node], at.NODE_END, n_rows)
    cuda.syncwarp()
    return at.DONE


@cuda.jit(device=True, forceinline=True)
def _allocate(size, pool, control, wide_control):
    """A free node and its place in the pool; node -1 where there is none (the slice then ends)."""
    lane = cuda.laneid
    node = -1
    base = np.int64(0)
    if lane == 0:
        size = (size + at.ALIGNMENT - 1) // at.ALIGNMENT * at.ALIGNMENT
        base = cuda.atomic.add(wide_control, at.POOL_TOP, size)
        # Nothing is ever given back here: a top that overshoots only makes later ones fail too, and the slice ends.
        if base + size <= pool.ints.size:
            node = cuda.atomic.add(control, at.N_NODES, 1)
            if node >= pool.cursors.size:
                node = -1
                cuda.atomic.or_(control, at.STATUS, at.NODES_FULL)
                cuda.atomic.or_(control, at.SIGNAL, at.STOP_BIT)
        else:
            cuda.atomic.max(wide_control, at.NEEDED_POOL, size)
            cuda.atomic.or_(control, at.STATUS, at.POOL_FULL)
            cuda.atomic.or_(control, at.SIGNAL, at.STOP_BIT)
    node = cuda.shfl_sync(ALL, node, 0)
    base = cuda.shfl_sync(ALL, base, 0)
    return node, base


@cuda.jit(device=True, forceinline=True)
def _kept_lists_of(group, n_left, left_at, column_offsets_at, column_members_at, columns, numbers):
    """As for a whole left set, with the columns that are left out as empty lists; also this lane's new column."""
    k = group + cuda.laneid
    length = 0
    start = 0
    place = -1
    if k < n_left:
        place = columns[k]
        if place >= 0:
            column = numbers[left_at + k]
            start = numbers[column_offsets_at + column]
            length = numbers[column_offsets_at + column + 1] - start
    ends = inclusive_sum(length)
    shift = np.int64(start) + column_members_at - (ends - length)
    return ends, shift, place


@cuda.jit(device=True, forceinline=True)
def _count_rows(n_left, left_at, column_offsets_at, column_members_at, bits, counts, columns, numbers):
    """Count, in `bits`, the kept columns of every touched row that does not hold the whole left set."""
    lane = cuda.laneid
    n_edges = 0
    for group in range(0, n_left, 32):
        ends, shift, _ = _kept_lists_of(group, n_left, left_at, column_offsets_at, column_members_at, columns, numbers)
        total = cuda.shfl_sync(ALL, ends, 31)
        for tile in range(0, total, 32):
            holder = owner_of(tile + lane, ends)
            start = cuda.shfl_sync(ALL, shift, holder)
            counted = False
            if tile + lane < total:
                other = numbers[start + tile + lane]
                if counts[other] != n_left:
                    counted = True
                    cuda.atomic.add(bits, other, _ONE)
            n_edges += cuda.popc(ballot(counted))
    cuda.syncwarp()
    return n_edges


@cuda.jit(device=True, forceinline=True)
def _fill(
    n_left, left_at, column_offsets_at, column_members_at, new_offsets_at, row_members_at, new_members_at, bits,
    counts, columns, numbers
):  # fmt: skip
    """Write both directions of the new node's edges; column lists come out one behind the other by themselves."""
    lane = cuda.laneid
    n_written = 0
    for group in range(0, n_left, 32):
        ends, shift, place = _kept_lists_of(
            group, n_left, left_at, column_offsets_at, column_members_at, columns, numbers
        )
        total = cuda.shfl_sync(ALL, ends, 31)
        for tile in range(0, total, 32):
            holder = owner_of(tile + lane, ends)
            start = cuda.shfl_sync(ALL, shift, holder)
            column = cuda.shfl_sync(ALL, place, holder)
            local = np.int64(0)
            other = 0
            if tile + lane < total:
                other = numbers[start + tile + lane]
                local = np.int64(bits[other])
            mask = ballot(local > 0)
            if local > 0:
                numbers[new_members_at + n_written + rank(mask)] = local - 1
                numbers[row_members_at + cuda.atomic.add(counts, other, 1)] = column
                cuda.atomic.add(numbers, new_offsets_at + column, 1)
            n_written += cuda.popc(mask)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _exclusive_sums(numbers, first, n):
    """Replace each of n numbers by the sum of those before it."""
    lane = cuda.laneid
    before = 0
    for tile in range(0, n, 32):
        value = 0
        if tile + lane < n:
            value = numbers[first + tile + lane]
        ends = inclusive_sum(value)
        if tile + lane < n:
            numbers[first + tile + lane] = before + ends - value
        before += cuda.shfl_sync(ALL, ends, 31)
    cuda.syncwarp()
