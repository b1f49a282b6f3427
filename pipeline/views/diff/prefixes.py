"""Compiled loops of the prefix filter: the rarest members of each row, and signatures that tell most rows apart.

Rows with a given Jaccard similarity share one of their rarest members. Signatures reject nearly all other pairs that
share one.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64

from mbe_stage.pipeline.views.diff.bundles import COMPARED, OTHERS, SUM_TABLE
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, WORDS, compiled, steps_of

SPREAD = np.uint64(0x9E3779B97F4A7C15)

# Rows of up to this many members are sorted by insertion.
_INSERTED = 32

FLOATS = float64[::1]


@compiled()
def bits_set(word):
    """Count the bits of a word that are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled()
def _prefix_length(n_shared, size, least):
    """Return the prefix length: a partner with a Jaccard index of `least` shares a member among this many rarest ones.

    A partner has at least ``least * size`` common members. Members that are not shared count as the rarest.
    """
    # Rounded in the safe direction: one member too many costs time, one too few would lose a pair.
    needed = max(np.int64(np.ceil(least * size - 1e-9)), 1)
    return max(0, n_shared - needed + 1)


@compiled(INTS, INTS, float64)
def prefix_lengths(n_shared, sizes, least):
    """Return the prefix length of each row."""
    lengths = np.empty(sizes.size, np.int32)
    for row in range(sizes.size):
        lengths[row] = _prefix_length(n_shared[row], sizes[row], least)
    return lengths


@compiled(LONGS, INTS, INTS, FLOATS, int64[:, ::1])
def count_prefixes(offsets, ranked, sizes, levels, counts):
    """Add to ``counts[level, rank]`` the number of rows with that member in their prefix at that level."""
    for row in range(sizes.size):
        n_shared = offsets[row + 1] - offsets[row]
        for level in range(levels.size):
            for k in range(_prefix_length(n_shared, sizes[row], levels[level])):
                counts[level, ranked[offsets[row] + k]] += 1


@compiled(INTS, LONGS)
def count_members(members, counts):
    """Count how often each vertex is a member."""
    for k in range(members.size):
        counts[members[k]] += 1


@compiled(LONGS, INTS)
def member_signatures(offsets, members):
    """Return a signature per row: a word in which each member sets its own fixed bit."""
    words = np.zeros(offsets.size - 1, np.uint64)
    for row in range(words.size):
        word = np.uint64(0)
        for k in range(offsets[row], offsets[row + 1]):
            word |= np.uint64(1) << ((np.uint64(members[k]) * SPREAD) >> np.uint64(58))
        words[row] = word
    return words


@compiled(LONGS, INTS, INTS, seconds=1.0)
def rarest_first(offsets, members, ranks):
    """Return members as ranks, ascending within each row."""
    ranked = np.empty_like(members)
    for row in range(offsets.size - 1):
        start, end = offsets[row], offsets[row + 1]
        if end - start > _INSERTED:
            for k in range(start, end):
                ranked[k] = ranks[members[k]]
            ranked[start:end].sort()
            continue
        for k in range(start, end):
            rank, at = ranks[members[k]], k
            while at > start and ranked[at - 1] > rank:
                ranked[at] = ranked[at - 1]
                at -= 1
            ranked[at] = rank
    return ranked


@compiled(WORDS, FLAGS, int64)
def fill_table(sums, is_whole, bits):
    """Build a hash table from sums to rows with `is_whole` (-1 is an empty slot), and a bit per sum.

    Nearly all lookups miss, and end at the bit, in a sixteenth of the memory.
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
    """Pair rows ``first .. last - 1`` with rows of the other run that lack exactly one of their members.

    If one member is unknown to the other run, only that one can be missing; with two there is no such pair.

    Parameters
    ----------
    first, last : int
        Range of `rows`.
    sums : uint64
        Sum of the hashes of each seeking row's shared members.
    hashes : (n_vertices,) uint64
        Hashes of the shared vertices.
    n_shared_left : int
        Shared vertices below this number are left ones.
    others : Others
        The rows in the table.

    Returns
    -------
    found, partners : (n_pairs,) int32
        One pair each: the larger group, and the one without the member.
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
    """Return the steps of all functions of this module, the longest first."""
    return steps_of(probe, fill_table, rarest_first, prefix_lengths, member_signatures, count_prefixes, count_members)
