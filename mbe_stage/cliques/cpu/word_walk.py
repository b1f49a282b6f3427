"""Nodes with at most 64 candidates: a row is a word, and the walk is a loop over a stack of masks.

A node is pruned if an excluded row contains all candidates. Its universal candidates join at once, and it branches on
the candidates not adjacent to its pivot (`pivot`). Children with at most six candidates are finished at once (`emit`),
with the excluded rows of their parent.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bits import lowest_bit_index, popcount
from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.emit import WIDTH, emit_columns, emit_subsets, has_room, maximal_subsets
from mbe_stage.cliques.cpu.layout import Excluded
from mbe_stage.cliques.cpu.pivot import pivot_or_excluded
from mbe_stage.cliques.cpu.techniques import DOMINATED, SUBSETS, UNIVERSAL
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK, OUTPUT_FULL, QUANTUM_OVER

_U = np.uint64
_ZERO = _U(0)
_ONE = _U(1)
# Steps charged per child besides its excluded rows.
_STEPS = 8
_MOST_AT_ONCE = WIDTH if SUBSETS else 0


@compiled(nrt=False)
def begin_words(worker, output, candidates, joined, excluded):
    """Begin a node whose candidates' rows are in ``worker.rows``.

    Parameters
    ----------
    candidates, joined : uint64
        Masks of columns.
    """
    start, end = excluded
    if DOMINATED:
        end = _not_dominated(worker.words, worker.rows, start, end)
    worker.control[layout.NODE] = -1
    for k in range(start, end):
        if worker.words[k] == candidates:
            return
    _open(worker, output, candidates, joined, Excluded(start, end))


@njit(inline="always")
def _not_dominated(words, rows, start, end):
    """Keep the excluded rows that no candidate's row contains.

    If a candidate is adjacent to all neighbours of an excluded vertex, it rules out the same cliques: wherever the
    excluded vertex would rule one out, the candidate joins or is excluded. (RMCE drops visited vertices that others
    dominate.)
    """
    kept = start
    for k in range(start, end):
        common, rest = ~_ZERO, words[k]
        while rest != _ZERO and common != _ZERO:
            common &= rows[_U(lowest_bit_index(rest))]
            rest &= rest - _ONE
        if common == _ZERO:
            words[kept] = words[k]
            kept += 1
    return kept


@compiled(nrt=False, inlined=True)
def _open(worker, output, candidates, joined, excluded):
    """Push a node on the stack, unless it is finished at once. No excluded row contains all candidates."""
    start, end = excluded
    rows, words, control = worker.rows, worker.words, worker.control
    n = popcount(candidates)
    universal, pivot, best = _ZERO, _ZERO, np.int64(-1)
    rest = candidates
    while rest != _ZERO:
        row = rows[_U(lowest_bit_index(rest))] & candidates
        degree = popcount(row)
        if UNIVERSAL and degree == n - 1:
            universal |= rest & (~rest + _ONE)
        elif degree > best:
            pivot, best = row, degree
        rest &= rest - _ONE
    if universal != _ZERO:
        candidates ^= universal
        joined |= universal
        if candidates == _ZERO:
            emit_columns(worker, output, joined)
            return
        end = _with_all(words, start, end, universal, candidates)
        pivot &= candidates
        best = popcount(pivot)
        n = popcount(candidates)
    if n <= _MOST_AT_ONCE:
        subsets = maximal_subsets(candidates, n, rows, _ZERO, words, start, end, _ZERO)
        emit_subsets(worker, output, joined, candidates, subsets)
        return
    pivot = pivot_or_excluded(words, start, end, pivot, best)
    control[layout.NODE] += 1
    node = worker.nodes[control[layout.NODE]]
    node[layout.P], node[layout.R] = candidates, joined
    node[layout.BRANCH] = node[layout.TODO] = candidates & ~pivot
    node[layout.X], node[layout.X_END] = _U(start), _U(end)


@njit(inline="always")
def _with_all(words, start, end, universal, candidates):
    """Keep the excluded rows with all universal candidates, and remove these from the rows; return the new end."""
    kept = start
    for k in range(start, end):
        row = words[k]
        words[kept] = row & candidates
        kept += (row & universal == universal) & (row & candidates != _ZERO)
    return kept


@compiled(nrt=False, inlined=True)
def walk_words(worker, output, work_limit):
    """Walk the nodes on the stack until none is left; return `OK`, or the reason to stop."""
    control, nodes = worker.control, worker.nodes
    while control[layout.NODE] >= 0:
        node = nodes[control[layout.NODE]]
        todo = node[layout.TODO]
        if todo == _ZERO:
            control[layout.NODE] -= 1
            continue
        if control[layout.WORK] >= work_limit:
            return QUANTUM_OVER
        if not has_room(worker, output):
            return OUTPUT_FULL
        n_excluded = np.int64(node[layout.X_END] - node[layout.X])
        needed = np.int64(node[layout.X_END]) + n_excluded + layout.WORD_BITS
        if needed > worker.words.size:
            control[layout.NEEDED] = needed
            return layout.WORDS_SHORT
        node[layout.TODO] = todo & (todo - _ONE)
        control[layout.WORK] += n_excluded + _STEPS
        control[layout.VISITED] += 1
        _visit(worker, output, node, todo & (~todo + _ONE))
    return OK


@compiled(nrt=False, inlined=True)
def _visit(worker, output, node, bit):
    """Visit the child of a node in which another candidate has joined."""
    control, rows, words = worker.control, worker.rows, worker.words
    row = rows[_U(lowest_bit_index(bit))]
    before = node[layout.BRANCH] & (bit - _ONE)
    excluded = before & row
    candidates = node[layout.P] & ~before & row
    joined = node[layout.R] | bit
    size, n = control[layout.N_OUTER] + popcount(joined), popcount(candidates)
    if size + n < control[layout.MIN_SIZE] or size > control[layout.MAX_SIZE]:
        return
    start, end = np.int64(node[layout.X]), np.int64(node[layout.X_END])
    if n <= _MOST_AT_ONCE:
        subsets = maximal_subsets(candidates, n, rows, excluded, words, start, end, bit)
        emit_subsets(worker, output, joined, candidates, subsets)
        return
    top = end
    for k in range(start, end):
        other = words[k]
        inside = other & candidates
        if other & bit != _ZERO and inside == candidates:
            return
        words[top] = inside
        top += (other & bit != _ZERO) & (inside != _ZERO)
    while excluded != _ZERO:
        inside = rows[_U(lowest_bit_index(excluded))] & candidates
        if inside == candidates:
            return
        words[top] = inside
        top += inside != _ZERO
        excluded &= excluded - _ONE
    _open(worker, output, candidates, joined, Excluded(end, top))
