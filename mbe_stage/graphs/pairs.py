"""Sort and deduplicate pairs of ids as edges, and compute row offsets, in linear time."""

from __future__ import annotations

import numpy as np
from numba import int64
from numba.types import UniTuple

from mbe_stage.runtime.jit import INTS, LONGS, compiled, readonly, readonly_view, steps_in

compile_steps = steps_in(__name__)
_Pairs = tuple[np.ndarray, np.ndarray]


def distinct_pairs(first: np.ndarray, second: np.ndarray, n_first: int, n_second: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each pair once, sorted by first and then second id; the given arrays if they are sorted already.

    The ids, int32, are below `n_first` and `n_second`.

    Examples
    --------
    >>> first, second = distinct_pairs(np.array([1, 0, 1], np.int32), np.array([0, 1, 0], np.int32), 2, 2)
    >>> first.tolist(), second.tolist()
    ([0, 1], [1, 0])
    """
    views = readonly_view(np.ascontiguousarray(first)), readonly_view(np.ascontiguousarray(second))
    if _are_in_order(*views):
        return first, second
    firsts, seconds, n = _distinct_pairs(*views, n_first, n_second)
    # Copy only if there are many duplicates: a copy needs extra memory for a moment.
    return (firsts[:n], seconds[:n]) if n > 0.75 * firsts.size else (firsts[:n].copy(), seconds[:n].copy())


def row_offsets(ids: np.ndarray, n: int) -> np.ndarray:
    """Return the offset of each id's entries in sorted order, ``(n + 1,) int64``."""
    return _row_offsets(readonly_view(np.ascontiguousarray(ids)), n)


def select_pairs(pairs: _Pairs, first_ids: range, into: _Pairs, n_before: int) -> int:
    """Append pairs to the `n_before` pairs of `into` if their first id is in a range of step 1; return the new number.

    The first ids are stored relative to the start of the range. All arrays are int32.
    """
    views = readonly_view(pairs[0]), readonly_view(pairs[1])
    return int(_select_pairs(views, (first_ids.start, first_ids.stop), into, n_before))


@compiled(readonly(INTS), readonly(INTS))
def _are_in_order(first, second):
    for i in range(1, first.size):
        if first[i] < first[i - 1] or (first[i] == first[i - 1] and second[i] <= second[i - 1]):
            return False
    return True


@compiled(INTS, LONGS)
def count_ids(ids, counts):
    """Add the number of occurrences of each int32 id to the int64 counts."""
    for i in range(ids.size):
        counts[ids[i]] += 1


@compiled(UniTuple(readonly(INTS), 2), UniTuple(int64, 2), UniTuple(INTS, 2), int64)
def _select_pairs(pairs, bounds, into, n):
    (first, second), (start, stop), (into_first, into_second) = pairs, bounds, into
    for i in range(first.size):
        if (first[i] >= start) & (first[i] < stop):
            into_first[n], into_second[n] = first[i] - start, second[i]
            n += 1
    return n


@compiled(UniTuple(INTS, 2), UniTuple(INTS, 2), UniTuple(int64, 2))
def leave_out_pairs(pairs, degrees, least):
    """Remove the pairs of ids with too few pairs, in place; return the number of pairs that remain, at the front.

    Parameters
    ----------
    pairs : pair of (n,) int32
    degrees : pair of int32 arrays
        Number of remaining pairs of each first and second id, including pairs elsewhere; changed in place.
    least : (int, int)
        Fewest pairs for a first id and for a second id.
    """
    (first, second), (first_degrees, second_degrees), n = pairs, degrees, 0
    for i in range(first.size):
        one, other = first[i], second[i]
        is_kept = (first_degrees[one] >= least[0]) & (second_degrees[other] >= least[1])
        first[n], second[n] = one, other
        n += is_kept
        first_degrees[one] -= 1 - is_kept
        second_degrees[other] -= 1 - is_kept
    return n


@compiled(readonly(INTS), int64)
def _row_offsets(ids, n):
    offsets = np.zeros(n + 1, np.int64)
    for i in range(ids.size):
        offsets[ids[i] + 1] += 1
    for k in range(n):
        offsets[k + 1] += offsets[k]
    return offsets


@compiled(readonly(INTS), readonly(INTS), int64, int64, seconds=1.0)
def _distinct_pairs(first, second, n_first, n_second):
    """Sort stably by the second id, then by the first, counting; then remove duplicates in place."""
    ends = _row_offsets(second, n_second)
    by_second = np.empty(first.size, np.int32)
    for i in range(first.size):
        by_second[ends[second[i]]] = first[i]
        ends[second[i]] += 1
    places = _row_offsets(first, n_first)
    seconds = np.empty(first.size, np.int32)
    start = 0
    for id in range(n_second):
        for i in range(start, ends[id]):
            row = by_second[i]
            seconds[places[row]] = id
            places[row] += 1
        start = ends[id]
    # `by_second` is free now, and receives the first ids.
    n = start = 0
    for row in range(n_first):
        previous = -1
        for i in range(start, places[row]):
            if seconds[i] != previous:
                previous = seconds[i]
                seconds[n] = previous
                by_second[n] = row
                n += 1
        start = places[row]
    return by_second, seconds, n
