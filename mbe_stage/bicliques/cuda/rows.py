"""Lists of rows (one word each) in a warp's arena: dropping dominated ones, sorting, restricting excluded ones.

A list is named by its first entry in the arena and its length. Every function is called by all lanes, and ends with
the arena in a state that all lanes see.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda.layout import TABLE_SIZE
from mbe_stage.bicliques.cuda.warp import ALL, ballot, or_all, rank, shuffle_word

__all__ = ["clear_table", "drop_dominated", "inside_none", "restrict", "sort_distinct", "union_of"]

_U = np.uint64
_ONE = _U(1)
_FULL = ~_U(0)
_HASH_FACTOR = _U(0x9E3779B97F4A7C15)


@cuda.jit(device=True, forceinline=True)
def inside_none(words, first, n, mine, alive):
    """Lanes of `alive` whose row `mine` lies inside none of the list's rows."""
    lane = cuda.laneid
    for tile in range(0, n, 32):
        excluded = _U(0)
        if tile + lane < n:
            excluded = words[first + tile + lane]
        rest = alive
        while rest != 0:
            j = cuda.ffs(rest) - 1
            rest &= rest - np.uint32(1)
            row = shuffle_word(mine, j)
            if cuda.any_sync(ALL, row & ~excluded == _U(0)):
                alive &= ~(np.uint32(1) << np.uint32(j))
        if alive == 0:
            break
    return alive


@cuda.jit(device=True, forceinline=True)
def drop_dominated(words, top, n, singles, first_a, n_a, first_b, n_b):
    """Keep those of ``words[top:top + n]`` that lie inside no row of two lists and are no column of `singles`."""
    lane = cuda.laneid
    kept = 0
    for tile in range(0, n, 32):
        mine = _U(0)
        if tile + lane < n:
            mine = words[top + tile + lane]
        is_single = mine & (mine - _ONE) == _U(0) and mine & singles != _U(0)
        alive = ballot(mine != _U(0) and not is_single)
        alive = inside_none(words, first_b, n_b, mine, alive)
        if alive != 0:
            alive = inside_none(words, first_a, n_a, mine, alive)
        cuda.syncwarp()
        if (alive >> np.uint32(lane)) & np.uint32(1):
            words[top + kept + rank(alive)] = mine
        kept += cuda.popc(np.uint32(alive))
    cuda.syncwarp()
    return kept


@cuda.jit(device=True, forceinline=True)
def sort_distinct(words, top, n):
    """Sort ``words[top:top + n]`` ascending and keep one of equal rows; returns how many are left."""
    if n <= 1:
        return n
    if n <= 32:
        return _sort_in_registers(words, top, n)
    _sort_in_arena(words, top, n)
    lane = cuda.laneid
    kept = 0
    previous = _U(0)
    for tile in range(0, n, 32):
        mine = _U(0)
        if tile + lane < n:
            mine = words[top + tile + lane]
        before = shuffle_word(mine, max(lane - 1, 0))
        if lane == 0:
            before = previous
        is_new = tile + lane < n and mine != before
        mask = ballot(is_new)
        previous = shuffle_word(mine, 31)
        cuda.syncwarp()
        if is_new:
            words[top + kept + rank(mask)] = mine
        kept += cuda.popc(np.uint32(mask))
    cuda.syncwarp()
    return kept


@cuda.jit(device=True, forceinline=True)
def _sort_in_registers(words, top, n):
    lane = cuda.laneid
    mine = _FULL
    if lane < n:
        mine = words[top + lane]
    is_first = lane < n
    for j in range(n):
        if shuffle_word(mine, j) == mine and j < lane:
            is_first = False
    firsts = ballot(is_first)
    below = 0
    rest = firsts
    while rest != 0:
        j = cuda.ffs(rest) - 1
        rest &= rest - np.uint32(1)
        if shuffle_word(mine, j) < mine:
            below += 1
    cuda.syncwarp()
    if is_first:
        words[top + below] = mine
    cuda.syncwarp()
    return cuda.popc(np.uint32(firsts))


@cuda.jit(device=True, forceinline=True)
def _sort_in_arena(words, top, n):
    """Bitonic merges whose every comparison puts the smaller row first: rows past the end need not exist."""
    lane = cuda.laneid
    log_n = 64 - cuda.clz(_U(n - 1))
    n_pairs = 1 << (log_n - 1)
    for log_size in range(1, log_n + 1):
        for log_step in range(log_size - 1, -1, -1):
            for pair in range(lane, n_pairs, 32):
                offset = pair & ((1 << log_step) - 1)
                low = ((pair >> log_step) << (log_step + 1)) + offset
                high = low + (1 << log_step)
                if log_step == log_size - 1:
                    high = low + (1 << log_size) - 1 - 2 * offset
                if high < n:
                    a = words[top + low]
                    b = words[top + high]
                    if a > b:
                        words[top + low] = b
                        words[top + high] = a
            cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def union_of(words, top, n):
    """All columns of a list of rows."""
    union = _U(0)
    for k in range(cuda.laneid, n, 32):
        union |= words[top + k]
    return or_all(union)


@cuda.jit(device=True, forceinline=True)
def clear_table(table):
    """Empty the warp's hash table."""
    for k in range(cuda.laneid, TABLE_SIZE, 32):
        table[k] = _U(0)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def restrict(words, first, n, mask, top, kept, singles, table):
    """Append the restrictions to `mask` of a list's rows that have two columns or more to ``words[top:top + kept]``.

    Most that are there already are left out: `table` remembers a row for each hash, and forgets none. Restrictions to a
    single column are collected in this lane's `singles` (unite them in the end). The target may overlap the list from
    below: a tile is read before it is written.

    Returns
    -------
    kept : int
    singles : uint64
    """
    lane = cuda.laneid
    for tile in range(0, n, 32):
        row = _U(0)
        if tile + lane < n:
            row = words[first + tile + lane] & mask
        several = row & (row - _ONE) != _U(0)
        if not several:
            singles |= row
        keep = several
        if several:
            # Of lanes with the same row one finds the place free; another row there only means that this one is kept.
            keep = cuda.atomic.cas(table, np.int32((row * _HASH_FACTOR) >> _U(56)), _U(0), row) != row
        mask_kept = ballot(keep)
        cuda.syncwarp()
        if keep:
            words[top + kept + rank(mask_kept)] = row
        kept += cuda.popc(np.uint32(mask_kept))
    cuda.syncwarp()
    return kept, singles
