"""Compiled loops of the search for partners; `best` holds each row's best partner so far.

Pairs are ordered by ``(J, x)``: the Jaccard index of the two groups' members, larger first, then the exclusive or of
the two keys as an unsigned number, smaller first. No two pairs of one row are equal in both.

`new` rows exist only in the new run, `gone` rows only in the old one.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from mbe_stage.pipeline.views.diff.bundles import BEST, BEST_OF_BLOCK, COMPARED, INDEXED, KNOWN, PARTNERS, PREFIXES
from mbe_stage.pipeline.views.diff.prefixes import bits_set
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of

GROWN, SHRUNK, CHANGED = 1, 2, 3

# One shared right member in a counter; shared left members are counted in the lower half.
_RIGHT = 1 << 32


@compiled()
def _relation(left, right, gone_left, gone_right, new_left, new_right):
    """Return the relation of a new group to a gone one by the number of common members; 0 for none.

    Parameters
    ----------
    left, right : int
        Common members.
    gone_left, gone_right, new_left, new_right : int
        Members of the two groups.
    """
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
    """Return True if a pair is better than the best so far of the row with this key."""
    if jaccard != best_jaccard:
        return jaccard > best_jaccard
    return np.uint64(key ^ partner_key) < np.uint64(key ^ best_key)


@compiled()
def _take(jaccard, kind, at, key, row, gone, found, best, gone_known):
    """Update the best of a pair's new row and gone row.

    Parameters
    ----------
    kind : int
        `GROWN`, `SHRUNK` or `CHANGED`.
    at, key : int
        Position of the new row among all that seek, and its key.
    row : int
        The gone row, numbered from the first indexed one.
    best : Best
        Best partners of new rows; those of gone rows are in `found`.
    """
    gone_key, partner = gone.keys[row], best.new_partner[at]
    if partner < 0 or _is_before(
        jaccard, key, gone_key, best.new_jaccard[at], gone_known.keys[gone_known.which[partner]]
    ):
        best.new_jaccard[at], best.new_partner[at], best.new_kind[at] = jaccard, gone.first + row, kind
    if found.partner[row] < 0 or _is_before(jaccard, gone_key, key, found.jaccard[row], found.partner_key[row]):
        found.jaccard[row], found.partner[row], found.partner_key[row] = jaccard, at, key


@compiled(LONGS, INTS, int64, int64, int64, INTS)
def index_members(offsets, members, first, last, n_vertices, limits):
    """Return postings of some rows: for each vertex its rows, numbered from `first`.

    Only the first ``limits[row]`` members of each row count.

    Parameters
    ----------
    offsets, members : (n + 1,) int64 and int32
    first, last : int
        Rows ``first .. last - 1`` are indexed.
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


@compiled(int64, int64, COMPARED, int64, INDEXED, BEST_OF_BLOCK, BEST, KNOWN, seconds=1.5)
def count_shared(first, last, new, n_shared_left, gone, found, best, gone_known):
    """Compare new rows ``first .. last - 1`` with every indexed gone row that shares two members with them.

    The counters of shared members are a few hundred KB and stay in the cache of a core.

    Parameters
    ----------
    first, last : int
        Rows of `new`; no other thread has these.
    n_shared_left : int
        Shared vertices below this number are left ones.
    gone : Indexed
        Indexed by all members.
    found : BestOfBlock
        Best partners of the gone rows; changed in place.
    best : Best
        Best partners of the new rows; changed in place.
    """
    counts = np.zeros(gone.keys.size, np.int64)
    candidates = np.empty(gone.keys.size, np.int32)
    for i in range(first, last):
        n_candidates = 0
        for k in range(new.offsets[i], new.offsets[i + 1]):
            vertex = new.members[k]
            step = 1 if vertex < n_shared_left else _RIGHT
            for p in range(gone.starts[vertex], gone.starts[vertex + 1]):
                row = gone.postings[p]
                before = counts[row]
                counts[row] = before + step
                # One common member makes no pair, because every group has at least two.
                if before == 1 or before == _RIGHT:
                    candidates[n_candidates] = row
                    n_candidates += 1
        n_left, n_right = new.n_left[i], new.n_right[i]
        for c in range(n_candidates):
            row = candidates[c]
            left, right = counts[row] & (_RIGHT - 1), counts[row] >> 32
            kind = _relation(left, right, gone.n_left[row], gone.n_right[row], n_left, n_right)
            if kind == 0:
                continue
            common = left + right
            jaccard = common / (gone.n_left[row] + gone.n_right[row] + n_left + n_right - common)
            _take(jaccard, kind, new.first + i, new.keys[i], row, gone, found, best, gone_known)
        for k in range(new.offsets[i], new.offsets[i + 1]):
            vertex = new.members[k]
            for p in range(gone.starts[vertex], gone.starts[vertex + 1]):
                counts[gone.postings[p]] = 0


@compiled(int64, int64, COMPARED, PREFIXES, INDEXED, BEST_OF_BLOCK, BEST, KNOWN, seconds=2.0)
def compare_prefixes(first, last, new, prefixes, gone, found, best, gone_known):
    """Compare new rows with the indexed gone rows that share one of the first ``limits[row]`` members.

    Only pairs with a Jaccard index of at least `least` are kept. A row's first members are its rarest, and such similar
    rows share one of them (prefix filter). Signatures reject nearly all other pairs: the number of differing bits is at
    most the number of differing members.

    Parameters
    ----------
    first, last : int
        Rows of `new`; no other thread has these.
    new : Compared
        The rarest members first.
    prefixes : Prefixes
        Prefixes of `new`.
    gone : Indexed
        Indexed by the first members of each row.
    found : BestOfBlock
        Best partners of the gone rows; changed in place.
    best : Best
        Best partners of the new rows; changed in place.
    """
    least = prefixes.least
    marks = np.full(prefixes.is_left.size, -1, np.int32)
    seen = np.full(gone.keys.size, -1, np.int32)
    for i in range(first, last):
        size = new.n_left[i] + new.n_right[i]
        signature = prefixes.signatures[i]
        # A partner has at most size / least members; rounded up, because a smaller bound would lose pairs.
        most_apart = np.int64((1 - least) / least * size + 1e-6)
        for k in range(new.offsets[i], new.offsets[i + 1]):
            marks[new.members[k]] = i
        for k in range(new.offsets[i], new.offsets[i] + prefixes.limits[i]):
            vertex = new.members[k]
            for p in range(gone.starts[vertex], gone.starts[vertex + 1]):
                row = gone.postings[p]
                if bits_set(signature ^ gone.signatures[row]) > most_apart or seen[row] == i:
                    continue
                seen[row] = i
                gone_size = gone.n_left[row] + gone.n_right[row]
                if min(size, gone_size) < least * max(size, gone_size):
                    continue
                left = right = 0
                for m in range(gone.offsets[row], gone.offsets[row + 1]):
                    member = gone.members[m]
                    if marks[member] == i:
                        if prefixes.is_left[member]:
                            left += 1
                        else:
                            right += 1
                common = left + right
                jaccard = common / (size + gone_size - common)
                if jaccard < least:
                    continue
                kind = _relation(left, right, gone.n_left[row], gone.n_right[row], new.n_left[i], new.n_right[i])
                if kind != 0:
                    _take(jaccard, kind, new.first + i, new.keys[i], row, gone, found, best, gone_known)


@compiled(INTS, INTS, INTS, KNOWN, KNOWN, PARTNERS, PARTNERS)
def take_pairs(rows, others, sizes, known, other_known, best, other_best):
    """Update the best of rows with pairs that differ by one member.

    Parameters
    ----------
    rows, others : (n,) int32
        The larger group of each pair, from one run, and the smaller one, from the other.
    sizes : (n,) int32
        Members of the larger groups.
    known, other_known : Known
        Keys for the run of `rows` and the run of `others`.
    best, other_best : Partners
        Best partners in the same order; changed in place.
    """
    for i in range(rows.size):
        at, row = rows[i], others[i]
        key, other_key = known.keys[known.which[at]], other_known.keys[other_known.which[row]]
        jaccard = (sizes[i] - 1) / sizes[i]
        so_far = best.partner[at]
        if so_far < 0 or _is_before(
            jaccard, key, other_key, best.jaccard[at], other_known.keys[other_known.which[so_far]]
        ):
            best.jaccard[at], best.partner[at] = jaccard, row
        so_far = other_best.partner[row]
        if so_far < 0 or _is_before(jaccard, other_key, key, other_best.jaccard[row], known.keys[known.which[so_far]]):
            other_best.jaccard[row], other_best.partner[row] = jaccard, at


@compiled(INDEXED, BEST_OF_BLOCK, BEST, KNOWN)
def merge_best(gone, found, best, new_known):
    """Merge one thread's best partners of indexed gone rows into those of all gone rows."""
    for row in range(gone.keys.size):
        if found.partner[row] < 0:
            continue
        at = gone.first + row
        so_far = best.gone_partner[at]
        if so_far < 0 or _is_before(
            found.jaccard[row],
            gone.keys[row],
            found.partner_key[row],
            best.gone_jaccard[at],
            new_known.keys[new_known.which[so_far]],
        ):
            best.gone_jaccard[at], best.gone_partner[at] = found.jaccard[row], found.partner[row]


def compile_steps() -> tuple[CompileStep, ...]:
    """List the compiled functions of this module."""
    return steps_of(
        compare_prefixes,
        count_shared,
        index_members,
        take_pairs,
        merge_best,
    )
