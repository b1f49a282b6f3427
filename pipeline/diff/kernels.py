"""Compiled loops of the search for partners; `best` arrays keep, for each row, the partner that comes first so far.

A pair is ``(J, x)``: the Jaccard of the two groups' members, larger first, and among equals the exclusive or of the
two keys, read as unsigned, smaller first. No two pairs of one row are equal in both.

Here `new` rows are those that only the new run has, `gone` rows those that only the old one has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int8, int64

from mbe_stage.compile_ahead import CompileStep
from mbe_stage.jit import FLAGS, INTS, LONGS, WORDS, compiled, steps_of
from pipeline.diff.prefixes import bits_set

__all__ = [
    "CHANGED",
    "GROWN",
    "SHRUNK",
    "compare_prefixes",
    "compile_steps",
    "count_shared",
    "index_members",
    "merge_best",
    "take_pairs",
]

GROWN, SHRUNK, CHANGED = 1, 2, 3

# One shared right member in a counter; shared left members are counted in the lower half.
_RIGHT = 1 << 32

FLOATS = float64[::1]
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
def _is_before(jaccard, key, partner_key, best_jaccard, best_key):
    """Whether a pair comes before the best so far of the row with this key."""
    if jaccard != best_jaccard:
        return jaccard > best_jaccard
    return np.uint64(key ^ partner_key) < np.uint64(key ^ best_key)


class _Best(NamedTuple):
    """The partners that come first so far: of all new rows, and of the gone rows that are indexed."""

    new_jaccard: np.ndarray
    new_partner: np.ndarray
    new_kind: np.ndarray
    gone_jaccard: np.ndarray
    gone_partner: np.ndarray
    gone_partner_key: np.ndarray


@compiled()
def _take(best, jaccard, kind, at, key, gone_base, row, gone_key, all_gone_keys, all_gone_which):
    """Take a pair into the best of its new row `at` and of its gone row, `row` of those that are indexed."""
    partner = best.new_partner[at]
    if partner < 0 or _is_before(jaccard, key, gone_key, best.new_jaccard[at], all_gone_keys[all_gone_which[partner]]):
        best.new_jaccard[at], best.new_partner[at], best.new_kind[at] = jaccard, gone_base + row, kind
    if best.gone_partner[row] < 0 or _is_before(
        jaccard, gone_key, key, best.gone_jaccard[row], best.gone_partner_key[row]
    ):
        best.gone_jaccard[row], best.gone_partner[row], best.gone_partner_key[row] = jaccard, at, key


@compiled(LONGS, INTS, int64, int64, int64, INTS)
def index_members(offsets, members, first, last, n_vertices, limits):
    """Postings of some rows: for each vertex the rows, counted from `first`, that hold it.

    Of each row only its first ``limits[row]`` members count.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
    first, last : int
        Rows ``first .. last - 1`` are indexed.
    n_vertices : int
    limits : (n,) int
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
            best = _Best(new_jaccard, new_partner, new_kind, gone_jaccard, gone_partner, gone_partner_key)
            _take(best, jaccard, kind, at, keys[i], gone_base, row, gone_keys[row], all_gone_keys, all_gone_which)
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
                if bits_set(signature ^ gone_signatures[row]) > most_apart or seen[row] == i:
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
                best = _Best(new_jaccard, new_partner, new_kind, gone_jaccard, gone_partner, gone_partner_key)
                _take(best, jaccard, kind, at, keys[i], gone_base, row, gone_keys[row], all_gone_keys, all_gone_which)


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


def compile_steps() -> tuple[CompileStep, ...]:
    """Everything here."""
    return steps_of(
        compare_prefixes,
        count_shared,
        index_members,
        take_pairs,
        merge_best,
    )
