"""Tasks: ranges of the roots of a search, which any process can execute.

The subtree of a root depends only on the graph, the query and the order of the roots. So any process with the same
graph and query can execute any task, and all tasks together give the results of one search.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from mbe_stage.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np

VERSION = 1
"""Version of the format and meaning of tasks; other versions are refused."""


@dataclass(frozen=True, slots=True)
class Roots:
    """The roots of a search, by their number and a checksum; equal objects have equal subtrees.

    Attributes
    ----------
    checksum : int
        CRC-32 of the vertices in the order of the roots, and of everything that their subtrees depend on: edges, side,
        query. It guards against mistakes, not against forgery.
    """

    problem: str
    n: int
    checksum: int

    @classmethod
    def of(cls, problem: str, vertices: np.ndarray, *others: object) -> Roots:
        """Return the roots for these vertices, in this order.

        Parameters
        ----------
        vertices : (n_roots,) integers
            Distinct vertices, as ids of the user's graph.
        *others
            Everything else that a subtree depends on, compared by `repr`: side, query, a checksum of the edges.
        """
        import numpy as np  # here and below: listing runs reads journals without arrays, and should start fast

        content = np.ascontiguousarray(vertices, dtype=np.int32).tobytes()
        return cls(problem, int(vertices.size), zlib.crc32(content, zlib.crc32(repr(others).encode())))


@dataclass(frozen=True, slots=True)
class Task:
    """A range of roots.

    Attributes
    ----------
    roots : Roots
        All roots of the search.
    first, end : int
        Positions among them; `end` is exclusive.
    cost : float
        Expected work, comparable with that of other tasks of the same roots.
    """

    roots: Roots
    first: int
    end: int
    cost: float

    def to_json(self) -> str:
        """Return the task as text, for another process.

        Examples
        --------
        >>> task = Task(Roots("bicliques", 9, 123), 3, 7, 20.5)
        >>> task.to_json()
        '{"version": 1, "roots": {"problem": "bicliques", "n": 9, "checksum": 123}, "first": 3, "end": 7, "cost": 20.5}'
        >>> Task.from_json(task.to_json()) == task
        True
        """
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Return the task that `to_json` wrote.

        Raises
        ------
        InvalidArgument
            The text is not a task, or a task of another version.
        """
        try:
            values = json.loads(text)
            version = values.pop("version")
            task = cls(Roots(**values.pop("roots")), **values) if version == VERSION else None
            if task is not None:
                task._check_types()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidArgument(f"{text[:100]!r} is no task ({error}): expected what Task.to_json wrote") from None
        if task is None:
            raise InvalidArgument(
                f"a task is of version {version!r}: expected {VERSION}; "
                "let the same version of mbe-stage make and do it"
            )
        return task

    def _check_types(self) -> None:
        whole = (self.first, self.end, self.roots.n, self.roots.checksum)
        if not all(type(number) is int for number in whole) or not isinstance(self.roots.problem, str):
            raise TypeError("a position is not a whole number")
        if type(self.cost) not in (int, float):
            raise TypeError("the cost is not a number")


@dataclass(frozen=True, slots=True, eq=False)
class OpenWork:
    """The rest of a search, saved in the middle: roots that have not begun, and open nodes below other roots.

    It takes the place of tasks, or stands among them. The engine that saved it continues exactly there.

    Attributes
    ----------
    roots : Roots
        All roots of the search.
    form : str
        The engine and the layout of the arrays; other engines refuse it.
    arrays : dict of str to array
        The saved numbers, on the host.
    seconds : float
        Duration of saving.
    """

    roots: Roots
    form: str
    arrays: dict[str, np.ndarray]
    seconds: float = 0.0


Remaining = tuple[Task | OpenWork, ...]
"""The rest of a search at a barrier."""


def open_work_of(tasks: Sequence[Task | OpenWork], roots: Roots, form: str) -> OpenWork | None:
    """Return the saved work among tasks, checked to match these roots and this form; None if there is none.

    Raises
    ------
    InvalidArgument
        The saved work has other roots or another form.
    """
    work = next((each for each in tasks if isinstance(each, OpenWork)), None)
    if work is None:
        return None
    if (work.roots, work.form) != (roots, form):
        raise InvalidArgument(
            f"the saved work is of {work.roots} in the form {work.form!r}, and the work at hand is of {roots} in the "
            f"form {form!r}: expected the same graph, query and engine; resume with the engine that saved it"
        )
    return work


def with_roots(work: dict[str, np.ndarray], begun: np.ndarray, others: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of saved work with other roots appended to ``order``, its roots that have not begun.

    Parameters
    ----------
    begun : (n,) int32
        Roots of the saved work that have begun.
    others : (m,) int
        Roots to append.

    Raises
    ------
    InvalidArgument
        A root to append is in the saved work.
    """
    import numpy as np

    if np.intersect1d(others, np.concatenate([work["order"], begun])).size:
        raise InvalidArgument("tasks have roots of the saved work: expected each root once")
    return work | {"order": np.concatenate([work["order"], others.astype(np.int32)])}


def cut(roots: Roots, costs: np.ndarray, n: int) -> list[Task]:
    """Cut all roots into at most `n` tasks of similar cost.

    Parameters
    ----------
    costs : (roots.n,) float64
        Expected work below each root.

    Raises
    ------
    InvalidArgument
        `n` is below 1.
    """
    if n < 1:
        raise InvalidArgument(f"n is {n}: expected 1 task or more")
    return [Task(roots, first, end, float(costs[first:end].sum())) for first, end in split(costs, n)]


def split(costs: np.ndarray, n: int) -> list[tuple[int, int]]:
    """Cut all positions into at most `n` ranges of similar cost, ascending."""
    n = min(n, costs.size)
    if n < 2:
        return [(0, costs.size)][:n]
    import numpy as np

    sums = np.cumsum(costs)
    cuts = np.searchsorted(sums, sums[-1] * np.arange(1, n) / n, side="right")
    bounds = np.unique(np.concatenate([[0], cuts, [costs.size]])).tolist()
    return list(pairwise(bounds))


def ranges_of(tasks: Iterable[Task | OpenWork] | None, roots: Roots) -> list[tuple[int, int]]:
    """Return the ranges of the given tasks, or of all; ascending, adjoining ones merged, and checked.

    Raises
    ------
    InvalidArgument
        A task belongs to other roots (another graph, query or problem), exceeds them, or overlaps another task. Or it
        is saved work of another engine.
    """
    if tasks is None:
        return [(0, roots.n)]
    tasks = tuple(tasks)
    # Engines that can save work take it out before.
    open_work_of(tasks, roots, "")
    ranges: list[tuple[int, int]] = []
    for task in sorted(cast("tuple[Task, ...]", tasks), key=lambda task: (task.first, task.end)):
        if task.roots != roots:
            raise InvalidArgument(
                f"a task is of {task.roots}, and the work at hand is of {roots}: "
                "expected tasks of the same problem, graph and query, cut by an engine with the same order of roots"
            )
        if not 0 <= task.first < task.end <= roots.n:
            raise InvalidArgument(f"a task has the roots {task.first} to {task.end}: expected a range below {roots.n}")
        if ranges and task.first < ranges[-1][1]:
            raise InvalidArgument(f"two tasks have root {task.first}: expected disjoint ones")
        if ranges and task.first == ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], task.end)
        else:
            ranges.append((task.first, task.end))
    return ranges


def without(ranges: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges without the others, ascending.

    Examples
    --------
    >>> without([(0, 10)], [(2, 3), (5, 6), (6, 8)])
    [(0, 2), (3, 5), (8, 10)]
    """
    left = sorted(ranges)
    for first, end in sorted(others):
        left = [
            part
            for start, stop in left
            for part in ((start, min(stop, first)), (max(start, end), stop))
            if part[0] < part[1]
        ]
    return left


def positions(ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the positions of all roots in these ranges, int64."""
    import numpy as np

    return np.concatenate([np.empty(0, np.int64), *(np.arange(first, end) for first, end in ranges)])
