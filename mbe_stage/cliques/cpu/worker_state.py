"""Make, grow and split the state of workers: the host's side of the tree walk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mbe_stage.cliques.cpu import layout as at
from mbe_stage.cliques.cpu.layout import WorkerState
from mbe_stage.search.cpu.arenas import Shortage, nbytes
from mbe_stage.search.cpu.quanta import RangeFields, range_given_back, ranges_ahead

_ARENAS = {at.INTS_SHORT: "ints", at.WORDS_SHORT: "words", at.FRAMES_SHORT: "frames"}
_RANGE = RangeFields(at.FIRST, at.CURSOR, at.END)

FirstSizes = tuple[int, int, int]
"""Entries that the arenas of ints and words and the stack of frames start with."""


def new_state(n_vertices: int, first_sizes: FirstSizes = (1 << 12, 1 << 14, 16)) -> WorkerState:
    """State without a task; its arenas are small, the walk says when they must grow."""
    first_ints, first_words, first_frames = first_sizes
    worker = WorkerState(
        frames=np.zeros((first_frames, at.FRAME_FIELDS), np.int64),
        words=np.zeros(first_words, np.uint64),
        ints=np.zeros(first_ints, np.int32),
        nodes=np.zeros((at.NODE_DEPTH, at.NODE_FIELDS), np.uint64),
        rows=np.zeros(at.WORD_BITS, np.uint64),
        ids=np.zeros(at.WORD_BITS, np.int32),
        marks=np.zeros(n_vertices, np.uint64),
        columns=np.full(n_vertices, -1, np.int32),
        control=np.zeros(at.CONTROL_FIELDS, np.int64),
    )
    worker.control[at.DEPTH] = worker.control[at.NODE] = -1
    return worker


def set_piece(worker: WorkerState, first: int, end: int, path: Sequence[int]) -> None:
    """Give a worker the subtrees of a range of roots, whose cliques all hold `path`, ascending."""
    worker.ints[: len(path)] = path
    frame = worker.frames[0]
    frame[:] = 0
    frame[at.KIND] = at.ROOTS
    frame[at.CURSOR], frame[at.END] = first, end
    frame[at.N_PATH] = frame[at.INTS_TOP] = len(path)
    worker.control[at.DEPTH], worker.control[at.NODE] = 0, -1


def short_of(worker: WorkerState, status: int) -> Shortage:
    """The arena that was short, by the status of a quantum."""
    return Shortage(_ARENAS[status], int(worker.control[at.NEEDED]))


def share_left(worker: WorkerState) -> float:
    """Share of a worker's task that is still ahead, 0 to 1, taking siblings as equally heavy."""
    ahead, weight = ranges_ahead(worker.frames[: int(worker.control[at.DEPTH]) + 1], _RANGE)
    for node in worker.nodes[: int(worker.control[at.NODE]) + 1]:
        n_children = max(1, int(node[at.BRANCH]).bit_count())
        ahead += weight * int(node[at.TODO]).bit_count() / n_children
        weight /= n_children
    return min(1.0, ahead)


def give_back(worker: WorkerState) -> tuple[int, int, float] | None:
    """Take the roots that are not begun from a worker's task.

    Returns
    -------
    tuple or None
        First root, end, and their share of what is ahead, 0 to 1; None where the task is within one root, or ends with
        the one that it is in.
    """
    frame = worker.frames[0]
    if worker.control[at.DEPTH] < 0 or frame[at.KIND] != at.ROOTS:
        return None
    return range_given_back(frame, _RANGE, share_left(worker))


def split_piece(donor: WorkerState, reserve: Callable[[int], int]) -> WorkerState | None:
    """Take half of the children that are still ahead from the shallowest node that has some.

    The children of a node depend on that node alone, so a copy of it with other children is a task of its own.

    Parameters
    ----------
    donor : WorkerState
        Keeps the earlier half; what it is in the middle of stays with it.
    reserve : callable
        Takes bytes from the budget, and returns 0 where there were enough.

    Returns
    -------
    WorkerState or None
        A new worker's state with the later half as its task; None when there is nothing to share or no memory for it.
    """
    n_frames, n_nodes = int(donor.control[at.DEPTH]) + 1, int(donor.control[at.NODE]) + 1
    for depth in range(n_frames):
        frame = donor.frames[depth]
        ahead = int(frame[at.END] - frame[at.CURSOR])
        # The deepest node keeps at least one child: its worker must not be left without work.
        given = ahead // 2 if depth == n_frames - 1 and n_nodes == 0 else ahead - ahead // 2
        if given > 0:
            receiver = _copy(donor, int(frame[at.WORDS_TOP]), reserve)
            if receiver is not None:
                receiver.frames[0] = frame
                receiver.frames[0, at.FIRST] = receiver.frames[0, at.CURSOR] = frame[at.END] - given
                receiver.control[at.DEPTH] = 0
                frame[at.END] -= given
            return receiver
    for depth in range(n_nodes):
        node = donor.nodes[depth]
        ahead = int(node[at.TODO]).bit_count()
        given = ahead // 2 if depth == n_nodes - 1 else ahead - ahead // 2
        if given > 0:
            receiver = _copy(donor, int(node[at.X_END]), reserve)
            if receiver is not None:
                kept = _lowest(int(node[at.TODO]), ahead - given)
                receiver.nodes[0] = node
                receiver.nodes[0, at.TODO] = node[at.TODO] ^ np.uint64(kept)
                receiver.control[at.NODE] = 0
                node[at.TODO] = kept
            return receiver
    return None


def _lowest(word: int, n: int) -> int:
    """The lowest `n` bits that are set in a word."""
    rest = word
    for _ in range(n):
        rest &= rest - 1
    return word ^ rest


def _copy(donor: WorkerState, words_used: int, reserve: Callable[[int], int]) -> WorkerState | None:
    """A state with everything that nodes may refer to, and none on its stacks; None where there is no memory for it."""
    sizes = donor.ints.size, max(2 * words_used, 1 << 12), donor.frames.shape[0]
    receiver = new_state(donor.columns.size, sizes)
    if reserve(nbytes(receiver)):
        return None
    receiver.words[:words_used] = donor.words[:words_used]
    receiver.ints[:] = donor.ints
    receiver.rows[:], receiver.ids[:] = donor.rows, donor.ids
    receiver.control[at.OUTER], receiver.control[at.N_OUTER] = donor.control[at.OUTER], donor.control[at.N_OUTER]
    return receiver
