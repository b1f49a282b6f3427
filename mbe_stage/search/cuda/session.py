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

from mbe_stage.device import whole_lines
from mbe_stage.device.arrays import kernel_bundles, upload
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

    Attributes
    ----------
    live : (n,) int64, on the host
        The numbers of the nodes, ascending.
    fields : (n, NODE_FIELDS) int64
        A copy of the nodes. `write` changes where their blocks begin.
    n, n_words : int
        Number of nodes, and of words of their blocks. Blocks begin on cache lines; entries of one frame's stack share
        one.
    """

    def __init__(self, nodes: cp.ndarray, pending: np.ndarray) -> None:
        is_kept = nodes[:, layout.CURSOR] < nodes[:, layout.END]
        is_kept[cp.asarray(pending[pending >= 0])] = True
        kept = cp.flatnonzero(is_kept)
        self.live, self.fields = cp.asnumpy(kept), nodes[kept]
        blocks = cp.asnumpy(self.fields[:, [layout.OFFSET, layout.WORDS]])
        self._starts, first, block_of = np.unique(blocks[:, 0], return_index=True, return_inverse=True)
        self._sizes, self._block_of = blocks[first, 1], block_of.reshape(-1)
        self._ends = np.cumsum(whole_lines(self._sizes))
        self._places = self._ends - whole_lines(self._sizes)
        self.n, self.n_words = self.live.size, int(self._ends[-1]) if self._ends.size else 0

    def copy(self, words: cp.ndarray, target: cp.ndarray, first: int = 0, stop: int | None = None) -> None:
        """Copy some blocks, by default all, to the beginning of another array, contiguously."""
        starts, sizes, places = self._starts[first:stop], self._sizes[first:stop], self._places[first:stop]
        copy_pieces(words.view(cp.int32), starts, sizes, target.view(cp.int32), places - places[:1])

    def slide(self, words: cp.ndarray, room: int) -> None:
        """Move all blocks to the beginning of their pool. No block moves towards the end, so none is overwritten.

        Parameters
        ----------
        words : uint32
        room : int
            Words of device memory available for this, at least the size of the largest block.
        """
        is_elsewhere = self._starts != self._places
        first = int(np.argmax(is_elsewhere)) if is_elsewhere.any() else self._ends.size
        while first < self._ends.size:
            place = int(self._places[first])
            stop = max(first + 1, int(np.searchsorted(self._ends, place + room, side="right")))
            together = cp.empty(int(self._ends[stop - 1]) - place, cp.uint32)
            self.copy(words, together, first, stop)
            words[place : int(self._ends[stop - 1])] = together
            first = stop

    def write(self, nodes: cp.ndarray, control: np.ndarray) -> None:
        """Write the nodes to the beginning of a table, and their number into the control words on the host."""
        self.fields[:, layout.OFFSET] = cp.asarray(self._places[self._block_of])
        self.fields[:, layout.LINK] = layout.ANYBODYS
        nodes.fill(0)
        nodes[: self.n] = self.fields
        control[layout.N_NODES], control[layout.POOL_TOP] = self.n, self.n_words
        control[layout.N_OPEN] = int((self.fields[:, layout.CURSOR] < self.fields[:, layout.END]).sum())

    def numbers(self, nodes: np.ndarray) -> np.ndarray:
        """Return the new numbers of some nodes; numbers below 0 stay."""
        return np.where(nodes >= 0, np.searchsorted(self.live, nodes), nodes)


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

    def _bundles(self) -> tuple[Any, ...]:
        """Return the arguments of the kernel."""
        return self._graph, self._warps, self._device

    def _new_state(self) -> cp.ndarray:
        """Return the state of warps without a task."""
        state = cp.zeros((self._plan.n_warps, layout.STATE_FIELDS), cp.int64)
        state[:, layout.PENDING_NODE] = layout.NOTHING
        return state

    def _new_pool(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Allocate words and nodes of the plan, without a node in them."""
        plan = self._plan
        return cp.empty(plan.all_words, cp.uint32), cp.zeros((plan.all_nodes, layout.NODE_FIELDS), cp.int64)

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
        upload(self._control, self._device.control)
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
