"""Lists of rows (one word each) in a warp's arena: drop dominated ones, sort, restrict excluded ones.

A list is given by its first entry in the arena and its length; the excluded rows of a child, in two pieces, by a bundle
(`Earlier`). Every function is called by all lanes, and leaves the arena in a state that all lanes see.

`drop_dominated` contains the pruning by local neighbourhood size of GMBE (idea 2 of its slides) and GMBE+ IV-A 2. There
a candidate is dropped if its neighbourhood within L lies inside a traversed sibling's, and is unchanged in that
sibling's child. Here a candidate is dropped if it lies inside any excluded row.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.device.intrinsics import onward
from mbe_stage.device.warp import (
    ALL,
    ballot,
    clear,
    count_bits,
    first_bit,
    lowest_bit,
    max_all,
    next_tile,
    or_all,
    rank,
    shuffle_word,
)

_U = np.uint32
_ONE = _U(1)
_NONE = _U(0)
_HASH_FACTOR = _U(0x9E3779B1)


@cuda.jit(device=True, forceinline=True)
def word_at(k, n, first, words):
    """The k-th word of a list, 0 behind the last."""
    return words[_U(first + k)] if k < n else _NONE


@cuda.jit(device=True, forceinline=True)
def _excluded_at(k, earlier, words):
    """The k-th excluded row of a child, 0 behind the last."""
    return words[_U(earlier.first + k + (earlier.gap if k >= earlier.split else 0))] if k < earlier.n else _NONE


@cuda.jit(device=True, forceinline=True)
def append(keep, row, top, n, words):
    """Append the rows of the lanes that `keep` theirs to ``words[top:top + n]``; return the list's length."""
    mask = ballot(keep)
    if keep:
        words[_U(top + n + rank(mask))] = row
    return np.int32(n + count_bits(mask))


@cuda.jit(device=True, forceinline=True)
def inside_none(words, earlier, mine, alive):
    """Lanes of `alive` whose row `mine` lies inside none of the excluded rows."""
    lane = np.int32(cuda.laneid)
    tile = np.int32(0)
    while tile < earlier.n and alive != 0:
        excluded = _excluded_at(np.int32(tile + lane), earlier, words)
        rest = alive
        while rest != 0:
            j, rest = lowest_bit(rest)
            if cuda.any_sync(ALL, _U(shuffle_word(mine, j) & ~excluded) == 0):
                alive = _U(alive & ~_U(_ONE << _U(j)))
        tile = next_tile(tile)
    return alive


@cuda.jit(device=True, forceinline=True)
def is_single(row, singles):
    """True if a row is one of these columns, alone."""
    return _U(row & _U(row - _ONE)) == 0 and _U(row & singles) != 0


@cuda.jit(device=True, forceinline=True)
def drop_dominated(words, top, n, singles, earlier):
    """Keep rows of ``words[top:top + n]`` that lie inside no excluded row and are no column of `singles`."""
    lane = np.int32(cuda.laneid)
    kept = np.int32(0)
    tile = np.int32(0)
    while tile < n:
        mine = word_at(np.int32(tile + lane), n, top, words)
        is_known = is_single(mine, singles)
        alive = inside_none(words, earlier, mine, ballot(mine != 0 and not is_known))
        cuda.syncwarp()
        if _U(alive & _U(_ONE << _U(lane))) != 0:
            words[_U(top + kept + rank(alive))] = mine
        kept = np.int32(kept + count_bits(alive))
        tile = next_tile(tile)
    cuda.syncwarp()
    return kept


@cuda.jit(device=True, forceinline=True)
def sort_distinct(words, top, n):
    """Sort ``words[top:top + n]`` ascending and keep one of equal rows; return the number of rows."""
    if n <= 1:
        return n
    if n <= 32:
        return _sort_in_registers(words, top, n)
    _sort_in_arena(words, top, n)
    lane = np.int32(cuda.laneid)
    kept = np.int32(0)
    previous = _NONE
    tile = np.int32(0)
    while tile < n:
        mine = word_at(np.int32(tile + lane), n, top, words)
        before = shuffle_word(mine, max(lane - 1, 0))
        if lane == 0:
            before = previous
        is_new = np.int32(tile + lane) < n and mine != before
        previous = shuffle_word(mine, 31)
        cuda.syncwarp()
        kept = append(is_new, mine, top, kept, words)
        tile = next_tile(tile)
    cuda.syncwarp()
    return kept


@cuda.jit(device=True, forceinline=True)
def _sort_in_registers(words, top, n):
    lane = np.int32(cuda.laneid)
    mine = word_at(lane, n, top, words)
    is_first = lane < n
    below = np.int32(0)
    rest = ballot(is_first)
    while rest != 0:
        j = first_bit(rest)
        other = shuffle_word(mine, j)
        # Equal rows leave the loop together, and only the first of them stays.
        equal = ballot(is_first and other == mine)
        rest = _U(rest & ~equal)
        if other == mine and lane > j:
            is_first = False
        if other < mine:
            below = np.int32(below + 1)
    cuda.syncwarp()
    if is_first:
        words[_U(top + below)] = mine
    n_kept = count_bits(ballot(is_first))
    cuda.syncwarp()
    return n_kept


@cuda.jit(device=True, forceinline=True)
def _sort_in_arena(words, top, n):
    """Sort by bitonic merges; each comparison puts the smaller row first, so rows past the end need not exist."""
    n_pairs = np.int32(1)
    while np.int32(2 * n_pairs) < n:
        n_pairs = np.int32(2 * n_pairs)
    size = np.int32(1)
    while size <= n_pairs:
        step = size
        while step > 0:
            pair = np.int32(cuda.laneid)
            while pair < n_pairs:
                offset = np.int32(pair & (step - 1))
                low = np.int32(2 * pair - offset)
                high = np.int32(low + step)
                if step == size:
                    high = np.int32(low + 2 * (step - offset) - 1)
                if high < n:
                    a = words[_U(top + low)]
                    b = words[_U(top + high)]
                    if a > b:
                        words[_U(top + low)] = b
                        words[_U(top + high)] = a
                pair = next_tile(pair)
            cuda.syncwarp()
            step = np.int32(step >> 1)
        size = np.int32(2 * size)


@cuda.jit(device=True, forceinline=True)
def is_among(row, words, first, n):
    """True if this lane's row is in an ascending, nonempty list."""
    size = n
    while size > 1:
        half = np.int32(size >> 1)
        if words[_U(first + half)] <= row:
            first = np.int32(first + half)
        size = onward(size, np.int32(-half))
    return words[_U(first)] == row


@cuda.jit(device=True, forceinline=True)
def union_of(words, top, n):
    """Return all columns of a list of rows."""
    union = _NONE
    k = np.int32(cuda.laneid)
    while k < n:
        union = _U(union | words[_U(top + k)])
        k = next_tile(k)
    return or_all(union)


@cuda.jit(device=True, forceinline=True)
def restrict(words, earlier, mask, top, table, mode):
    """Restrict the excluded rows to `mask`, and write those with two columns or more to `top`, each about once.

    Most repetitions are left out: `table`, shared memory of the warp, keeps one row for each hash. So are rows inside
    the widest, if there are many and bicliques are only counted. The target may overlap the list from below: a tile is
    read before it is written. Returns the number of rows written, and the columns that are restrictions by themselves.
    """
    lane = np.int32(cuda.laneid)
    clear(table, layout.TABLE_SIZE)
    kept = np.int32(0)
    singles = _NONE
    widest = _NONE
    tile = np.int32(0)
    while tile < earlier.n:
        row = _U(_excluded_at(np.int32(tile + lane), earlier, words) & mask)
        keep = _U(row & _U(row - _ONE)) != 0
        if keep:
            # One of the lanes with the same row finds the slot free; another row there only means that this one is
            # kept.
            keep = cuda.atomic.cas(table, _U(_U(row * _HASH_FACTOR) >> _U(24)), _NONE, row) != row
        else:
            singles = _U(singles | row)
        if mode < layout.SIZES and keep and count_bits(row) > count_bits(widest):
            widest = row
        cuda.syncwarp()
        kept = append(keep, row, top, kept, words)
        tile = next_tile(tile)
    cuda.syncwarp()
    if mode < layout.SIZES and kept > 32:
        kept = _drop_inside_widest(words, top, kept, widest)
    return kept, or_all(singles)


@cuda.jit(device=True, forceinline=True)
def _drop_inside_widest(words, top, n, widest):
    """Keep rows of ``words[top:top + n]`` that lie inside none of the four widest of the lanes' `widest` rows.

    Rows inside excluded ones exclude nothing more, and a few hold most others. These come last. Returns the new number.
    """
    lane = np.int32(cuda.laneid)
    first, widest = _take_widest(widest)
    second, widest = _take_widest(widest)
    third, widest = _take_widest(widest)
    fourth, widest = _take_widest(widest)
    kept = np.int32(0)
    tile = np.int32(0)
    while tile < n:
        row = word_at(np.int32(tile + lane), n, top, words)
        keep = _U(row & ~first) != 0 and _U(row & ~second) != 0 and _U(row & ~third) != 0 and _U(row & ~fourth) != 0
        cuda.syncwarp()
        kept = append(keep, row, top, kept, words)
        tile = next_tile(tile)
    cuda.syncwarp()
    outer = (first if lane == 0 else second) if lane < 2 else (third if lane == 2 else fourth)
    kept = append(lane < 4 and outer != 0, outer, top, kept, words)
    cuda.syncwarp()
    return kept


@cuda.jit(device=True, forceinline=True)
def _take_widest(rows):
    """Return the widest of the lanes' rows, and the rows, 0 for those inside it."""
    lane = np.int32(cuda.laneid)
    outer = shuffle_word(rows, np.int32(max_all(np.int32(count_bits(rows) << 5) + lane) & 31))
    return outer, rows if _U(rows & ~outer) != 0 else _NONE
