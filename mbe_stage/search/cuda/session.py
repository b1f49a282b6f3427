"""Host side of a search on a device: roots in order, quanta, the pool of open nodes, and barriers.

Between quanta, kept nodes and their words are moved together in the pool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import cupy as cp
import numpy as np

from mbe_stage.device import LINE_WORDS, whole_lines
from mbe_stage.device.arrays import WordsBeside, upload, wait_for_device
from mbe_stage.device.copying import copy_pieces
from mbe_stage.device.grid import THREADS
from mbe_stage.device.launch import launch_blocks
from mbe_stage.device.memory_budget import device_work
from mbe_stage.device.peers import copied_from
from mbe_stage.search.cuda import control as layout
from mbe_stage.search.cuda import saved_work
from mbe_stage.search.cuda.plan import PoolPlan
from mbe_stage.search.cuda.work_handover import Capacity, WorkTransfer, left_over, shares
from mbe_stage.tasks import OpenWork, Remaining, Roots, Task

MOST_DONE = 0.999
"""Largest share of the work reported before the end."""
_REHEARSED: set[tuple[str, type]] = set()
"""Devices and session types for which this process has loaded the code of transfers."""
What = TypeVar("What")


class KeptNodes:
    """The nodes with children left, or with a child that a warp took and did not finish.

    Parameters
    ----------
    nodes : (n_nodes, NODE_FIELDS) int64
    pending : (n_warps,) int64, on the host
        Nodes with a child that a warp must start over; negative for none.
    n_words : int
        Number of used words in the pool.

    Attributes
    ----------
    live : (n,) int64
        Numbers of the kept nodes, ascending.
    fields : (n, NODE_FIELDS) int64
        A copy of the kept nodes.
    n, n_open, n_words : int
        Number of kept nodes, of nodes with children left, and of words of their blocks. Blocks begin on cache lines;
        entries of one frame's stack share a block.
    """

    def __init__(self, nodes: cp.ndarray, pending: np.ndarray, n_words: int) -> None:
        is_kept = nodes[:, layout.CURSOR] < nodes[:, layout.END]
        n_open = is_kept.sum()
        is_kept[cp.asarray(pending[pending >= 0])] = True
        self.live = cp.flatnonzero(is_kept)
        self.fields, self.n = nodes[self.live], self.live.size
        self._starts, self._sizes = self.fields[:, layout.OFFSET], self.fields[:, layout.WORDS]
        # Number of cache lines of the block that begins at each line of the pool; several nodes may share a block.
        lines = cp.zeros(n_words // LINE_WORDS, cp.int64)
        first = self._starts // LINE_WORDS
        lines[first] = whole_lines(self._sizes) // LINE_WORDS
        ends = cp.cumsum(lines)
        self._places = LINE_WORDS * (ends[first] - lines[first])
        self.n_words = LINE_WORDS * int(ends[-1])
        self.n_open = int(n_open)

    def copy(self, words: cp.ndarray, target: cp.ndarray) -> None:
        """Copy all blocks to the beginning of another array, without gaps."""
        copy_pieces(words.view(cp.int32), self._starts, self._sizes, target.view(cp.int32), self._places)

    def slide(self, words: cp.ndarray, room: int) -> None:
        """Move all blocks to the beginning of their pool. No block moves towards the end, so none is overwritten.

        Parameters
        ----------
        words : uint32
        room : int
            Words of device memory available for copies, at least the size of the largest block.
        """
        if self.n_words <= room:
            moved = cp.empty(self.n_words, cp.uint32)
            self.copy(words, moved)
            words[: self.n_words] = moved
            return
        for place, together in self._in_pieces(words, room, are_all=False):
            words[place : place + together.size] = together

    def to_host(self, words: cp.ndarray, room: int) -> np.ndarray:
        """Copy all blocks to the host, without gaps, through device memory as in `slide`; (n_words,) uint32."""
        copy = np.empty(self.n_words, np.uint32)
        for place, together in self._in_pieces(words, room, are_all=True):
            copy[place : place + together.size] = cp.asnumpy(together)
        return copy

    def _in_pieces(self, words: cp.ndarray, room: int, *, are_all: bool) -> Iterator[tuple[int, cp.ndarray]]:
        """Yield copies of consecutive blocks and their new places; unless `are_all`, skip the first ones that stay."""
        starts, sizes, places = np.unique(cp.asnumpy(cp.stack([self._starts, self._sizes, self._places])), axis=1)
        ends = places + whole_lines(sizes)
        is_wanted = (starts != places) | are_all
        first = int(np.argmax(is_wanted)) if is_wanted.any() else ends.size
        while first < ends.size:
            place = int(places[first])
            stop = max(first + 1, int(np.searchsorted(ends, place + room, side="right")))
            together, some = cp.zeros(int(ends[stop - 1]) - place, cp.int32), slice(first, stop)
            copy_pieces(words.view(cp.int32), starts[some], sizes[some], together, places[some] - place)
            yield place, together.view(cp.uint32)
            first = stop

    def placed(self) -> cp.ndarray:
        """Return the fields of the nodes with the new offsets of their blocks."""
        fields = self.fields.copy()
        fields[:, layout.OFFSET] = self._places
        fields[:, layout.LINK] = layout.ANYBODYS
        return fields

    def write(self, nodes: cp.ndarray, control: np.ndarray) -> None:
        """Write the nodes to the beginning of a table, and update the control words on the host."""
        nodes.fill(0)
        nodes[: self.n] = self.placed()
        control[layout.N_NODES], control[layout.POOL_TOP], control[layout.N_OPEN] = self.n, self.n_words, self.n_open

    def numbers(self, nodes: np.ndarray) -> np.ndarray:
        """Return the new numbers of some nodes, on the host; negative numbers stay."""
        return np.where(nodes >= 0, cp.asnumpy(cp.searchsorted(self.live, cp.asarray(nodes))), nodes)


class SearchSession:
    """A search on the device that takes its roots in order. Roots that no warp has taken can be held back.

    A subclass implements `quantum`.

    Parameters
    ----------
    graph : NamedTuple
        The graph for kernels; its field `order` has the wanted roots, taken ones first.

    Attributes
    ----------
    n_quanta : int
    is_over : bool
    n_roots_taken : int
        Number of roots taken since the search began, or restarted with held-back roots.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.n_quanta, self.is_over = 0, False
        self.n_roots_taken, self._n_roots_before, self._n_wanted = 0, 0, int(graph.order.size)
        self._seconds = 0.0

    def quantum(self) -> Any:
        """Search for one quantum and return the results."""
        raise NotImplementedError

    def make_room(self) -> None:
        """Make room after a quantum that ended early, once its results have been taken."""

    @property
    def n_roots_done(self) -> int:
        """Number of finished roots among the roots counted by `n_roots_taken`."""
        return self.n_roots_taken

    @property
    def share(self) -> float:
        """Share of finished roots."""
        return (self._n_roots_before + self.n_roots_done) / max(1, self._n_wanted)

    def roots_ahead(self) -> np.ndarray:
        """Return the roots that no warp has taken, in order; (n,) int32, on the host."""
        return cp.asnumpy(self._graph.order[self.n_roots_taken :])

    def replace_roots(self, roots: np.ndarray) -> None:
        """Replace the roots ahead by these, in this order; called between two quanta."""
        self._set_order(self._graph.order[: self.n_roots_taken], roots)

    def restart(self, roots: np.ndarray) -> None:
        """Begin the held-back roots, in this order. All others must be finished, and their results taken."""
        self._n_roots_before += self.n_roots_taken
        self.n_roots_taken, self.is_over = 0, False
        self._set_order(self._graph.order[:0], roots)

    def _set_order(self, taken: cp.ndarray, roots: np.ndarray) -> None:
        """Make these roots follow the taken ones. Kernels need a non-empty array: one root counted as taken if none."""
        order = cp.concatenate([taken, cp.asarray(roots, cp.int32)])
        if order.size == 0:
            order, self.n_roots_taken = cp.zeros(1, cp.int32), 1
        self._graph = self._graph._replace(order=order)


class PoolSession(SearchSession):
    """A search with a pool of open nodes. A subclass sets `_warps` and `_device`.

    Parameters
    ----------
    graph, plan
        The graph to search, and the memory plan.
    budget_bytes : int
        Limit on device memory when growing.
    kernel : CUDA kernel
    n_layout : int

    Attributes
    ----------
    unfinished : (n,) integers
        Roots with open work below them, as far as the session knows; on the host.
    """

    _warps: Any
    _device: Any
    _form: Any = None
    unfinished = np.empty(0, np.int64)

    def __init__(self, graph: Any, plan: PoolPlan, budget_bytes: int, kernel: Any, n_layout: int) -> None:
        super().__init__(graph)
        self._plan: Any = plan
        self._budget, self._kernel = budget_bytes, kernel
        self._control = np.zeros(n_layout, np.int64)
        self._stop_word: WordsBeside | None = None

    def _settings(self) -> np.ndarray:
        """Return the settings for kernels from the plan."""
        raise NotImplementedError

    def _new_words(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Allocate control words and settings together, so that one copy sets both before a quantum."""
        n_control = self._control.size
        self._shared = cp.empty(n_control + self._settings().size, cp.int64)
        return self._shared[:n_control], self._shared[n_control:]

    def _bundles(self) -> tuple[Any, ...]:
        """Return the arguments of the kernel."""
        return self._graph, self._warps, self._device

    def _new_state(self, *others: tuple[tuple[int, ...], Any]) -> list[cp.ndarray]:
        """Return the state of warps without a task, and other arrays of zeros with these shapes and types."""
        state = cp.zeros((self._plan.n_warps, layout.STATE_FIELDS), cp.int64)
        state[:, layout.PENDING_NODE] = layout.NOTHING
        return [state, *(cp.zeros(shape, kind) for shape, kind in others)]

    def _new_pool(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Allocate the plan's words and nodes, without any node."""
        plan = self._plan
        return cp.empty(plan.all_words, cp.uint32), cp.zeros((plan.all_nodes, layout.NODE_FIELDS), cp.int64)

    def _move_together(self, kept: KeptNodes, plan: Any, room: int) -> None:
        """Move nodes to the beginning of the table, and their words to the beginning of the pool, in the plan's sizes.

        Parameters
        ----------
        kept : KeptNodes
        plan : PoolPlan
        room : int
            As in `KeptNodes.slide`. If the pool is replaced, all words are copied twice, and exist twice meanwhile.
        """
        if self._has_same_pool(plan):
            kept.slide(self._device.words, room)
            self._plan = plan
        else:
            moved = cp.empty(kept.n_words, cp.uint32)
            kept.copy(self._device.words, moved)
            self._replace_pool(plan)
            self._device.words[: kept.n_words] = moved
        kept.write(self._device.nodes, self._control)

    def _has_same_pool(self, plan: Any) -> bool:
        return (plan.all_words, plan.all_nodes) == (self._plan.all_words, self._plan.all_nodes)

    def _replace_pool(self, plan: Any) -> None:
        """Allocate the pool and table of another plan; the old ones are freed first, and their contents lost."""
        if self._has_same_pool(plan):
            return
        self._device = self._device._replace(words=None, nodes=None)
        self._plan = plan
        words, nodes = self._new_pool()
        self._device = self._device._replace(words=words, nodes=nodes)

    @property
    def statistics(self) -> dict[str, int]:
        """Statistics of the quanta, for benchmarks and tests."""
        totals = cp.asnumpy(self._warps.state.sum(axis=0))
        return {
            "visited": int(totals[layout.N_VISITED]),
            "pieces": int(totals[layout.N_WIDE_NODES]),
            "idle_ns": int(totals[layout.IDLE_NS]),
            "piece_ns": int(totals[layout.SETUP_NS]),
            "kernel_us": round(1e6 * self._seconds),
            "quanta": self.n_quanta,
            "nodes": int(self._control[layout.N_NODES]),
            "pool_words": int(self._control[layout.POOL_TOP]),
            "warps": self._plan.n_warps,
            "plan_bytes": self._plan.total_bytes,
        }

    def restart(self, roots: np.ndarray) -> None:
        """Restart as in `SearchSession.restart`; any work in progress is dropped."""
        super().restart(roots)
        # Clear the ends: a node without an end counts as being written.
        self._device.nodes.fill(0)
        self._warps.state[:, layout.PENDING_NODE] = layout.NOTHING
        for word in (layout.N_NODES, layout.POOL_TOP, layout.N_OPEN):
            self._control[word] = 0

    def _set_order(self, taken: cp.ndarray, roots: np.ndarray) -> None:
        super()._set_order(taken, roots)
        if taken.size == 0:
            self._control[layout.NEXT_ROOT] = self.n_roots_taken

    @property
    def n_open(self) -> int:
        """Number of nodes with children left."""
        return int(self._control[layout.N_OPEN])

    @property
    def capacity(self) -> Capacity:
        """Capacity for another device's work, when none is in progress here."""
        return Capacity(self._plan.pool_words // 2, self._plan.n_nodes // 2, self._form)

    def give_nodes(self, capacities: Sequence[Capacity]) -> list[tuple[cp.ndarray, cp.ndarray] | None]:
        """Give children of open nodes to each of several other devices; called between two quanta.

        Returns
        -------
        list of (nodes, words) or None
            The nodes, with offsets into these words, on this device.
        """
        nodes = self._device.nodes[: int(self._control[layout.N_NODES])]
        cursors, ends, sizes = cp.asnumpy(nodes[:, [layout.CURSOR, layout.END, layout.WORDS]]).T
        # Half of the remaining memory: transfers stay until they are copied, and the pool may grow meanwhile.
        spare = max(0, self._budget - self._plan.total_bytes) // 8 // len(capacities)
        room = [(min(each.words, spare) if each.form == self._form else 0, each.nodes) for each in capacities]
        given = shares(cursors, ends, whole_lines(sizes), room)
        copies = [self._copied(share) if share else None for share in given]
        changed, new_ends, is_closed = left_over(given, cursors, ends)
        nodes[cp.asarray(changed), layout.END] = cp.asarray(new_ends)
        nodes[cp.asarray(changed[is_closed]), layout.CURSOR] = cp.asarray(new_ends[is_closed])
        self._control[layout.N_OPEN] -= is_closed.sum()
        # Other devices copy the work without waiting for this device's stream.
        wait_for_device()
        return copies

    def _copied(self, share: Sequence[tuple[int, int, int]]) -> tuple[cp.ndarray, cp.ndarray]:
        """Copy nodes with some of their children, and their blocks."""
        numbers, firsts, ends = cp.asarray(np.array(share).T)
        nodes = self._device.nodes[numbers]
        nodes[:, layout.CURSOR], nodes[:, layout.END] = firsts, ends
        kept = KeptNodes(nodes, np.empty(0, np.int64), int(self._control[layout.POOL_TOP]))
        words = cp.empty(kept.n_words, cp.uint32)
        kept.copy(self._device.words, words)
        return kept.placed(), words

    def take_in(self, transfer: WorkTransfer) -> None:
        """Begin with work from another device; this one must have none in progress."""
        self.restart(transfer.roots)
        if transfer.nodes is not None:
            n, n_words = len(transfer.nodes), int(transfer.words.size)
            copied_from(
                (self._device.words[:n_words], transfer.words),
                (self._device.nodes[:n], transfer.nodes),
            )
            self._control[layout.N_NODES] = self._control[layout.N_OPEN] = n
            self._control[layout.POOL_TOP] = n_words

    def rehearse(self) -> None:
        """Transfer a dummy node to itself, to load all code for transfers; `restart` drops the node.

        Otherwise CuPy might compile at the first transfer, and other devices would wait tenths of a second.
        """
        key = str(self._device.nodes.device), type(self)
        if key in _REHEARSED:
            return
        nodes = cp.zeros((1, layout.NODE_FIELDS), cp.int64)
        nodes[0, layout.WORDS], nodes[0, layout.END] = LINE_WORDS, 4
        none = np.empty(0, np.int64)
        self.take_in(WorkTransfer(none, nodes, cp.zeros(LINE_WORDS, cp.uint32)))
        self.give_nodes([self.capacity])
        _REHEARSED.add(key)

    def let_stop(self) -> None:
        """Allow `stop_soon` to end quanta."""
        # Write the low half of the status.
        self._stop_word = WordsBeside(self._device.control.view(cp.int32), {2 * layout.STATUS: layout.TIME_OVER})

    def stop_soon(self) -> None:
        """End the running quantum early; callable from any thread. Between two quanta it does nothing."""
        assert self._stop_word is not None
        self._stop_word.write()

    def _run(self, *words: int) -> None:
        """Launch a quantum, with these additional control words set to zero."""
        for word in (layout.STATUS, layout.LOW_NODE, layout.N_IDLE, layout.NEEDED, *words):
            self._control[word] = 0
        upload(np.concatenate([self._control, self._settings()]), self._shared)
        began = time.perf_counter()
        launch_blocks(self._kernel, self._plan.n_blocks, THREADS, *self._bundles())
        if self._stop_word is not None:
            # This wait leaves the driver free for the thread that stops the quantum.
            wait_for_device()
        self._control = cp.asnumpy(self._device.control).copy()
        self._seconds += time.perf_counter() - began
        self.n_quanta += 1


@dataclass(frozen=True, slots=True, eq=False)
class Quantum(Generic[What]):
    """Results of a quantum.

    Attributes
    ----------
    found
    share : float
        Share of the work done.
    remaining : tuple of Task or OpenWork, or None
        The remaining work, in a quantum without results that marks a barrier.
    """

    found: What
    share: float
    remaining: Remaining | None = None


class HeldSearch(Generic[What]):
    """Runs a session quantum by quantum; its roots can be held back (`barriers.HoldsRoots`).

    It holds device memory for its lifetime. A subclass maps the roots of tasks to those of the session.

    Parameters
    ----------
    session : SearchSession
    budget : int
        Budget of device memory, in bytes.

    Attributes
    ----------
    can_save : bool
        True if it can save open nodes (`SavingSearch`).
    works : sequence of dict
        Saved work to begin with (`resume`).
    """

    can_save = False
    works: Sequence[Any] = ()

    def __init__(self, session: Any, budget: int) -> None:
        self.session, self.budget = session, budget

    @property
    def costs(self) -> np.ndarray:
        """Expected work below each root."""
        raise NotImplementedError

    @property
    def work_below(self) -> np.ndarray:
        """Expected work below each root of the session, by number."""
        return self.costs

    def _ahead(self) -> np.ndarray | None:
        """Return the roots that have not begun; None if no barrier is needed."""
        raise NotImplementedError

    def _vertices(self, roots: np.ndarray) -> np.ndarray:
        """Return the vertices of the session for these roots of tasks."""
        return roots

    def roots_of(self, vertices: np.ndarray) -> np.ndarray:
        """Return the roots of tasks for these vertices of the session."""
        return vertices

    def _share(self) -> float:
        """Return the share of the work done."""
        return MOST_DONE * self.session.share

    def remaining(self, roots: np.ndarray) -> tuple[Task, ...]:
        """Return the tasks that consist of these roots. After a first call it needs no device."""
        raise NotImplementedError

    def quanta(self) -> Iterator[Quantum[What]]:
        """Yield the results, quantum by quantum; the caller takes the results of one before the next begins."""
        while not self.session.is_over:
            with device_work(self.budget):
                found = self.session.quantum()
            yield Quantum(found, self._share())
            if not self.session.is_over:
                with device_work(self.budget):
                    self.session.make_room()

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the roots ahead, as in `HoldsRoots`; this also applies to the methods below."""
        with device_work(self.budget):
            roots = self._ahead()
            return None if roots is None else (roots, self.costs[roots])

    def replace_roots(self, roots: np.ndarray) -> None:
        """Replace the roots ahead by these, in this order."""
        with device_work(self.budget):
            self.session.replace_roots(self._vertices(roots))

    def restart(self, roots: np.ndarray) -> None:
        """Begin the held-back roots, if there are any."""
        if roots.size:
            with device_work(self.budget):
                self.session.restart(self._vertices(roots))

    def saved(self, held: np.ndarray) -> Quantum[Any] | None:  # noqa: ARG002 - the seam's signature
        """Return None: this search does not save open nodes."""
        return None

    def marker(self, roots: np.ndarray) -> Quantum[Any]:
        """Return the marker of a barrier."""
        with device_work(self.budget):
            return Quantum(None, self._share(), self.remaining(roots))


class SavingSearch(HeldSearch[What]):
    """A search that saves its open nodes; its session has the methods `saved` and `load`.

    Parameters
    ----------
    session : PoolSession
    budget : int
    roots : callable
        Returns the roots of tasks.
    form : str
        As in `OpenWork.form`; empty if this search cannot save.
    most_saved : int
        Most bytes of saved work.
    """

    def __init__(self, session: Any, budget: int, roots: Callable[[], Roots], form: str, most_saved: int) -> None:
        super().__init__(session, budget)
        self._identity, self._form, self._most_saved, self.can_save = roots, form, most_saved, form != ""

    def resume(self, works: Sequence[saved_work.Arrays], roots: np.ndarray | None = None) -> None:
        """Begin with saved works, and with other roots of the session."""
        work = saved_work.merged(works)
        if roots is not None:
            work["order"] = np.concatenate([work["order"], roots.astype(np.int32)])
        with device_work(self.budget):
            self.session.load(work)

    def saved(self, held: np.ndarray) -> Quantum[Any] | None:
        """Save the work as in `HoldsRoots`."""
        begun = time.perf_counter()
        work = None if self.session.is_over or not self.can_save else self.work_in_progress()
        if work is None:
            return None
        work["order"] = np.concatenate([work["order"], self._vertices(held).astype(np.int32)])
        return Quantum(None, self._share(), self.open_work([work], time.perf_counter() - begun))

    def work_in_progress(self) -> saved_work.Arrays | None:
        """Copy all work to the host; None if it is too large."""
        with device_work(self.budget):
            return self.session.saved(self._most_saved)

    def open_work(self, works: Sequence[saved_work.Arrays], seconds: float) -> tuple[OpenWork, ...]:
        """Return these works as the rest of the search. It needs no device if `remaining` was called before."""
        return (OpenWork(self._identity(), self._form, saved_work.merged(works), seconds),)
