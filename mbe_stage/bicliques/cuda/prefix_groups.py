"""Roots among the most frequent rows of a skewed graph, from ranges of columns instead of single columns.

If the columns are sorted (`column_order`), the columns of such a root with the same later rows have consecutive
numbers: they are a *group*, which becomes one column of the child. So a root with 10^5 columns is a few hundred ranges.
An earlier row holds a group if its ascending list has all of the range, which one binary search in that list shows.
Only the earlier rows of the group's first column can do so.

No earlier row holds all columns of a root and more, since rows ascend by degree. Twins are merged, unless their hash
collides with another vertex's. So a root is maximal unless an earlier row has the same columns.

`columns` has the first position of each group in the left set, the arena of words its key: the word of its columns from
the root's bit on, two uint32. Recorded (row, group) pairs follow, where `subgraph_build.record_of` expects them. If the
first group holds no candidate, it is not kept, and `Columns.sizes` is the offset of the second key; otherwise 0.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.subgraph_build import record_of
from mbe_stage.bicliques.cuda.subgraph_parts import entry, group_at
from mbe_stage.bicliques.cuda.two_step_paths import append_nonzero, end_to_end, list_of, path_at, record
from mbe_stage.bicliques.cuda.walk_bundles import Columns, Rows
from mbe_stage.bicliques.cuda.work_donation import ask_for_words
from mbe_stage.device.intrinsics import onward
from mbe_stage.device.masks import of_halves
from mbe_stage.device.warp import ALL, ballot, count_bits, lowest_bit, next_tile, or_all, rank

_U = np.uint32
_L = np.uint64
_ONE = _U(1)
_NONE = _U(0)
_HALF = _L(32)
_SOME = 1 << 30
"""Instead of the count of a row that holds some columns of the root: it is never too small."""
_STRIDE = 1024
"""Columns between whose ends a warp looks for groups at once: 32 tiles."""


@cuda.jit(device=True, forceinline=True)
def is_grouped_root(number, node, child, pool, mode):
    """True if a child is made from ranges of columns: a wide root among the last rows of a sorted graph."""
    return (
        mode < layout.MEMBERS
        and number == 0
        and pool.prefixes.size > layout.PREFIX_ROWS
        and child.n_left > layout.WORD_BITS
        and child.row >= _n_rows(node) - layout.PREFIX_ROWS
    )


@cuda.jit(device=True, forceinline=True)
def _n_rows(node):
    return np.int32(_U(node.row_offsets - node.row_ids))


@cuda.jit(device=True, forceinline=True)
def _bit_of(node, child):
    """Bit of the root's row in the words of the columns."""
    return np.int32(child.row - (_n_rows(node) - layout.PREFIX_ROWS))


@cuda.jit(device=True, forceinline=True)
def left_size_of_root(node, child, pool):
    """Number of the user's vertices in the left set."""
    return np.int32(pool.prefixes[_U(_bit_of(node, child))])


@cuda.jit(device=True, forceinline=True)
def _key_at(k, node, child, pool):
    """Rows from the root's on that hold the column at a position of the left set, as bits; never 0."""
    column = pool.ints[entry(node, child.left_at + k)]
    return _L(_L(pool.prefixes[_U(layout.PREFIX_ROWS + column)]) >> _L(_bit_of(node, child)))


@cuda.jit(device=True, forceinline=True)
def find_groups(node, child, own, pool, launch):
    """Find the groups of a root, and collect its later rows in `nonzero`, `counts` and `subsets`.

    Returns True if the arena suffices (otherwise the quantum ends); the `Rows` from the root's on, which are candidates
    or hold the whole left set; and as `Columns` the groups that a candidate holds.
    """
    n_groups, n_first, some, both = _write_groups(node, child, own, pool)
    fits = ask_for_words(np.int32(2 * n_groups), own.words, launch)
    n_nonzero, n_candidates = np.int32(0), np.int32(0)
    for half in range(2):
        low, low_both = _U(some >> _L(32 * half)), _U(both >> _L(32 * half))
        is_row = fits and _U(low >> _U(cuda.laneid)) & _ONE != 0
        is_full = is_row and _U(low_both >> _U(cuda.laneid)) & _ONE != 0
        row = np.int32(child.row + 32 * half + cuda.laneid)
        candidates = ballot(is_row and not is_full)
        if is_row:
            own.counts[_U(row)] = child.whole if is_full else np.int32(_SOME)
            if not is_full:
                own.subsets[_U(n_candidates + rank(candidates))] = _U(row)
        n_candidates = np.int32(n_candidates + count_bits(candidates))
        n_nonzero = append_nonzero(is_row, row, n_nonzero, own)
    cuda.syncwarp()
    # Only the first group can be without a candidate, since keys ascend.
    n_dropped = np.int32(_L(of_halves(own.words[0], own.words[1]) & ~both) == 0)
    n_kept = np.int32(child.n_left - (n_first if n_dropped != 0 else 0))
    most_earlier = child.whole if _has_earlier_twin(node, child, pool.ints) else np.int32(0)
    rows = Rows(n_nonzero, np.int32(0), n_candidates, np.int32(n_nonzero - n_candidates), most_earlier)
    return fits, rows, Columns(np.int32(n_groups - n_dropped), n_kept, True, np.int32(2 * n_dropped))


@cuda.jit(device=True, forceinline=True)
def _has_earlier_twin(node, child, numbers):
    """True if an earlier row has the same columns, among the rows before it with as many."""
    is_twin = False
    other = np.int32(child.row - 1)
    while other >= 0 and not is_twin:
        first = numbers[entry(node, node.row_offsets + other)]
        is_twin = np.int32(numbers[entry(node, node.row_offsets + other + 1)] - first) == child.n_left
        other = np.int32(other - 1 if is_twin else -1)
        tile = np.int32(0)
        while is_twin and tile < child.n_left:
            k = np.int32(tile + cuda.laneid)
            differs = False
            if k < child.n_left:
                differs = numbers[entry(node, child.left_at + k)] != numbers[entry(node, node.row_members + first + k)]
            is_twin = not cuda.any_sync(ALL, differs)
            tile = next_tile(tile)
    return is_twin


@cuda.jit(device=True, forceinline=True)
def _write_groups(node, child, own, pool):
    """Write the groups as far as the arena reaches.

    Returns their number, the size of the first one, and the rows that hold some column and those that hold all.
    """
    lane = np.int32(cuda.laneid)
    last = np.int32(child.n_left - 1)
    n_groups = np.int32(0)
    some, missing = _L(0), _L(0)
    before = _L(0)
    tile = np.int32(0)
    while tile < child.n_left:
        # Keys ascend: if those at the ends of two tiles are equal, so are all between.
        key = _key_at(np.int32(min(tile + 32 * lane + 31, last)), node, child, pool)
        former = _L(cuda.shfl_up_sync(ALL, np.int64(key), 1))
        if lane == 0:
            former = before
        changed = ballot(key != former)
        while changed != 0:
            source, changed = lowest_bit(changed)
            k = np.int32(tile + 32 * source + lane)
            inner = _key_at(np.int32(min(k, last)), node, child, pool)
            previous = _L(cuda.shfl_up_sync(ALL, np.int64(inner), 1))
            ahead = _L(cuda.shfl_sync(ALL, np.int64(former), source))
            if lane == 0:
                previous = ahead
            is_start = k <= last and inner != previous
            starts = ballot(is_start)
            group = np.int32(n_groups + rank(starts))
            if is_start:
                some |= inner
                missing |= ~inner
                own.columns[_U(group)] = k
                if 2 * group + 2 <= own.words.size:
                    own.words[_U(2 * group)] = _U(inner)
                    own.words[_U(2 * group + 1)] = _U(inner >> _HALF)
            n_groups = np.int32(n_groups + count_bits(starts))
        before = _L(cuda.shfl_sync(ALL, np.int64(key), 31))
        tile = onward(tile, np.int32(_STRIDE))
    cuda.syncwarp()
    n_first = own.columns[1] if n_groups > 1 else child.n_left
    return n_groups, n_first, _or_long(some), _L(~_or_long(missing))


@cuda.jit(device=True, forceinline=True)
def _or_long(word):
    """Union over all lanes, uint64."""
    return of_halves(or_all(_U(word)), or_all(_U(word >> _HALF)))


@cuda.jit(device=True, forceinline=True)
def note_rows(columns, rows, node, child, own, numbers):
    """Note which rows hold each group: in `bits`, its columns if they fit a word, else their number, beside a record.

    Earlier rows that hold a group are added to `nonzero`. The number of a group's rows replaces its key. Returns the
    numbers of rows in `nonzero`, and of pairs, which are recorded only as far as the arena reaches.
    """
    lane = np.int32(cuda.laneid)
    n_nonzero = rows.n_nonzero
    n_pairs = np.int32(0)
    are_many = columns.n_columns > layout.WORD_BITS
    held, held_high = _NONE, _NONE
    whole, whole_high = _whole_rows(np.int32(0), node, child, own), _whole_rows(np.int32(1), node, child, own)
    tile = np.int32(0)
    while tile < columns.n_columns:
        group = np.int32(tile + lane)
        place, first, size = group_at(group, columns, node, child, own, numbers)
        word = np.int32(columns.sizes + 2 * group)
        low, high = _NONE, _NONE
        if place >= 0:
            low, high = own.words[_U(word)], own.words[_U(word + 1)]
        n_later = np.int32(count_bits(low) + count_bits(high))
        low, high = _U(low & ~whole), _U(high & ~whole_high)
        held, n_pairs = _note_later(low, child.row, held, group, n_pairs, columns, own)
        held_high, n_pairs = _note_later(high, np.int32(child.row + 32), held_high, group, n_pairs, columns, own)
        # The rows in the word end the column's list.
        length, start = list_of(place, node, child, numbers)
        if place >= 0:
            own.words[_U(word)] = _U(count_bits(low) + count_bits(high))
        cuda.syncwarp()
        paths = end_to_end(np.int32(length - n_later), start)
        path = np.int32(0)
        while path < paths.total:
            other, holder = path_at(np.int32(path + lane), paths, node, numbers)
            of_first, of_size = cuda.shfl_sync(ALL, first, holder), cuda.shfl_sync(ALL, size, holder)
            is_live = _holds_range(other >= 0, other, of_first, of_size, node, numbers)
            is_new = _note_earlier(is_live, other, np.int32(tile + holder), columns, own)
            n_pairs = record(is_live and are_many, other, np.int32(tile + holder), record_of(columns), n_pairs, own)
            n_nonzero = append_nonzero(is_new, other, n_nonzero, own)
            path = next_tile(path)
        tile = next_tile(tile)
    if held != 0:
        own.bits[_U(child.row + lane)] = held
    if held_high != 0:
        own.bits[_U(child.row + 32 + lane)] = held_high
    cuda.syncwarp()
    return n_nonzero, n_pairs


@cuda.jit(device=True, forceinline=True)
def _whole_rows(half, node, child, own):
    """Rows from the root's on that hold its whole left set, as bits of one half of a key."""
    row = np.int32(child.row + 32 * half + cuda.laneid)
    is_row = row < _n_rows(node)
    return ballot(is_row and own.counts[_U(row if is_row else 0)] == child.whole)


@cuda.jit(device=True, forceinline=True)
def _note_later(rest, first, held, group, n_pairs, columns, own):
    """Note the pairs of 32 groups and of 32 later rows, a lane's group and row each.

    Returns what this lane's row holds, as in `bits`: `held` of earlier groups; and the number of pairs. The rows that
    hold its group are the bits of `rest`, the lowest one is `first`.
    """
    some = or_all(rest)
    are_many = columns.n_columns > layout.WORD_BITS
    while some != 0:
        bit, some = lowest_bit(some)
        is_held = _U(rest >> _U(bit)) & _ONE != 0
        mask = ballot(is_held)
        if cuda.laneid == bit:
            held = _U(held + _U(count_bits(mask))) if are_many else mask
        n_pairs = record(is_held and are_many, np.int32(first + bit), group, record_of(columns), n_pairs, own)
    return held, n_pairs


@cuda.jit(device=True, forceinline=True)
def _note_earlier(is_live, other, group, columns, own):
    """Note the groups of earlier rows in `bits`, and count them for the groups; True for a row that had none before."""
    is_new = False
    if is_live:
        cuda.atomic.add(own.words, _U(columns.sizes + 2 * group), _ONE)
        if columns.n_columns <= layout.WORD_BITS:
            is_new = cuda.atomic.or_(own.bits, _U(other), _U(_ONE << _U(group))) == 0
        else:
            is_new = cuda.atomic.add(own.bits, _U(other), _ONE) == 0
    return is_new


@cuda.jit(device=True, forceinline=True)
def _holds_range(is_asked, other, first, size, node, numbers):
    """True if a row that holds the column `first` holds the `size` columns from there on; by all lanes."""
    low, end = np.int32(0), np.int32(0)
    if is_asked:
        low = numbers[entry(node, node.row_offsets + other)]
        end = numbers[entry(node, node.row_offsets + other + 1)]
    is_long = is_asked and size <= np.int32(end - low)
    # The first position of `first` or a larger column; a single column needs no search.
    high = end if is_long and size > 1 else low
    while cuda.any_sync(ALL, low < high):
        if low < high:
            middle = np.int32((low + high) >> 1)
            if numbers[entry(node, node.row_members + middle)] < first:
                low = np.int32(middle + 1)
            else:
                high = middle
    last = np.int32(low + size - 1)
    if is_long and size > 1:
        is_long = last < end and numbers[entry(node, node.row_members + last)] == np.int32(first + size - 1)
    return is_long
