"""Leaves counted by kind, in a hash table that all warps share.

A kind is four numbers in one key (`key_of`). Places are only ever filled within a quantum. A warp that finds a kind
which is not there yet spends credit, and credit is handed out for three quarters of the table at most: it never gets
full, and no leaf is lost. Who gets no more credit ends the quantum before it visits anything, and the host empties the
table.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import ALL, ballot, count_bits
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.layout import Chosen

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@cuda.jit(device=True, forceinline=True)
def limits_of(settings):
    """The settings that the walk needs all the time."""
    return at.Limits(
        np.int32(settings[at.FEWEST_ROWS]),
        np.int32(settings[at.MOST_ROWS]),
        np.int32(settings[at.FEWEST_COLUMNS]),
        np.int32(settings[at.MOST_COLUMNS]),
        np.int32(settings[at.OPTIONAL_ROWS_AT]),
        np.int32(settings[at.HELD_COLUMNS_AT]),
        np.int32(settings[at.OPTIONAL_COLUMNS_AT]),
    )


@cuda.jit(device=True, forceinline=True)
def key_of(chosen, limits):
    """The four numbers as one, int64; never 0, since a root is held or some row is."""
    return np.int64(
        np.int64(chosen.held_rows)
        | (np.int64(chosen.optional_rows) << np.int64(limits.optional_rows_at))
        | (np.int64(chosen.held_columns) << np.int64(limits.held_columns_at))
        | (np.int64(chosen.optional_columns) << np.int64(limits.optional_columns_at))
    )


@cuda.jit(device=True, forceinline=True)
def chosen_of(key, limits):
    """The four numbers of a key."""
    one = np.int64(1)
    rows_at, columns_at = np.int64(limits.optional_rows_at), np.int64(limits.held_columns_at)
    last_at = np.int64(limits.optional_columns_at)
    return Chosen(
        np.int32(key & np.int64((one << rows_at) - one)),
        np.int32((key >> rows_at) & np.int64((one << np.int64(columns_at - rows_at)) - one)),
        np.int32((key >> columns_at) & np.int64((one << np.int64(last_at - columns_at)) - one)),
        np.int32(key >> last_at),
    )


@cuda.jit(device=True, forceinline=True)
def is_wanted(chosen, limits):
    """Whether there are enough vertices for the smallest sizes."""
    rows = np.int32(chosen.held_rows + chosen.optional_rows)
    columns = np.int32(chosen.held_columns + chosen.optional_columns)
    return rows >= limits.fewest_rows and columns >= limits.fewest_columns


@cuda.jit(device=True, forceinline=True)
def tally(is_leaf, key, n, keys, times):
    """`n` more leaves of the kind of each lane that has one; how many kinds are new, int32, for all lanes."""
    places = np.uint64(keys.size - 1)
    mixed = np.uint64(np.uint64(key) * _SPREAD)
    place = np.uint64(np.uint64(mixed >> np.uint64(32)) & places)
    is_new = False
    while cuda.any_sync(ALL, is_leaf):
        if is_leaf:
            # A place is filled once: one that is read too early as free is found out by the exchange.
            there = keys[place]
            if there == 0:
                there = cuda.atomic.cas(keys, place, np.int64(0), key)
                if there == 0:
                    is_new = True
                    there = key
            if there == key:
                cuda.atomic.add(times, place, np.int64(n))
                is_leaf = False
            else:
                place = np.uint64(np.uint64(place + np.uint64(1)) & places)
    return count_bits(ballot(is_new))


@cuda.jit(device=True, forceinline=True)
def credit_for(needed, credit, control, settings):
    """The warp's credit, raised to `needed` or more if it can be; int32. Where it cannot, the quantum ends."""
    if credit >= needed:
        return credit
    more = np.int32(max(np.int32(needed), np.int32(at.CREDIT)))
    granted = 0
    if cuda.laneid == 0:
        if cuda.atomic.add(control, at.CREDITS, np.int64(more)) + more <= settings[at.CREDIT_LIMIT]:
            granted = 1
        else:
            cuda.atomic.or_(control, at.STATUS, np.int64(at.KINDS_SHORT))
    granted = cuda.shfl_sync(ALL, granted, 0)
    return np.int32(credit + more) if granted != 0 else np.int32(credit)
