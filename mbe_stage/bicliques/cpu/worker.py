"""One thread's work: walk subproblems in time quanta, and deliver blocks of results.

The host's side of the tree walk makes, grows and splits the states of workers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64
from numba.types import UniTuple

from mbe_stage.bicliques.constraints import MAX_LEFT, MAX_RIGHT, MIN_EDGES, MIN_LEFT
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.closed_sets import CLOSED_SET_WIDTH
from mbe_stage.bicliques.cpu.layout import Output, Sizes, WorkerState
from mbe_stage.bicliques.cpu.tree import run_quantum
from mbe_stage.bicliques.cpu.twin_expansion import Found, Translation, expand_blocks
from mbe_stage.bicliques.ordering import ANY_SIDE, arrange
from mbe_stage.bicliques.reduction import Groups
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.options import NO_LIMIT
from mbe_stage.runtime.jit import INTS, LONGS, compiled
from mbe_stage.search.cpu.pool import WorkerPool
from mbe_stage.search.cpu.quanta import (
    DONE,
    QuantumWorker,
    RangeFields,
    Shortage,
    nbytes,
    range_given_back,
    ranges_ahead,
)

_ARENAS = {layout.INTS_SHORT: "ints", layout.WORDS_SHORT: "words", layout.FRAMES_SHORT: "frames"}
# A child that is counted: itself, and the closed sets of six columns.
_MOST_OF_A_CHILD = 1 << CLOSED_SET_WIDTH
# Sizes of a block while only these are wanted: the processor's cache holds them until the sink reads them.
_SIZES_BYTES = 1 << 20
_LONG_QUANTUM: Any = np.int64(1 << 20)
_RANGE = RangeFields(layout.FIRST, layout.CURSOR, layout.END)
FirstSizes = tuple[int, int, int]
"""Initial entries of the arenas of ints and words, and of the stack of frames."""


def new_state(n_rows: int, first_sizes: FirstSizes = (1 << 16, 1 << 15, 64)) -> WorkerState:
    """Return a state without a task. Its arenas are small; the walk reports when they must grow."""
    first_ints, first_words, first_frames = first_sizes
    worker = WorkerState(
        frames=np.zeros((first_frames, layout.FRAME_FIELDS), np.int64),
        ints=np.empty(first_ints, np.int32),
        words=np.empty(first_words, np.uint64),
        path=np.empty(n_rows + 1, np.int32),
        bits=np.zeros(n_rows + 1, np.uint64),
        nonzero=np.empty(n_rows + 1, np.int32),
        counts=np.zeros(n_rows + 1, np.int32),
        masks=np.zeros(CLOSED_SET_WIDTH, np.uint64),
        control=np.zeros(layout.CONTROL_FIELDS, np.int64),
    )
    worker.control[layout.DEPTH] = -1
    return worker


def set_subproblem(worker: WorkerState, first_row: int, end_row: int, n_rows: int, n_columns: int) -> None:
    """Give a worker the subtrees of a range of rows of the whole graph, `n_rows` x `n_columns`."""
    frame = worker.frames[0]
    # The words of the whole graph, once they are written, stay.
    words_top = frame[layout.WORDS_TOP]
    frame[:] = 0
    frame[layout.WORDS_TOP] = words_top
    frame[layout.KIND] = layout.WHOLE_GRAPH
    frame[layout.FIRST] = frame[layout.CURSOR] = first_row
    frame[layout.END] = end_row
    frame[layout.N_ROWS], frame[layout.N_COLUMNS] = n_rows, n_columns
    worker.control[layout.DEPTH] = 0


def short_of(state: WorkerState, status: int) -> Shortage:
    """The arena that is short, by the status of a quantum."""
    return Shortage(_ARENAS[status], int(state.control[layout.NEEDED]))


def share_left(state: WorkerState) -> float:
    """Share of a worker's task that is still ahead, 0 to 1, with equal weights for siblings."""
    ahead, _ = ranges_ahead(state.frames[: int(state.control[layout.DEPTH]) + 1], _RANGE)
    return min(1.0, ahead)


def give_back(state: WorkerState) -> tuple[int, int, float] | None:
    """Take the rows whose subtrees are not begun from a worker's task.

    Returns
    -------
    tuple or None
        First row, end, and their share of the work ahead, 0 to 1. None if the task is within one row, or in its last.
    """
    frame = state.frames[0]
    if state.control[layout.DEPTH] < 0 or frame[layout.KIND] != layout.WHOLE_GRAPH:
        return None
    return range_given_back(frame, _RANGE, share_left(state))


def split_subproblem(donor: WorkerState, has_members: bool, reserve: Callable[[int], int]) -> WorkerState | None:
    """Split off half of the children ahead of the shallowest node that has some.

    The children of a node depend on that node alone, so a copy of its frame with another range of children is a task of
    its own.

    Parameters
    ----------
    donor : WorkerState
        Keeps the earlier half, and its current child.
    has_members : bool
        True if the walk collects members; if not, columns have weights alone.
    reserve : callable
        Takes bytes from the budget; returns 0 if there were enough.

    Returns
    -------
    WorkerState or None
        State of a new worker with the later half as its task. None if there is nothing to share, or no memory for it.
    """
    deepest = int(donor.control[layout.DEPTH])
    for depth in range(deepest + 1):
        frame = donor.frames[depth]
        ahead = int(frame[layout.END] - frame[layout.CURSOR])
        # The deepest node keeps at least one child, so that its worker has work.
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
    if kind != layout.WHOLE_GRAPH:
        ints = donor.ints[frame[layout.INTS] : frame[layout.INTS_TOP]]
    if kind == layout.BITSET:
        columns = columns_of(frame, donor.ints, has_members)
        # A node keeps its weights with the rows that they belong to, which may be those of one above.
        words = np.concatenate([words, donor.words[frame[layout.WEIGHED] : frame[layout.WEIGHED_END]]])
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
    n_weighed = frame[layout.WEIGHED_END] - frame[layout.WEIGHED]
    copy[layout.WEIGHED], copy[layout.WEIGHED_END] = words.size - n_weighed, words.size
    copy[layout.COLUMNS] = 0
    copy[layout.INTS], copy[layout.INTS_TOP] = columns.size, columns.size + ints.size
    receiver.control[layout.DEPTH] = 0
    return receiver


def columns_of(frame: np.ndarray, ints: np.ndarray, has_members: bool) -> np.ndarray:
    """The columns of a bitset frame in the arena of ints, a view."""
    start = frame[layout.COLUMNS]
    if not has_members:
        return ints[start : start + layout.COLUMN_STARTS]
    ids_at = start + layout.COLUMN_IDS
    return ints[start : ids_at + ints[ids_at - 1]]


def new_sizes(
    left_multiplicities: np.ndarray,
    right_multiplicities: np.ndarray,
    constraints: np.ndarray,
    n_bicliques: int,
    has_members: bool,
    weighs_left: bool = False,
) -> Sizes:
    """Wanted sizes, with room for those of so many bicliques.

    Parameters
    ----------
    left_multiplicities, right_multiplicities : (n_groups,) int32
    constraints : (6,) int64
        As in `layout.Sizes`.
    n_bicliques : int
        0 if they are only counted.
    has_members : bool
        True if members are written, too.
    weighs_left : bool
        True if left members are not, but their number is.
    """
    writes_sizes = n_bicliques > 0 and not has_members
    are_exact = (
        writes_sizes or constraints[MIN_EDGES] > 1 or min(constraints[MAX_LEFT], constraints[MAX_RIGHT]) < NO_LIMIT
    )
    return Sizes(
        left_multiplicities,
        right_multiplicities,
        constraints,
        left_sizes=np.empty(n_bicliques, np.int32),
        right_sizes=np.empty(n_bicliques, np.int32),
        weighs_columns=bool(are_exact or weighs_left or constraints[MIN_LEFT] > 1),
        least_in_words=constraints[MIN_LEFT] if constraints[MIN_LEFT] > 2 else 1,
        are_exact=bool(are_exact),
        most_out=n_bicliques - _MOST_OF_A_CHILD if writes_sizes else 0,
    )


@dataclass(frozen=True, eq=False)
class Plan:
    """Settings that all workers share.

    Attributes
    ----------
    graph : int32
        The whole graph in the layout of a subgraph.
    columns, rows : Groups
        The user's vertices behind columns and rows.
    rows_are_left : bool
        True if the rows are the user's left side.
    constraints : (6,) int64
        As in `layout.Output`, columns being the left side.
    first_sizes : FirstSizes
        Initial sizes of a worker's arenas.
    """

    graph: np.ndarray
    columns: Groups
    rows: Groups
    rows_are_left: bool
    constraints: np.ndarray
    detail: Detail
    block_bytes: int
    first_sizes: FirstSizes

    @functools.cached_property
    def _multiplicities(self) -> tuple[np.ndarray, np.ndarray]:
        # The graph begins with those of its columns.
        return self.graph[: self.columns.n], self.rows.multiplicities

    @functools.cached_property
    def translations(self) -> tuple[Translation | None, Translation]:
        """Those of columns, if their members are wanted, and of rows."""
        columns = None if self.detail == Detail.RIGHT else Translation.of(self.columns)
        return columns, Translation.of(self.rows)

    @property
    def collects(self) -> bool:
        """True if the walk has to collect members."""
        return self.detail >= Detail.MEMBERS

    def new_sizes(self, n_bytes: int) -> Sizes:
        """Wanted sizes, with room for those of found bicliques."""
        n_bytes = n_bytes // 24 if self.collects else min(n_bytes, _SIZES_BYTES) // 8
        n_bicliques = max(1, n_bytes) if self.detail > Detail.COUNT else 0
        weighs_left = self.detail == Detail.RIGHT
        return new_sizes(*self._multiplicities, self.constraints, n_bicliques, self.collects, weighs_left)

    def new_output(self, n_bytes: int) -> Output | None:
        """Room for the members of found bicliques, if these are wanted."""
        n_members = max(64, n_bytes // 12)
        n_left = 0 if self.detail == Detail.RIGHT else n_members
        return Output(np.empty(n_left, np.int32), np.empty(n_members, np.int32)) if self.collects else None


_new_state, _set_subproblem, _new_sizes = (compiled()(each) for each in (new_state, set_subproblem, new_sizes))


@compiled(*(UniTuple(kind, 2) for kind in (LONGS, INTS, INTS, LONGS)), float64, seconds=20.0)
def count_small(offsets, members, vertices, constraints, most_cost):
    """Arrange and search a small graph in one call: its memory and results would take longer to make in Python.

    Parameters
    ----------
    offsets, members, vertices
        As in `ordering.arrange`.
    constraints : (int64, int64)
        With the left side as the columns, and with the right.
    most_cost : float
        Cost of all rows from which on a search is not small.

    Returns
    -------
    n_found, n_visited : int
        Bicliques and visited nodes; -1 if the search is not small.
    """
    no_places = np.empty(0, np.int32)
    row_side, _, node, _, costs, (columns, _), (rows, _) = arrange(offsets, members, vertices, no_places, ANY_SIDE)
    if costs.sum() < most_cost:
        state = _new_state(costs.size, (1 << 13, 1 << 12, 32))
        _set_subproblem(state, 0, costs.size, costs.size, columns.size - 1)
        multiplicities = (rows[1:] - rows[:-1]).astype(np.int32)
        sizes = _new_sizes(node[: columns.size - 1], multiplicities, constraints[1 - row_side], 0, False)
        if run_quantum(node, state, sizes, None, _LONG_QUANTUM) == DONE:
            return state.control[layout.COUNT], state.control[layout.VISITED]
    return int64(-1), int64(-1)


class Worker(QuantumWorker):
    """Take subproblems from the pool until there are none, and deliver the results."""

    def __init__(self, pool: WorkerPool, plan: Plan) -> None:
        super().__init__(pool)
        self._plan = plan
        self._output_bytes = plan.block_bytes if plan.detail > Detail.COUNT else 0
        self._sizes = plan.new_sizes(0)
        self._output: Output | None = None
        self._n_found = 0
        self.n_visited = 0
        self._n_out = self._left_used = self._right_used = 0

    def work(self) -> Generator[None]:
        """Work until the pool has no more subproblems, quantum by quantum."""
        self._reserve(self._output_bytes)
        self._new_buffers()
        yield from super().work()

    def _new_buffers(self) -> None:
        self._sizes = self._plan.new_sizes(self._output_bytes)
        self._output = self._plan.new_output(self._output_bytes)

    def _new_state(self) -> WorkerState:
        return new_state(self._plan.rows.n, self._plan.first_sizes)

    def _set_subproblem(self, state: WorkerState, first: int, end: int) -> None:
        set_subproblem(state, first, end, self._plan.rows.n, self._plan.columns.n)

    _share_left = staticmethod(share_left)
    _give_back = staticmethod(give_back)
    _short_of = staticmethod(short_of)

    def _split(self, state: WorkerState, reserve: Callable[[int], int]) -> WorkerState | None:
        return split_subproblem(state, self._plan.collects, reserve)

    def _run_quantum(self, state: WorkerState, work_limit: int) -> int:
        """Continue a state's subproblem, with this worker's output."""
        control = state.control
        control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED] = (
            self._n_out,
            self._left_used,
            self._right_used,
        )
        control[layout.COUNT] = control[layout.VISITED] = 0
        status = run_quantum(self._plan.graph, state, self._sizes, self._output, work_limit)
        self._n_found += int(control[layout.COUNT])
        self.n_visited += int(control[layout.VISITED])
        self._n_out = int(control[layout.N_OUT])
        self._left_used, self._right_used = int(control[layout.LEFT_USED]), int(control[layout.RIGHT_USED])
        return status

    def _make_room(self) -> None:
        """Deliver the output; if it is empty, a single child needs a larger one."""
        if self._n_out:
            self._flush()
            return
        self._reserve(self._output_bytes)
        self._output_bytes *= 2
        self._new_buffers()

    def _flush(self) -> None:
        """Deliver everything found so far."""
        if self._plan.detail == Detail.COUNT:
            self._pool.deliver([BicliqueBlock(self._n_found, work_done=self._pool.work_done)])
        else:
            blocks = self._blocks()
            if self._pool.consumer_waits and self._output is not None:
                # The consumer's thread expands the blocks; the arrays they are made from go with them.
                self._pool.deliver(blocks)
                self._new_buffers()
            else:
                for block in blocks:
                    self._pool.deliver([block])
        self._n_found = self._n_out = self._left_used = self._right_used = 0

    def _blocks(self) -> Iterator[BicliqueBlock]:
        plan, output = self._plan, self._output
        sizes = self._sizes.left_sizes[: self._n_out], self._sizes.right_sizes[: self._n_out]
        if output is None:
            left_sizes, right_sizes = (each.copy() for each in (sizes[::-1] if plan.rows_are_left else sizes))
            return iter([BicliqueBlock(self._n_out, left_sizes, right_sizes, work_done=self._pool.work_done)])
        columns, rows = plan.translations
        left = Found(output.left[: self._left_used], sizes[0], columns)
        right = Found(output.right[: self._right_used], sizes[1], rows)
        if plan.rows_are_left:
            left, right = right, left
        return expand_blocks(left, right, plan.block_bytes, self._pool.work_done)
