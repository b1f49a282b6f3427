"""Take tasks out of the arenas, and transfer roots, nodes and tasks from one device to another.

A task is a stack of bitset frames, or a child of a subgraph that is taken and not yet visited. It is independent: any
warp can resume it. Arenas are large and stacks small. To grow the arenas, all stacks are copied out, the arenas are
freed, and the stacks are copied into new ones.

The children of a node depend on it alone. Nodes and tasks refer to rows and columns by numbers, which are equal
wherever the same graph is prepared, so any device can continue them. The children of a node are a range: one device may
keep the first of them, and another one take the others, with its own copy of the node.

The giver keeps transferred work until the other device has copied it, from device to device. Through host memory a
gigabyte would take tenths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.pool_compaction import laid_out, moved_out
from mbe_stage.device import whole_lines
from mbe_stage.device.copying import copy_pieces
from mbe_stage.device.peers import brought_here, copied_from
from mbe_stage.search.cuda.work_handover import left_over, shares

_COUNTERS = [layout.N_OPENED, layout.N_CLOSED_SETS, layout.N_LISTS, layout.N_DONATED]
TASK_FIELDS = [layout.DEPTH, layout.PENDING_NODE, layout.PENDING_ROW, layout.EMITTED, layout.ROOT]
"""Fields of a warp's state that are part of its task."""
_NO_TASK = (-1, -1, 0, 0, 0)
_MOST_INTS = 1 << 28
"""Most entries of nodes transferred at a time, heaviest first: a gigabyte, some milliseconds each way. Nodes of
hundreds of thousands of columns take megabytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class SuspendedTasks:
    """Tasks that no warp has at present.

    Attributes
    ----------
    fields : (n, 5) int64, on the host
        `layout.DEPTH`, `PENDING_NODE`, `PENDING_ROW`, `EMITTED` and `ROOT` of each.
    frames : (n, MAX_DEPTH, FRAME_FIELDS) int32
    words, ints : int32
        Contents of the stacks, contiguous.
    word_starts, int_starts : (n + 1,) int64, on the host
        First entry of each stack.
    """

    fields: np.ndarray
    frames: cp.ndarray
    words: cp.ndarray
    ints: cp.ndarray
    word_starts: np.ndarray
    int_starts: np.ndarray

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return int(self.frames.nbytes + self.words.nbytes + self.ints.nbytes)

    @property
    def pending_nodes(self) -> np.ndarray:
        """Subgraphs of the children to be visited, -1 for stacks; may be changed in place."""
        return self.fields[:, TASK_FIELDS.index(layout.PENDING_NODE)]

    @property
    def roots(self) -> np.ndarray:
        """The rows whose subtrees they are in."""
        return self.fields[:, TASK_FIELDS.index(layout.ROOT)]

    def part(self, first: int, stop: int) -> SuspendedTasks:
        """Return some of the tasks, in the same memory."""
        return replace(
            self,
            fields=self.fields[first:stop],
            frames=self.frames[first:stop],
            word_starts=self.word_starts[first : stop + 1],
            int_starts=self.int_starts[first : stop + 1],
        )


def task_bytes(warps: layout.Warps, state: np.ndarray, with_ints: bool) -> int:
    """Bytes on the device of the tasks of all warps, once suspended."""
    tasks, sizes = tasks_in_progress(warps, state, with_ints)
    return int(4 * sizes.sum()) + 4 * layout.MAX_DEPTH * layout.FRAME_FIELDS * tasks.size


def suspend(warps: layout.Warps, state: np.ndarray, with_ints: bool) -> SuspendedTasks:
    """Copy the tasks that all warps have in progress.

    Parameters
    ----------
    state : (n, STATE_FIELDS) int64
        State of the warps, on the host.
    with_ints : bool
        True if the arenas of ids are in use, because bicliques are written.
    """
    tasks, sizes = tasks_in_progress(warps, state, with_ints)
    ends = np.cumsum(sizes, axis=0)
    starts = np.concatenate([np.zeros((1, 2), np.int64), ends])
    copies = []
    for which, arena in enumerate((warps.words, warps.ints)):
        copy = cp.empty(int(starts[-1, which]), cp.int32)
        flat = arena.reshape(-1).view(cp.int32)
        copy_pieces(flat, tasks * arena.shape[1], sizes[:, which], copy, starts[:-1, which])
        copies.append(copy)
    return SuspendedTasks(
        fields=state[tasks][:, TASK_FIELDS],
        frames=warps.frames[cp.asarray(tasks)],
        words=copies[0],
        ints=copies[1],
        word_starts=starts[:, 0],
        int_starts=starts[:, 1],
    )


def take_away(warps: layout.Warps, which: np.ndarray) -> None:
    """Leave some warps without a task, which continues elsewhere."""
    warps.state[cp.asarray(which), : len(TASK_FIELDS)] = cp.asarray(_NO_TASK)


def resume(suspended: list[SuspendedTasks], warps: layout.Warps) -> list[SuspendedTasks]:
    """Give tasks to warps, which have none yet; return the tasks that still wait."""
    n_warps = warps.state.shape[0]
    first = 0
    waiting = []
    for tasks in suspended:
        n = min(len(tasks), n_warps - first)
        if n:
            _give(tasks.part(0, n), warps, first)
        if n < len(tasks):
            waiting.append(tasks.part(n, len(tasks)))
        first += n
    return waiting


def state_without_tasks(state: np.ndarray, n_warps: int) -> np.ndarray:
    """Return the state of the first `n_warps` warps without tasks; the first one gets the counters of the others."""
    kept = state[:n_warps].copy()
    kept[0, _COUNTERS] += state[n_warps:, _COUNTERS].sum(axis=0)
    kept[:, TASK_FIELDS] = _NO_TASK
    return kept


def own_renumbered(warps: layout.Warps, numbers: cp.ndarray) -> None:
    """Give the nodes that warps keep for themselves their new numbers, and drop those without.

    Parameters
    ----------
    numbers : (n + 1,) int64
        The new number of each node, -1 if it is left out, and at the end.
    """
    place = cp.arange(layout.MAX_OWN_NODES)
    is_held = place < warps.state[:, layout.N_OWN, None]
    renumbered = numbers[cp.where(is_held, warps.own_nodes, -1)]
    is_gone = renumbered < 0
    # Kept nodes first, in their former order.
    order = cp.argsort(place + layout.MAX_OWN_NODES * is_gone, axis=1)
    warps.own_nodes[:] = cp.take_along_axis(renumbered, order, axis=1)
    warps.state[:, layout.N_OWN] = layout.MAX_OWN_NODES - is_gone.sum(axis=1)


def mark_owned(warps: layout.Warps, nodes: cp.ndarray) -> None:
    """Mark for each node if a warp keeps it for itself. Nodes of removed warps are open to all."""
    is_held = cp.arange(layout.MAX_OWN_NODES) < warps.state[:, layout.N_OWN, None]
    nodes[:, layout.NODE_IS_OWNED] = 0
    nodes[warps.own_nodes[is_held], layout.NODE_IS_OWNED] = 1


def tasks_in_progress(warps: layout.Warps, state: np.ndarray, with_ints: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the warps that have a task, and the number of words and ints on the stack of each."""
    tasks = np.flatnonzero((state[:, layout.DEPTH] >= 0) | (state[:, layout.PENDING_NODE] >= 0))
    depths = state[tasks, layout.DEPTH]
    deepest = cp.asnumpy(warps.frames[cp.asarray(tasks), cp.asarray(np.maximum(depths, 0))])
    sizes = np.where(depths[:, None] >= 0, deepest[:, [layout.WORDS_TOP, layout.INTS_TOP]], 0).astype(np.int64)
    if not with_ints:
        sizes[:, 1] = 0
    return tasks, sizes


def _give(tasks: SuspendedTasks, warps: layout.Warps, first: int) -> None:
    """Give the tasks to warps from `first` on."""
    n = len(tasks)
    taken = np.arange(first, first + n)
    warps.frames[first : first + n] = tasks.frames
    warps.state[first : first + n, : len(TASK_FIELDS)] = cp.asarray(tasks.fields)
    for arena, content, starts in (
        (warps.words, tasks.words, tasks.word_starts),
        (warps.ints, tasks.ints, tasks.int_starts),
    ):
        sizes = np.diff(starts)
        has_some = sizes > 0
        flat = arena.reshape(-1).view(cp.int32)
        copy_pieces(content, starts[:-1][has_some], sizes[has_some], flat, taken[has_some] * arena.shape[1])


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity of a device without work.

    Attributes
    ----------
    ints, nodes : int
        Entries of nodes, and number of nodes.
    words, ids : int
        Limits of each stack.
    """

    ints: int
    nodes: int
    tasks: int
    words: int
    ids: int


@dataclass(slots=True)
class WorkTransfer:
    """Work that is transferred.

    Attributes
    ----------
    rows : (n,) int32
        Rows of the roots; on the host.
    fields : (n, NODE_FIELDS) int64
        Those of nodes, with offsets into `ints`; on the host.
    cursors : (n,) int32
        First child of each node; on the host.
    ints : int32 or None
        Contents of the nodes, on the giving device; a multiple of `layout.ALIGNMENT`. None if there are none.
    tasks : SuspendedTasks or None
        On the giving device, too.
    """

    rows: np.ndarray
    fields: np.ndarray = field(default_factory=lambda: np.empty((0, layout.NODE_FIELDS), np.int64))
    cursors: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    ints: cp.ndarray | None = None
    tasks: SuspendedTasks | None = None

    @property
    def n_ints(self) -> int:
        """Entries of its nodes."""
        return 0 if self.ints is None else int(self.ints.size)

    @property
    def n_items(self) -> int:
        """Number of roots, nodes and tasks."""
        return int(self.rows.size) + len(self.cursors) + (0 if self.tasks is None else len(self.tasks))


def give_nodes(
    pool: layout.Pool,
    n_nodes: int,
    capacities: Sequence[Capacity],
    spare_ints: int,
    transfers: list[WorkTransfer],
    mode: int,
) -> int:
    """Put nodes of the pool, or some of their children, into transfers; return the number of nodes exhausted here.

    Parameters
    ----------
    n_nodes : int
        Nodes in use.
    capacities, transfers
        One for each receiver; the transfers are changed.
    spare_ints : int
        Device memory for the nodes of all transfers, in entries.
    mode : int
        Output mode of the walk.
    """
    fields, cursors = cp.asnumpy(pool.nodes[:n_nodes]), cp.asnumpy(pool.cursors[:n_nodes])
    most_ints = min(spare_ints // max(1, len(capacities)), _MOST_INTS)
    room = [(min(capacity.ints, most_ints), capacity.nodes) for capacity in capacities]
    ends = fields[:, layout.NODE_END].copy()
    # The whole graph stays.
    ends[0] = cursors[0]
    given = shares(cursors, ends, whole_lines(fields[:, layout.NODE_SIZE]), room)
    for share, transfer in zip(given, transfers, strict=True):
        if not share:
            continue
        numbers, firsts, stops = np.array(share).T
        live = laid_out(fields, numbers, numbers.size, mode)
        transfer.ints = moved_out(pool.ints, live)
        transfer.fields = fields[numbers]
        transfer.fields[:, layout.NODE_OFFSET] = live.places - live.unwritten
        transfer.fields[:, layout.NODE_END] = stops
        transfer.fields[:, layout.NODE_IS_OWNED] = 0
        transfer.cursors = firsts.astype(np.int32)
    changed, new_ends, is_closed = left_over(given, cursors, ends)
    pool.nodes[cp.asarray(changed), layout.NODE_END] = cp.asarray(new_ends)
    pool.cursors[cp.asarray(changed[is_closed])] = cp.asarray(new_ends[is_closed].astype(np.int32))
    return int(is_closed.sum())


def give_tasks(
    warps: layout.Warps, state: np.ndarray, with_ints: bool, room: Sequence[Capacity], transfers: list[WorkTransfer]
) -> None:
    """Put stacks of warps into transfers, as far as they fit; the first of each round stays.

    `state` and `with_ints` are those of `suspend`.
    """
    stacks = np.flatnonzero(state[:, layout.DEPTH] >= 0)
    n = len(room) + 1
    for k, (capacity, transfer) in enumerate(zip(room, transfers, strict=True), start=1):
        theirs, sizes = tasks_in_progress(warps, _with_stacks_of(state, stacks[k::n]), with_ints)
        given = theirs[(sizes <= (capacity.words, capacity.ids)).all(axis=1)][: capacity.tasks]
        if given.size:
            transfer.tasks = suspend(warps, _with_stacks_of(state, given), with_ints)
            take_away(warps, given)


def _with_stacks_of(state: np.ndarray, warps: np.ndarray) -> np.ndarray:
    """Return the state of all warps, as if only some had a task."""
    alone = state.copy()
    alone[:, [layout.DEPTH, layout.PENDING_NODE]] = -1
    alone[warps, layout.DEPTH] = state[warps, layout.DEPTH]
    return alone


def put_nodes(transfer: WorkTransfer, pool: layout.Pool, first: int, top: int) -> int:
    """Put the nodes of a transfer into a pool, from given nodes and entries on; return their number."""
    n = len(transfer.cursors)
    if n:
        fields = transfer.fields.copy()
        fields[:, layout.NODE_OFFSET] += top
        copied_from((pool.ints[top : top + transfer.n_ints], transfer.ints))
        pool.nodes[first : first + n] = cp.asarray(fields)
        pool.cursors[first : first + n] = cp.asarray(transfer.cursors)
    return n


def of_this_device(tasks: SuspendedTasks) -> SuspendedTasks:
    """Copy a transfer's tasks into the memory of the current device."""
    frames, words, ints = brought_here(tasks.frames, tasks.words, tasks.ints)
    return replace(tasks, frames=frames, words=words, ints=ints)
