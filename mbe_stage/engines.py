"""The interface of engines, and the choice of one for a problem.

An engine is a module, named by its problem (`mbe_stage.problem`). It is imported on first use, so importing the package
never touches a GPU library. Every engine module has

- ``unavailable_reason() -> str | None``: the reason why the engine cannot run here, with the remedy; None if it can;
- ``device(execution) -> str``: name of the device that it runs on;
- ``compile_steps(query=None, detail=None) -> sequence of CompileStep``: the code that `run` needs for this query and
  detail, or for any; empty if nothing is compiled. The caller compiles it first, several steps in parallel, and reports
  that time separately (`mbe_stage.runtime.compile_ahead`);
- ``tasks_of(graph, query, n) -> list of Task``: the whole work in at most `n` tasks of similar cost;
- ``run(graph, query, execution, detail, tasks=None) -> Iterator[block]``: search all tasks, or the given ones. Closing
  the iterator stops the search. Disjoint tasks give disjoint results, and all tasks give all results.

Optional:

- ``device_blocks(graph, query, execution, tasks=None)``: yields blocks in device memory;
- ``TAKES_BARRIER = True``: both take a keyword ``barrier`` (`mbe_stage.search.cpu.pool.Barrier`). At a barrier they
  yield an empty block whose attribute `remaining` holds the remaining tasks, or saved work if the barrier takes it;
- ``device_search(graph, query, execution, detail, tasks, *, is_requested)``: one device's part of a search that several
  devices share (`mbe_stage.runners.device_exchange.DeviceSearch`). An engine with ``device_blocks`` also takes
  ``on_device``;
- ``prepare(graph, query)``: returns a value to pass to ``run`` as keyword ``prepared``, so that several calls for parts
  of one search share it;
- ``ENDS_ITSELF = True``: ``run`` checks the time limit itself and yields its results in time.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from mbe_stage.errors import EngineUnavailable, InvalidArgument
from mbe_stage.options import Execution
from mbe_stage.problem import Problem, problem_named
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.tasks import Task

log = logging.getLogger(__name__)

AUTO = "auto"

_AUTO_PREFERENCE = ("cuda", "cpu")


class Engine(Protocol):
    """The interface of every engine module; block and detail types belong to the problem."""

    def unavailable_reason(self) -> str | None:
        """Return the reason why the engine cannot run here, or None."""

    def device(self, execution: Execution) -> str:
        """Return the name of the device that it runs on."""

    def compile_steps(self, query: Any = None, detail: Any = None) -> Sequence[CompileStep]:
        """Return the steps to compile before it runs."""

    def tasks_of(self, graph: Any, query: Any, n: int) -> list[Task]:
        """Return the whole work in at most `n` tasks."""

    def run(
        self, graph: Any, query: Any, execution: Execution, detail: Any, tasks: Iterable[Task] | None = None
    ) -> Iterator[Any]:
        """Yield the results of all tasks, or of the given ones, block by block."""


def engine_names(problem: str | Problem) -> tuple[str, ...]:
    """Return the names of a problem's engines, in the order in which ``auto`` prefers them."""
    return tuple(_engines(problem))


def get_engine(problem: str | Problem, name: str) -> Engine:
    """Return the engine of that name if it can run here.

    Raises
    ------
    InvalidArgument
        No such problem or engine.
    EngineUnavailable
        The engine cannot run on this machine; the message gives the reason and the remedy.
    """
    engine = _load(problem, name)
    reason = engine.unavailable_reason()
    if reason:
        raise EngineUnavailable(f"engine {name!r} cannot run here: {reason}")
    return engine


def unavailable_reason(problem: str | Problem, name: str) -> str | None:
    """Return the reason why that engine cannot run on this machine, or None.

    Raises
    ------
    InvalidArgument
        No such problem or engine.
    """
    return _load(problem, name).unavailable_reason()


def choose_engine(problem: str | Problem, name: str = AUTO) -> tuple[str, Engine]:
    """Return the engine's name and module; ``auto`` takes the first that runs here and logs why.

    Parameters
    ----------
    problem : str or Problem
    name : str

    Raises
    ------
    InvalidArgument, EngineUnavailable
        As `get_engine`.
    """
    if name != AUTO:
        return name, get_engine(problem, name)
    return _first_that_runs(problem, _AUTO_PREFERENCE)


def choose_next_engine(problem: str | Problem, name: str) -> tuple[str, Engine] | None:
    """Return the engine that ``auto`` takes if the named one refuses the work; None if no other runs here."""
    behind = _AUTO_PREFERENCE[_AUTO_PREFERENCE.index(name) + 1 :] if name in _AUTO_PREFERENCE else ()
    try:
        return _first_that_runs(problem, behind)
    except EngineUnavailable:
        return None


def _first_that_runs(problem: str | Problem, names: Sequence[str]) -> tuple[str, Engine]:
    passed_over: list[str] = []
    for candidate in names:
        if candidate not in _engines(problem):
            continue
        engine = _load(problem, candidate)
        reason = engine.unavailable_reason()
        if reason is None:
            log.debug("engine auto: %s%s", candidate, "".join(f"; {text}" for text in passed_over))
            return candidate, engine
        passed_over.append(f"not {candidate}: {reason}")
    raise EngineUnavailable(
        f"no engine for {_name(problem)!r} runs here: {'; '.join(passed_over) or 'none is registered'}"
    )


def _engines(problem: str | Problem) -> Mapping[str, str]:
    return _problem(problem).engines


def _problem(problem: str | Problem) -> Problem:
    return problem if isinstance(problem, Problem) else problem_named(problem)


def _name(problem: str | Problem) -> str:
    return problem.name if isinstance(problem, Problem) else problem


def _load(problem: str | Problem, name: str) -> Engine:
    module = _engines(problem).get(name)
    if module is None:
        known = ", ".join((AUTO, *engine_names(problem)))
        raise InvalidArgument(f"engine is {name!r} for problem {_name(problem)!r}: expected one of {known}")
    return cast(Engine, importlib.import_module(module))
