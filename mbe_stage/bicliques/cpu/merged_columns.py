"""The columns of a list child: only rows that still matter, and columns with the same candidates merged.

Columns with the same candidates are in the same left sets further down, so one represents all. It holds an excluded row
only if all of them do. On dense data thousands of columns become a few dozen.

Scratch at the top of the arena of ints has `n_left` entries each: for each new column the begin of its list, and its
numbers of candidates and of excluded rows; the kept columns of the parent, and the new column of each. The lists
follow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.emit import UNWEIGHED
from mbe_stage.bicliques.cpu.prefetch import prefetch_column
from mbe_stage.bicliques.cpu.row_words import table_size
from mbe_stage.bicliques.cpu.techniques import MERGED_COLUMNS
from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.runtime.jit import compiled

_U = np.uint64
_ONE = _U(1)
_HASH_FACTOR = _U(0x9E3779B97F4A7C15)


@njit(inline="always")
def columns_room(n_left, n_members):
    """Entries of the arenas of ints and words that collecting columns may use."""
    return 6 * n_left + n_members, table_size(n_left) + n_left


@compiled(nrt=False)
def collect_columns(child, counts, ints, scratch_at, words, top):
    """Collect the columns of a child's left set that have a candidate: a later row with a count that is not 0.

    Parameters
    ----------
    counts : (n_rows + 1,) int32
        Number of columns of the left set that each later row holds; 0 for rows that no longer matter.
    scratch_at : int
        Top of the arena of ints.
    top : int
        Top of the arena of words.

    Returns
    -------
    n_columns, n_kept, members_end : int
        Number of new columns, number of the parent's columns in them, and the end of the lists.
    twice, thrice : uint64
        The new columns that stand for two of the parent's at least, and for three, if they fit a word.
    """
    node, row, n_left = child.node, child.row, child.left_end - child.left_at
    starts_at, candidates_at, excluded_at = scratch_at, scratch_at + n_left, scratch_at + 2 * n_left
    kept_at, groups_at = scratch_at + 3 * n_left, scratch_at + 4 * n_left
    members_end = scratch_at + 5 * n_left
    hashes_at = top + table_size(n_left)
    last = _U(hashes_at - top - 1)
    words[top:hashes_at] = _U(0)
    n_kept = 0
    n_columns = 0
    twice = thrice = _U(0)
    for k in range(child.left_at, child.left_end):
        prefetch_column(child, k, 1)
        column = child.column_offsets + node[k]
        first = child.column_members + node[column]
        start = members_end
        hashed = _U(0)
        j = child.column_members + node[column + 1] - 1
        while node[j] > row:
            other = node[j]
            ints[members_end] = other
            if counts[other]:
                members_end += 1
                hashed += (_U(other) ^ (_U(other) << _U(32))) * _HASH_FACTOR
            j -= 1
        n_candidates = members_end - start
        if n_candidates == 0:
            continue
        hashed ^= hashed >> _U(29)
        ints[kept_at + n_kept] = node[k]
        twin = -1
        if MERGED_COLUMNS:
            twin = _find(words, top, hashes_at, last, hashed, ints, starts_at, candidates_at, start, n_candidates)
        if twin >= 0:
            ints[groups_at + n_kept] = twin
            n_kept += 1
            bit = _ONE << _U(twin)
            thrice |= twice & bit
            twice |= bit
            twin_at, n_excluded = ints[starts_at + twin] + n_candidates, ints[excluded_at + twin]
            ints[excluded_at + twin] = intersect(ints, twin_at, n_excluded, node, first, j)
            members_end = start
            continue
        for i in range(first, j):
            ints[members_end] = node[i]
            members_end += 1
        ints[groups_at + n_kept] = n_columns
        n_kept += 1
        place = hashed & last
        while words[top + np.int64(place)] != _U(0):
            place = (place + _ONE) & last
        words[top + np.int64(place)] = _U(n_columns + 1)
        words[hashes_at + n_columns] = hashed
        ints[starts_at + n_columns] = start
        ints[candidates_at + n_columns] = n_candidates
        ints[excluded_at + n_columns] = members_end - start - n_candidates
        n_columns += 1
    return n_columns, n_kept, members_end, twice, thrice


@compiled(nrt=False)
def collect_words(child, later, live, ints, scratch_at, words, column_words, top):
    """The same where one word per column, at ``words[column_words:]``, holds its last rows, and all later ones.

    Parameters
    ----------
    later, live : uint64
        Later rows, and those of them that matter.
    column_words : int
        Words of the parent's columns.
    """
    node, n_left = child.node, child.left_end - child.left_at
    starts_at, candidates_at, excluded_at = scratch_at, scratch_at + n_left, scratch_at + 2 * n_left
    kept_at, groups_at = scratch_at + 3 * n_left, scratch_at + 4 * n_left
    members_end = scratch_at + 5 * n_left
    keys_at = top + table_size(n_left)
    last = _U(keys_at - top - 1)
    # The upper bits of the product depend on all bits of the key; most keys have only some of the highest.
    shift = _U(64) - _U(popcount(last))
    words[top:keys_at] = _U(0)
    first_row = child.row + 1
    first_bit = lowest_bit_index(later)
    n_kept = 0
    n_columns = 0
    twice = thrice = _U(0)
    for k in range(child.left_at, child.left_end):
        prefetch_column(child, k, 0)
        word = words[column_words + node[k]]
        key = word & live
        if key == _U(0):
            continue
        column = child.column_offsets + node[k]
        first = child.column_members + node[column]
        own = child.column_members + node[column + 1] - 1 - popcount(word & later)
        ints[kept_at + n_kept] = node[k]
        place = key * _HASH_FACTOR >> shift
        twin = np.int64(words[top + np.int64(place)]) - 1
        while twin >= 0 and (words[keys_at + twin] != key or not MERGED_COLUMNS):
            place = (place + _ONE) & last
            twin = np.int64(words[top + np.int64(place)]) - 1
        if twin >= 0:
            ints[groups_at + n_kept] = twin
            n_kept += 1
            bit = _ONE << _U(twin)
            thrice |= twice & bit
            twice |= bit
            twin_at = ints[starts_at + twin] + ints[candidates_at + twin]
            ints[excluded_at + twin] = intersect(ints, twin_at, ints[excluded_at + twin], node, first, own)
            continue
        ints[groups_at + n_kept] = n_columns
        n_kept += 1
        words[top + np.int64(place)] = _U(n_columns + 1)
        words[keys_at + n_columns] = key
        ints[starts_at + n_columns] = members_end
        ints[candidates_at + n_columns] = popcount(key)
        ints[excluded_at + n_columns] = own - first
        while key != _U(0):
            ints[members_end] = first_row + lowest_bit_index(key) - first_bit
            members_end += 1
            key &= key - _ONE
        for i in range(first, own):
            ints[members_end] = node[i]
            members_end += 1
        n_columns += 1
    return n_columns, n_kept, members_end, twice, thrice


@compiled(nrt=False)
def drop_narrow_excluded(child, collected, n_counted, least, worker):
    """Take excluded rows out of new columns if these stand for fewer than `least` left vertices in each row.

    No wanted left set lies inside such a row.

    Returns
    -------
    int
        Rows with a count, listed in `nonzero`: the `n_counted` from before, and excluded ones.
    """
    ints, counts, nonzero = worker.ints, worker.counts, worker.nonzero
    n_left = child.left_end - child.left_at
    candidates_at, excluded_at = collected.scratch + n_left, collected.scratch + 2 * n_left
    kept_at, groups_at, weights_at = collected.scratch + 3 * n_left, collected.scratch + 4 * n_left, collected.end
    kept = layout.KeptColumns(ints, kept_at, collected.n_kept, collected.n_columns, groups_at)
    write_column_weights(child, kept, ints, weights_at)
    for k in range(collected.n_columns):
        start = ints[collected.scratch + k] + ints[candidates_at + k]
        for j in range(start, start + ints[excluded_at + k]):
            nonzero[n_counted] = ints[j]
            n_counted += counts[ints[j]] == 0
            counts[ints[j]] += ints[weights_at + k]
    for k in range(collected.n_columns):
        start = ints[collected.scratch + k] + ints[candidates_at + k]
        end = start
        for j in range(start, start + ints[excluded_at + k]):
            ints[end] = ints[j]
            end += counts[ints[j]] >= least
        ints[excluded_at + k] = end - start
    return n_counted


@compiled(nrt=False)
def _find(words, top, hashes_at, last, hashed, ints, starts_at, candidates_at, start, n_candidates):
    """The column with the same candidates as the list at `start`, or -1; equal hashes are not taken as a proof.

    Parameters
    ----------
    top : int
        First entry of the hash table in the arena of words.
    hashes_at : int
        First of the new columns' hashes.
    last : uint64
        Mask of the hash table.
    starts_at : int
        First of the new columns' list offsets.
    """
    place = hashed & last
    while words[top + np.int64(place)] != _U(0):
        known = np.int64(words[top + np.int64(place)]) - 1
        if words[hashes_at + known] == hashed and ints[candidates_at + known] == n_candidates:
            same = True
            for k in range(n_candidates):
                if ints[ints[starts_at + known] + k] != ints[start + k]:
                    same = False
                    break
            if same:
                return known
        place = (place + _ONE) & last
    return -1


@njit(inline="always")
def count_leading(node, one, end, other, other_end, leads, other_leads):
    """Count the left set of two columns, and each that leads and has a row without the other.

    Parameters
    ----------
    one, end, other, other_end : int
        The rows of the two are ``node[one:end]`` and ``node[other:other_end]``.
    leads, other_leads : bool
        True if the column begins with the child's row.
    """
    is_more = other_is_more = False
    while one < end and other < other_end and not (is_more and other_is_more):
        first, second = node[one], node[other]
        is_more |= first < second
        other_is_more |= second < first
        one += first <= second
        other += second <= first
    return 1 + (leads and (is_more or one < end)) + (other_leads and (other_is_more or other < other_end))


@compiled(nrt=False)
def intersect(ints, at, n, node, first, end):
    """Keep of the ascending list at ``ints[at]`` what is in ``node[first:end]``, ascending; return the length."""
    kept = k = 0
    while k < n and first < end:
        a, b = ints[at + k], node[first]
        ints[at + kept] = a
        kept += a == b
        k += a <= b
        first += b <= a
    return kept


@compiled(nrt=False)
def write_column_ids(child, kept, ints, starts_at, n_starts, new_ids_at):
    """Write starts and ids of new columns: the left vertices behind the parent's columns that are kept.

    Parameters
    ----------
    starts_at, n_starts : int
        Position of the starts, and their number: one more than columns, or padded with the end.

    Returns
    -------
    int
        Number of written ids.
    """
    node, own_starts_at, ids_at = child.node, child.column_starts, child.column_ids
    columns, first, n_kept, _, groups = kept
    for k in range(n_starts):
        ints[starts_at + k] = 0
    for k in range(n_kept):
        group = k if groups < 0 else ints[groups + k]
        start = own_starts_at + columns[first + k]
        ints[starts_at + group + 1] += node[start + 1] - node[start]
    # Each start is first the begin of its list and, after filling, its end: the begin of the next.
    n_ids = 0
    for k in range(1, n_starts):
        n = ints[starts_at + k]
        ints[starts_at + k] = n_ids
        n_ids += n
    for k in range(n_kept):
        place = starts_at + 1 + (k if groups < 0 else ints[groups + k])
        start = own_starts_at + columns[first + k]
        for j in range(ids_at + node[start], ids_at + node[start + 1]):
            ints[new_ids_at + ints[place]] = node[j]
            ints[place] += 1
    return n_ids


@compiled(nrt=False)
def write_column_weights(child, kept, ints, weights_at):
    """Write the weights of new columns: the user's left vertices behind the parent's columns that are kept."""
    columns, first, n_kept, n_new, groups = kept
    for k in range(n_new):
        ints[weights_at + k] = 0
    for k in range(n_kept):
        group = k if groups < 0 else ints[groups + k]
        ints[weights_at + group] += child.node[child.column_weights + columns[first + k]]


@compiled(nrt=False)
def weighed_columns(child, kept, collected, ints, least, are_unread):
    """Say which merged columns are heavy, or wide by themselves; write their weights if they are read."""
    heavy = wide = _U(0)
    weights_at = collected.end
    if are_unread and least <= UNWEIGHED and child.n_left == child.left_end - child.left_at:
        # Each column of the parent is one vertex, and weights would not be read.
        return layout.Columns(weights_at, collected.twice, collected.twice if least == 2 else collected.thrice)
    write_column_weights(child, kept, ints, weights_at)
    for k in range(kept.n_new):
        heavy |= _U(ints[weights_at + k] > 1) << _U(k)
        wide |= _U(ints[weights_at + k] >= least) << _U(k)
    return layout.Columns(weights_at, heavy, wide)
