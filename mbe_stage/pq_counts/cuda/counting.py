"""One search of a core as quanta, whose roots can be held back, and what is left of all searches as tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from mbe_stage.pq_counts.cuda.searches import CoreInParts, Search, WholeCore
from mbe_stage.pq_counts.cuda.session import Counted
from mbe_stage.search.cuda.barriers import tasks_from
from mbe_stage.search.cuda.session import MOST_DONE, HeldSearch
from mbe_stage.tasks import Roots, Task


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
        return tasks_from(rows, self._identity, self.costs, 1)


class Counting(HeldSearch[Counted]):
    """A search, and what follows it; roots are rows.

    Parameters
    ----------
    search : Search
    tasks : RowTasks or None
        None where nobody asks for barriers.
    budget : int
        Bytes of device memory.
    """

    def __init__(self, search: Search, tasks: RowTasks | None, budget: int) -> None:
        super().__init__(search.session, budget)
        self._search, self._tasks = search, tasks

    @property
    def costs(self) -> np.ndarray:
        """Work expected below each row."""
        assert self._tasks is not None
        return self._tasks.costs

    def _ahead(self) -> np.ndarray | None:
        rows = self.session.roots_ahead()
        has_barriers = self._tasks is not None and self.session.n_roots_taken > 0
        return rows if has_barriers and (rows.size > 0 or self._search.n_rows_later > 0) else None

    def _share(self) -> float:
        return MOST_DONE * (self._search.before + self._search.share * self.session.share)

    def _remaining(self, roots: np.ndarray) -> tuple[Task, ...]:
        """These rows are left, and those of later searches."""
        assert self._tasks is not None
        return self._tasks.of(np.concatenate([roots, self._tasks.before(self._search.n_rows_later)]))
