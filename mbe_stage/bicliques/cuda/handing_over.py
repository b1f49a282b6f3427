"""Tasks taken out of the arenas, and roots, nodes and tasks handed over from one device to another.

A task is a stack of bitset frames, or a child of a subgraph that has been taken and not visited. It stands by itself:
any warp can resume it. Arenas are large and stacks small. To grow the arenas, all stacks are taken out, the arenas are
freed, and the stacks are put into new ones.

A node holds all that its children depend on. Nodes and tasks name rows and columns by numbers, which are equal wherever
the same graph is prepared, so any device can continue them. The children of a node are a range: one device may keep the
first of them and another take the others, on its own copy.

The giver keeps what it hands over until the other device has copied it, from device to device. Through host memory a
gigabyte would take tenths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.pool_compaction import laid_out, moved_out
from mbe_stage.device.copying import copy_pieces
from mbe_stage.device.peers import brought_here, copied_from

_COUNTERS = [at.FOUND, at.N_OPENED, at.N_CLOSED_SETS, at.N_LISTS, at.N_DONATED]
"""Fields of a warp's state that outlive the warp."""
_TASK_FIELDS = [at.DEPTH, at.PENDING_NODE, at.PENDING_ROW, at.EMITTED, at.ROOT]
_NO_TASK = (-1, -1, 0, 0, 0)
_MOST_INTS = 1 << 28
"""Entries of the nodes that are handed over at a time, the heaviest first: a gigabyte, some milliseconds each way.
Nodes of hundreds of thousands of columns take megabytes each."""
_RANGES_FROM = 4
"""Of the largest nodes, so many times as there are devices, each device gets a range of the children; of the others
each gets whole ones."""


@dataclass(frozen=True, slots=True, eq=False)
class SuspendedTasks:
    """Tasks that no warp holds for now.

    Attributes
    ----------
    fields : (n, 5) int64, on the host
        `layout.DEPTH`, `PENDING_NODE`, `PENDING_ROW`, `EMITTED` and `ROOT` of each.
    frames : (n, MAX_DEPTH, FRAME_FIELDS) int32
    words, ints : int32
        What the stacks hold, one behind the other.
    word_starts, int_starts : (n + 1,) int64, on the host
        Where each stack's part begins.
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
        """The subgraphs of the children that wait to be visited, -1 for stacks; to be changed in place."""
        return self.fields[:, _TASK_FIELDS.index(at.PENDING_NODE)]

    @property
    def roots(self) -> np.ndarray:
        """The rows whose subtrees they are in."""
        return self.fields[:, _TASK_FIELDS.index(at.ROOT)]

    def part(self, first: int, stop: int) -> SuspendedTasks:
        """Some of the tasks, in the same memory."""
        return replace(
            self,
            fields=self.fields[first:stop],
            frames=self.frames[first:stop],
            word_starts=self.word_starts[first : stop + 1],
            int_starts=self.int_starts[first : stop + 1],
        )


def task_bytes(warps: at.Warps, state: np.ndarray, with_ints: bool) -> int:
    """Bytes on the device that the tasks of all warps would take if they were suspended."""
    tasks, sizes = tasks_in_progress(warps, state, with_ints)
    return int(4 * sizes.sum()) + 4 * at.MAX_DEPTH * at.FRAME_FIELDS * tasks.size


def suspend(warps: at.Warps, state: np.ndarray, with_ints: bool) -> SuspendedTasks:
    """Copies of the tasks that all warps have in progress.

    Parameters
    ----------
    state : (n, STATE_FIELDS) int64
        That of the warps, on the host.
    with_ints : bool
        True if the arenas of ids are in use: something is written.
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
        fields=state[tasks][:, _TASK_FIELDS],
        frames=warps.frames[cp.asarray(tasks)],
        words=copies[0],
        ints=copies[1],
        word_starts=starts[:, 0],
        int_starts=starts[:, 1],
    )


def take_away(warps: at.Warps, which: np.ndarray) -> None:
    """Leave some warps without a task; it goes on elsewhere."""
    warps.state[cp.asarray(which), : len(_TASK_FIELDS)] = cp.asarray(_NO_TASK)


def resume(suspended: list[SuspendedTasks], warps: at.Warps) -> list[SuspendedTasks]:
    """Give tasks to warps, none of which has one; returns those that go on waiting."""
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
    """The state of the first `n_warps` warps without tasks; what the others had counted is the first one's."""
    kept = state[:n_warps].copy()
    kept[0, _COUNTERS] += state[n_warps:, _COUNTERS].sum(axis=0)
    kept[:, _TASK_FIELDS] = _NO_TASK
    return kept


def own_renumbered(warps: at.Warps, numbers: cp.ndarray) -> None:
    """Give the nodes that warps keep for themselves their new numbers, and forget those that have none.

    Parameters
    ----------
    numbers : (n + 1,) int64
        The new number of each node, -1 where it is left out and in the last place.
    """
    place = cp.arange(at.MAX_OWN_NODES)
    is_held = place < warps.state[:, at.N_OWN, None]
    renumbered = numbers[cp.where(is_held, warps.own_nodes, -1)]
    is_gone = renumbered < 0
    # Those that stay first, in the order they stood in.
    order = cp.argsort(place + at.MAX_OWN_NODES * is_gone, axis=1)
    warps.own_nodes[:] = cp.take_along_axis(renumbered, order, axis=1)
    warps.state[:, at.N_OWN] = at.MAX_OWN_NODES - is_gone.sum(axis=1)


def mark_owned(warps: at.Warps, nodes: cp.ndarray) -> None:
    """Say of each node whether a warp keeps it for itself; nodes of warps that are no more are anybody's."""
    is_held = cp.arange(at.MAX_OWN_NODES) < warps.state[:, at.N_OWN, None]
    nodes[:, at.NODE_IS_OWNED] = 0
    nodes[warps.own_nodes[is_held], at.NODE_IS_OWNED] = 1


def tasks_in_progress(warps: at.Warps, state: np.ndarray, with_ints: bool) -> tuple[np.ndarray, np.ndarray]:
    """The warps that have a task, and how many words and ints the stack of each holds."""
    tasks = np.flatnonzero((state[:, at.DEPTH] >= 0) | (state[:, at.PENDING_NODE] >= 0))
    depths = state[tasks, at.DEPTH]
    deepest = cp.asnumpy(warps.frames[cp.asarray(tasks), cp.asarray(np.maximum(depths, 0))])
    sizes = np.where(depths[:, None] >= 0, deepest[:, [at.WORDS_TOP, at.INTS_TOP]], 0).astype(np.int64)
    if not with_ints:
        sizes[:, 1] = 0
    return tasks, sizes


def _give(tasks: SuspendedTasks, warps: at.Warps, first: int) -> None:
    """Give the tasks to warps from `first` on."""
    n = len(tasks)
    taken = np.arange(first, first + n)
    warps.frames[first : first + n] = tasks.frames
    warps.state[first : first + n, : len(_TASK_FIELDS)] = cp.asarray(tasks.fields)
    for arena, content, starts in (
        (warps.words, tasks.words, tasks.word_starts),
        (warps.ints, tasks.ints, tasks.int_starts),
    ):
        sizes = np.diff(starts)
        has_some = sizes > 0
        flat = arena.reshape(-1).view(cp.int32)
        copy_pieces(content, starts[:-1][has_some], sizes[has_some], flat, taken[has_some] * arena.shape[1])


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity of a device without work.

    Attributes
    ----------
    ints, nodes : int
        Entries of nodes, and how many of them.
    words, ids : int
        Of the stack of each.
    """

    ints: int
    nodes: int
    tasks: int
    words: int
    ids: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Progress of a device.

    Attributes
    ----------
    begun : float
        Paths of the roots that it has begun.
    unfinished : (n,) int64
        Rows of the roots below which something is left there, each once; on the host.
    ahead : (float, int, int)
        Paths of the roots that it has not begun, open nodes, stacks: what compares with that of another device.
    """

    begun: float
    unfinished: np.ndarray
    ahead: tuple[float, int, int]


@dataclass(slots=True)
class Parcel:
    """Work that is handed over.

    Attributes
    ----------
    rows : (n,) int32
        Roots; on the host.
    fields : (n, NODE_FIELDS) int64
        Of nodes, whose offsets are places in `ints`; on the host.
    cursors : (n,) int32
        Their first children; on the host.
    ints : int32 or None
        What they hold, on the device that gives them; a multiple of `layout.ALIGNMENT`. None where there are none.
    tasks : SuspendedTasks or None
        On that device, too.
    """

    rows: np.ndarray
    fields: np.ndarray = field(default_factory=lambda: np.empty((0, at.NODE_FIELDS), np.int64))
    cursors: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    ints: cp.ndarray | None = None
    tasks: SuspendedTasks | None = None

    @property
    def n_ints(self) -> int:
        """Entries of its nodes."""
        return 0 if self.ints is None else int(self.ints.size)

    @property
    def n_items(self) -> int:
        """Roots, nodes and tasks."""
        return int(self.rows.size) + len(self.cursors) + (0 if self.tasks is None else len(self.tasks))


def give_nodes(pool: at.Pool, n_nodes: int, rooms: Sequence[Room], spare_ints: int, parcels: list[Parcel]) -> int:
    """Put nodes of the pool, or some of their children, into parcels; returns how many are exhausted here thereby.

    Parameters
    ----------
    n_nodes : int
        How many are in use.
    rooms : sequence of Room
        Of who gets the parcels.
    spare_ints : int
        What the nodes of all parcels may take of device memory.
    parcels : list of Parcel
        One for each; changed.
    """
    fields, cursors = cp.asnumpy(pool.nodes[:n_nodes]), cp.asnumpy(pool.cursors[:n_nodes])
    most_ints = min(spare_ints // max(1, len(rooms)), _MOST_INTS)
    shares = _shares(fields, cursors, [replace(room, ints=min(room.ints, most_ints)) for room in rooms])
    for share, parcel in zip(shares, parcels, strict=True):
        if not share:
            continue
        numbers, firsts, ends = np.array(share).T
        live = laid_out(fields, numbers, numbers.size)
        parcel.ints = moved_out(pool.ints, live)
        parcel.fields = fields[numbers]
        parcel.fields[:, at.NODE_OFFSET] = live.places - live.unwritten
        parcel.fields[:, at.NODE_END] = ends
        parcel.fields[:, at.NODE_IS_OWNED] = 0
        parcel.cursors = firsts.astype(np.int32)
    given = [each for share in shares for each in share]
    if not given:
        return 0
    # What is handed over of a node is the end of its range, whoever gets it.
    changed = np.unique([number for number, _, _ in given])
    new_ends = fields[:, at.NODE_END].copy()
    for number, first, _ in given:
        new_ends[number] = min(new_ends[number], first)
    is_closed = new_ends[changed] <= cursors[changed]
    # An end of 0 would be that of a node which is being written: those that have no child left keep theirs.
    ends = np.where(is_closed, fields[changed, at.NODE_END], new_ends[changed])
    pool.nodes[cp.asarray(changed), at.NODE_END] = cp.asarray(ends)
    pool.cursors[cp.asarray(changed[is_closed])] = cp.asarray(ends[is_closed].astype(np.int32))
    return int(is_closed.sum())


def _shares(fields: np.ndarray, cursors: np.ndarray, rooms: Sequence[Room]) -> list[list[tuple[int, int, int]]]:
    """For each room the nodes that are handed over to it, and the range of their children; as far as it goes."""
    n = len(rooms) + 1
    ends = fields[:, at.NODE_END]
    numbers = np.flatnonzero(cursors < ends)
    numbers = numbers[numbers > 0]
    left = (ends - cursors)[numbers]
    heaviest = numbers[np.argsort(-left * fields[numbers, at.NODE_SIZE], kind="stable")]
    sizes = -(-fields[:, at.NODE_SIZE] // at.ALIGNMENT) * at.ALIGNMENT
    shares: list[list[tuple[int, int, int]]] = [[] for _ in rooms]
    used = [0 for _ in rooms]
    is_cut = np.zeros(heaviest.size, np.bool_)
    for rank, number in enumerate(heaviest[: _RANGES_FROM * n].tolist()):
        first, end, size = int(cursors[number]), int(ends[number]), int(sizes[number])
        takers = [k for k, room in enumerate(rooms) if used[k] + size <= room.ints and len(shares[k]) < room.nodes]
        is_cut[rank] = end - first >= 2 * n
        if is_cut[rank] and takers:
            cuts = [first + (end - first) * k // (len(takers) + 1) for k in range(1, len(takers) + 2)]
            for k, start, stop in zip(takers, cuts, cuts[1:], strict=False):
                shares[k].append((number, start, stop))
                used[k] += size
    ranks = np.arange(heaviest.size)
    for k, room in enumerate(rooms):
        left_ints = room.ints - used[k]
        whole = heaviest[(ranks % n == k + 1) & ~is_cut]
        whole = whole[sizes[whole] <= left_ints]
        fit = np.searchsorted(np.cumsum(sizes[whole]), left_ints, side="right")
        whole = whole[: max(0, min(int(fit), room.nodes - len(shares[k])))]
        shares[k] += zip(whole.tolist(), cursors[whole].tolist(), ends[whole].tolist(), strict=True)
    return shares


def give_tasks(
    warps: at.Warps, state: np.ndarray, with_ints: bool, rooms: Sequence[Room], parcels: list[Parcel]
) -> None:
    """Put stacks of warps into parcels, as far as they fit; the first of each round stays.

    Parameters
    ----------
    state : (n, STATE_FIELDS) int64
        That of the warps, on the host.
    with_ints : bool
        True if the arenas of ids are in use.
    """
    stacks = np.flatnonzero(state[:, at.DEPTH] >= 0)
    n = len(rooms) + 1
    for k, (room, parcel) in enumerate(zip(rooms, parcels, strict=True), start=1):
        theirs, sizes = tasks_in_progress(warps, _with_stacks_of(state, stacks[k::n]), with_ints)
        given = theirs[(sizes <= (room.words, room.ids)).all(axis=1)][: room.tasks]
        if given.size:
            parcel.tasks = suspend(warps, _with_stacks_of(state, given), with_ints)
            take_away(warps, given)


def _with_stacks_of(state: np.ndarray, warps: np.ndarray) -> np.ndarray:
    """The state of all warps, as though only some had a task."""
    alone = state.copy()
    alone[:, [at.DEPTH, at.PENDING_NODE]] = -1
    alone[warps, at.DEPTH] = state[warps, at.DEPTH]
    return alone


def put_nodes(parcel: Parcel, pool: at.Pool, first: int, top: int) -> int:
    """Put the nodes of a parcel into a pool, from so many nodes and entries on; returns how many they are."""
    n = len(parcel.cursors)
    if n:
        fields = parcel.fields.copy()
        fields[:, at.NODE_OFFSET] += top
        copied_from((pool.ints[top : top + parcel.n_ints], parcel.ints))
        pool.nodes[first : first + n] = cp.asarray(fields)
        pool.cursors[first : first + n] = cp.asarray(parcel.cursors)
    return n


def of_this_device(tasks: SuspendedTasks) -> SuspendedTasks:
    """A parcel's tasks in the memory of the current device."""
    frames, words, ints = brought_here(tasks.frames, tasks.words, tasks.ints)
    return replace(tasks, frames=frames, words=words, ints=ints)
