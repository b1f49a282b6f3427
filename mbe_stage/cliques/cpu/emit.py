"""Found cliques into the output, in the user's ids and ascending, or only into the count."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import deposit_bits, lowest_bit_index, popcount
from mbe_stage.cliques.cpu import layout as at
from mbe_stage.cliques.cpu.subsets import MOST_CLIQUES, of_sizes
from mbe_stage.jit import compiled

_U = np.uint64
_ONE = _U(1)


@njit(inline="always")
def has_room(worker, output):
    """Whether whatever one child may give fits."""
    if output is None:
        return True
    control = worker.control
    if control[at.N_OUT] + MOST_CLIQUES > output.sizes.size:
        return False
    return (
        output.members.size == 0 or control[at.MEMBERS_USED] + MOST_CLIQUES * control[at.LARGEST] <= output.members.size
    )


@njit(inline="always")
def emit_subsets(worker, output, joined, candidates, subsets):
    """The cliques of the path, the columns that have joined, and each of some subsets of the candidates."""
    control = worker.control
    size = control[at.N_OUTER] + popcount(joined)
    if control[at.MIN_SIZE] > 1 or control[at.MAX_SIZE] < control[at.LARGEST]:
        subsets = of_sizes(subsets, control[at.MIN_SIZE] - size, control[at.MAX_SIZE] - size)
    control[at.COUNT] += popcount(subsets)
    if output is not None:
        while subsets != _U(0):
            columns = joined | deposit_bits(_U(lowest_bit_index(subsets)), candidates)
            subsets &= subsets - _ONE
            _write(worker, output, columns)


@njit(inline="always")
def emit_columns(worker, output, columns):
    """The clique of the path and some columns, if its size is wanted."""
    control = worker.control
    size = control[at.N_OUTER] + popcount(columns)
    if control[at.MIN_SIZE] <= size <= control[at.MAX_SIZE]:
        control[at.COUNT] += 1
        if output is not None:
            _write(worker, output, columns)


@njit(inline="always")
def _write(worker, output, columns):
    control, ids = worker.control, worker.ids
    output.sizes[_U(control[at.N_OUT])] = control[at.N_OUTER] + popcount(columns)
    control[at.N_OUT] += 1
    if output.members.size == 0:
        return
    if control[at.N_OUTER] > 0:
        _write_merged(worker, output, columns)
        return
    # Unsigned: nobody has to look whether a position counts from the end.
    used = _U(control[at.MEMBERS_USED])
    while columns != _U(0):
        output.members[used] = ids[_U(lowest_bit_index(columns))]
        used += _ONE
        columns &= columns - _ONE
    control[at.MEMBERS_USED] = np.int64(used)


@compiled(nrt=False)
def _write_merged(worker, output, columns):
    """Members of two ascending lists: the path, where it has no columns, and what has joined since."""
    control, ids, ints, members = worker.control, worker.ids, worker.ints, output.members
    outer, end = control[at.OUTER], control[at.OUTER] + control[at.N_OUTER]
    used = control[at.MEMBERS_USED]
    while columns != _U(0):
        vertex = ids[lowest_bit_index(columns)]
        columns &= columns - _ONE
        while outer < end and ints[outer] < vertex:
            members[used] = ints[outer]
            used += 1
            outer += 1
        members[used] = vertex
        used += 1
    while outer < end:
        members[used] = ints[outer]
        used += 1
        outer += 1
    control[at.MEMBERS_USED] = used


@njit(inline="always")
def emit_path(worker, output, path):
    """The clique that a path is, if its size is wanted."""
    start, n = path
    control = worker.control
    if control[at.MIN_SIZE] <= n <= control[at.MAX_SIZE]:
        control[at.COUNT] += 1
        if output is not None:
            output.sizes[control[at.N_OUT]] = n
            control[at.N_OUT] += 1
            if output.members.size > 0:
                for k in range(n):
                    output.members[control[at.MEMBERS_USED] + k] = worker.ints[start + k]
                control[at.MEMBERS_USED] += n
