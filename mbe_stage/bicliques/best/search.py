"""Branch and bound over the tree of maximal bicliques, in compiled code and in quanta.

Rows are the vertices of the enumerated side in order, columns those of the other. A root is a row with the later rows
as candidates and the earlier ones excluded. A node is a set of columns, the rows on its path that hold all of them, its
candidates by ascending number of columns, and its excluded rows. Rows are bitmaps over the node's columns.

The i-th of n candidates leads to bicliques of at most as many columns as it holds, and of at most ``path + n - i``
rows. If no such biclique reaches the threshold, the child is skipped. At a root, rows and columns with too few
neighbours for the threshold are peeled first.

The threshold is the k-th best code so far, or a higher one that the caller gave.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, none, types

from mbe_stage.bicliques.best import layout
from mbe_stage.bicliques.best.layout import (
    CURSOR,
    DEPTH,
    FLOATS_AT,
    FLOATS_SHORT,
    INTS_AT,
    INTS_SHORT,
    KIND,
    MAX_COLUMNS,
    MAX_ROWS,
    MEMBERS_USED,
    MIN_COLUMNS,
    MIN_ROWS,
    N_BEST,
    N_COLUMNS,
    N_EXCLUDED,
    N_OUT,
    N_PATH,
    N_ROWS,
    NEEDED,
    ROOT,
    WIDTH,
    WORDS_AT,
    WORDS_SHORT,
    WORK,
    reaches,
)
from mbe_stage.bicliques.best.scores import code_of, least_size
from mbe_stage.bicliques.best.weighing import may_weigh, weigh_path, weigh_root, weigh_rows
from mbe_stage.bits import extract_bits, popcount
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OUTPUT_FULL, QUANTUM_OVER

_U = np.uint64
_ONE = _U(1)

_VARIANTS = {
    name: (types.NamedTuple((LONGS, INTS, LONGS, INTS), layout.Graph), weights, layout.STATE, layout.OUTPUT, int64)
    for name, weights in (("sizes", none), ("weights", layout.FLOATS))
}


def compile_steps(weighted: bool | None = None) -> tuple[CompileStep, ...]:
    """Compile the search by sizes, the one by weights, or both."""
    return steps_of(run_quantum, variant={None: None, True: "weights", False: "sizes"}[weighted])


@compiled(variants=_VARIANTS, seconds=8.0)
def run_quantum(graph, weights, state, output, work_limit):
    """Continue the search.

    Parameters
    ----------
    weights : float64 or None
        Those of the rows' entries; None to search by sizes.

    Returns
    -------
    int
        ``DONE``, ``QUANTUM_OVER``, ``OUTPUT_FULL``, or the arena that is short. The state is that before the child.
    """
    control, frames = state.control, state.frames
    control[WORK] = 0
    n_rows = graph.row_offsets.size - 1
    while True:
        if control[WORK] >= work_limit:
            return QUANTUM_OVER
        depth = control[DEPTH]
        if depth < 0:
            if control[ROOT] == n_rows:
                return DONE
            status = _visit_root(graph, weights, state, output, control[ROOT])
            if status != DONE:
                return status
            control[ROOT] += 1
        elif frames[depth, CURSOR] == frames[depth, N_ROWS]:
            control[DEPTH] -= 1
        else:
            status = _visit_child(weights, state, output, depth)
            if status != DONE:
                return status
            frames[depth, CURSOR] += 1


@njit(inline="always")
def _bound(state, n_columns, n_rows):
    """The highest code of at most so many columns and rows; 0 if these are too few."""
    bounds = state.bounds
    n_columns, n_rows = min(n_columns, bounds[MAX_COLUMNS]), min(n_rows, bounds[MAX_ROWS])
    if n_columns < bounds[MIN_COLUMNS] or n_rows < bounds[MIN_ROWS]:
        return -1.0
    return code_of(bounds[KIND], state.threshold[2], n_columns, n_rows)


@njit(inline="always")
def _least_columns(state, n_rows):
    """Columns that a biclique of at most so many rows needs."""
    least = least_size(state.bounds[KIND], state.threshold[2], state.threshold[0], min(n_rows, state.bounds[MAX_ROWS]))
    return max(state.bounds[MIN_COLUMNS], least)


@njit(inline="always")
def _least_rows(state, n_columns):
    """Rows that a biclique of at most so many columns needs."""
    most = min(n_columns, state.bounds[MAX_COLUMNS])
    return max(state.bounds[MIN_ROWS], least_size(state.bounds[KIND], state.threshold[2], state.threshold[0], most))


@compiled()
def _emit(state, output, n_columns, n_path, code):
    """Write a biclique, whose rows are the path, if it reaches the threshold; False if there is no room."""
    bounds, control, best = state.bounds, state.control, state.best
    if n_columns < bounds[MIN_COLUMNS] or n_columns > bounds[MAX_COLUMNS]:
        return True
    if n_path < bounds[MIN_ROWS] or n_path > bounds[MAX_ROWS] or not reaches(state, code):
        return True
    used, n_out = control[MEMBERS_USED], control[N_OUT]
    if n_out == output.codes.size or used + n_path > output.members.size:
        control[NEEDED] = n_path
        return False
    output.codes[n_out] = code
    output.sizes[n_out] = n_path
    output.members[used : used + n_path] = state.path[:n_path]
    control[N_OUT] += 1
    control[MEMBERS_USED] += n_path
    n_best = control[N_BEST]
    if n_best < best.size:
        # Filled from the end, so that the first is the smallest.
        control[N_BEST] += 1
        k = best.size - n_best - 1
    elif code <= best[0]:
        return True
    else:
        k = 0
    while k + 1 < best.size and best[k + 1] < code:
        best[k] = best[k + 1]
        k += 1
    best[k] = code
    if control[N_BEST] == best.size:
        state.threshold[0] = max(state.threshold[0], best[0])
    return True


@compiled()
def _visit_root(graph, weights, state, output, root):
    """Visit the bicliques whose first row is `root`; leave a frame if there are several."""
    row_offsets, column_offsets, column_members = graph.row_offsets, graph.column_offsets, graph.column_members
    bounds, control, counts, places = state.bounds, state.control, state.counts, state.places
    start, n_columns = row_offsets[root], row_offsets[root + 1] - row_offsets[root]
    if n_columns < bounds[MIN_COLUMNS]:
        return DONE
    if state.ints.size < 2 * counts.size + n_columns:
        control[NEEDED] = 2 * counts.size + n_columns
        return INTS_SHORT
    # The columns, then the rows that hold some.
    ints = state.ints
    for k in range(n_columns):
        ints[k] = graph.row_members[start + k]
    rows_at, n_rows = n_columns, 0
    for k in range(n_columns):
        for j in range(column_offsets[ints[k]], column_offsets[ints[k] + 1]):
            row = column_members[j]
            if counts[row] == 0:
                ints[rows_at + n_rows] = row
                n_rows += 1
            counts[row] += 1
        control[WORK] += column_offsets[ints[k] + 1] - column_offsets[ints[k]]
    n_columns = _peel(graph, state, root, n_columns, rows_at, n_rows)
    status = DONE
    if n_columns > 0:
        status = _push_root(graph, weights, state, output, root, n_columns, rows_at, n_rows)
    for k in range(n_rows):
        counts[ints[rows_at + k]] = 0
        places[ints[rows_at + k]] = 0
    return status


@njit(inline="always")
def _peel(graph, state, root, n_columns, rows_at, n_rows):
    """Drop columns and later rows that are in no biclique of the root above the threshold.

    Returns
    -------
    int
        The number of columns left, the first of the arena of ints; 0 if there can be no such biclique.
    """
    ints, counts = state.ints, state.counts
    while True:
        n_live, least = 0, _least_columns(state, n_rows)
        for k in range(n_rows):
            n_live += (ints[rows_at + k] >= root) & (counts[ints[rows_at + k]] >= least)
        if n_columns < least or not reaches(state, _size_bound(state, root, n_columns, rows_at, n_rows)):
            return 0
        least = _least_columns(state, n_live)
        least_rows = _least_rows(state, n_columns)
        kept = 0
        for k in range(n_columns):
            column, n_holding = ints[k], 0
            first, end = graph.column_offsets[column], graph.column_offsets[column + 1]
            for j in range(first, end):
                row = graph.column_members[j]
                n_holding += (row >= root) & (counts[row] >= least)
            state.control[WORK] += end - first
            if n_holding >= least_rows:
                ints[kept] = column
                kept += 1
            else:
                for j in range(first, end):
                    counts[graph.column_members[j]] -= 1
        if kept == n_columns:
            return n_columns
        n_columns = kept
        if n_columns == 0:
            return 0


@njit(inline="always")
def _size_bound(state, root, n_columns, rows_at, n_rows):
    """The highest code of some columns with the rows that hold so many of them."""
    ints, counts, histogram = state.ints, state.counts, state.histogram
    for k in range(n_rows):
        histogram[counts[ints[rows_at + k]]] += ints[rows_at + k] >= root
    highest, n_holding = -1.0, 0
    for n in range(n_columns, 0, -1):
        n_holding += histogram[n]
        highest = max(highest, _bound(state, n, n_holding))
    for n in range(n_columns + 1):
        histogram[n] = 0
    return highest


@compiled()
def _push_root(graph, weights, state, output, root, n_columns, rows_at, n_rows):
    """Make the frame of a root from its columns, ``ints[:n_columns]``, and the rows that hold some of them."""
    ints, counts, control, frames = state.ints, state.counts, state.control, state.frames
    n_live = 0
    for k in range(n_rows):
        n_live += ints[rows_at + k] >= root
    least, n_path, n_candidates, n_excluded = _least_columns(state, n_live), 0, 0, 0
    for k in range(n_rows):
        row = ints[rows_at + k]
        if row < root and counts[row] == n_columns:
            return DONE
        if row >= root and counts[row] == n_columns:
            n_path += 1
        elif counts[row] >= least:
            n_candidates += row > root
            n_excluded += row < root
    width = (n_columns + 63) >> 6
    if (n_candidates + n_excluded) * width > state.words.size:
        control[NEEDED] = (n_candidates + n_excluded) * width
        return WORDS_SHORT
    ints_at = rows_at + n_rows
    if ints_at + 3 * n_candidates > ints.size:
        control[NEEDED] = ints_at + 3 * n_candidates
        return INTS_SHORT
    if weights is not None:
        needed = n_columns + n_candidates
        for k in range(n_rows):
            row = ints[rows_at + k]
            needed += counts[row] if row > root and counts[row] >= least else 0
        if needed > state.floats.size:
            control[NEEDED] = needed
            return FLOATS_SHORT
    n_path = _place_rows(state, root, n_columns, rows_at, n_rows, least, n_candidates)
    _fill_words(graph, state, n_columns, (n_candidates + n_excluded) * width, width)
    code = code_of(state.bounds[KIND], state.threshold[2], n_columns, n_path)
    if weights is not None:
        code = weigh_root(graph, weights, state, n_columns, n_path, ints_at, n_candidates)
    if not _emit(state, output, n_columns, n_path, code):
        return OUTPUT_FULL
    if n_candidates > 0:
        control[DEPTH] = 0
        frames[0, CURSOR], frames[0, N_ROWS], frames[0, N_EXCLUDED] = 0, n_candidates, n_excluded
        frames[0, N_COLUMNS], frames[0, WIDTH], frames[0, N_PATH] = n_columns, width, n_path
        frames[0, WORDS_AT], frames[0, INTS_AT], frames[0, FLOATS_AT] = 0, ints_at, 0
    return DONE


@compiled()
def _place_rows(state, root, n_columns, rows_at, n_rows, least, n_candidates):
    """Sort a root's candidates by columns, and number them and the excluded rows, from 1; return the rows on the path.

    Parameters
    ----------
    rows_at, n_rows : int
        Where the rows stand in the arena of ints.
    least : int
        Fewest columns of a row that counts.
    """
    ints, counts, places = state.ints, state.counts, state.places
    ints_at = rows_at + n_rows
    # Counting sort of the candidates by columns. A row's place is that of its row of bits, from 1.
    histogram = state.histogram
    for k in range(n_rows):
        row = ints[rows_at + k]
        histogram[counts[row]] += (row > root) & (counts[row] >= least) & (counts[row] < n_columns)
    total = 0
    for n in range(n_columns):
        total, histogram[n] = total + histogram[n], total
    n_path, excluded = 0, n_candidates
    for k in range(n_rows):
        row = ints[rows_at + k]
        if row >= root and counts[row] == n_columns:
            state.path[n_path] = row
            n_path += 1
        elif counts[row] >= least and row > root:
            place = histogram[counts[row]]
            histogram[counts[row]] += 1
            ints[ints_at + place] = row
            ints[ints_at + n_candidates + place] = counts[row]
            places[row] = place + 1
        elif counts[row] >= least and row < root:
            excluded += 1
            places[row] = excluded
    for n in range(n_columns):
        histogram[n] = 0
    return n_path


@compiled()
def _fill_words(graph, state, n_columns, n_words, width):
    """Write the bitmaps of a root's rows, at their places."""
    ints, places = state.ints, state.places
    state.words[:n_words] = _U(0)
    for k in range(n_columns):
        for j in range(graph.column_offsets[ints[k]], graph.column_offsets[ints[k] + 1]):
            place = places[graph.column_members[j]]
            if place > 0:
                state.words[(place - 1) * width + (k >> 6)] |= _ONE << _U(k & 63)


@compiled()
def _visit_child(weights, state, output, depth):
    """Visit the next child of the deepest frame: skip it, or write it and leave a frame if there is more below."""
    frames, words, ints, control = state.frames, state.words, state.ints, state.control
    i, n_rows, n_excluded = frames[depth, CURSOR], frames[depth, N_ROWS], frames[depth, N_EXCLUDED]
    width, words_at, ints_at = frames[depth, WIDTH], frames[depth, WORDS_AT], frames[depth, INTS_AT]
    n_path = frames[depth, N_PATH]
    n_columns = np.int64(ints[ints_at + n_rows + i])
    control[WORK] += 4
    if not reaches(state, _bound(state, n_columns, n_path + n_rows - i)):
        return DONE
    if weights is not None and not may_weigh(state, depth, i):
        return DONE
    row_at = words_at + i * width
    if _is_seen(state, depth):
        return DONE
    control[WORK] += (2 * n_rows + n_excluded) * (width + 2)
    # Candidates of the child, and their numbers of columns, behind the frame's ints.
    new_ints = ints_at + 3 * n_rows
    if new_ints + 5 * (n_rows - i) > ints.size:
        control[NEEDED] = new_ints + 5 * (n_rows - i)
        return INTS_SHORT
    least, scratch = _least_columns(state, n_path + n_rows - i), new_ints + 3 * (n_rows - i)
    absorbed, n_new, n_entries = _divide_rows(state, depth, n_columns, least, scratch)
    new_floats, code = 0, code_of(state.bounds[KIND], state.threshold[2], n_columns, absorbed)
    if weights is not None:
        last = ints_at + 2 * n_rows - 1
        new_floats = frames[depth, FLOATS_AT] + frames[depth, N_COLUMNS] + n_rows + ints[last] + ints[last + n_rows]
        if new_floats + n_columns + n_new + n_entries > state.floats.size:
            control[NEEDED] = new_floats + n_columns + n_new + n_entries
            return FLOATS_SHORT
        code = weigh_path(state, depth, i, n_columns, new_floats)
    width_new = (n_columns + 63) >> 6
    new_words = words_at + (n_rows + n_excluded) * width
    if new_words + (n_new + n_excluded + i) * width_new > words.size:
        control[NEEDED] = new_words + (n_new + n_excluded + i) * width_new
        return WORDS_SHORT
    if not _emit(state, output, n_columns, absorbed, code):
        return OUTPUT_FULL
    if n_new == 0:
        return DONE
    if not _sort_candidates(state, n_columns, absorbed, n_new, least, new_ints, scratch):
        return DONE
    if weights is not None and not weigh_rows(state, depth, i, new_ints, n_new, n_columns, new_floats, code):
        return DONE
    # Weights stand by number of column.
    to, is_dense = new_words, weights is not None
    for k in range(n_new):
        _narrow(words, row_at, words_at + ints[new_ints + k] * width, width, to, width_new, is_dense)
        ints[new_ints + k] = ints[ints_at + ints[new_ints + k]]
        to += width_new
    n_excluded_new = _narrow_excluded(state, depth, least, to, width_new, is_dense)
    depth += 1
    control[DEPTH] = depth
    frames[depth, CURSOR], frames[depth, N_ROWS], frames[depth, N_EXCLUDED] = 0, n_new, n_excluded_new
    frames[depth, N_COLUMNS], frames[depth, WIDTH], frames[depth, N_PATH] = n_columns, width_new, absorbed
    frames[depth, WORDS_AT], frames[depth, INTS_AT], frames[depth, FLOATS_AT] = new_words, new_ints, new_floats
    return DONE


@compiled()
def _is_seen(state, depth):
    """True if an earlier sibling or an excluded row holds all columns of the child: it was seen, or is not maximal."""
    words, frame = state.words, state.frames[depth]
    width, words_at, i, n_rows = frame[WIDTH], frame[WORDS_AT], frame[CURSOR], frame[N_ROWS]
    row_at = words_at + i * width
    for j in range(n_rows + frame[N_EXCLUDED]):
        if i <= j < n_rows:
            continue
        other, is_inside = words_at + j * width, True
        for w in range(width):
            if words[row_at + w] & ~words[other + w] != _U(0):
                is_inside = False
                break
        if is_inside:
            return True
    return False


@compiled()
def _n_common(words, row_at, other_at, width):
    n = 0
    for w in range(width):
        n += popcount(words[row_at + w] & words[other_at + w])
    return n


@compiled()
def _divide_rows(state, depth, n_columns, least, scratch):
    """Put rows with all of a child's columns on the path; write the numbers and columns of those with `least` or more.

    Returns
    -------
    n_path, n_candidates, n_entries : int
        The last is the sum of the candidates' columns.
    """
    words, ints, frame = state.words, state.ints, state.frames[depth]
    width, words_at, i, n_rows = frame[WIDTH], frame[WORDS_AT], frame[CURSOR], frame[N_ROWS]
    n_path, n_new, n_entries = frame[N_PATH], 0, 0
    for j in range(i, n_rows):
        n = _n_common(words, words_at + i * width, words_at + j * width, width)
        if n == n_columns:
            state.path[n_path] = ints[frame[INTS_AT] + j]
            n_path += 1
        elif n >= least:
            ints[scratch + 2 * n_new] = j
            ints[scratch + 2 * n_new + 1] = n
            n_entries += n
            n_new += 1
    return n_path, n_new, n_entries


@compiled()
def _sort_candidates(state, n_columns, n_path, n_new, least, new_ints, scratch):
    """Sort a child's candidates by columns; False, without the sort, if no child of it reaches the threshold.

    Parameters
    ----------
    n_path : int
        Rows on the child's path.
    least : int
        Each candidate has at least so many columns, and fewer than `n_columns`.
    new_ints, scratch : int
        Where the candidates are written, and where `_divide_rows` wrote them.
    """
    ints, histogram = state.ints, state.histogram
    for k in range(n_new):
        histogram[ints[scratch + 2 * k + 1]] += 1
    total, highest = 0, -1.0
    for n in range(least, n_columns):
        if histogram[n] > 0:
            highest = max(highest, _bound(state, n, n_path + n_new - total))
        total, histogram[n] = total + histogram[n], total
    may_reach = reaches(state, highest)
    if may_reach:
        for k in range(n_new):
            j, n = ints[scratch + 2 * k], ints[scratch + 2 * k + 1]
            place = histogram[n]
            histogram[n] += 1
            ints[new_ints + place] = j
            ints[new_ints + n_new + place] = n
    for n in range(least, n_columns):
        histogram[n] = 0
    return may_reach


@compiled()
def _narrow_excluded(state, depth, least, to, width_new, is_dense):
    """Write the excluded rows of a child, those with `least` of its columns or more; return their number."""
    words, frame = state.words, state.frames[depth]
    width, words_at, i, n_rows = frame[WIDTH], frame[WORDS_AT], frame[CURSOR], frame[N_ROWS]
    row_at, n_kept = words_at + i * width, 0
    for j in range(n_rows + frame[N_EXCLUDED]):
        if i <= j < n_rows:
            continue
        if _n_common(words, row_at, words_at + j * width, width) >= least:
            _narrow(words, row_at, words_at + j * width, width, to + n_kept * width_new, width_new, is_dense)
            n_kept += 1
    return n_kept


@compiled()
def _narrow(words, mask_at, row_at, width, to, width_new, is_dense):
    """Write a row's bits at the places of a mask's, moved together if that saves words, or if `is_dense`.

    Parameters
    ----------
    mask_at, row_at, to : int
        Where the mask, the row and the result begin.
    width, width_new : int
        Words of a row before and after.
    """
    if width == width_new and not is_dense:
        for w in range(width):
            words[to + w] = words[row_at + w] & words[mask_at + w]
        return
    for w in range(width_new):
        words[to + w] = _U(0)
    n = 0
    for w in range(width):
        mask = words[mask_at + w]
        if mask == _U(0):
            continue
        bits = extract_bits(words[row_at + w], mask)
        words[to + (n >> 6)] |= bits << _U(n & 63)
        n_bits = popcount(mask)
        if (n & 63) + n_bits > 64:
            words[to + (n >> 6) + 1] |= bits >> _U(64 - (n & 63))
        n += n_bits
