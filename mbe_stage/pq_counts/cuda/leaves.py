"""Count leaves by signature, in a hash table that all warps share.

A signature is four numbers in one key (`key_of`). Slots are never freed within a quantum. A warp needs a reserved slot
for each new signature, and at most three quarters of the table can be reserved, so the table never gets full, and no
leaf is lost. A warp that cannot reserve slots ends the quantum before its next visit, and the host empties the table.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.warp import ALL, ballot, count_bits
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.layout import Chosen

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@cuda.jit(device=True, forceinline=True)
def size_bounds_of(settings):
    """Return the wanted sizes and the first bits of a key's numbers."""
    return layout.SizeBounds(
        np.int32(settings[layout.FEWEST_ROWS]),
        np.int32(settings[layout.MOST_ROWS]),
        np.int32(settings[layout.FEWEST_COLUMNS]),
        np.int32(settings[layout.MOST_COLUMNS]),
        np.int32(settings[layout.OPTIONAL_ROWS_AT]),
        np.int32(settings[layout.HELD_COLUMNS_AT]),
        np.int32(settings[layout.OPTIONAL_COLUMNS_AT]),
    )


@cuda.jit(device=True, forceinline=True)
def key_of(chosen, bounds):
    """Pack the four numbers into one key, int64; never 0, since at least one row is held."""
    return np.int64(
        np.int64(chosen.held_rows)
        | (np.int64(chosen.optional_rows) << np.int64(bounds.optional_rows_at))
        | (np.int64(chosen.held_columns) << np.int64(bounds.held_columns_at))
        | (np.int64(chosen.optional_columns) << np.int64(bounds.optional_columns_at))
    )


@cuda.jit(device=True, forceinline=True)
def chosen_of(key, bounds):
    """Unpack the four numbers of a key."""
    one = np.int64(1)
    rows_at, columns_at = np.int64(bounds.optional_rows_at), np.int64(bounds.held_columns_at)
    last_at = np.int64(bounds.optional_columns_at)
    return Chosen(
        np.int32(key & np.int64((one << rows_at) - one)),
        np.int32((key >> rows_at) & np.int64((one << np.int64(columns_at - rows_at)) - one)),
        np.int32((key >> columns_at) & np.int64((one << np.int64(last_at - columns_at)) - one)),
        np.int32(key >> last_at),
    )


@cuda.jit(device=True, forceinline=True)
def is_wanted(chosen, bounds):
    """Return True if there are enough vertices for the smallest sizes."""
    rows = np.int32(chosen.held_rows + chosen.optional_rows)
    columns = np.int32(chosen.held_columns + chosen.optional_columns)
    return rows >= bounds.fewest_rows and columns >= bounds.fewest_columns


@cuda.jit(device=True, forceinline=True)
def count_leaves(is_leaf, key, n, keys, times):
    """Add `n` leaves for each lane that has one; return the number of new signatures, int32, for all lanes."""
    places = np.uint64(keys.size - 1)
    mixed = np.uint64(np.uint64(key) * _SPREAD)
    place = np.uint64(np.uint64(mixed >> np.uint64(32)) & places)
    is_new = False
    while cuda.any_sync(ALL, is_leaf):
        if is_leaf:
            # Another warp may have filled the slot since it was read; then the exchange returns its key.
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
def reserve_slots(needed, n_reserved, control, settings):
    """Reserve slots up to at least `needed`; return the number reserved, int32. Without free slots the quantum ends."""
    if n_reserved >= needed:
        return n_reserved
    more = np.int32(max(np.int32(needed), np.int32(layout.SLOTS_AT_ONCE)))
    granted = 0
    if cuda.laneid == 0:
        if cuda.atomic.add(control, layout.RESERVED_SLOTS, np.int64(more)) + more <= settings[layout.SLOT_LIMIT]:
            granted = 1
        else:
            cuda.atomic.or_(control, layout.STATUS, np.int64(layout.SLOTS_SHORT))
    granted = cuda.shfl_sync(ALL, granted, 0)
    return np.int32(n_reserved + more) if granted != 0 else np.int32(n_reserved)
