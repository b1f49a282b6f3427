"""Run a search of a core in quanta with barriers, and turn the remaining rows of all searches into tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from mbe_stage.pq_counts.cuda.searches import AllocatedSearch, CoreInParts, WholeCore
from mbe_stage.pq_counts.cuda.session import Counted
from mbe_stage.search.cuda.barriers import tasks_from
from mbe_stage.search.cuda.saved_work import Arrays
from mbe_stage.search.cuda.session import MOST_DONE, SavingSearch
from mbe_stage.tasks import Roots, Task


class RowTasks:
    """Turns rows of a core into tasks. Root ``k + 1`` is row ``k``; root 0 stands for the counts known from degrees.

    Parameters
    ----------
    core : WholeCore or CoreInParts
    roots : callable
        Function that returns the identity of the roots; called once, and only if there is a barrier.
    wanted : (n,) int64 or None
        The wanted rows, ascending; None for all.
    """

    def __init__(self, core: WholeCore | CoreInParts, roots: Callable[[], Roots], wanted: np.ndarray | None) -> None:
        self._core, self._roots, self._wanted = core, roots, wanted

    @cached_property
    def identity(self) -> Roots:
        """The roots of tasks."""
        return self._roots()

    @property
    def form(self) -> str:
        """The form of saved work; empty if the search cannot save."""
        return self._core.form if isinstance(self._core, WholeCore) else ""

    @cached_property
    def costs(self) -> np.ndarray:
        """Expected work below each row, as in the engine `cpu`, (n_rows,) float64."""
        return (self._core.paths + 1.0) ** 1.5

    def before(self, row: int) -> np.ndarray:
        """Return the wanted rows before a row."""
        return np.arange(row) if self._wanted is None else self._wanted[self._wanted < row]

    def of(self, rows: np.ndarray) -> tuple[Task, ...]:
        """Return tasks for some rows, ascending."""
        return tasks_from(rows, self.identity, self.costs, 1)


class Counting(SavingSearch[Counted]):
    """Runs a search; knows the rows of later searches, too. Roots are rows.

    Parameters
    ----------
    search : AllocatedSearch
    tasks : RowTasks or None
        None if barriers are not requested.
    budget : int
        Bytes of device memory.
    most_saved : int
        Most bytes of saved work.
    works : sequence of dict
        Saved work to begin with, checked.
    """

    def __init__(
        self, search: AllocatedSearch, tasks: RowTasks | None, budget: int, most_saved: int, works: Sequence[Arrays]
    ) -> None:
        form = "" if tasks is None else tasks.form
        super().__init__(search.session, budget, lambda: self._rows.identity, form, most_saved)
        self._search, self._tasks, self.works = search, tasks, works

    @property
    def _rows(self) -> RowTasks:
        assert self._tasks is not None
        return self._tasks

    @property
    def costs(self) -> np.ndarray:
        """Expected work below each row."""
        return self._rows.costs

    def _ahead(self) -> np.ndarray | None:
        rows = self.session.roots_ahead()
        has_barriers = self._tasks is not None and self.session.n_roots_taken > 0
        return rows if has_barriers and (rows.size > 0 or self._search.n_rows_later > 0) else None

    def _share(self) -> float:
        return MOST_DONE * (self._search.before + self._search.share * self.session.share)

    def remaining(self, roots: np.ndarray) -> tuple[Task, ...]:
        """Return the tasks for these rows and for the rows of later searches."""
        return self._rows.of(np.concatenate([roots, self._rows.before(self._search.n_rows_later)]))
