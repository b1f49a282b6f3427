"""Compiled loops of the search for partners; `best` arrays keep, for each row, the partner that comes first so far.

A pair is ``(J, x)``: the Jaccard of the two groups' members, larger first, and among equals the exclusive or of the
two keys, read as unsigned, smaller first. No two pairs of one row are equal in both.

Here `new` rows are those that only the new run has, `gone` rows those that only the old one has."""

from __future__ import annotations

import numpy as np
from numba import float64, int8, int64, uint8

from mbe_stage.compile_ahead import CompileStep
from mbe_stage.jit import FLAGS, INTS, LONGS, WORDS, compiled, steps_of

__all__ = [
    "CHANGED",
    "GROWN",
    "SHRUNK",
    "compare_prefixes",
    "compile_steps",
    "count_members",
    "count_prefixes",
    "count_shared",
    "fill_table",
    "index_members",
    "member_signatures",
    "merge_best",
    "prefix_lengths",
    "probe",
    "rarest_first",
    "take_pairs",
]

GROWN, SHRUNK, CHANGED = 1, 2, 3

# One shared right member in a counter; shared left members are counted in the lower half.
_RIGHT = 1 << 32
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

# Rows of so many members are sorted by insertion.
_INSERTED = 32

FLOATS, BYTES = float64[::1], uint8[::1]
_BEST = FLOATS, INTS, int8[::1], FLOATS, INTS, LONGS


@compiled()
def _relation(left, right, gone_left, gone_right, new_left, new_right):
    """What a new group with so many members in common is to a gone one; 0 where it is nothing."""
    meets = left > 0 and right > 0
    grown = meets and (left == gone_left or right == gone_right)
    shrunk = meets and (left == new_left or right == new_right)
    gone, new = gone_left + gone_right, new_left + new_right
    if grown and (not shrunk or new > gone):
        return GROWN
    if shrunk and (not grown or new < gone):
        return SHRUNK
    if 3 * (left + right) >= gone + new:
        return CHANGED
    return 0


@compiled()
def _bits_set(word):
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled()
def _is_before(jaccard, key, partner_key, best_jaccard, best_key):
    """Whether a pair comes before the best so far of the row with this key."""
    if jaccard != best_jaccard:
        return jaccard > best_jaccard
    return np.uint64(key ^ partner_key) < np.uint64(key ^ best_key)


@compiled(LONGS, INTS, int64, int64, int64, INTS)
def index_members(offsets, members, first, last, n_vertices, limits):
    """Postings of some rows: for each vertex the rows, counted from `first`, that hold it.

    Of each row only its first ``limits[row]`` members count.
    """
    starts = np.zeros(n_vertices + 1, np.int64)
    for row in range(first, last):
        for k in range(offsets[row], offsets[row] + limits[row]):
            starts[members[k] + 1] += 1
    for vertex in range(n_vertices):
        starts[vertex + 1] += starts[vertex]
    rows = np.empty(starts[n_vertices], np.int32)
    ends = starts[:-1].copy()
    for row in range(first, last):
        for k in range(offsets[row], offsets[row] + limits[row]):
            rows[ends[members[k]]] = row - first
            ends[members[k]] += 1
    return starts, rows


@compiled(
    int64,
    int64,
    LONGS,
    INTS,
    LONGS,
    INTS,
    INTS,
    int64,
    int64,
    LONGS,
    INTS,
    LONGS,
    INTS,
    INTS,
    int64,
    LONGS,
    INTS,
    *_BEST,
    seconds=1.5,
)
def count_shared(
    first,
    last,
    offsets,
    members,
    keys,
    n_left,
    n_right,
    new_base,
    n_shared_left,
    posting_starts,
    postings,
    gone_keys,
    gone_left,
    gone_right,
    gone_base,
    all_gone_keys,
    all_gone_which,
    new_jaccard,
    new_partner,
    new_kind,
    gone_jaccard,
    gone_partner,
    gone_partner_key,
):
    """Compare new rows ``first .. last - 1`` with every indexed gone row that they share two members with.

    The counters of shared members are a few hundred KB and stay in the cache of a core.
    """
    counts = np.zeros(gone_keys.size, np.int64)
    candidates = np.empty(gone_keys.size, np.int32)
    for i in range(first, last):
        n_candidates = 0
        for k in range(offsets[i], offsets[i + 1]):
            vertex = members[k]
            step = 1 if vertex < n_shared_left else _RIGHT
            for p in range(posting_starts[vertex], posting_starts[vertex + 1]):
                row = postings[p]
                before = counts[row]
                counts[row] = before + step
                # One member in common makes no pair: every group has two at least.
                if before == 1 or before == _RIGHT:
                    candidates[n_candidates] = row
                    n_candidates += 1
        at = new_base + i
        for c in range(n_candidates):
            row = candidates[c]
            left, right = counts[row] & (_RIGHT - 1), counts[row] >> 32
            kind = _relation(left, right, gone_left[row], gone_right[row], n_left[i], n_right[i])
            if kind == 0:
                continue
            common = left + right
            jaccard = common / (gone_left[row] + gone_right[row] + n_left[i] + n_right[i] - common)
            best = new_partner[at]
            if best < 0 or _is_before(
                jaccard, keys[i], gone_keys[row], new_jaccard[at], all_gone_keys[all_gone_which[best]]
            ):
                new_jaccard[at], new_partner[at], new_kind[at] = jaccard, gone_base + row, kind
            if gone_partner[row] < 0 or _is_before(
                jaccard, gone_keys[row], keys[i], gone_jaccard[row], gone_partner_key[row]
            ):
                gone_jaccard[row], gone_partner[row], gone_partner_key[row] = jaccard, at, keys[i]
        for k in range(offsets[i], offsets[i + 1]):
            vertex = members[k]
            for p in range(posting_starts[vertex], posting_starts[vertex + 1]):
                counts[postings[p]] = 0


@compiled(
    int64,
    int64,
    LONGS,
    INTS,
    LONGS,
    INTS,
    INTS,
    int64,
    FLAGS,
    INTS,
    WORDS,
    LONGS,
    INTS,
    WORDS,
    LONGS,
    INTS,
    INTS,
    int64,
    LONGS,
    INTS,
    LONGS,
    INTS,
    float64,
    *_BEST,
    seconds=2.0,
)
def compare_prefixes(
    first,
    last,
    offsets,
    members,
    keys,
    n_left,
    n_right,
    new_base,
    is_left,
    limits,
    signatures,
    posting_starts,
    postings,
    gone_signatures,
    gone_keys,
    gone_left,
    gone_right,
    gone_base,
    gone_offsets,
    gone_members,
    all_gone_keys,
    all_gone_which,
    least,
    new_jaccard,
    new_partner,
    new_kind,
    gone_jaccard,
    gone_partner,
    gone_partner_key,
):
    """Compare new rows with the indexed gone rows that share one of the first ``limits[row]`` members.

    Only pairs with a Jaccard of at least `least` are kept: a row's first members are its rarest, and rows that are so
    similar share one of those (prefix filter). Nearly all others are told apart by their signatures, of which no more
    bits can differ than the groups have members apart.
    """
    marks = np.full(is_left.size, -1, np.int32)
    seen = np.full(gone_keys.size, -1, np.int32)
    for i in range(first, last):
        size = n_left[i] + n_right[i]
        at = new_base + i
        signature = signatures[i]
        # A partner has no more than size / least members; rounded up, as a bit too few would lose a pair.
        most_apart = np.int64((1 - least) / least * size + 1e-6)
        for k in range(offsets[i], offsets[i + 1]):
            marks[members[k]] = i
        for k in range(offsets[i], offsets[i] + limits[i]):
            vertex = members[k]
            for p in range(posting_starts[vertex], posting_starts[vertex + 1]):
                row = postings[p]
                if _bits_set(signature ^ gone_signatures[row]) > most_apart or seen[row] == i:
                    continue
                seen[row] = i
                gone_size = gone_left[row] + gone_right[row]
                if min(size, gone_size) < least * max(size, gone_size):
                    continue
                left = right = 0
                for m in range(gone_offsets[row], gone_offsets[row + 1]):
                    member = gone_members[m]
                    if marks[member] == i:
                        if is_left[member]:
                            left += 1
                        else:
                            right += 1
                common = left + right
                jaccard = common / (size + gone_size - common)
                if jaccard < least:
                    continue
                kind = _relation(left, right, gone_left[row], gone_right[row], n_left[i], n_right[i])
                if kind == 0:
                    continue
                best = new_partner[at]
                if best < 0 or _is_before(
                    jaccard, keys[i], gone_keys[row], new_jaccard[at], all_gone_keys[all_gone_which[best]]
                ):
                    new_jaccard[at], new_partner[at], new_kind[at] = jaccard, gone_base + row, kind
                if gone_partner[row] < 0 or _is_before(
                    jaccard, gone_keys[row], keys[i], gone_jaccard[row], gone_partner_key[row]
                ):
                    gone_jaccard[row], gone_partner[row], gone_partner_key[row] = jaccard, at, keys[i]


@compiled(WORDS, FLAGS, int64)
def fill_table(sums, is_whole, bits):
    """A hash table from sums to rows, those with `is_whole` only, -1 being an empty slot; and a bit for each sum.

    Nearly every lookup is of a sum that is not there, and ends at its bit, in a sixteenth of the memory.
    """
    slots = np.full(1 << bits, -1, np.int32)
    flags = np.zeros(1 << max(0, bits + 1 - 3), np.uint8)
    for row in range(sums.size):
        if is_whole[row]:
            spread = sums[row] * _SPREAD
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
            spread = wanted * _SPREAD
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


@compiled(INTS, INTS, INTS, INTS, LONGS, INTS, LONGS, FLOATS, INTS, FLOATS, INTS)
def take_pairs(
    rows,
    others,
    sizes,
    which,
    keys,
    other_which,
    other_keys,
    jaccards,
    partners,
    other_jaccards,
    other_partners,
):
    """Take pairs that differ by one member into the best of their rows; `sizes` are those of the larger groups."""
    for i in range(rows.size):
        at, row = rows[i], others[i]
        key, other_key = keys[which[at]], other_keys[other_which[row]]
        jaccard = (sizes[i] - 1) / sizes[i]
        best = partners[at]
        if best < 0 or _is_before(jaccard, key, other_key, jaccards[at], other_keys[other_which[best]]):
            jaccards[at], partners[at] = jaccard, row
        best = other_partners[row]
        if best < 0 or _is_before(jaccard, other_key, key, other_jaccards[row], keys[which[best]]):
            other_jaccards[row], other_partners[row] = jaccard, at


@compiled(int64, FLOATS, INTS, LONGS, LONGS, FLOATS, INTS, LONGS, INTS)
def merge_best(base, jaccards, partners, partner_keys, keys, all_jaccards, all_partners, all_partner_keys, which):
    """Take the best partners of some gone rows, from `base` on, into those of all."""
    for row in range(keys.size):
        if partners[row] < 0:
            continue
        at = base + row
        best = all_partners[at]
        if best < 0 or _is_before(
            jaccards[row], keys[row], partner_keys[row], all_jaccards[at], all_partner_keys[which[best]]
        ):
            all_jaccards[at], all_partners[at] = jaccards[row], partners[row]


@compiled()
def _prefix_length(n_shared, size, least):
    """How many of a row's rarest shared members every partner with a Jaccard of `least` has one of.

    A partner has at least ``least * size`` members in common, and those that are not shared are the rarest of all.
    """
    # Rounded down a little: a member too many costs time, one too few would lose a pair.
    needed = max(np.int64(np.ceil(least * size - 1e-9)), 1)
    return max(0, n_shared - needed + 1)


@compiled(INTS, INTS, float64)
def prefix_lengths(n_shared, sizes, least):
    """The prefix length of each row."""
    lengths = np.empty(sizes.size, np.int32)
    for row in range(sizes.size):
        lengths[row] = _prefix_length(n_shared[row], sizes[row], least)
    return lengths


@compiled(LONGS, INTS, INTS, FLOATS, int64[:, ::1])
def count_prefixes(offsets, ranked, sizes, levels, counts):
    """Add to ``counts[level, rank]`` the rows that have the member in their prefix at that level."""
    for row in range(sizes.size):
        n_shared = offsets[row + 1] - offsets[row]
        for level in range(levels.size):
            for k in range(_prefix_length(n_shared, sizes[row], levels[level])):
                counts[level, ranked[offsets[row] + k]] += 1


@compiled(INTS, LONGS)
def count_members(members, counts):
    """Add up how often each vertex is a member."""
    for k in range(members.size):
        counts[members[k]] += 1


@compiled(LONGS, INTS)
def member_signatures(offsets, members):
    """For each row a word in which every member sets a bit, the same member always the same."""
    words = np.zeros(offsets.size - 1, np.uint64)
    for row in range(words.size):
        word = np.uint64(0)
        for k in range(offsets[row], offsets[row + 1]):
            word |= np.uint64(1) << ((np.uint64(members[k]) * _SPREAD) >> np.uint64(58))
        words[row] = word
    return words


@compiled(LONGS, INTS, INTS, seconds=1.0)
def rarest_first(offsets, members, ranks):
    """Members as ranks, the lowest of each row first."""
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


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(
        compare_prefixes,
        probe,
        count_shared,
        rarest_first,
        index_members,
        fill_table,
        take_pairs,
        merge_best,
        prefix_lengths,
        member_signatures,
        count_prefixes,
        count_members,
    )
