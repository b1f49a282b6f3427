"""A ledger of leases of roots: every root is finished once, whatever happens to a worker.

A worker is lent a range of roots for a while. What it brings back is what it found below those that it finished, and
the ranges that are left. A worker that is lost brings nothing: its roots are lent again. One that is late is not waited
for once nothing else is left: its roots are lent to another as well, and what comes first is taken. Nothing here knows
what a worker is, or what time it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mbe_stage.errors import ClusterLost
from mbe_stage.tasks import Task

__all__ = ["Lease", "Ledger", "within"]

# A worker is lent this share of what is open, divided by the workers: large ranges first, small ones at the end.
_SHARE = 0.5
# But at least this share of all work, divided by the workers: to begin takes time, and so does to end, when a worker's
# threads wait for the one whose root is the largest.
_LEAST_SHARE = 1 / 16
# So many workers may be lost with a range before it is taken to be the reason.
_MOST_LOST = 3


@dataclass(frozen=True, slots=True)
class Lease:
    """Roots that a worker was lent.

    Attributes
    ----------
    number : int
    work : int
        Leases of the same work are attempts at the same roots.
    worker : str
    tasks : tuple of Task
    since : float
        When, in seconds of any clock.
    """

    number: int
    work: int
    worker: str
    tasks: tuple[Task, ...]
    since: float


class Ledger:
    """Roots that are open, roots that are lent and to whom, and the share that is finished.

    Parameters
    ----------
    tasks : sequence of Task
        All that is to be done, disjoint, of the same roots. What is lent is made of them, or of parts of them: the more
        there are, the better the work can be shared out.
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
        """Those that are out."""
        return tuple(self._leases.values())

    def lend(self, worker: str, n_workers: int, now: float, n_idle: int = 1) -> Lease | None:
        """Roots for a worker that has none, of so many workers, so many of them idle; None where there are none for it.

        The last roots come first: those are the ones with the largest subtrees. What somebody was lost with comes
        alone: if it is the reason, that shows.
        """
        if not self._open:
            return None
        left = sum(task.cost for task in self._open)
        goal = max(_SHARE * left, _LEAST_SHARE * self._total) / max(1, n_workers)
        # Of the last roots all get some that have nothing else to do.
        goal = min(goal, left / max(1, n_idle))
        taken = [self._open.pop()]
        cost = taken[0].cost
        while self._open and cost < goal and not self._is_suspect(taken[0]) and not self._is_suspect(self._open[-1]):
            taken.append(self._open.pop())
            cost += taken[-1].cost
        self._n_works += 1
        return self._lent(worker, self._n_works, tuple(reversed(taken)), now)

    def lend_again(self, worker: str, before: float, now: float) -> Lease | None:
        """The roots of a lease that has been out the longest, since before some time, and that only one worker has."""
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
        """Book what a worker brings back; False where its roots are somebody else's by now, and nothing of it counts.

        Parameters
        ----------
        remaining : sequence of Task
            What of it is left: ranges within its tasks.
        """
        lease = self._leases.pop(number, None)
        if lease is None:
            return False
        # Whoever else is at the same roots is too late from now on.
        self._leases = {each: other for each, other in self._leases.items() if other.work != lease.work}
        left = [part for task in lease.tasks for part in within(task, remaining)]
        self._finished += sum(task.cost for task in lease.tasks) - sum(task.cost for task in left)
        self._reopen(left)
        return True

    def lose(self, worker: str) -> list[Lease]:
        """Open again what a worker has that is lost, or what it found, and nobody else has; returns its leases.

        Raises
        ------
        ClusterLost
            So many workers were lost with the same roots that these are the reason.
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
        """Open the roots of a lease again, unless it is over or somebody else has them too."""
        lease = self._leases.pop(number, None)
        if lease is not None and all(other.work != lease.work for other in self._leases.values()):
            self._reopen(lease.tasks)

    def remaining(self) -> tuple[Task, ...]:
        """All that is not finished, ascending, ranges that adjoin as one."""
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
    """The parts of a task that some ranges have, each with its share of the cost.

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
