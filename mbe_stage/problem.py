"""What a problem says of itself, and where problems are found.

A problem is a search with results that come in blocks: which engines it has, what a query is checked for, which limit
bounds its results. `PROBLEMS` are ours; a package brings its own by an entry point of the group `mbe_stage.problems`,
whose name is the problem's and whose object is a `Problem`. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from mbe_stage.errors import InvalidArgument

__all__ = ["ENTRY_POINTS", "PROBLEMS", "Problem", "problem_named", "problem_names"]

ENTRY_POINTS = "mbe_stage.problems"
PROBLEMS = {"bicliques": "mbe_stage.bicliques.problem:PROBLEM"}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, as everything that knows no problem sees it.

    Attributes
    ----------
    name : str
    engines : mapping of str to str
        The module of each engine (`mbe_stage.engines`). Those of ``cuda`` and ``cpu`` that there are, are what ``auto``
        chooses from; ``reference`` is the specification.
    check : callable
        Takes graph and query, and raises `InvalidArgument` where the query does not fit the graph.
    limit : str or None
        The field of `mbe_stage.Execution` that bounds the number of results, if there is one.
    """

    name: str
    engines: Mapping[str, str]
    check: Callable[[Any, Any], None]
    limit: str | None


def problem_names() -> tuple[str, ...]:
    """The problems that there are here, ours first."""
    return (*PROBLEMS, *sorted(_others().keys() - PROBLEMS.keys()))


@functools.cache
def problem_named(name: str) -> Problem:
    """The problem of that name.

    Raises
    ------
    InvalidArgument
        There is none, or its entry point gives something else.
    """
    if name in PROBLEMS:
        module, _, attribute = PROBLEMS[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    found = _others().get(name)
    if found is None:
        raise InvalidArgument(f"problem is {name!r}: expected one of {', '.join(problem_names())}")
    problem = found.load()
    if not isinstance(problem, Problem) or problem.name != name:
        raise InvalidArgument(f"the entry point {name!r} of {ENTRY_POINTS} gives {problem!r}: expected its Problem")
    return problem


def _others() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
