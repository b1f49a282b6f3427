"""One search of a core as quanta, whose roots can be held back, and what is left of all searches as tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mbe_stage.device.held_roots import ranges_from
from mbe_stage.device.memory_budget import device_work
from mbe_stage.pq_counts.cuda.searches import CoreInParts, Search, WholeCore
from mbe_stage.pq_counts.cuda.session import Counted
from mbe_stage.tasks import Roots, Task

__all__ = ["Counting", "Found", "RowTasks"]

_MOST_DONE = 0.999


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a quantum found.

    Attributes
    ----------
    counted : Counted or None
    share : float
        Of the work of all searches that is done.
    remaining : tuple of Task or None
        Where `counted` is None, which marks a barrier: what is left.
    """

    counted: Counted | None
    share: float
    remaining: tuple[Task, ...] | None = None


class RowTasks:
    """Rows of a core as tasks: the root of each stands behind one, of what is known without a search.

    Parameters
    ----------
    core : WholeCore or CoreInParts
    roots : callable
        Gives the identity of the roots; it is asked once, and not before there is a barrier.
    wanted : (n,) int64 or None
        The rows that are wanted, ascending; None for all.
    """

    def __init__(self, core: WholeCore | CoreInParts, roots: Callable[[], Roots], wanted: np.ndarray | None) -> None:
        self._core, self._roots, self._wanted = core, roots, wanted

    @cached_property
    def _identity(self) -> Roots:
        return self._roots()

    @cached_property
    def costs(self) -> np.ndarray:
        """Work expected below each row, as the engine `cpu` has it, (n_rows,) float64."""
        return (self._core.paths + 1.0) ** 1.5

    def before(self, row: int) -> np.ndarray:
        """The rows that are wanted before one."""
        return np.arange(row) if self._wanted is None else self._wanted[self._wanted < row]

    def of(self, rows: np.ndarray) -> tuple[Task, ...]:
        """Some rows as tasks, ascending."""
        return tuple(
            Task(self._identity, first + 1, end + 1, float(self.costs[first:end].sum()))
            for first, end in ranges_from(rows)
        )


class Counting:
    """A search, and what follows it (`mbe_stage.device.held_roots.HoldsRoots`; roots are rows).

    Parameters
    ----------
    search : Search
    tasks : RowTasks or None
        None where nobody asks for barriers.
    budget : int
        Bytes of device memory.
    """

    def __init__(self, search: Search, tasks: RowTasks | None, budget: int) -> None:
        self.session = search.session
        self._search, self._tasks, self._budget = search, tasks, budget
        self._is_over = False

    def quanta(self) -> Iterator[Found]:
        """What each quantum counts."""
        while not self._is_over:
            with device_work(self._budget):
                self._is_over, counted = self.session.quantum()
            yield Found(counted, self._share())

    def roots_ahead(self) -> tuple[np.ndarray, np.ndarray] | None:
        """As `HoldsRoots` says; none where only later searches are left behind a barrier."""
        rows = self.session.roots_ahead()
        if (
            self._tasks is None
            or self.session.n_roots_taken == 0
            or (rows.size == 0 and self._search.n_rows_later == 0)
        ):
            return None
        return rows, self._tasks.costs[rows]

    def replace_roots(self, roots: np.ndarray) -> None:
        """Have these begun in the place of those ahead."""
        with device_work(self._budget):
            self.session.replace_roots(roots)

    def restart(self, roots: np.ndarray) -> None:
        """Begin with rows that were held back, if there are any."""
        if roots.size:
            with device_work(self._budget):
                self.session.restart(roots)
            self._is_over = False

    def marker(self, roots: np.ndarray) -> Found:
        """What marks a barrier: these rows are left, and those of later searches."""
        assert self._tasks is not None
        left = np.concatenate([roots, self._tasks.before(self._search.n_rows_later)])
        return Found(None, self._share(), self._tasks.of(left))

    def _share(self) -> float:
        search = self._search
        return _MOST_DONE * (search.before + search.share * self.session.share_taken)
