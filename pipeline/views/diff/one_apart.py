"""Compiled loops that find groups which differ by one member, by the sums of their members' hashes."""

from __future__ import annotations

import numpy as np
from numba import int64

from mbe_stage.pipeline.views.diff.bundles import COMPARED, OTHERS, SUM_TABLE
from mbe_stage.pipeline.views.diff.prefixes import SPREAD
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import FLAGS, WORDS, compiled, steps_of

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


@compiled(int64, int64, COMPARED, WORDS, WORDS, int64, SUM_TABLE, OTHERS, seconds=1.5)
def probe(first, last, rows, sums, hashes, n_shared_left, table, others):
    """Rows ``first .. last - 1`` beside those of the other run that are the same group without one member.

    A row with one member that the other run does not know can only do without that one; with two, it has no such pair.

    Parameters
    ----------
    first, last : int
        Of `rows`.
    sums : uint64
        Of the hashes of the shared members of each row that looks.
    hashes : (n_vertices,) uint64
        Of the shared vertices.
    n_shared_left : int
        Shared vertices below it are left ones.
    others : Others
        The rows in it.

    Returns
    -------
    found, partners : (n_pairs,) int32
        A pair each: the larger group, and the one without the member.
    """
    found, partners = np.empty(1024, np.int32), np.empty(1024, np.int32)
    n = 0
    for i in range(first, last):
        n_shared = rows.offsets[i + 1] - rows.offsets[i]
        size = rows.n_left[i] + rows.n_right[i]
        if n_shared + 1 < size or size < 3:
            continue
        shared_left = 0
        for k in range(rows.offsets[i], rows.offsets[i + 1]):
            shared_left += rows.members[k] < n_shared_left
        at = rows.first + i
        n_tries = n_shared if n_shared == size else 1
        for k in range(rows.offsets[i], rows.offsets[i] + n_tries):
            if n_shared == size:
                wanted = sums[at] - hashes[rows.members[k]]
                left = rows.n_left[i] - (rows.members[k] < n_shared_left)
            else:
                wanted, left = sums[at], shared_left
            spread = wanted * SPREAD
            flag = np.int64(spread >> np.uint64(63 - table.bits))
            if not (table.flags[flag >> 3] >> (flag & 7)) & 1:
                continue
            slot = np.int64(spread >> np.uint64(64 - table.bits))
            while table.slots[slot] >= 0:
                row = table.slots[slot]
                slot = (slot + 1) & (table.slots.size - 1)
                other = others.which[row]
                if (
                    others.sums[row] != wanted
                    or others.n_left[other] != left
                    or others.n_right[other] != size - 1 - left
                ):
                    continue
                if n == found.size:
                    found = np.append(found, np.empty(n, np.int32))
                    partners = np.append(partners, np.empty(n, np.int32))
                found[n], partners[n] = at, row
                n += 1
    return found[:n], partners[:n]


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(probe, fill_table)
