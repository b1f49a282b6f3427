"""The description of a problem, and the registry of problems.

A problem is a search whose results come in blocks. Its description names its engines, the check of a query, and the
limit of its results. A derived output is a table made of a problem's results while they stream past.

`PROBLEMS` and `OUTPUTS` are ours. A package adds its own by an entry point of the group `mbe_stage.problems`: its name
is that of the problem or derived output, its object a `Problem` or a `DerivedOutput`. Nothing is imported before it is
used. Listing the problems imports the modules of all entry points; so these have to be light, and import engines,
arrays and tables later.
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
    """A problem, as generic code sees it.

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
        The pipeline's description, by which it configures, publishes, shows and checks the results, as
        ``"module:ATTRIBUTE"``. It is text, since this package knows no tables. None for a problem without a pipeline.
    about : str
        One line for a list of problems.
    command : str or None
        Name of its command; by default its name, with dashes.
    passing : str or None
        Name of the contents of its blocks in progress reports, if these are not its results. By default its name.
    sampler : str or None
        The module that samples the number of results (`mbe_stage.sampling.Sampler`); None if there is none.
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
        """The name of its command."""
        return self.command or self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class DerivedOutput:
    """A table made of the results of a problem while they stream past.

    Attributes
    ----------
    name : str
    problem : str
        The problem whose results it is made of.
    publication : str
        As `Problem.publication`.
    """

    name: str
    problem: str
    publication: str


OUTPUTS = {"groups": DerivedOutput("groups", "bicliques", "mbe_stage.pipeline.problems.groups.publication:PUBLICATION")}


def problem_names() -> tuple[str, ...]:
    """The installed problems, ours first. An entry point that cannot be loaded is left out with a warning."""
    return (*PROBLEMS, *(name for name, found in sorted(_others().items()) if isinstance(found, Problem)))


def derived_outputs(problem: str) -> tuple[DerivedOutput, ...]:
    """The installed derived outputs of a problem: ours first, the others by name."""
    others = (found for _, found in sorted(_others().items()) if isinstance(found, DerivedOutput))
    return tuple(found for found in (*OUTPUTS.values(), *others) if found.problem == problem)


def problem_named(name: str) -> Problem:
    """The problem of that name.

    Raises
    ------
    InvalidArgument
        There is none.
    """
    if name in PROBLEMS:
        module, _, attribute = PROBLEMS[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    found = _others().get(name)
    if not isinstance(found, Problem):
        raise InvalidArgument(f"problem is {name!r}: expected one of {', '.join(problem_names())}")
    return found


def package_of(name: str) -> str:
    """The package that provides a problem or derived output, for error messages."""
    found = next((entry for entry in entry_points(group=ENTRY_POINTS) if entry.name == name), None)
    return "mbe-stage" if found is None or found.dist is None else found.dist.name


def forget() -> None:
    """Search for entry points again at the next call, for packages installed or removed while a process runs."""
    _others.cache_clear()


@functools.cache
def _others() -> Mapping[str, Problem | DerivedOutput]:
    """Problems of entry points, read once a process. One broken package must not end runs that do not need it."""
    found: dict[str, Problem | DerivedOutput] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        reason = _load_into(found, entry)
        if reason is not None:
            log.warning("the entry point %r of %s (%s) is left out: %s", entry.name, ENTRY_POINTS, entry.value, reason)
    return found


def _load_into(found: dict[str, Problem | DerivedOutput], entry: EntryPoint) -> str | None:
    """Add the object of an entry point; returns the reason if that fails."""
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
