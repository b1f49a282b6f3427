"""Make, grow and split the state of workers: the host's side of the tree walk."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.closed_sets import CLOSED_SET_WIDTH
from mbe_stage.bicliques.cpu.layout import WorkerState, subgraph_parts
from mbe_stage.errors import InvalidArgument
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.search.cpu.arenas import Shortage, nbytes
from mbe_stage.search.cpu.quanta import RangeFields, range_given_back, ranges_ahead

_ARENAS = {layout.INTS_SHORT: "ints", layout.WORDS_SHORT: "words", layout.FRAMES_SHORT: "frames"}
_RANGE = RangeFields(layout.FIRST, layout.CURSOR, layout.END)

FirstSizes = tuple[int, int, int]
"""Entries that the arenas of ints and words and the stack of frames start with."""


def new_state(n_rows: int, first_sizes: FirstSizes = (1 << 16, 1 << 15, 64)) -> WorkerState:
    """State without a task; its arenas are small, the walk says when they must grow."""
    first_ints, first_words, first_frames = first_sizes
    worker = WorkerState(
        frames=np.zeros((first_frames, layout.FRAME_FIELDS), np.int64),
        ints=np.zeros(first_ints, np.int32),
        words=np.zeros(first_words, np.uint64),
        path=np.zeros(n_rows + 1, np.int32),
        bits=np.zeros(n_rows + 1, np.uint64),
        nonzero=np.zeros(n_rows + 1, np.int32),
        counts=np.zeros(n_rows + 1, np.int32),
        masks=np.zeros(CLOSED_SET_WIDTH, np.uint64),
        control=np.zeros(layout.CONTROL_FIELDS, np.int64),
    )
    worker.control[layout.DEPTH] = -1
    return worker


def set_subproblem(worker: WorkerState, first_row: int, end_row: int, n_rows: int, n_columns: int) -> None:
    """Give a worker the subtrees of a range of rows of the whole graph, `n_rows` x `n_columns`."""
    frame = worker.frames[0]
    frame[:] = 0
    frame[layout.KIND] = layout.WHOLE_GRAPH
    frame[layout.FIRST] = frame[layout.CURSOR] = first_row
    frame[layout.END] = end_row
    frame[layout.N_ROWS], frame[layout.N_COLUMNS] = n_rows, n_columns
    worker.control[layout.DEPTH] = 0


def short_of(worker: WorkerState, status: int) -> Shortage:
    """The arena that was short, by the status of a quantum."""
    return Shortage(_ARENAS[status], int(worker.control[layout.NEEDED]))


def share_left(worker: WorkerState) -> float:
    """Share of a worker's task that is still ahead, 0 to 1, taking siblings as equally heavy."""
    ahead, _ = ranges_ahead(worker.frames[: int(worker.control[layout.DEPTH]) + 1], _RANGE)
    return min(1.0, ahead)


def give_back(worker: WorkerState) -> tuple[int, int, float] | None:
    """Take the rows whose subtrees are not begun from a worker's task.

    Returns
    -------
    tuple or None
        First row, end, and their share of the work ahead, 0 to 1. None if the task is within one row, or in its last.
    """
    frame = worker.frames[0]
    if worker.control[layout.DEPTH] < 0 or frame[layout.KIND] != layout.WHOLE_GRAPH:
        return None
    return range_given_back(frame, _RANGE, share_left(worker))


def split_subproblem(donor: WorkerState, has_members: bool, reserve: Callable[[int], int]) -> WorkerState | None:
    """Split off half of the children ahead of the shallowest node that has some.

    The children of a node depend on that node alone, so a copy of its frame with another range of children is a task of
    its own.

    Parameters
    ----------
    donor : WorkerState
        Keeps the earlier half, and its current child.
    has_members : bool
        True if the walk collects members; if not, bitset frames own nothing in the arena of ints.
    reserve : callable
        Takes bytes from the budget; returns 0 if there were enough.

    Returns
    -------
    WorkerState or None
        A new worker's state with the later half as its task; None when there is nothing to share or no memory for it.
    """
    deepest = int(donor.control[layout.DEPTH])
    for depth in range(deepest + 1):
        frame = donor.frames[depth]
        ahead = int(frame[layout.END] - frame[layout.CURSOR])
        # The deepest node keeps at least one child: its worker must not be left without work.
        given = ahead // 2 if depth == deepest else ahead - ahead // 2
        if given > 0:
            receiver = _copy_frame(donor, frame, has_members)
            if reserve(nbytes(receiver)):
                return None
            receiver.frames[0, layout.FIRST] = receiver.frames[0, layout.CURSOR] = frame[layout.END] - given
            frame[layout.END] -= given
            return receiver
    return None


def _copy_frame(donor: WorkerState, frame: np.ndarray, has_members: bool) -> WorkerState:
    kind = frame[layout.KIND]
    words = donor.words[frame[layout.WORDS] : frame[layout.WORDS_TOP]]
    ints = donor.ints[:0]
    columns = donor.ints[:0]
    if kind == layout.SUBGRAPH or (kind == layout.BITSET and has_members):
        ints = donor.ints[frame[layout.INTS] : frame[layout.INTS_TOP]]
    if kind == layout.BITSET and has_members:
        ids_at = frame[layout.COLUMNS] + layout.WORD_STARTS
        columns = donor.ints[frame[layout.COLUMNS] : ids_at + donor.ints[ids_at - 1]]
    receiver = new_state(
        donor.path.size - 1,
        (max(1 << 16, 2 * (ints.size + columns.size)), max(1 << 15, 2 * words.size), donor.frames.shape[0]),
    )
    receiver.words[: words.size] = words
    receiver.ints[: columns.size] = columns
    receiver.ints[columns.size : columns.size + ints.size] = ints
    receiver.path[:] = donor.path
    copy = receiver.frames[0]
    copy[:] = frame
    copy[layout.WORDS], copy[layout.WORDS_TOP] = 0, words.size
    copy[layout.COLUMNS] = 0
    copy[layout.INTS], copy[layout.INTS_TOP] = columns.size, columns.size + ints.size
    receiver.control[layout.DEPTH] = 0
    return receiver


def as_subgraph(graph: BipartiteCSR) -> np.ndarray:
    """The whole graph in the layout that the tree walk reads, rows being the right side."""
    row_ids, row_offsets, column_offsets, row_members, column_members, column_ids = subgraph_parts(
        graph.n_right, graph.n_left, graph.n_edges
    )
    end = column_ids + graph.n_left
    if end >= 2**31:
        raise InvalidArgument(
            f"the graph has {graph.n_edges:,} edges after reduction: the CPU engine takes about {2**30:,} at most; "
            "use minimum sizes, which remove edges before the search"
        )
    node = np.empty(end, np.int32)
    node[:row_ids] = np.arange(graph.n_left + 1)
    node[row_ids:row_offsets] = np.arange(graph.n_right)
    node[row_offsets:column_offsets] = graph.right_offsets
    node[column_offsets:row_members] = graph.left_offsets
    node[row_members:column_members] = graph.right_members
    node[column_members:column_ids] = graph.left_members
    node[column_ids:] = np.arange(graph.n_left)
    return node
