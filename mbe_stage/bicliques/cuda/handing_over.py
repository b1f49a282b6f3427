"""What one device hands over to another: roots that nobody has begun, nodes of the pool, tasks in progress.

A node holds all that its children depend on, and a suspended task stands by itself. Both name rows and columns by their
numbers, which are the same wherever the same graph is prepared; so either may go on elsewhere. The children of a node
are a range: a device may keep the first of them, and another have the others, of its own copy.

What is handed over stays in the memory of the device that gives it until the other has copied it, from device to
device: through the memory of the host a gigabyte would take tenths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.pool_compaction import laid_out, moved_out
from mbe_stage.bicliques.cuda.task_suspension import SuspendedTasks, suspend, take_away, tasks_in_progress
from mbe_stage.device.peers import brought_here, copied_from

_MOST_INTS = 1 << 28
"""Entries of the nodes that are handed over at a time, the heaviest first: a gigabyte, some milliseconds each way.
Nodes of hundreds of thousands of columns take megabytes each."""
_RANGES_FROM = 4
"""Of the largest nodes, so many times as there are devices, each device gets a range of the children; of the others
each gets whole ones."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a device without work can take in.

    Attributes
    ----------
    ints, nodes : int
        Entries of nodes, and how many of them.
    tasks : int
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
    """How far a device is.

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
    """What is handed over.

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
        Whether the arenas of ids are in use.
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
