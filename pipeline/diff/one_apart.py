"""Compiled loops that find groups which differ by one member, by the sums of their members' hashes."""

from __future__ import annotations

import numpy as np
from numba import int64

from mbe_stage.compile_ahead import CompileStep
from mbe_stage.jit import BYTES, FLAGS, INTS, LONGS, WORDS, compiled, steps_of
from pipeline.diff.prefixes import SPREAD

__all__ = ["compile_steps", "fill_table", "probe"]


@compiled(WORDS, FLAGS, int64)
def fill_table(sums, is_whole, bits):
    """A hash table from sums to rows, those with `is_whole` only, -1 being an empty slot; and a bit for each sum.

    Nearly every lookup is of a sum that is not there, and ends at its bit, in a sixteenth of the memory.
    """
    slots = np.full(1 << bits, -1, np.int32)
    flags = np.zeros(1 << max(0, bits + 1 - 3), np.uint8)
    for row in range(sums.size):
        if is_whole[row]:
            spread = sums[row] * SPREAD
            flag = np.int64(spread >> np.uint64(63 - bits))
            flags[flag >> 3] |= np.uint8(1 << (flag & 7))
            slot = np.int64(spread >> np.uint64(64 - bits))
            while slots[slot] >= 0:
                slot = (slot + 1) & (slots.size - 1)
            slots[slot] = row
    return slots, flags


@compiled(
    int64,
    int64,
    LONGS,
    INTS,
    INTS,
    INTS,
    WORDS,
    int64,
    WORDS,
    int64,
    INTS,
    BYTES,
    int64,
    WORDS,
    INTS,
    INTS,
    INTS,
    seconds=1.5,
)
def probe(
    first,
    last,
    offsets,
    members,
    n_left,
    n_right,
    sums,
    base,
    hashes,
    n_shared_left,
    slots,
    flags,
    bits,
    other_sums,
    other_which,
    other_left,
    other_right,
):
    """Rows ``first .. last - 1`` beside those of the other run that are the same group without one member.

    A row with one member that the other run does not know can only do without that one; with two, it has no such pair.
    Returns two arrays of one length, a pair each.
    """
    rows, others = np.empty(1024, np.int32), np.empty(1024, np.int32)
    n = 0
    for i in range(first, last):
        n_shared = offsets[i + 1] - offsets[i]
        size = n_left[i] + n_right[i]
        if n_shared + 1 < size or size < 3:
            continue
        shared_left = 0
        for k in range(offsets[i], offsets[i + 1]):
            shared_left += members[k] < n_shared_left
        at = base + i
        n_tries = n_shared if n_shared == size else 1
        for k in range(offsets[i], offsets[i] + n_tries):
            if n_shared == size:
                wanted = sums[at] - hashes[members[k]]
                left = n_left[i] - (members[k] < n_shared_left)
            else:
                wanted, left = sums[at], shared_left
            spread = wanted * SPREAD
            flag = np.int64(spread >> np.uint64(63 - bits))
            if not (flags[flag >> 3] >> (flag & 7)) & 1:
                continue
            slot = np.int64(spread >> np.uint64(64 - bits))
            while slots[slot] >= 0:
                row = slots[slot]
                slot = (slot + 1) & (slots.size - 1)
                other = other_which[row]
                if other_sums[row] != wanted or other_left[other] != left or other_right[other] != size - 1 - left:
                    continue
                if n == rows.size:
                    rows = np.append(rows, np.empty(n, np.int32))
                    others = np.append(others, np.empty(n, np.int32))
                rows[n], others[n] = at, row
                n += 1
    return rows[:n], others[:n]


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(probe, fill_table)
