"""The walk over the search tree, in time quanta.

A task is a range of roots, or a node with a range of its branches. A quantum works on a worker's stack until the task
is done, the work limit is reached, the output is full or an arena is too small. The state stays; the host makes room
and calls again. A child is visited as a whole or not at all.

The node below a root has its later neighbours as candidates, and its earlier neighbours as excluded vertices. Rows are
found by walking through later neighbours, whose number the degeneracy bounds. This also finds the rows of earlier
neighbours, because the root's candidates come after these.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, none

from mbe_stage.bits import lowest_bit_index
from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.emit import emit_path, has_room
from mbe_stage.cliques.cpu.layout import Excluded, Matrix, Path
from mbe_stage.cliques.cpu.techniques import WORDS
from mbe_stage.cliques.cpu.wide_nodes import begin_wide, ints_of_frame, visit_branch, words_of_frame
from mbe_stage.cliques.cpu.wide_rows import inserted, place_columns, set_bit
from mbe_stage.cliques.cpu.word_walk import begin_words, walk_words
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import compiled, steps_of
from mbe_stage.search.cpu.quanta import DONE, OK, OUTPUT_FULL, QUANTUM_OVER

_U = np.uint64
_ONE = _U(1)
# The walk is compiled twice: to write cliques, and only to count them.
_VARIANTS = {
    "counting": (layout.GRAPH, layout.WORKER_STATE, none, int64),
    "collecting": (layout.GRAPH, layout.WORKER_STATE, layout.OUTPUT, int64),
}


@compiled(nrt=False, inlined=True)
def visit_root(graph, worker, output, root):
    """Begin the node below a root, or finish it; return `OK`, or the status of the arena that is too small.

    Parameters
    ----------
    worker : WorkerState
        Its only frame is the range of roots; the frame's path has the vertices that all cliques contain.
    """
    control, frame = worker.control, worker.frames[0]
    first, end = graph.later_offsets[root], graph.later_offsets[root + 1]
    n, n_earlier = end - first, graph.earlier_offsets[root + 1] - graph.earlier_offsets[root]
    control[layout.VISITED] += 1
    control[layout.WORK] += n + n_earlier
    n_path = frame[layout.N_PATH]
    if n_path + 1 + n < control[layout.MIN_SIZE] or n_path + 1 > control[layout.MAX_SIZE]:
        return OK
    needed = words_of_frame(n, n_earlier, (n + layout.WORD_BITS - 1) >> 6)
    if needed > worker.words.size:
        control[layout.NEEDED] = needed
        return layout.WORDS_SHORT
    top = frame[layout.INTS_TOP]
    if top + ints_of_frame(n, n_path + 1) > worker.ints.size:
        control[layout.NEEDED] = top + ints_of_frame(n, n_path + 1)
        return layout.INTS_SHORT
    path = inserted(worker.ints, Path(frame[layout.PATH], n_path), graph.vertices[root], top)
    if n_earlier == 0 and n == 1:
        # There is at most one neighbour, so the path and this neighbour are the clique.
        path = inserted(worker.ints, path, graph.vertices[graph.later[first]], top)
        emit_path(worker, output, path)
    elif n == 0:
        if n_earlier == 0:
            emit_path(worker, output, path)
    elif WORDS and n <= layout.WORD_BITS:
        _begin_words(graph, worker, output, root, path)
    else:
        _begin_wide(graph, worker, output, root, path)
    return OK


@compiled(nrt=False, inlined=True)
def _begin_words(graph, worker, output, root, path):
    first, end = graph.later_offsets[root], graph.later_offsets[root + 1]
    for k in range(first, end):
        worker.ids[k - first] = graph.vertices[graph.later[k]]
    candidates, joined = place_columns(worker, output, end - first, path)
    rest = candidates
    for k in range(first, end):
        worker.marks[_U(graph.later[k])] = rest & (~rest + _ONE)
        rest &= rest - _ONE
    top = _excluded_rows(graph, worker, root, candidates)
    if top >= 0:
        _candidate_rows(graph, worker, root, candidates)
    for k in range(first, end):
        worker.marks[_U(graph.later[k])] = _U(0)
    if top >= 0:
        begin_words(worker, output, candidates, joined, Excluded(np.int64(0), np.int64(top)))


@njit(inline="always")
def _excluded_rows(graph, worker, root, candidates):
    """Write the rows of a root's earlier neighbours; return their number, -1 if one is adjacent to all candidates."""
    top = 0
    for k in range(graph.earlier_offsets[root], graph.earlier_offsets[root + 1]):
        if graph.earlier[k] >= worker.control[layout.FIRST_ROOT]:
            row = _marked(graph, worker.marks, graph.earlier[k])
            if row == candidates:
                return -1
            worker.words[top] = row
            top += row != _U(0)
    return top


@njit(inline="always")
def _candidate_rows(graph, worker, root, candidates):
    """Write the rows of a root's later neighbours, with each edge at both ends."""
    rows = worker.rows
    rest = candidates
    while rest != _U(0):
        rows[lowest_bit_index(rest)] = _U(0)
        rest &= rest - _ONE
    for k in range(graph.later_offsets[root], graph.later_offsets[root + 1]):
        bit = worker.marks[_U(graph.later[k])]
        row = _marked(graph, worker.marks, graph.later[k])
        rows[_U(lowest_bit_index(bit))] |= row
        while row != _U(0):
            rows[_U(lowest_bit_index(row))] |= bit
            row &= row - _ONE


@njit(inline="always")
def _marked(graph, marks, vertex):
    """Return the columns of a vertex's later neighbours."""
    # Unsigned, so that compiled code does not check for negative positions.
    row = _U(0)
    for k in range(_U(graph.later_offsets[vertex]), _U(graph.later_offsets[vertex + 1])):
        row |= marks[_U(graph.later[k])]
    return row


@compiled(nrt=False, inlined=True)
def _begin_wide(graph, worker, output, root, path):
    first, end = graph.later_offsets[root], graph.later_offsets[root + 1]
    n = end - first
    n_words = (n + layout.WORD_BITS - 1) >> 6
    ids = path.start + path.n
    for k in range(n):
        worker.ints[ids + k] = graph.vertices[graph.later[first + k]]
        worker.columns[graph.later[first + k]] = k
    excluded = n * n_words
    top = _wide_excluded_rows(graph, worker, root, n, excluded)
    if top >= 0:
        _wide_candidate_rows(graph, worker, root, n_words)
    for k in range(n):
        worker.columns[graph.later[first + k]] = -1
    if top >= 0:
        begin_wide(worker, output, Matrix(n, n_words, np.int64(0), excluded, np.int64(top), ids), path)


@njit(inline="always")
def _wide_excluded_rows(graph, worker, root, n, start):
    """Write rows like `_excluded_rows`, from position `start` in the arena of words on; return their end."""
    words, n_words = worker.words, (n + layout.WORD_BITS - 1) >> 6
    top = start
    for k in range(graph.earlier_offsets[root], graph.earlier_offsets[root + 1]):
        vertex = graph.earlier[k]
        if vertex < worker.control[layout.FIRST_ROOT]:
            continue
        words[top : top + n_words] = _U(0)
        n_adjacent = 0
        for j in range(graph.later_offsets[vertex], graph.later_offsets[vertex + 1]):
            column = worker.columns[_U(graph.later[j])]
            if column >= 0:
                set_bit(words, top, column)
                n_adjacent += 1
        if n_adjacent == n:
            return -1
        top += n_words if n_adjacent > 0 else 0
    return top


@njit(inline="always")
def _wide_candidate_rows(graph, worker, root, n_words):
    """Write rows like `_candidate_rows`, at the beginning of the arena of words."""
    words = worker.words
    first, end = graph.later_offsets[root], graph.later_offsets[root + 1]
    words[: (end - first) * n_words] = _U(0)
    for k in range(end - first):
        vertex = graph.later[first + k]
        for j in range(graph.later_offsets[vertex], graph.later_offsets[vertex + 1]):
            column = worker.columns[_U(graph.later[j])]
            if column >= 0:
                set_bit(words, k * n_words, column)
                set_bit(words, column * n_words, k)


def compile_steps(collects: bool | None = None) -> tuple[CompileStep, ...]:
    """Return the steps to compile the walk that writes cliques, the one that only counts, or both."""
    return steps_of(run_quantum, variant={None: None, True: "collecting", False: "counting"}[collects])


@compiled(variants=_VARIANTS, seconds=15.0, nrt=False)
def run_quantum(graph, worker, output, work_limit):
    """Continue a worker's task.

    Parameters
    ----------
    output : Output or None
        None to count only.
    work_limit : int
        Number of elementary steps after which to stop.

    Returns
    -------
    int
        ``DONE``, ``QUANTUM_OVER``, ``OUTPUT_FULL``, or the status of a small arena, which needs ``control[NEEDED]``
        entries.
    """
    control = worker.control
    control[layout.WORK] = 0
    while True:
        status = walk_words(worker, output, work_limit)
        if status != OK:
            return status
        depth = control[layout.DEPTH]
        if depth < 0:
            return DONE
        frame = worker.frames[depth]
        if frame[layout.CURSOR] >= frame[layout.END]:
            control[layout.DEPTH] = depth - 1
            continue
        if control[layout.WORK] >= work_limit:
            return QUANTUM_OVER
        if not has_room(worker, output):
            return OUTPUT_FULL
        if depth + 2 > worker.frames.shape[0]:
            control[layout.NEEDED] = 2 * worker.frames.shape[0]
            return layout.FRAMES_SHORT
        if frame[layout.KIND] == layout.ROOTS:
            status = visit_root(graph, worker, output, frame[layout.CURSOR])
        else:
            status = visit_branch(worker, output, frame, frame[layout.CURSOR])
        if status != OK:
            return status
        frame[layout.CURSOR] += 1
