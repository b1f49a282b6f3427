"""Make, grow and split the states of workers: host side of the tree walk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.layout import WorkerState
from mbe_stage.search.cpu.arenas import Shortage, nbytes
from mbe_stage.search.cpu.quanta import RangeFields, range_given_back, ranges_ahead

_ARENAS = {layout.INTS_SHORT: "ints", layout.WORDS_SHORT: "words", layout.FRAMES_SHORT: "frames"}
_RANGE = RangeFields(layout.FIRST, layout.CURSOR, layout.END)

FirstSizes = tuple[int, int, int]
"""Initial entries of the arenas of ints and words, and of the stack of frames."""


def new_state(n_vertices: int, first_sizes: FirstSizes = (1 << 12, 1 << 14, 16)) -> WorkerState:
    """Return a state without a task. Its arenas are small; the walk reports when they must grow."""
    first_ints, first_words, first_frames = first_sizes
    worker = WorkerState(
        frames=np.zeros((first_frames, layout.FRAME_FIELDS), np.int64),
        words=np.zeros(first_words, np.uint64),
        ints=np.zeros(first_ints, np.int32),
        nodes=np.zeros((layout.NODE_DEPTH, layout.NODE_FIELDS), np.uint64),
        rows=np.zeros(layout.WORD_BITS, np.uint64),
        ids=np.zeros(layout.WORD_BITS, np.int32),
        marks=np.zeros(n_vertices, np.uint64),
        columns=np.full(n_vertices, -1, np.int32),
        control=np.zeros(layout.CONTROL_FIELDS, np.int64),
    )
    worker.control[layout.DEPTH] = worker.control[layout.NODE] = -1
    return worker


def set_subproblem(worker: WorkerState, first: int, end: int, path: Sequence[int]) -> None:
    """Give a worker the subtrees of a range of roots, whose cliques all hold `path`, ascending."""
    worker.ints[: len(path)] = path
    frame = worker.frames[0]
    frame[:] = 0
    frame[layout.KIND] = layout.ROOTS
    frame[layout.CURSOR], frame[layout.END] = first, end
    frame[layout.N_PATH] = frame[layout.INTS_TOP] = len(path)
    worker.control[layout.DEPTH], worker.control[layout.NODE] = 0, -1


def short_of(worker: WorkerState, status: int) -> Shortage:
    """The arena that is short, by the status of a quantum."""
    return Shortage(_ARENAS[status], int(worker.control[layout.NEEDED]))


def share_left(worker: WorkerState) -> float:
    """Share of a worker's task that is still ahead, 0 to 1, with equal weights for siblings."""
    ahead, weight = ranges_ahead(worker.frames[: int(worker.control[layout.DEPTH]) + 1], _RANGE)
    for node in worker.nodes[: int(worker.control[layout.NODE]) + 1]:
        n_children = max(1, int(node[layout.BRANCH]).bit_count())
        ahead += weight * int(node[layout.TODO]).bit_count() / n_children
        weight /= n_children
    return min(1.0, ahead)


def give_back(worker: WorkerState) -> tuple[int, int, float] | None:
    """Take the roots that have not begun from a worker's task.

    Returns
    -------
    tuple or None
        First root, end, and their share of the work ahead, 0 to 1. None if the task is within one root, or in its last.
    """
    frame = worker.frames[0]
    if worker.control[layout.DEPTH] < 0 or frame[layout.KIND] != layout.ROOTS:
        return None
    return range_given_back(frame, _RANGE, share_left(worker))


def split_subproblem(donor: WorkerState, reserve: Callable[[int], int]) -> WorkerState | None:
    """Split off half of the children ahead of the shallowest node that has some.

    The children of a node depend on that node alone, so its copy with other children is a task of its own.

    Parameters
    ----------
    donor : WorkerState
        Keeps the earlier half, and its current child.
    reserve : callable
        Takes bytes from the budget; returns 0 if there were enough.

    Returns
    -------
    WorkerState or None
        State of a new worker with the later half as its task. None if there is nothing to share, or no memory for it.
    """
    n_frames, n_nodes = int(donor.control[layout.DEPTH]) + 1, int(donor.control[layout.NODE]) + 1
    for depth in range(n_frames):
        frame = donor.frames[depth]
        ahead = int(frame[layout.END] - frame[layout.CURSOR])
        # The deepest node keeps at least one child, so that its worker has work.
        given = ahead // 2 if depth == n_frames - 1 and n_nodes == 0 else ahead - ahead // 2
        if given > 0:
            receiver = _copy(donor, int(frame[layout.WORDS_TOP]), reserve)
            if receiver is not None:
                receiver.frames[0] = frame
                receiver.frames[0, layout.FIRST] = receiver.frames[0, layout.CURSOR] = frame[layout.END] - given
                receiver.control[layout.DEPTH] = 0
                frame[layout.END] -= given
            return receiver
    for depth in range(n_nodes):
        node = donor.nodes[depth]
        ahead = int(node[layout.TODO]).bit_count()
        given = ahead // 2 if depth == n_nodes - 1 else ahead - ahead // 2
        if given > 0:
            receiver = _copy(donor, int(node[layout.X_END]), reserve)
            if receiver is not None:
                kept = _lowest(int(node[layout.TODO]), ahead - given)
                receiver.nodes[0] = node
                receiver.nodes[0, layout.TODO] = node[layout.TODO] ^ np.uint64(kept)
                receiver.control[layout.NODE] = 0
                node[layout.TODO] = kept
            return receiver
    return None


def _lowest(word: int, n: int) -> int:
    """The `n` lowest set bits of a word."""
    rest = word
    for _ in range(n):
        rest &= rest - 1
    return word ^ rest


def _copy(donor: WorkerState, words_used: int, reserve: Callable[[int], int]) -> WorkerState | None:
    """Copy everything that nodes may refer to into a state with empty stacks. None if there is no memory for it."""
    sizes = donor.ints.size, max(2 * words_used, 1 << 12), donor.frames.shape[0]
    receiver = new_state(donor.columns.size, sizes)
    if reserve(nbytes(receiver)):
        return None
    receiver.words[:words_used] = donor.words[:words_used]
    receiver.ints[:] = donor.ints
    receiver.rows[:], receiver.ids[:] = donor.rows, donor.ids
    receiver.control[layout.OUTER], receiver.control[layout.N_OUTER] = (
        donor.control[layout.OUTER],
        donor.control[layout.N_OUTER],
    )
    return receiver
