"""One thread's work: walk subproblems in time quanta, and deliver blocks of results.

The host side makes, grows and splits workers' states.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mbe_stage.cliques.cpu import layout
from mbe_stage.cliques.cpu.emit import MOST_CLIQUES
from mbe_stage.cliques.cpu.layout import Output, WorkerState
from mbe_stage.cliques.cpu.tree import run_quantum
from mbe_stage.cliques.ordering import OrderedGraph
from mbe_stage.cliques.results import CliqueBlock, Detail
from mbe_stage.search.cpu.pool import WorkerPool
from mbe_stage.search.cpu.quanta import QuantumWorker, RangeFields, Shortage, nbytes, range_given_back, ranges_ahead

_ARENAS = {layout.INTS_SHORT: "ints", layout.WORDS_SHORT: "words", layout.FRAMES_SHORT: "frames"}
_RANGE = RangeFields(layout.FIRST, layout.CURSOR, layout.END)
FirstSizes = tuple[int, int, int]
"""Initial sizes of the arenas of ints and words, and of the stack of frames."""


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
    """Give a worker the subtrees of a range of roots; all their cliques contain `path`, ascending."""
    worker.ints[: len(path)] = path
    frame = worker.frames[0]
    frame[:] = 0
    frame[layout.KIND] = layout.ROOTS
    frame[layout.CURSOR], frame[layout.END] = first, end
    frame[layout.N_PATH] = frame[layout.INTS_TOP] = len(path)
    worker.control[layout.DEPTH], worker.control[layout.NODE] = 0, -1


def short_of(state: WorkerState, status: int) -> Shortage:
    """Return the arena that is too small, by the status of a quantum."""
    return Shortage(_ARENAS[status], int(state.control[layout.NEEDED]))


def share_left(state: WorkerState) -> float:
    """Return the share of a worker's task that lies ahead, 0 to 1, with equal weights for siblings."""
    ahead, weight = ranges_ahead(state.frames[: int(state.control[layout.DEPTH]) + 1], _RANGE)
    for node in state.nodes[: int(state.control[layout.NODE]) + 1]:
        n_children = max(1, int(node[layout.BRANCH]).bit_count())
        ahead += weight * int(node[layout.TODO]).bit_count() / n_children
        weight /= n_children
    return min(1.0, ahead)


def give_back(state: WorkerState) -> tuple[int, int, float] | None:
    """Remove the roots that have not begun from a worker's task.

    Returns
    -------
    tuple or None
        First and end of these roots, and their share of the work ahead, 0 to 1. None if no roots are ahead.
    """
    frame = state.frames[0]
    if state.control[layout.DEPTH] < 0 or frame[layout.KIND] != layout.ROOTS:
        return None
    return range_given_back(frame, _RANGE, share_left(state))


def split_subproblem(donor: WorkerState, reserve: Callable[[int], int]) -> WorkerState | None:
    """Split off half of the children ahead of the highest node with children left.

    The children of a node depend on the node alone, so a copy of it with other children is a separate task.

    Parameters
    ----------
    donor : WorkerState
        Keeps the earlier half, and its current child.
    reserve : callable
        Takes bytes from the budget; returns 0 on success.

    Returns
    -------
    WorkerState or None
        State of a new worker with the later half as its task. None if there is nothing to share or too little memory.
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
    """Return the `n` lowest set bits of a word."""
    rest = word
    for _ in range(n):
        rest &= rest - 1
    return word ^ rest


def _copy(donor: WorkerState, words_used: int, reserve: Callable[[int], int]) -> WorkerState | None:
    """Copy everything that nodes may refer to into a state with empty stacks; None if memory is short."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Settings shared by all workers.

    Attributes
    ----------
    held : tuple of int
        Vertices outside the graph that all cliques contain, ascending.
    min_size, max_size : int
        Limits on the size of a clique, including `held`.
    first_sizes : FirstSizes
        Initial sizes of a worker's arenas.
    """

    graph: OrderedGraph
    held: tuple[int, ...]
    min_size: int
    max_size: int
    detail: Detail
    block_bytes: int
    first_sizes: FirstSizes

    @property
    def largest(self) -> int:
        """Upper bound on the members of a clique: no vertex is in one larger than its core number plus one."""
        return len(self.held) + 1 + int(self.graph.cores[-1])

    @property
    def first_root(self) -> int:
        """First root that can be in a clique of the minimum size; core numbers ascend."""
        return int(np.searchsorted(self.graph.cores, self.min_size - 1 - len(self.held)))

    def new_output(self) -> Output:
        """Allocate output for a block and for the results of one step."""
        most = MOST_CLIQUES * self.largest if self.detail == Detail.MEMBERS else 0
        n_bytes = self.block_bytes if self.detail == Detail.MEMBERS else 0
        # The number of sizes that fit beside their members, since the shortest cliques have two.
        n_sizes = self.block_bytes // (12 if self.detail == Detail.MEMBERS else 4) + MOST_CLIQUES
        return Output(np.empty(n_bytes // 4 + most, np.int32), np.empty(n_sizes, np.int32))


class Worker(QuantumWorker):
    """Takes subproblems from the pool until there are none, and delivers the results."""

    def __init__(self, pool: WorkerPool, plan: Plan) -> None:
        super().__init__(pool)
        self._plan = plan
        self._largest, self._first_root = plan.largest, plan.first_root
        self._output: Output | None = None
        self._n_found = self._n_out = self._members_used = 0
        self.n_visited = 0

    def work(self) -> Generator[None]:
        """Work until the pool has no more subproblems, quantum by quantum."""
        if self._plan.detail > Detail.COUNT:
            self._output = self._plan.new_output()
            self._reserve(sum(array.nbytes for array in self._output))
        yield from super().work()

    def _new_state(self) -> WorkerState:
        n_ints, n_words, n_frames = self._plan.first_sizes
        sizes = max(n_ints, len(self._plan.held)), n_words, n_frames
        return new_state(self._plan.graph.vertices.size, sizes)

    def _set_subproblem(self, state: WorkerState, first: int, end: int) -> None:
        set_subproblem(state, first, end, self._plan.held)

    _share_left = staticmethod(share_left)
    _give_back = staticmethod(give_back)
    _short_of = staticmethod(short_of)

    def _split(self, state: WorkerState, reserve: Callable[[int], int]) -> WorkerState | None:
        return split_subproblem(state, reserve)

    def _run_quantum(self, state: WorkerState, work_limit: int) -> int:
        """Continue a state's subproblem, with this worker's output."""
        plan, control = self._plan, state.control
        control[layout.MIN_SIZE], control[layout.MAX_SIZE] = plan.min_size, plan.max_size
        control[layout.LARGEST], control[layout.FIRST_ROOT] = self._largest, self._first_root
        control[layout.N_OUT], control[layout.MEMBERS_USED] = self._n_out, self._members_used
        control[layout.COUNT] = control[layout.VISITED] = 0
        status = run_quantum(plan.graph, state, self._output, work_limit)
        self._n_found += int(control[layout.COUNT])
        self.n_visited += int(control[layout.VISITED])
        self._n_out, self._members_used = int(control[layout.N_OUT]), int(control[layout.MEMBERS_USED])
        return status

    def _make_room(self) -> None:
        self._flush()

    def _flush(self) -> None:
        """Deliver all results so far."""
        plan, output, work_done = self._plan, self._output, self._pool.work_done
        if output is None:
            self._pool.deliver([CliqueBlock(self._n_found, work_done=work_done)])
        else:
            sizes, members = output.sizes[: self._n_out], output.members[: self._members_used]
            if 2 * (sizes.size + members.size) > output.sizes.size + output.members.size:
                # Without a copy: the arrays now belong to the blocks.
                self._output = plan.new_output()
            else:
                sizes, members = sizes.copy(), members.copy()
            for block in blocks_of(
                sizes, members if plan.detail == Detail.MEMBERS else None, plan.block_bytes, work_done
            ):
                self._pool.deliver([block])
        self._n_found = self._n_out = self._members_used = 0


def blocks_of(
    sizes: np.ndarray, members: np.ndarray | None, block_bytes: int, work_done: float
) -> Iterator[CliqueBlock]:
    """Cut cliques into blocks of at most `block_bytes`, or of one larger clique; yield one empty block if none.

    Parameters
    ----------
    sizes : (n,) int32
    members : int32 or None
        None if only sizes are wanted.
    block_bytes : int
        Limit on the bytes of members and sizes.
    work_done : float
        Value for the blocks.
    """
    n_bytes = 4 * (sizes.astype(np.int64) + 1 if members is not None else np.ones(sizes.size, np.int64))
    ends = np.cumsum(n_bytes)
    first = at_member = 0
    while True:
        before = int(ends[first - 1]) if first else 0
        stop = min(sizes.size, max(first + 1, int(np.searchsorted(ends, before + block_bytes, side="right"))))
        n = stop - first
        end_member = at_member + int(sizes[first:stop].sum(dtype=np.int64))
        part = None if members is None else members[at_member:end_member]
        yield CliqueBlock(n, sizes[first:stop], part, work_done)
        first, at_member = stop, end_member
        if first >= sizes.size:
            return
