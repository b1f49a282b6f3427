"""Tasks suspended while memory is re-planned: out of the arenas, which then grow, or out of warps that are given up.

A task is a stack of bitset frames, or a child of a subgraph that has been taken and not visited. It stands by itself:
whichever warp it is given to goes on where another one left off. Arenas are large and stacks small, so nothing is lost
by taking all stacks out, letting go of the arenas, and putting the stacks into new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.device.copying import copy_pieces

_COUNTERS = [at.FOUND, at.N_OPENED, at.N_CLOSED_SETS, at.N_LISTS, at.N_DONATED]
"""Fields of a warp's state that outlive the warp."""
_TASK_FIELDS = [at.DEPTH, at.PENDING_NODE, at.PENDING_ROW, at.EMITTED, at.ROOT]
_NO_TASK = (-1, -1, 0, 0, 0)


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
        Whether the arenas of ids are in use: something is written.
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
