"""Write found cliques to the output, in the user's ids and ascending, or only count them.

Nodes with at most six candidates are finished at once: six candidates have 64 subsets, so one word can hold a set of
subsets. The maximal cliques below such a node are the sets S of candidates, together with the path, that satisfy two
conditions:

- they are cliques: every candidate in S is adjacent to the others;
- no excluded vertex, and no candidate outside S, is adjacent to all of S: such a vertex could join.

The bits of a row at the candidates form the index of a subset. The subsets of a row form a down-set.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import (
    WITHOUT_0,
    WITHOUT_1,
    WITHOUT_2,
    WITHOUT_3,
    WITHOUT_4,
    WITHOUT_5,
    deposit_bits,
    down_set,
    extract_bits,
    lowest_bit_index,
    popcount,
)
from mbe_stage.cliques.cpu import layout
from mbe_stage.runtime.jit import compiled

WIDTH = 6
"""Most candidates whose sets of subsets fit into one word."""
MOST_CLIQUES = 9
"""Most maximal cliques in a graph of that many vertices (Moon and Moser, 1965)."""

_U = np.uint64
_ONE = _U(1)
_WITHOUT = np.array([WITHOUT_0, WITHOUT_1, WITHOUT_2, WITHOUT_3, WITHOUT_4, WITHOUT_5])
# For each subset, the set of all its subsets.
_INSIDE = np.array([sum(1 << t for t in range(64) if t & s == t) for s in range(64)], np.uint64)
# Subsets of the first k vertices; subsets of at least k vertices; subsets of at most k vertices.
_OF_FIRST = np.array([(1 << (1 << k)) - 1 for k in range(WIDTH + 1)], np.uint64)
_AT_LEAST = np.array([sum(1 << t for t in range(64) if t.bit_count() >= k) for k in range(WIDTH + 2)], np.uint64)
_AT_MOST = np.array([sum(1 << t for t in range(64) if t.bit_count() <= k) for k in range(WIDTH + 1)], np.uint64)


@compiled(nrt=False)
def maximal_subsets(candidates, n_candidates, rows, excluded, words, start, end, required):
    """Return the sets of candidates that form maximal cliques with the path, as a set of subsets.

    Parameters
    ----------
    candidates : uint64
        At most six columns.
    rows : (64,) uint64
        Neighbours of each column, as columns.
    excluded : uint64
        Columns of excluded vertices.
    words, start, end : (n,) uint64, int64, int64
        The rows of other excluded vertices.
    required : uint64
        Other rows count only if they contain these columns.
    """
    inside_of = _U(0)
    others = words[start:end]
    for k in range(others.size):
        row = others[k]
        inside_of |= _U(row & required == required) << extract_bits(row, candidates)
    while excluded != _U(0):
        inside_of |= _ONE << extract_bits(rows[_U(lowest_bit_index(excluded))], candidates)
        excluded &= excluded - _ONE
    cliques = _OF_FIRST[n_candidates]
    rest = candidates
    for k in range(n_candidates):
        adjacent = extract_bits(rows[_U(lowest_bit_index(rest))], candidates)
        rest &= rest - _ONE
        inside_of |= _ONE << adjacent
        cliques &= _WITHOUT[k] | _INSIDE[adjacent] << (_ONE << _U(k))
    return cliques & ~down_set(inside_of)


@njit(inline="always")
def of_sizes(subsets, fewest, most):
    """Keep the subsets with wanted sizes."""
    if fewest > WIDTH or most < 0:
        return _U(0)
    return subsets & _AT_LEAST[max(fewest, 0)] & _AT_MOST[min(most, WIDTH)]


@compiled(nrt=False, inlined=True)
def has_room(worker, output):
    """Return True if the output has room for the results of one child."""
    if output is None:
        return True
    control = worker.control
    if control[layout.N_OUT] + MOST_CLIQUES > output.sizes.size:
        return False
    return (
        output.members.size == 0
        or control[layout.MEMBERS_USED] + MOST_CLIQUES * control[layout.LARGEST] <= output.members.size
    )


@compiled(nrt=False, inlined=True)
def emit_subsets(worker, output, joined, candidates, subsets):
    """Emit a clique for each given subset of the candidates, with the path and the joined columns."""
    control = worker.control
    size = control[layout.N_OUTER] + popcount(joined)
    if control[layout.MIN_SIZE] > 1 or control[layout.MAX_SIZE] < control[layout.LARGEST]:
        subsets = of_sizes(subsets, control[layout.MIN_SIZE] - size, control[layout.MAX_SIZE] - size)
    control[layout.COUNT] += popcount(subsets)
    if output is not None:
        while subsets != _U(0):
            columns = joined | deposit_bits(_U(lowest_bit_index(subsets)), candidates)
            subsets &= subsets - _ONE
            _write(worker, output, columns)


@njit(inline="always")
def emit_columns(worker, output, columns):
    """Emit the clique of the path and some columns, if its size is wanted."""
    control = worker.control
    size = control[layout.N_OUTER] + popcount(columns)
    if control[layout.MIN_SIZE] <= size <= control[layout.MAX_SIZE]:
        control[layout.COUNT] += 1
        if output is not None:
            _write(worker, output, columns)


@compiled(nrt=False, inlined=True)
def _write(worker, output, columns):
    control, ids = worker.control, worker.ids
    output.sizes[_U(control[layout.N_OUT])] = control[layout.N_OUTER] + popcount(columns)
    control[layout.N_OUT] += 1
    if output.members.size == 0:
        return
    if control[layout.N_OUTER] > 0:
        _write_merged(worker, output, columns)
        return
    # Unsigned, so that compiled code does not check for negative positions.
    used = _U(control[layout.MEMBERS_USED])
    while columns != _U(0):
        output.members[used] = ids[_U(lowest_bit_index(columns))]
        used += _ONE
        columns &= columns - _ONE
    control[layout.MEMBERS_USED] = np.int64(used)


@compiled(nrt=False)
def _write_merged(worker, output, columns):
    """Merge two ascending lists into the output: the path above the columns, and the columns' vertices."""
    control, ids, ints, members = worker.control, worker.ids, worker.ints, output.members
    outer, end = control[layout.OUTER], control[layout.OUTER] + control[layout.N_OUTER]
    used = control[layout.MEMBERS_USED]
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
    control[layout.MEMBERS_USED] = used


@compiled(nrt=False, inlined=True)
def emit_path(worker, output, path):
    """Emit the path as a clique, if its size is wanted."""
    start, n = path
    control = worker.control
    if control[layout.MIN_SIZE] <= n <= control[layout.MAX_SIZE]:
        control[layout.COUNT] += 1
        if output is not None:
            output.sizes[control[layout.N_OUT]] = n
            control[layout.N_OUT] += 1
            if output.members.size > 0:
                for k in range(n):
                    output.members[control[layout.MEMBERS_USED] + k] = worker.ints[start + k]
                control[layout.MEMBERS_USED] += n
