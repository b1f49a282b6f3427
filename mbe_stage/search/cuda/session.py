"""Host side of a search on a device: roots in order, quanta, the pool, and barriers.

Open nodes kept between two quanta, and how their words are moved together in the pool.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import cupy as cp
import numpy as np

from mbe_stage.device import LINE_WORDS, whole_lines
from mbe_stage.device.arrays import kernel_bundles, upload, zeros_together
from mbe_stage.device.copying import copy_pieces
from mbe_stage.device.grid import THREADS, on_grid
from mbe_stage.device.memory_budget import device_work
from mbe_stage.search.cuda import control as layout
from mbe_stage.search.cuda.plan import PoolPlan
from mbe_stage.tasks import Task

MOST_DONE = 0.999
"""Largest share of the work that is reported before the end."""
What = TypeVar("What")


class KeptNodes:
    """The nodes that have children left, or a child that a warp took and could not finish.

    Parameters
    ----------
    nodes : (n_nodes, NODE_FIELDS) int64
    pending : (n_warps,) int64, on the host
        Nodes whose child a warp has to start over; below 0 for none.
    n_words : int
        Words of the pool.

    Attributes
    ----------
    live : (n,) int64
        The numbers of the nodes, ascending.
    fields : (n, NODE_FIELDS) int64
        A copy of the nodes. `write` changes where their blocks begin.
    n, n_words : int
        Number of nodes, and of words of their blocks. Blocks begin on cache lines; entries of one frame's stack share
        one.
    """

    def __init__(self, nodes: cp.ndarray, pending: np.ndarray, n_words: int) -> None:
        is_kept = nodes[:, layout.CURSOR] < nodes[:, layout.END]
        n_open = is_kept.sum()
        is_kept[cp.asarray(pending[pending >= 0])] = True
        self.live = cp.flatnonzero(is_kept)
        self.fields, self.n = nodes[self.live], self.live.size
        self._starts, self._sizes = self.fields[:, layout.OFFSET], self.fields[:, layout.WORDS]
        # Cache lines of the block that begins at each line of the pool; several nodes may have the same block.
        lines = cp.zeros(n_words // LINE_WORDS, cp.int64)
        first = self._starts // LINE_WORDS
        lines[first] = whole_lines(self._sizes) // LINE_WORDS
        ends = cp.cumsum(lines)
        self._places = LINE_WORDS * (ends[first] - lines[first])
        self.n_words = LINE_WORDS * int(ends[-1])
        self._n_open = int(n_open)

    def copy(self, words: cp.ndarray, target: cp.ndarray) -> None:
        """Copy all blocks to the beginning of another array, contiguously."""
        copy_pieces(words.view(cp.int32), self._starts, self._sizes, target.view(cp.int32), self._places)

    def slide(self, words: cp.ndarray, room: int) -> None:
        """Move all blocks to the beginning of their pool. No block moves towards the end, so none is overwritten.

        Parameters
        ----------
        words : uint32
        room : int
            Words of device memory available for this, at least the size of the largest block.
        """
        if self.n_words <= room:
            moved = cp.empty(self.n_words, cp.uint32)
            self.copy(words, moved)
            words[: self.n_words] = moved
            return
        starts, sizes, places = np.unique(cp.asnumpy(cp.stack([self._starts, self._sizes, self._places])), axis=1)
        ends = places + whole_lines(sizes)
        is_elsewhere = starts != places
        first = int(np.argmax(is_elsewhere)) if is_elsewhere.any() else ends.size
        while first < ends.size:
            place = int(places[first])
            stop = max(first + 1, int(np.searchsorted(ends, place + room, side="right")))
            together, some = cp.empty(int(ends[stop - 1]) - place, cp.int32), slice(first, stop)
            copy_pieces(words.view(cp.int32), starts[some], sizes[some], together, places[some] - place)
            words[place : int(ends[stop - 1])] = together.view(cp.uint32)
            first = stop

    def write(self, nodes: cp.ndarray, control: np.ndarray) -> None:
        """Write the nodes to the beginning of a table, and their number into the control words on the host."""
        self.fields[:, layout.OFFSET] = self._places
        self.fields[:, layout.LINK] = layout.ANYBODYS
        nodes.fill(0)
        nodes[: self.n] = self.fields
        control[layout.N_NODES], control[layout.POOL_TOP], control[layout.N_OPEN] = self.n, self.n_words, self._n_open

    def numbers(self, nodes: np.ndarray) -> np.ndarray:
        """Return the new numbers of some nodes, on the host; numbers below 0 stay."""
        return np.where(nodes >= 0, cp.asnumpy(cp.searchsorted(self.live, cp.asarray(nodes))), nodes)


class SearchSession:
    """A search on the device that takes its roots in order. Roots that no warp has taken can be held back.

    A subclass has `quantum`, which works for a while and returns the results.

    Parameters
    ----------
    graph : NamedTuple
        The graph as kernels read it; `order` has the wanted roots. Taken roots stand first.

    Attributes
    ----------
    n_quanta : int
    is_over : bool
    n_roots_taken : int
        Since the search began, or restarted with the held-back roots.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.n_quanta, self.is_over = 0, False
        self.n_roots_taken, self._n_roots_before, self._n_wanted = 0, 0, int(graph.order.size)
        self._seconds = 0.0

    def quantum(self) -> Any:
        """Work for a while and return the results."""
        raise NotImplementedError

    def make_room(self) -> None:
        """Make room after a quantum that ended early, once its results are taken."""

    @property
    def n_roots_done(self) -> int:
        """Number of finished roots, among those that `n_roots_taken` counts."""
        return self.n_roots_taken

    @property
    def share(self) -> float:
        """Share of the roots that is finished."""
        return (self._n_roots_before + self.n_roots_done) / max(1, self._n_wanted)

    def roots_ahead(self) -> np.ndarray:
        """Return the roots that no warp has taken, in their order; (n,) int32, on the host."""
        return cp.asnumpy(self._graph.order[self.n_roots_taken :])

    def replace_roots(self, roots: np.ndarray) -> None:
        """Replace the roots ahead by these, in this order. Called between two quanta."""
        taken = self._graph.order[: self.n_roots_taken]
        self._graph = self._graph._replace(order=cp.concatenate([taken, cp.asarray(roots, cp.int32)]))

    def restart(self, roots: np.ndarray) -> None:
        """Begin the held-back roots, in this order. All others are finished, and their results taken."""
        self._n_roots_before += self.n_roots_taken
        self._graph, self.n_roots_taken = self._graph._replace(order=cp.asarray(roots, cp.int32)), 0
        self.is_over = False


class PoolSession(SearchSession):
    """A search with a pool of open nodes. A subclass makes `_warps` and `_device`.

    Parameters
    ----------
    graph, plan
        The searched graph, and the memory plan.
    budget_bytes : int
        Limit for growing.
    kernel : CUDA kernel
    n_layout : int
    """

    _warps: Any
    _device: Any

    def __init__(self, graph: Any, plan: PoolPlan, budget_bytes: int, kernel: Any, n_layout: int) -> None:
        super().__init__(graph)
        self._plan: Any = plan
        self._budget, self._kernel = budget_bytes, kernel
        self._control = np.zeros(n_layout, np.int64)

    def _settings(self) -> np.ndarray:
        """Return the settings that kernels read from the plan."""
        raise NotImplementedError

    def _new_words(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Allocate control words and settings; one copy sets both before a quantum."""
        n_control = self._control.size
        self._shared = cp.empty(n_control + self._settings().size, cp.int64)
        return self._shared[:n_control], self._shared[n_control:]

    def _bundles(self) -> tuple[Any, ...]:
        """Return the arguments of the kernel."""
        return self._graph, self._warps, self._device

    def _new_state(self, *others: tuple[tuple[int, ...], Any]) -> list[cp.ndarray]:
        """Return the state of warps without a task, and other arrays of zeros (`zeros_together`)."""
        state, *rest = zeros_together(((self._plan.n_warps, layout.STATE_FIELDS), np.int64), *others)
        state[:, layout.PENDING_NODE] = layout.NOTHING
        return [state, *rest]

    def _new_pool(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Allocate words and nodes of the plan, without a node in them."""
        plan = self._plan
        return cp.empty(plan.all_words, cp.uint32), cp.zeros((plan.all_nodes, layout.NODE_FIELDS), cp.int64)

    def _move_together(self, kept: KeptNodes, plan: Any, room: int) -> None:
        """Move nodes to the beginning of the table, and their words to that of the pool, in the plan's sizes.

        Parameters
        ----------
        kept : KeptNodes
        plan : PoolPlan
        room : int
            As in `KeptNodes.slide`. If the pool is replaced, all words exist twice meanwhile.
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
        """Allocate pool and table of another plan; the old ones are freed first, without keeping anything."""
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
        """Restart as in `SearchSession.restart`; nodes without children left are dropped."""
        super().restart(roots)
        # A node without an end counts as one that is being written.
        self._device.nodes.fill(0)
        for word in (layout.NEXT_ROOT, layout.N_NODES, layout.POOL_TOP, layout.N_OPEN):
            self._control[word] = 0

    def _run(self, *words: int) -> None:
        """Launch a quantum, with these further control words set to zero."""
        for word in (layout.STATUS, layout.LOW_NODE, layout.N_IDLE, layout.NEEDED, *words):
            self._control[word] = 0
        upload(np.concatenate([self._control, self._settings()]), self._shared)
        began = time.perf_counter()
        on_grid(self._kernel, self._plan.n_blocks, THREADS)(*kernel_bundles(self._kernel, *self._bundles()))
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
        Share of the work that is done.
    remaining : tuple of Task or None
        The remaining tasks, in a quantum without results that marks a barrier.
    """

    found: What
    share: float
    remaining: tuple[Task, ...] | None = None


class HeldSearch(Generic[What]):
    """Run a session quantum by quantum; its roots can be held back (`barriers.HoldsRoots`).

    It holds device memory for its lifetime. A subclass maps the roots of tasks to those of the session.

    Parameters
    ----------
    session : SearchSession
    budget : int
        Bytes of device memory.
    """

    def __init__(self, session: Any, budget: int) -> None:
        self.session, self._budget = session, budget

    @property
    def costs(self) -> np.ndarray:
        """Expected work below each root."""
        raise NotImplementedError

    def _ahead(self) -> np.ndarray | None:
        """Return the roots that have not begun; None if a barrier is not needed."""
        raise NotImplementedError

    def _vertices(self, roots: np.ndarray) -> np.ndarray:
        """Return the session's roots as vertices."""
        return roots

    def _share(self) -> float:
        """Share of the work that is done."""
        return MOST_DONE * self.session.share

    def _remaining(self, roots: np.ndarray) -> tuple[Task, ...]:
        """Return the tasks that consist of these roots."""
        raise NotImplementedError

    def quanta(self) -> Iterator[Quantum[What]]:
        """Yield the work, quantum by quantum. The results of one are taken before the next begins."""
        while not self.session.is_over:
            with device_work(self._budget):
                found = self.session.quantum()
            yield Quantum(found, self._share())
            if not self.session.is_over:
                with device_work(self._budget):
                    self.session.make_room()

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """As in `HoldsRoots`, like the methods below."""
        with device_work(self._budget):
            roots = self._ahead()
            return None if roots is None else (roots, self.costs[roots])

    def replace_roots(self, roots: np.ndarray) -> None:
        """Replace the roots ahead by these."""
        with device_work(self._budget):
            self.session.replace_roots(self._vertices(roots))

    def restart(self, roots: np.ndarray) -> None:
        """Begin the held-back roots, if there are any."""
        if roots.size:
            with device_work(self._budget):
                self.session.restart(self._vertices(roots))

    def marker(self, roots: np.ndarray) -> Quantum[Any]:
        """Return the marker of a barrier."""
        return Quantum(None, self._share(), self._remaining(roots))
