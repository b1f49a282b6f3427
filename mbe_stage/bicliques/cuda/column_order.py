"""Sort the columns of a skewed graph, so that those with the same frequent rows stand side by side.

The last 64 rows of a column are the bits of a word, the most frequent row the highest. Columns ascend by their words.
So they are the leaves of a prefix tree over these rows: the columns of one of the rows that share all later rows have
consecutive numbers. `prefix_groups` builds the widest roots from such ranges instead of from single columns.

Sorting costs half a millisecond or more, so it is left out if no row is long (`LONG_ROW`).
"""

from __future__ import annotations

import cupy as cp
import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.memory_plan import ReducedSizes
from mbe_stage.device.grid import THREADS, n_warps, this_thread, this_warp
from mbe_stage.device.jit import I32, I64, INT, U64, kernel
from mbe_stage.device.launch import launch_blocks, launch_threads
from mbe_stage.device.warp import ALL, inclusive_sum, owner_of

_ONE = np.uint64(1)


def sort_columns(
    ints: cp.ndarray, facts: ReducedSizes, n_blocks: int, row_vertices: cp.ndarray, row_offsets: cp.ndarray
) -> cp.ndarray:
    """Renumber the columns of the whole graph by their words.

    The vertices of a column keep their numbers, so only the node's ids change with the columns' order.

    Parameters
    ----------
    ints : int32
        Node 0 at the begin of the pool (`layout.Pool`).
    n_blocks : int
        Number of resident blocks.
    row_vertices : (n,) int64
        Vertices of the last rows, at most `layout.PREFIX_ROWS`.
    row_offsets : int64
        Offsets of their lists in the user's graph.

    Returns
    -------
    (PREFIX_ROWS + n_columns,) int64
        `layout.Pool.prefixes`.
    """
    n, n_edges = facts.n_columns, facts.n_edges
    offsets_at = 2 * n + 1 + 2 * facts.n_rows + 1
    row_members_at = offsets_at + n + 1
    members_at = row_members_at + n_edges
    grid = n_blocks, THREADS
    words, prefixes = cp.empty(n, cp.uint64), cp.empty(layout.PREFIX_ROWS + n, cp.int64)
    n_threads = max(n, layout.PREFIX_ROWS)
    rows = row_vertices, row_offsets, facts.n_rows
    launch_threads(column_words_thread_per_column, n_threads, ints, *rows, offsets_at, members_at, words, prefixes)
    order = cp.argsort(words, kind="stable")
    offsets = cp.zeros(n + 1, cp.int32)
    cp.cumsum(cp.diff(ints[offsets_at : offsets_at + n + 1])[order], dtype=cp.int32, out=offsets[1:])
    members, columns = cp.empty(n_edges, cp.int32), cp.empty(n_edges, cp.int32)
    copied = offsets_at, members_at, members, columns, prefixes
    launch_blocks(copy_columns_warp_per_tile, *grid, ints, order, words, offsets, *copied)
    # Edges by column become edges by row. The sort is stable, so the columns of a row ascend.
    by_row = cp.argsort(members, kind="stable")
    written = offsets_at, row_members_at, ints
    launch_blocks(write_edges_warp_per_tile, *grid, order, offsets, members, columns, by_row, *written)
    return prefixes


@kernel(I32, I64, I64, INT, INT, INT, U64, I64)
def column_words_thread_per_column(ints, row_vertices, row_offsets, n_rows, offsets_at, members_at, words, prefixes):
    """Collect the last rows of each column in a word: bit ``PREFIX_ROWS - k`` is row ``n_rows - k``.

    Parameters
    ----------
    row_vertices, row_offsets : int64, global
        As in `sort_columns`.
    offsets_at, members_at : int
        Positions of the columns' offsets and members.
    prefixes : int64, global
        Receives the sizes of the rows.
    """
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if column < layout.PREFIX_ROWS:
        row = column - layout.PREFIX_ROWS + row_vertices.size
        size = np.int64(0)
        if row >= 0:
            size = row_offsets[row_vertices[row] + 1] - row_offsets[row_vertices[row]]
        prefixes[column] = size
    if column >= words.size:
        return
    begin, k = ints[offsets_at + column], ints[offsets_at + column + 1] - 1
    first = n_rows - layout.PREFIX_ROWS
    word = np.uint64(0)
    while k >= begin and ints[members_at + k] >= first:
        word |= _ONE << np.uint64(ints[members_at + k] - first)
        k -= 1
    words[column] = word


@kernel(I32, I64, U64, I32, INT, INT, I32, I32, I64)
def copy_columns_warp_per_tile(ints, order, words, offsets, offsets_at, members_at, members, columns, prefixes):
    """Copy the lists and words of the columns in their new order, and the number of each edge's column.

    Parameters
    ----------
    order : (n_columns,) int64, global
        Columns by their words.
    offsets : (n_columns + 1,) int32, global
        Offsets of their lists in this order.
    members, columns : (n_edges,) int32, global
    """
    lane, n = cuda.laneid, order.size
    for tile in range(32 * this_warp(), n, 32 * n_warps()):
        length, start = 0, 0
        if tile + lane < n:
            old = order[tile + lane]
            prefixes[layout.PREFIX_ROWS + tile + lane] = np.int64(words[old])
            start = ints[offsets_at + old]
            length = ints[offsets_at + old + 1] - start
        ends = inclusive_sum(length)
        shift = np.int32(start - (ends - np.int32(length)))
        first = offsets[tile]
        total = cuda.shfl_sync(ALL, ends, 31)
        for group in range(0, total, 32):
            k = np.int32(group + lane)
            holder = owner_of(k, ends)
            begin = cuda.shfl_sync(ALL, shift, holder)
            if k < total:
                members[first + k] = ints[members_at + begin + k]
                columns[first + k] = tile + holder


@kernel(I64, I32, I32, I32, I64, INT, INT, I32)
def write_edges_warp_per_tile(order, offsets, members, columns, by_row, offsets_at, row_members_at, ints):
    """Write both directions of the edges into node 0, and the offsets and ids of its columns.

    Parameters
    ----------
    by_row : (n_edges,) int64, global
        Edges by row and column, as places in `members` and `columns`.
    """
    n, n_edges = order.size, members.size
    n_threads = 32 * n_warps()
    for k in range(this_thread(), n, n_threads):
        ints[n + 1 + k] = order[k]
        ints[offsets_at + k] = offsets[k]
    for k in range(this_thread(), n_edges, n_threads):
        ints[row_members_at + k] = columns[by_row[k]]
        ints[row_members_at + n_edges + k] = members[k]
