"""The host's side of a search on a device: roots in turn, quanta, pool, and barriers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import cupy as cp
import numpy as np

from mbe_stage.device.arrays import kernel_bundles, upload
from mbe_stage.device.grid import THREADS, on_grid
from mbe_stage.device.memory_budget import device_work
from mbe_stage.search.cuda import control as at
from mbe_stage.search.cuda.plan import PoolPlan
from mbe_stage.tasks import Task

MOST_DONE = 0.999
"""The share of the work that is told before the end."""
What = TypeVar("What")


class SearchSession:
    """A search on the device, whose roots are taken in turn; those that nobody has taken can be held back.

    A subclass has `quantum`, which works for a while and returns what it found.

    Parameters
    ----------
    graph : NamedTuple
        As kernels read it; `order` has the roots that are wanted. Those that have been taken stand first.

    Attributes
    ----------
    n_quanta : int
    is_over : bool
    n_roots_taken : int
        Since the search began, or began again with those that were held back.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.n_quanta, self.is_over = 0, False
        self.n_roots_taken, self._n_roots_before, self._n_wanted = 0, 0, int(graph.order.size)
        self._seconds = 0.0

    def quantum(self) -> Any:
        """Work for a while; what was found."""
        raise NotImplementedError

    def make_room(self) -> None:
        """After a quantum that ended early, when what it found has been taken."""

    @property
    def n_roots_done(self) -> int:
        """Roots that count as finished, of those that `n_roots_taken` counts."""
        return self.n_roots_taken

    @property
    def share(self) -> float:
        """Of the roots, which are finished."""
        return (self._n_roots_before + self.n_roots_done) / max(1, self._n_wanted)

    def roots_ahead(self) -> np.ndarray:
        """The roots that no warp has taken, in the order in which they are to be; (n,) int32, on the host."""
        return cp.asnumpy(self._graph.order[self.n_roots_taken :])

    def replace_roots(self, roots: np.ndarray) -> None:
        """Have these taken, in this order, in the place of those ahead; between two quanta."""
        taken = self._graph.order[: self.n_roots_taken]
        self._graph = self._graph._replace(order=cp.concatenate([taken, cp.asarray(roots, cp.int32)]))

    def restart(self, roots: np.ndarray) -> None:
        """Begin with roots that were held back, in this order; the search of all others is over and was taken."""
        self._n_roots_before += self.n_roots_taken
        self._graph, self.n_roots_taken = self._graph._replace(order=cp.asarray(roots, cp.int32)), 0
        self.is_over = False


class PoolSession(SearchSession):
    """A search with a pool of open nodes; a subclass makes `_warps` and `_device`.

    Parameters
    ----------
    graph, plan
        What is searched, and its memory.
    budget_bytes : int
        What growing may not exceed.
    kernel : CUDA kernel
    n_control_words : int
    """

    _warps: Any
    _device: Any

    def __init__(self, graph: Any, plan: PoolPlan, budget_bytes: int, kernel: Any, n_control_words: int) -> None:
        super().__init__(graph)
        self._plan: Any = plan
        self._budget, self._kernel = budget_bytes, kernel
        self._control = np.zeros(n_control_words, np.int64)

    def _settings(self) -> np.ndarray:
        """What kernels are told of the plan."""
        raise NotImplementedError

    def _bundles(self) -> tuple[Any, ...]:
        """The arguments of the kernel."""
        return self._graph, self._warps, self._device

    def _new_state(self) -> cp.ndarray:
        """The state of warps that have nothing in their hands."""
        state = cp.zeros((self._plan.n_warps, at.STATE_FIELDS), cp.int64)
        state[:, at.PENDING_NODE] = at.NOTHING
        return state

    def _new_pool(self) -> tuple[cp.ndarray, cp.ndarray]:
        """Words and nodes of the plan, where there are no nodes yet."""
        plan = self._plan
        return cp.empty(plan.all_words, cp.uint32), cp.zeros((plan.all_nodes, at.NODE_FIELDS), cp.int64)

    @property
    def statistics(self) -> dict[str, int]:
        """What the quanta did, for benchmarks and tests."""
        totals = cp.asnumpy(self._warps.state.sum(axis=0))
        return {
            "visited": int(totals[at.N_VISITED]),
            "pieces": int(totals[at.N_PIECES]),
            "idle_ns": int(totals[at.IDLE_NS]),
            "piece_ns": int(totals[at.PIECE_NS]),
            "kernel_us": round(1e6 * self._seconds),
            "quanta": self.n_quanta,
            "nodes": int(self._control[at.N_NODES]),
            "pool_words": int(self._control[at.POOL_TOP]),
            "warps": self._plan.n_warps,
            "plan_bytes": self._plan.total_bytes,
        }

    def restart(self, roots: np.ndarray) -> None:
        """As `SearchSession.restart`; nodes whose children are all taken go."""
        super().restart(roots)
        # A node that has no end is taken for one that is being written.
        self._device.nodes.fill(0)
        for word in (at.NEXT_ROOT, at.N_NODES, at.POOL_TOP, at.N_OPEN):
            self._control[word] = 0

    def _run(self, *words: int) -> None:
        """Launch a quantum, with these control words as zeros too."""
        for word in (at.STATUS, at.LOW_NODE, at.N_IDLE, at.NEEDED, *words):
            self._control[word] = 0
        upload(self._control, self._device.control)
        began = time.perf_counter()
        on_grid(self._kernel, self._plan.n_blocks, THREADS)(*kernel_bundles(self._kernel, *self._bundles()))
        self._control = cp.asnumpy(self._device.control).copy()
        self._seconds += time.perf_counter() - began
        self.n_quanta += 1


@dataclass(frozen=True, slots=True, eq=False)
class Quantum(Generic[What]):
    """What a quantum found.

    Attributes
    ----------
    found
    share : float
        Of the work that is done.
    remaining : tuple of Task or None
        Of one that marks a barrier, where nothing was found: the tasks that are left.
    """

    found: What
    share: float
    remaining: tuple[Task, ...] | None = None


class HeldSearch(Generic[What]):
    """A session quantum by quantum, whose roots can be held back (`barriers.HoldsRoots`).

    It holds device memory as long as it is there. A subclass says which roots tasks know the session's by.

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
        """Work expected below each root."""
        raise NotImplementedError

    def _ahead(self) -> np.ndarray | None:
        """The roots that nobody has begun; None where there is no need of a barrier."""
        raise NotImplementedError

    def _vertices(self, roots: np.ndarray) -> np.ndarray:
        """The vertices that the session knows roots by."""
        return roots

    def _share(self) -> float:
        """Of the work that is done."""
        return MOST_DONE * self.session.share

    def _remaining(self, roots: np.ndarray) -> tuple[Task, ...]:
        """The tasks that are left where some roots are."""
        raise NotImplementedError

    def quanta(self) -> Iterator[Quantum[What]]:
        """The work, quantum by quantum; what one found has been taken when the next is asked for."""
        while not self.session.is_over:
            with device_work(self._budget):
                found = self.session.quantum()
            yield Quantum(found, self._share())
            if not self.session.is_over:
                with device_work(self._budget):
                    self.session.make_room()

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """As `HoldsRoots` says, as all that follows."""
        with device_work(self._budget):
            roots = self._ahead()
            return None if roots is None else (roots, self.costs[roots])

    def replace_roots(self, roots: np.ndarray) -> None:
        """Have these begun in the place of those ahead."""
        with device_work(self._budget):
            self.session.replace_roots(self._vertices(roots))

    def restart(self, roots: np.ndarray) -> None:
        """Begin with roots that were held back, if there are any."""
        if roots.size:
            with device_work(self._budget):
                self.session.restart(self._vertices(roots))

    def marker(self, roots: np.ndarray) -> Quantum[Any]:
        """What marks a barrier."""
        return Quantum(None, self._share(), self._remaining(roots))
