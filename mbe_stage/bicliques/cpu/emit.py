"""Writing found bicliques to the output: each function returns False, with nothing written, where room is short."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.bits import lowest_bit_index
from mbe_stage.bicliques.cpu.family import spread

__all__ = ["emit_family", "emit_list", "emit_word"]

_U = np.uint64
_ONE = _U(1)


@njit(cache=True, nogil=True)
def emit_word(left, column_ids, n_path, first_row, rows, starts, ids, worker, output):
    """One biclique whose left side is a word over `column_ids`.

    Its right side is the path and, from `first_row` on, every group of `rows` that holds all of `left`; group ``g`` is
    ``ids[starts[g]:starts[g + 1]]``.
    """
    control = worker.control
    n_left = control[at.LEFT_USED]
    n_right = control[at.RIGHT_USED]
    if control[at.N_OUT] == output.left_sizes.size or n_left + 64 > output.left.size:
        return False
    if n_right + n_path > output.right.size:
        return False
    rest = left
    while rest != _U(0):
        output.left[n_left] = column_ids[lowest_bit_index(rest)]
        n_left += 1
        rest &= rest - _ONE
    for k in range(n_path):
        output.right[n_right + k] = worker.path[k]
    n_right += n_path
    for g in range(first_row, rows.size):
        if left & ~rows[g] == _U(0):
            if n_right + starts[g + 1] - starts[g] > output.right.size:
                return False
            for k in range(starts[g], starts[g + 1]):
                output.right[n_right] = ids[k]
                n_right += 1
    _commit(n_left, n_right, control, output)
    return True


@njit(cache=True, nogil=True)
def emit_family(family, positions, column_ids, n_path, first_row, rows, starts, ids, worker, output):
    """All bicliques of a family of left sides; see `emit_word` for their right sides."""
    while family != _U(0):
        left = spread(_U(lowest_bit_index(family)), positions)
        if not emit_word(left, column_ids, n_path, first_row, rows, starts, ids, worker, output):
            return False
        family &= family - _ONE
    return True


@njit(cache=True, nogil=True)
def emit_list(columns, column_ids, n_path, worker, output):
    """One biclique: a list of local columns, and the path."""
    control = worker.control
    n_left = control[at.LEFT_USED]
    n_right = control[at.RIGHT_USED]
    if control[at.N_OUT] == output.left_sizes.size:
        return False
    if n_left + columns.size > output.left.size or n_right + n_path > output.right.size:
        return False
    for k in range(columns.size):
        output.left[n_left + k] = column_ids[columns[k]]
    for k in range(n_path):
        output.right[n_right + k] = worker.path[k]
    _commit(n_left + columns.size, n_right + n_path, control, output)
    return True


@njit(inline="always")
def _commit(n_left, n_right, control, output):
    """Make what was written a biclique, unless its size is not wanted."""
    left_start, right_start = control[at.LEFT_USED], control[at.RIGHT_USED]
    if output.limits[at.ACTIVE]:
        left_weight = right_weight = 0
        for k in range(left_start, n_left):
            left_weight += output.left_weights[output.left[k]]
        for k in range(right_start, n_right):
            right_weight += output.right_weights[output.right[k]]
        limits = output.limits
        if not (
            limits[at.MIN_LEFT] <= left_weight <= limits[at.MAX_LEFT]
            and limits[at.MIN_RIGHT] <= right_weight <= limits[at.MAX_RIGHT]
            and left_weight * right_weight >= limits[at.MIN_EDGES]
        ):
            return
    n_out = control[at.N_OUT]
    output.left_sizes[n_out] = n_left - left_start
    output.right_sizes[n_out] = n_right - right_start
    control[at.N_OUT] = n_out + 1
    control[at.LEFT_USED] = n_left
    control[at.RIGHT_USED] = n_right
    control[at.COUNT] += 1
