"""A ledger of leases of roots: every root is finished exactly once, even if workers are lost.

A worker borrows a range of roots for a while. It returns the results below the roots it finished, and the remaining
ranges. A lost worker returns nothing, and its roots are lent again. If a worker is late and no other roots are left,
its roots are lent to another worker as well, and the first results count. This module knows neither workers nor the
clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mbe_stage.errors import ClusterLost
from mbe_stage.tasks import Task

# A lease is this share of the open work divided by the number of workers: large ranges first, small ones at the end.
_SHARE = 0.5
# A lease is at least this share of all work divided by the number of workers. Starting a lease takes time, and so does
# ending it: a worker's threads wait for the one with the largest root.
_LEAST_SHARE = 1 / 16
# If so many workers are lost with the same range, the range is taken as the reason.
_MOST_LOST = 3


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of roots.

    Attributes
    ----------
    work : int
        Number of the work; leases with the same number are attempts at the same roots.
    since : float
        Start time in seconds, of any clock.
    """

    number: int
    work: int
    worker: str
    tasks: tuple[Task, ...]
    since: float


class Ledger:
    """Open roots, lent roots and their workers, and the finished share.

    Parameters
    ----------
    tasks : sequence of Task
        The whole work: disjoint tasks of the same roots. Leases consist of whole tasks or their remainders, so more
        tasks can be shared out better.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._open = sorted(tasks, key=lambda task: task.first)
        self._leases: dict[int, Lease] = {}
        self._n_leases = 0
        self._n_works = 0
        self._total = max(1e-9, sum(task.cost for task in tasks))
        self._finished = 0.0
        self._lost: Counter[tuple[int, int]] = Counter()

    @property
    def is_over(self) -> bool:
        """True if nothing is left to lend or to wait for."""
        return not self._open and not self._leases

    @property
    def work_done(self) -> float:
        """Share of the work that is finished."""
        return min(1.0, self._finished / self._total)

    @property
    def has_open(self) -> bool:
        """True if there are roots that no worker has."""
        return bool(self._open)

    @property
    def leases(self) -> tuple[Lease, ...]:
        """Leases not yet returned."""
        return tuple(self._leases.values())

    def lend(self, worker: str, n_workers: int, now: float, n_idle: int = 1) -> Lease | None:
        """Lend roots to an idle worker, given the number of workers and of idle ones; None if none are open.

        The last roots come first, because they have the largest subtrees. A range that was lost with a worker is lent
        alone, to show whether it is the reason.
        """
        if not self._open:
            return None
        left = sum(task.cost for task in self._open)
        goal = max(_SHARE * left, _LEAST_SHARE * self._total) / max(1, n_workers)
        # Share the last roots among all idle workers.
        goal = min(goal, left / max(1, n_idle))
        taken = [self._open.pop()]
        cost = taken[0].cost
        while self._open and cost < goal and not self._is_suspect(taken[0]) and not self._is_suspect(self._open[-1]):
            taken.append(self._open.pop())
            cost += taken[-1].cost
        self._n_works += 1
        return self._lent(worker, self._n_works, tuple(reversed(taken)), now)

    def lend_again(self, worker: str, before: float, now: float) -> Lease | None:
        """Lend the roots of the oldest lease again, if it began before `before` and only one other worker has it."""
        attempts = Counter(lease.work for lease in self._leases.values())
        late = [
            lease
            for lease in self._leases.values()
            if lease.since < before and lease.worker != worker and attempts[lease.work] == 1
        ]
        if not late:
            return None
        lease = min(late, key=lambda each: each.since)
        return self._lent(worker, lease.work, lease.tasks, now)

    def accept(self, number: int, remaining: Sequence[Task]) -> bool:
        """Book a returned lease. False if another worker returned its roots first: then its results do not count.

        Parameters
        ----------
        remaining : sequence of Task
            Unfinished ranges within the lease's tasks.
        """
        lease = self._leases.pop(number, None)
        if lease is None:
            return False
        # Other leases of the same roots are now too late.
        self._leases = {each: other for each, other in self._leases.items() if other.work != lease.work}
        left = [part for task in lease.tasks for part in within(task, remaining)]
        self._finished += sum(task.cost for task in lease.tasks) - sum(task.cost for task in left)
        self._reopen(left)
        return True

    def lose(self, worker: str) -> list[Lease]:
        """Reopen the roots of a lost worker, unless another worker has them too; return its leases.

        Raises
        ------
        ClusterLost
            Too many workers were lost with the same roots, which are taken as the reason.
        """
        lost = [lease for lease in self._leases.values() if lease.worker == worker]
        for lease in lost:
            self.give_back(lease.number)
            self._lost.update((task.first, task.end) for task in lease.tasks)
            for task in lease.tasks:
                if len(lease.tasks) == 1 and self._lost[task.first, task.end] >= _MOST_LOST:
                    raise ClusterLost(
                        f"the roots {task.first} to {task.end} were given to {_MOST_LOST} workers, and each was lost, "
                        f"or what it had found, {worker} the last; expected workers that live and can be reached; give "
                        "each more memory, and see its log"
                    )
        return lost

    def give_back(self, number: int) -> None:
        """Reopen the roots of a lease, unless it is over or another worker has them too."""
        lease = self._leases.pop(number, None)
        if lease is not None and all(other.work != lease.work for other in self._leases.values()):
            self._reopen(lease.tasks)

    def remaining(self) -> tuple[Task, ...]:
        """Return the unfinished roots, ascending, adjoining ranges merged."""
        lent = {lease.work: lease.tasks for lease in self._leases.values()}
        left = sorted([*self._open, *(task for tasks in lent.values() for task in tasks)], key=lambda task: task.first)
        joined: list[Task] = []
        for task in left:
            if joined and joined[-1].end == task.first:
                joined[-1] = replace(joined[-1], end=task.end, cost=joined[-1].cost + task.cost)
            else:
                joined.append(task)
        return tuple(joined)

    def _lent(self, worker: str, work: int, tasks: tuple[Task, ...], now: float) -> Lease:
        self._n_leases += 1
        lease = Lease(self._n_leases, work, worker, tasks, now)
        self._leases[lease.number] = lease
        return lease

    def _reopen(self, tasks: Iterable[Task]) -> None:
        self._open = sorted([*self._open, *tasks], key=lambda task: task.first)

    def _is_suspect(self, task: Task) -> bool:
        return (task.first, task.end) in self._lost


def within(task: Task, ranges: Iterable[Task]) -> list[Task]:
    """Intersect a task with some ranges; divide its cost in proportion.

    Examples
    --------
    >>> from mbe_stage.tasks import Roots
    >>> roots = Roots("bicliques", 9, 123)
    >>> [(part.first, part.end, part.cost) for part in within(Task(roots, 2, 6, 8.0), [Task(roots, 5, 9, 1.0)])]
    [(5, 6, 2.0)]
    """
    parts = []
    for each in ranges:
        first, end = max(task.first, each.first), min(task.end, each.end)
        if first < end:
            parts.append(replace(task, first=first, end=end, cost=task.cost * (end - first) / (task.end - task.first)))
    return parts
