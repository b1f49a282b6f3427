"""Bitmaps of the rows of a subgraph, one for each column: bitmap children combine them instead of reading lists.

A subgraph has hundreds or thousands of rows, and a column tens or hundreds of them. Reading the lists of a bitmap child
takes two passes with an atomic for each entry. A bitmap has 32 rows in a word, and a lane combines the words of all
columns at one place into two: the rows with one column, and those with several. Only the latter are looked at one by
one.

A bitmap has 32 words or more, a power of two. Row r is bit r // n of word r % n, so that frequent rows, which have the
highest numbers, are in different words. The whole graph has no bitmaps, nor have kernels that write: there, rows with
one column matter, too.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.closed_sets import add_subset
from mbe_stage.bicliques.cuda.subgraph_parts import entry
from mbe_stage.bicliques.cuda.techniques import BITMAPS
from mbe_stage.bicliques.cuda.two_step_paths import append_nonzero
from mbe_stage.device.intrinsics import onward
from mbe_stage.device.warp import ALL, count_bits, first_bit, lowest_bits, next_tile, or_all, shuffle_word

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_FEWEST_BITS = 5
"""Logarithm of the fewest words of a bitmap: one for each lane."""
_WORDS_PER_EDGE = 16
"""Most words of bitmaps for each edge: nodes with fewer edges have none."""
_MOST_EDGES = 1 << 26
"""Most edges of a node with bitmaps. So its size has 31 bits."""
_POOL_SHARE = 4
"""The bitmaps of a node take at most the size of the pool >> this, so that they alone never make it grow."""


@cuda.jit(device=True, forceinline=True)
def shift_of(n_columns, n_rows, n_edges, pool, launch):
    """Logarithm of the words of a bitmap in a node of these sizes; 0 without bitmaps."""
    if launch.mode >= layout.SIZES or launch.techniques & BITMAPS == 0:
        return np.int32(0)
    if n_edges > _MOST_EDGES or n_rows > 32 * layout.MOST_BITMAP_WORDS:
        return np.int32(0)
    shift = np.int32(_FEWEST_BITS)
    while np.int32(32 << shift) < n_rows:
        shift = np.int32(shift + 1)
    most_words = min(np.int64(_WORDS_PER_EDGE) * n_edges, np.int64(pool.ints.size) >> _POOL_SHARE)
    return np.int32(shift if np.int64(n_columns) << shift <= most_words else 0)


@cuda.jit(device=True, forceinline=True)
def combine_bitmaps(node, child, is_small, own, numbers):
    """Mark and collect the rows that hold several columns of a bitmap child, as `mark_rows` does with bits.

    If the child `is_small`, they go into `subsets` instead, empty before. Returns the number of collected rows, and the
    columns of `Singles`.
    """
    lane = np.int32(cuda.laneid)
    bitmap = _NONE
    if lane < child.n_left:
        bitmap = _U(node.bitmaps + _U(_U(numbers[entry(node, child.left_at + lane)]) << _U(node.shift)))
    n_words = np.int32(1 << node.shift)
    row_bit, row_word = np.int32(child.row >> node.shift), np.int32(child.row & (n_words - 1))
    n_nonzero = np.int32(0)
    earlier, later = _NONE, _NONE
    tile = np.int32(0)
    while tile < n_words:
        word = np.int32(tile + lane)
        n_before = np.int32(row_bit + (word < row_word))
        before = lowest_bits(n_before) if n_before > 0 else _NONE
        itself = _U(_ONE << _U(row_bit)) if word == row_word else _NONE
        some, several = _NONE, _NONE
        k = np.int32(0)
        while k < child.n_left:
            held, next_held = _two_words(k, word, bitmap, node, child, numbers)
            several = _U(several | (some & held))
            some = _U(some | held)
            several = _U(several | (some & next_held))
            some = _U(some | next_held)
            earlier = _with(earlier, k, held & before, next_held & before)
            k = onward(k, np.int32(2))
        single = _U(some & ~_U(_U(several | before) | itself))
        is_over = False
        # Two rows of each lane at a time; the first turn looks at single columns, too.
        while not is_over:
            bit, next_bit = first_bit(several), first_bit(_U(several & _U(several - _ONE)))
            mask = _U(several & _U(_NONE - several))
            several = _U(several ^ mask)
            next_mask = _U(several & _U(_NONE - several))
            several = _U(several ^ next_mask)
            row, next_row = _NONE, _NONE
            k = np.int32(0)
            while k < child.n_left:
                held, next_held = _two_words(k, word, bitmap, node, child, numbers)
                later = _with(later, k, held & single, next_held & single)
                row = _with(row, k, held & mask, next_held & mask)
                next_row = _with(next_row, k, held & next_mask, next_held & next_mask)
                k = onward(k, np.int32(2))
            if is_small:
                _add(row, mask & before, child, own)
                _add(next_row, next_mask & before, child, own)
            else:
                n_nonzero = _append(row, np.int32((bit << node.shift) + word), n_nonzero, own)
                n_nonzero = _append(next_row, np.int32((next_bit << node.shift) + word), n_nonzero, own)
            is_over = not cuda.any_sync(ALL, several != 0)
        tile = next_tile(tile)
    cuda.syncwarp()
    earlier = or_all(earlier)
    later = _U(or_all(later) & ~earlier) if child.fewest <= 1 else _NONE
    return n_nonzero, earlier, later


@cuda.jit(device=True, forceinline=True)
def _two_words(k, word, bitmap, node, child, numbers):
    """The words of columns `k` and `k` + 1 of the left set at this lane's place, 0 behind the last column."""
    first, second = shuffle_word(bitmap, k), shuffle_word(bitmap, np.int32(k + 1))
    held = _U(numbers[entry(node, first + _U(word))])
    next_held = _U(numbers[entry(node, second + _U(word))]) if k + 1 < child.n_left else _NONE
    return held, next_held


@cuda.jit(device=True, forceinline=True)
def _with(columns, k, some, next_some):
    """Add column `k` if `some` is not 0, and the next one likewise."""
    columns = _U(columns | _U(_ONE << _U(k))) if some != 0 else columns
    return _U(columns | _U(_U(2) << _U(k))) if next_some != 0 else columns


@cuda.jit(device=True, forceinline=True)
def _add(row, is_earlier, child, own):
    """Put a row into `subsets`, unless it holds too few columns."""
    add_subset(own.subsets, row if count_bits(row) >= child.fewest else _NONE, is_earlier != 0)


@cuda.jit(device=True, forceinline=True)
def _append(row, other, n_nonzero, own):
    """Mark the row numbered `other` with its columns, and collect it, if it has some; return the number of rows."""
    if row != 0:
        own.bits[_U(other)] = row
    return append_nonzero(row != 0, other, n_nonzero, own)
