"""Count the two-step paths of a subgraph's child, from its left set to every row that holds some of it.

Lanes walk paths side by side, whatever the lengths of the columns: the lists of 32 columns at a time are joined, and
each lane finds the column of its path. Counting from L instead of from P and Q is the second way of cuMBE 5.4 (parallel
intersection computation). Its 5.5 gives a warp to each list; here the lanes of a warp share 32 lists.

Counters are the array of cuMBE 5.4, with a list of the nonzero ones, so that a warp only visits these. The counters of
all warps exceed the caches. So each is read as few times as possible, and the next tile is loaded in advance.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.subgraph_parts import entry, ids_of
from mbe_stage.bicliques.cuda.techniques import AHEAD
from mbe_stage.bicliques.cuda.walk_bundles import Paths, Rows
from mbe_stage.device.warp import ALL, ballot, count_bits, four, inclusive_sum, max_all, next_tile, owner_of, rank

_U = np.uint32
_NONE = _U(0)
_LARGEST_COUNT = np.int32(0xFFFF)
_NO_PATH = (np.int32(-1), np.int32(0))
"""Result of `path_at` behind the last path."""


@cuda.jit(device=True, forceinline=True)
def nonzero_at(k, n_nonzero, own):
    """The k-th row in `nonzero`, -1 behind the last one."""
    return own.nonzero[_U(k)] if k < n_nonzero else np.int32(-1)


@cuda.jit(device=True, forceinline=True)
def no_rows():
    """The `Rows` of a bitmap child, whose rows are not counted in this way."""
    zero = np.int32(0)
    return Rows(zero, zero, zero, zero, zero)


@cuda.jit(device=True, forceinline=True)
def weighs_rows(child, mode):
    """True if counts of a list child's rows may differ from their columns: columns stand for several vertices."""
    return mode == layout.SIZES or (mode == layout.WITHIN and child.whole != child.n_left)


@cuda.jit(device=True, forceinline=True)
def look_at_rows(child, n_nonzero, n_pairs, own, mode):
    """Write the number of each candidate, plus one, into `bits`; return the `Rows`."""
    lane = np.int32(cuda.laneid)
    n_candidates = np.int32(0)
    n_full = np.int32(0)
    most_earlier = np.int32(0)
    following = nonzero_at(lane, n_nonzero, own)
    tile = np.int32(0)
    while tile < n_nonzero:
        other = following
        tile = next_tile(tile)
        following = nonzero_at(np.int32(tile + lane), n_nonzero, own)
        held = own.counts[_U(other)] if other >= 0 else np.int32(0)
        is_full = held == child.whole
        is_candidate = other > child.row and not is_full and held >= child.fewest
        if other < child.row:
            most_earlier = max(most_earlier, held)
            if layout.COUNT < mode < layout.MEMBERS and other >= 0:
                # Tags are larger than counts. A row that is too small excludes nothing.
                counted = min(held, _LARGEST_COUNT) if weighs_rows(child, mode) else held
                own.counts[_U(other)] = counted if held >= child.fewest else 0
        mask = ballot(is_candidate)
        if is_candidate:
            number = np.int32(n_candidates + rank(mask))
            own.bits[_U(other)] = _U(number + 1)
            if number < layout.MOST_KEY_ROWS:
                own.subsets[_U(number)] = _U(other)
        n_candidates = np.int32(n_candidates + count_bits(mask))
        n_full = np.int32(n_full + count_bits(ballot(is_full)))
    cuda.syncwarp()
    return Rows(n_nonzero, n_pairs, n_candidates, n_full, max_all(most_earlier))


@cuda.jit(device=True, forceinline=True)
def clear_accumulator(seen, own):
    """Set the accumulator to zero."""
    k = np.int32(cuda.laneid)
    while k < seen.n_nonzero:
        other = own.nonzero[_U(k)]
        own.bits[_U(other)] = _U(0)
        if seen.is_list:
            own.counts[_U(other)] = 0
        k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def append_nonzero(is_new, other, n_nonzero, own):
    """Append the rows of the lanes with a new one to `nonzero`; return its length."""
    mask = ballot(is_new)
    if is_new:
        own.nonzero[_U(n_nonzero + rank(mask))] = other
    return np.int32(n_nonzero + count_bits(mask))


@cuda.jit(device=True, forceinline=True)
def number_of(path, own):
    """The entry of `bits` for a path's row, if that is its number plus one; 0 if there is no path."""
    return own.bits[_U(path[0])] if path[0] >= 0 else _NONE


@cuda.jit(device=True, forceinline=True)
def column_at(place, child, own):
    """The entry of `columns` for the left set's column at `place`; `layout.NO_COLUMN` behind the last one."""
    column = np.int32(layout.NO_COLUMN)
    if place < child.n_left:
        column = own.columns[_U(place)]
    return column


@cuda.jit(device=True, forceinline=True)
def list_of(place, node, child, numbers):
    """Length and begin, among the node's column members, of the list of the left set's column at `place`."""
    start = np.int32(0)
    length = np.int32(0)
    if 0 <= place < child.n_left:
        column = numbers[entry(node, child.left_at + place)]
        start = numbers[entry(node, node.column_offsets + column)]
        length = np.int32(numbers[entry(node, node.column_offsets + column + 1)] - start)
    return length, start


@cuda.jit(device=True, forceinline=True)
def end_to_end(length, start):
    """Join the lanes' lists, given by their lengths and begins among the node's column members."""
    ends = inclusive_sum(length)
    return Paths(ends, np.int32(start - (ends - length)), cuda.shfl_sync(ALL, ends, 31))


@cuda.jit(device=True, forceinline=True)
def group_at(group, node, child, numbers):
    """Join the lists of 32 columns of the left set, from position `group` on."""
    length, start = list_of(np.int32(group + cuda.laneid), node, child, numbers)
    return end_to_end(length, start)


@cuda.jit(device=True, forceinline=True)
def path_at(k, paths, node, numbers):
    """The row at the end of path `k`, -1 behind the last one, and the lane of its column."""
    holder = owner_of(k, paths.ends)
    begin = cuda.shfl_sync(ALL, paths.shift, holder)
    other = np.int32(-1)
    if k < paths.total:
        other = numbers[entry(node, node.column_members + begin + k)]
    return other, holder


@cuda.jit(device=True, forceinline=True)
def loads_ahead(launch):
    """True if list children keep several tiles of loads in flight; kernels that write are too long for such code."""
    return launch.mode < layout.SIZES and launch.techniques & AHEAD != 0


@cuda.jit(device=True, forceinline=True)
def paths_at(tile, paths, node, numbers, ahead):
    """The lane's paths of the four tiles from `tile` on, as from `path_at`; continue at `behind_paths`.

    Four are loaded at once if `ahead`, since each waits for memory, otherwise the first.
    """
    k = np.int32(tile + cuda.laneid)
    path_0, path_1, path_2, path_3 = path_at(k, paths, node, numbers), _NO_PATH, _NO_PATH, _NO_PATH
    if ahead and tile + 32 < paths.total:
        path_1 = path_at(np.int32(k + 32), paths, node, numbers)
    if ahead and tile + 64 < paths.total:
        path_2 = path_at(np.int32(k + 64), paths, node, numbers)
        path_3 = path_at(np.int32(k + 96), paths, node, numbers)
    return path_0, path_1, path_2, path_3


@cuda.jit(device=True, forceinline=True)
def behind_paths(tile, ahead):
    """The first tile behind those of `paths_at`."""
    return next_tile(np.int32(tile + 96) if ahead else tile)


@cuda.jit(device=True, forceinline=True)
def _weighed(path, size, mode):
    """Return the row of a path, and what it adds to its count: 1, or the `size` of its column's lane."""
    return path[0], cuda.shfl_sync(ALL, size, path[1]) if layout.COUNT < mode < layout.MEMBERS else np.int32(1)


@cuda.jit(device=True, forceinline=True)
def _is_first(weighed, own):
    """Count a path; True if its row had none before."""
    other, weight = weighed
    return other >= 0 and cuda.atomic.add(own.counts, _U(max(other, 0)), weight) == 0


@cuda.jit(device=True, forceinline=True)
def pairs_from(child):
    """Offset in the arena of words of the recorded paths to later rows, behind the data of merging columns."""
    return np.int32(6 * child.n_left if child.n_left <= layout.MOST_MERGED else 0)


@cuda.jit(device=True, forceinline=True)
def record(is_live, other, of, first, n_pairs, own):
    """Record the pairs of the lanes that have one, a row and a column, as far as the arena of words has room.

    The record begins at `first`, and has `n_pairs` so far. Returns their new number.
    """
    mask = ballot(is_live)
    place = np.int32(first + 2 * (n_pairs + rank(mask)))
    if is_live and place + 2 <= own.words.size:
        own.words[_U(place)] = _U(other)
        own.words[_U(place + 1)] = _U(of)
    return np.int32(n_pairs + count_bits(mask))


@cuda.jit(device=True, forceinline=True)
def size_at(place, node, child, numbers):
    """Number of the user's vertices in a column of the left set, in modes without ids; 0 behind the last one."""
    first, end = np.int32(0), np.int32(0)
    if place < child.n_left:
        first, end = ids_of(node, numbers[entry(node, child.left_at + place)], numbers)
    return np.int32(end - first)


@cuda.jit(device=True, forceinline=True)
def count_paths(node, child, own, numbers, launch):
    """Count in `counts` how many columns of the left set every row holds, or the user's vertices in modes without ids.

    Collects rows with some in `nonzero`, and records the paths to later ones. Returns the numbers of both (see
    `walk_bundles.Rows`).
    """
    mode, ahead = launch.mode, loads_ahead(launch)
    n_nonzero = np.int32(0)
    n_pairs = np.int32(0)
    group = np.int32(0)
    while group < child.n_left:
        paths = group_at(group, node, child, numbers)
        size = np.int32(1)
        if layout.COUNT < mode < layout.MEMBERS:
            size = size_at(np.int32(group + cuda.laneid), node, child, numbers)
        tile = np.int32(0)
        while tile < paths.total:
            found = paths_at(tile, paths, node, numbers, ahead)
            are_new = four(_is_first, four(_weighed, found, size, mode), own)
            for k in range(4):
                if k == 0 or (ahead and tile + 32 * k < paths.total):
                    other, holder = found[k]
                    of, is_later = np.int32(group + holder), other > child.row
                    n_pairs = record(is_later, other, of, pairs_from(child), n_pairs, own)
                    # Records that do not fit need no distinct numbers.
                    n_pairs = np.int32(min(n_pairs, own.words.size))
                    n_nonzero = append_nonzero(are_new[k], other, n_nonzero, own)
            tile = behind_paths(tile, ahead)
        group = next_tile(group)
    cuda.syncwarp()
    return n_nonzero, n_pairs
