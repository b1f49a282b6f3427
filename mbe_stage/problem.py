"""The description of a problem, and the registry of problems.

A problem is a search whose results come in blocks. Its description names its engines, the check of a query, and the
limit on the number of results. A derived output is a table made of a problem's results while they stream past.

`PROBLEMS` and `OUTPUTS` are built in. A package adds its own by an entry point of the group `mbe_stage.problems`. The
entry point is named after the problem or derived output, and its object is a `Problem` or a `DerivedOutput`. Modules
are imported on first use. But listing the problems imports the modules of all entry points, so they must not import
engines, arrays or tables.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from mbe_stage.errors import InvalidArgument

log = logging.getLogger(__name__)

ENTRY_POINTS = "mbe_stage.problems"
PROBLEMS = {
    "bicliques": "mbe_stage.bicliques.problem:PROBLEM",
    "cliques": "mbe_stage.cliques.problem:PROBLEM",
    "pq_counts": "mbe_stage.pq_counts.problem:PROBLEM",
    "shared_neighbours": "mbe_stage.shared_neighbours.problem:PROBLEM",
    "itemsets": "mbe_stage.itemsets.runs:PROBLEM",
    "best": "mbe_stage.bicliques.best.problem:PROBLEM",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """The description of a problem for generic code.

    Attributes
    ----------
    name : str
    engines : mapping of str to str
        The module of each engine (`mbe_stage.engines`). ``auto`` chooses from ``cuda`` and ``cpu``, if present;
        ``reference`` is the specification.
    check : callable
        Takes graph and query, and raises `InvalidArgument` if the query does not fit the graph.
    limit : str or None
        The field of `mbe_stage.Execution` that bounds the number of results, if there is one.
    publication : str or None
        The pipeline's description of how to configure, publish, show and check the results, as ``"module:ATTRIBUTE"``.
        It is a string because this package knows no tables. None for a problem without a pipeline.
    about : str
        One line for a list of problems.
    command : str or None
        Name of its command; by default the problem's name with dashes.
    passing : str or None
        Name, in progress reports, of the things that its blocks contain, if these are not its results; by default its
        name.
    sampler : str or None
        The module that estimates the number of results by sampling (`mbe_stage.sampling.Sampler`), if any.
    """

    name: str
    engines: Mapping[str, str]
    check: Callable[[Any, Any], None]
    limit: str | None
    publication: str | None = None
    about: str = ""
    command: str | None = None
    passing: str | None = None
    sampler: str | None = None

    @property
    def called(self) -> str:
        """The name of its command on the command line."""
        return self.command or self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class DerivedOutput:
    """A table made of the results of a problem while they stream past.

    Attributes
    ----------
    name : str
    problem : str
        The problem that provides the results.
    publication : str
        The pipeline's description, as `Problem.publication`.
    """

    name: str
    problem: str
    publication: str


OUTPUTS = {"groups": DerivedOutput("groups", "bicliques", "mbe_stage.pipeline.problems.groups.publication:PUBLICATION")}


def problem_names() -> tuple[str, ...]:
    """Return the names of installed problems, built-in ones first; warn about entry points that fail to load."""
    return (*PROBLEMS, *(name for name, found in sorted(_others().items()) if isinstance(found, Problem)))


def derived_outputs(problem: str) -> tuple[DerivedOutput, ...]:
    """Return the installed derived outputs of a problem: built-in ones first, then others by name."""
    others = (found for _, found in sorted(_others().items()) if isinstance(found, DerivedOutput))
    return tuple(found for found in (*OUTPUTS.values(), *others) if found.problem == problem)


def problem_named(name: str) -> Problem:
    """Return the problem of that name.

    Raises
    ------
    InvalidArgument
        There is no such problem.
    """
    if name in PROBLEMS:
        module, _, attribute = PROBLEMS[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    found = _others().get(name)
    if not isinstance(found, Problem):
        raise InvalidArgument(f"problem is {name!r}: expected one of {', '.join(problem_names())}")
    return found


def package_of(name: str) -> str:
    """Return the package that provides a problem or derived output, for error messages."""
    found = next((entry for entry in entry_points(group=ENTRY_POINTS) if entry.name == name), None)
    return "mbe-stage" if found is None or found.dist is None else found.dist.name


def forget() -> None:
    """Clear the cache of entry points, for packages installed or removed while a process runs."""
    _others.cache_clear()


@functools.cache
def _others() -> Mapping[str, Problem | DerivedOutput]:
    """Return the objects of entry points. One broken package must not stop runs that do not need it."""
    found: dict[str, Problem | DerivedOutput] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        reason = _load_into(found, entry)
        if reason is not None:
            log.warning("the entry point %r of %s (%s) is left out: %s", entry.name, ENTRY_POINTS, entry.value, reason)
    return found


def _load_into(found: dict[str, Problem | DerivedOutput], entry: EntryPoint) -> str | None:
    """Add the object of an entry point; return the reason if that fails."""
    if entry.name in PROBLEMS or entry.name in OUTPUTS or entry.name in found:
        return "the name is taken"
    try:
        given = entry.load()
    except Exception as error:  # noqa: BLE001 - any error of another package's import is reported
        return f"{type(error).__name__}: {error}"
    if not isinstance(given, Problem | DerivedOutput) or given.name != entry.name:
        return f"it gives {given!r}: expected the Problem or DerivedOutput of that name"
    found[entry.name] = given
    return None
