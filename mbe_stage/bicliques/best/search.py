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

from typing import NamedTuple

import numpy as np
from numba import float64, int64, njit, none, types

from mbe_stage.bicliques.best.scores import code_of, least_size
from mbe_stage.bits import extract_bits, lowest_bit_index, popcount
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import INTS, LONGS, WORDS, compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OUTPUT_FULL, QUANTUM_OVER

_U = np.uint64
_ONE = _U(1)

# Statuses besides those of `quanta`: an arena is short, and `control[NEEDED]` entries would do.
WORDS_SHORT, INTS_SHORT, FLOATS_SHORT = 4, 5, 6

# Fields of a frame. Its words are the candidates' rows and then the excluded ones, its ints the candidates, the
# number of columns of each, and where its entries start. Its floats are the weights of each column over the path, of
# each candidate, and of the candidates' entries.
CURSOR, N_ROWS, N_EXCLUDED, N_COLUMNS, WIDTH, WORDS_AT, INTS_AT, FLOATS_AT, N_PATH, FRAME_FIELDS = range(10)
# Fields of the control array. ROOT is the next one.
DEPTH, ROOT, WORK, NEEDED, N_OUT, MEMBERS_USED, N_BEST, CONTROL_FIELDS = range(8)
# Fields of the bounds: those of the code, fewest and most columns, fewest and most rows.
KIND, MIN_COLUMNS, MAX_COLUMNS, MIN_ROWS, MAX_ROWS, BOUND_FIELDS = range(6)


class Graph(NamedTuple):
    """Rows with their columns, and columns with their rows, ascending."""

    row_offsets: np.ndarray
    row_members: np.ndarray
    column_offsets: np.ndarray
    column_members: np.ndarray


class State(NamedTuple):
    """All that a quantum needs to resume.

    Attributes
    ----------
    frames : (n_rows + 2, FRAME_FIELDS) int64
    words, ints, floats
        Arenas; frames own consecutive pieces.
    path : (n_rows,) int32
    counts, histogram, places : (larger side + 2,) int32
        Scratch, zeros between two roots.
    bounds, control : int64
    best : (k,) float64
        The best codes so far, ascending.
    threshold : (3,) float64
        The code to reach, a share below it that rounding may take, and the scale of codes.
    """

    frames: np.ndarray
    words: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    path: np.ndarray
    counts: np.ndarray
    histogram: np.ndarray
    places: np.ndarray
    bounds: np.ndarray
    control: np.ndarray
    best: np.ndarray
    threshold: np.ndarray


class Output(NamedTuple):
    """The bicliques that reach the threshold: codes, numbers of rows, and the rows themselves."""

    codes: np.ndarray
    sizes: np.ndarray
    members: np.ndarray


_FLOATS = float64[::1]
_STATE = types.NamedTuple(
    (int64[:, ::1], WORDS, INTS, _FLOATS, INTS, INTS, INTS, INTS, LONGS, LONGS, _FLOATS, _FLOATS), State
)
_OUTPUT = types.NamedTuple((_FLOATS, INTS, INTS), Output)
_VARIANTS = {
    name: (types.NamedTuple((LONGS, INTS, LONGS, INTS), Graph), weights, _STATE, _OUTPUT, int64)
    for name, weights in (("sizes", none), ("weights", _FLOATS))
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
            status = _visit_child(graph, weights, state, output, depth)
            if status != DONE:
                return status
            frames[depth, CURSOR] += 1


@njit(inline="always")
def _reaches(state, code):
    """True if a code, or a bound of codes, is not below the threshold by more than rounding."""
    return code >= state.threshold[0] * (1.0 - state.threshold[1])


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
    if n_path < bounds[MIN_ROWS] or n_path > bounds[MAX_ROWS] or not _reaches(state, code):
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
        if n_columns < least or not _reaches(state, _size_bound(state, root, n_columns, rows_at, n_rows)):
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
    ints, counts, places, control, frames = state.ints, state.counts, state.places, state.control, state.frames
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
    state.words[: (n_candidates + n_excluded) * width] = _U(0)
    for k in range(n_columns):
        for j in range(graph.column_offsets[ints[k]], graph.column_offsets[ints[k] + 1]):
            place = places[graph.column_members[j]]
            if place > 0:
                state.words[(place - 1) * width + (k >> 6)] |= _ONE << _U(k & 63)
    code = code_of(state.bounds[KIND], state.threshold[2], n_columns, n_path)
    if weights is not None:
        code = _weigh_root(graph, weights, state, n_columns, n_path, ints_at, n_candidates)
    if not _emit(state, output, n_columns, n_path, code):
        return OUTPUT_FULL
    if n_candidates > 0:
        control[DEPTH] = 0
        frames[0, CURSOR], frames[0, N_ROWS], frames[0, N_EXCLUDED] = 0, n_candidates, n_excluded
        frames[0, N_COLUMNS], frames[0, WIDTH], frames[0, N_PATH] = n_columns, width, n_path
        frames[0, WORDS_AT], frames[0, INTS_AT], frames[0, FLOATS_AT] = 0, ints_at, 0
    return DONE


@compiled()
def _weigh_root(graph, weights, state, n_columns, n_path, ints_at, n_candidates):
    """Write the weights of a root's frame: each column's over the path, each row's, and those of its entries.

    Returns
    -------
    float
        The weight of the root's own biclique.
    """
    floats, ints = state.floats, state.ints
    total, entry = 0.0, n_columns + n_candidates
    floats[:entry] = 0.0
    for k in range(n_path + n_candidates):
        row = state.path[k] if k < n_path else ints[ints_at + k - n_path]
        at, column = graph.row_offsets[row], 0
        if k >= n_path:
            ints[ints_at + 2 * n_candidates + k - n_path] = entry - n_columns - n_candidates
        while column < n_columns and at < graph.row_offsets[row + 1]:
            if graph.row_members[at] == ints[column]:
                weight = weights[at]
                if k < n_path:
                    floats[column] += weight
                    total += weight
                else:
                    floats[n_columns + k - n_path] += weight
                    floats[entry] = weight
                    entry += 1
                column += 1
                at += 1
            elif graph.row_members[at] < ints[column]:
                at += 1
            else:
                column += 1
    return total


@compiled()
def _visit_child(graph, weights, state, output, depth):
    """Visit the next child of the deepest frame: skip it, or write it and leave a frame if there is more below."""
    frames, words, ints, control = state.frames, state.words, state.ints, state.control
    i, n_rows, n_excluded = frames[depth, CURSOR], frames[depth, N_ROWS], frames[depth, N_EXCLUDED]
    width, words_at, ints_at = frames[depth, WIDTH], frames[depth, WORDS_AT], frames[depth, INTS_AT]
    n_path = frames[depth, N_PATH]
    n_columns = np.int64(ints[ints_at + n_rows + i])
    control[WORK] += 4
    if not _reaches(state, _bound(state, n_columns, n_path + n_rows - i)):
        return DONE
    if weights is not None and not _may_weigh(state, depth, i):
        return DONE
    row_at = words_at + i * width
    # Earlier siblings and excluded rows: with one that holds all columns, the biclique was seen, or is not maximal.
    for j in range(n_rows + n_excluded):
        if i <= j < n_rows:
            continue
        other, is_inside = words_at + j * width, True
        for w in range(width):
            if words[row_at + w] & ~words[other + w] != _U(0):
                is_inside = False
                break
        if is_inside:
            return DONE
    control[WORK] += (2 * n_rows + n_excluded) * (width + 2)
    # Candidates of the child, and their numbers of columns, behind the frame's ints.
    new_ints = ints_at + 3 * n_rows
    if new_ints + 5 * (n_rows - i) > ints.size:
        control[NEEDED] = new_ints + 5 * (n_rows - i)
        return INTS_SHORT
    least, n_new, absorbed, n_entries = _least_columns(state, n_path + n_rows - i), 0, n_path, 0
    scratch = new_ints + 3 * (n_rows - i)
    for j in range(i, n_rows):
        n = 0
        for w in range(width):
            n += popcount(words[row_at + w] & words[words_at + j * width + w])
        if n == n_columns:
            state.path[absorbed] = ints[ints_at + j]
            absorbed += 1
        elif n >= least:
            ints[scratch + 2 * n_new] = j
            ints[scratch + 2 * n_new + 1] = n
            n_entries += n
            n_new += 1
    new_floats, code = 0, code_of(state.bounds[KIND], state.threshold[2], n_columns, absorbed)
    if weights is not None:
        last = ints_at + 2 * n_rows - 1
        new_floats = frames[depth, FLOATS_AT] + frames[depth, N_COLUMNS] + n_rows + ints[last] + ints[last + n_rows]
        if new_floats + n_columns + n_new + n_entries > state.floats.size:
            control[NEEDED] = new_floats + n_columns + n_new + n_entries
            return FLOATS_SHORT
        code = _weigh_path(state, depth, i, n_columns, new_floats)
    width_new = (n_columns + 63) >> 6
    new_words = words_at + (n_rows + n_excluded) * width
    if new_words + (n_new + n_excluded + i) * width_new > words.size:
        control[NEEDED] = new_words + (n_new + n_excluded + i) * width_new
        return WORDS_SHORT
    if not _emit(state, output, n_columns, absorbed, code):
        return OUTPUT_FULL
    if n_new == 0:
        return DONE
    # Counting sort by columns; the bound is the best over the children.
    histogram = state.histogram
    for k in range(n_new):
        histogram[ints[scratch + 2 * k + 1]] += 1
    total, highest = 0, -1.0
    for n in range(least, n_columns):
        if histogram[n] > 0:
            highest = max(highest, _bound(state, n, absorbed + n_new - total))
        total, histogram[n] = total + histogram[n], total
    is_hopeless = not _reaches(state, highest)
    if not is_hopeless:
        for k in range(n_new):
            j, n = ints[scratch + 2 * k], ints[scratch + 2 * k + 1]
            place = histogram[n]
            histogram[n] += 1
            ints[new_ints + place] = j
            ints[new_ints + n_new + place] = n
    for n in range(least, n_columns):
        histogram[n] = 0
    if is_hopeless:
        return DONE
    if weights is not None and not _weigh_rows(state, depth, i, new_ints, n_new, n_columns, new_floats, code):
        return DONE
    # Weights stand by number of column.
    to, is_dense = new_words, weights is not None
    for k in range(n_new):
        _narrow(words, row_at, words_at + ints[new_ints + k] * width, width, to, width_new, is_dense)
        ints[new_ints + k] = ints[ints_at + ints[new_ints + k]]
        to += width_new
    n_excluded_new = 0
    for j in range(n_rows + n_excluded):
        if i <= j < n_rows:
            continue
        n = 0
        for w in range(width):
            n += popcount(words[row_at + w] & words[words_at + j * width + w])
        if n >= least:
            _narrow(words, row_at, words_at + j * width, width, to, width_new, is_dense)
            to += width_new
            n_excluded_new += 1
    depth += 1
    control[DEPTH] = depth
    frames[depth, CURSOR], frames[depth, N_ROWS], frames[depth, N_EXCLUDED] = 0, n_new, n_excluded_new
    frames[depth, N_COLUMNS], frames[depth, WIDTH], frames[depth, N_PATH] = n_columns, width_new, absorbed
    frames[depth, WORDS_AT], frames[depth, INTS_AT], frames[depth, FLOATS_AT] = new_words, new_ints, new_floats
    return DONE


@njit(inline="always")
def _narrow(words, mask_at, row_at, width, to, width_new, is_dense):
    """Write a row's bits at the places of a mask's, moved together if that saves words, or if `is_dense`."""
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


@njit(inline="always")
def _may_weigh(state, depth, i):
    """True if the path and all candidates from the i-th on together reach the threshold."""
    frames = state.frames
    start, n_columns = frames[depth, FLOATS_AT], frames[depth, N_COLUMNS]
    total = 0.0
    for k in range(n_columns):
        total += state.floats[start + k]
    for k in range(start + n_columns + i, start + n_columns + frames[depth, N_ROWS]):
        total += state.floats[k]
    return _reaches(state, total)


@njit(inline="always")
def _weigh_path(state, depth, i, n_columns, new_floats):
    """Write the weights of a child's columns over its path; return their sum."""
    frames, floats, words, ints = state.frames, state.floats, state.words, state.ints
    start, width, words_at = frames[depth, FLOATS_AT], frames[depth, WIDTH], frames[depth, WORDS_AT]
    n_rows, row_at = frames[depth, N_ROWS], frames[depth, WORDS_AT] + i * frames[depth, WIDTH]
    n = 0
    for w in range(width):
        bits = words[row_at + w]
        while bits != _U(0):
            floats[new_floats + n] = floats[start + 64 * w + lowest_bit_index(bits)]
            n += 1
            bits &= bits - _ONE
    entries = start + frames[depth, N_COLUMNS] + n_rows
    for j in range(i, n_rows):
        n = 0
        for w in range(width):
            n += popcount(words[row_at + w] & words[words_at + j * width + w])
        if n == n_columns:
            first = entries + ints[frames[depth, INTS_AT] + 2 * n_rows + j]
            _restrict(state, words_at + j * width, row_at, width, first, new_floats)
    total = 0.0
    for k in range(n_columns):
        total += floats[new_floats + k]
    return total


@njit(inline="always")
def _weigh_rows(state, depth, i, new_ints, n_new, n_columns, new_floats, total):
    """Write the weights of a child's candidates, given by their numbers in its parent.

    Returns
    -------
    bool
        False if they and the path, whose weight is `total`, do not reach the threshold together.
    """
    frames, floats, ints = state.frames, state.floats, state.ints
    width, words_at, n_rows = frames[depth, WIDTH], frames[depth, WORDS_AT], frames[depth, N_ROWS]
    entries = frames[depth, FLOATS_AT] + frames[depth, N_COLUMNS] + n_rows
    new_entries = new_floats + n_columns + n_new
    to = new_entries
    for k in range(n_new):
        j, n = ints[new_ints + k], ints[new_ints + n_new + k]
        ints[new_ints + 2 * n_new + k] = to - new_entries
        floats[to : to + n] = 0.0
        first = entries + ints[frames[depth, INTS_AT] + 2 * n_rows + j]
        _restrict(state, words_at + j * width, words_at + i * width, width, first, to)
        weight = 0.0
        for e in range(to, to + n):
            weight += floats[e]
        floats[new_floats + n_columns + k] = weight
        total += weight
        to += n
    return _reaches(state, total)


@njit(inline="always")
def _restrict(state, row_at, mask_at, width, first, to):
    """Add the weights of a row's entries, from `first` on, at the places of a mask's bits, from `to` on."""
    words, floats = state.words, state.floats
    for w in range(width):
        bits, mask = words[row_at + w], words[mask_at + w]
        while bits != _U(0):
            lowest = bits & (~bits + _ONE)
            if mask & lowest != _U(0):
                floats[to] += floats[first]
                to += 1
            first += 1
            bits ^= lowest
