"""The installed problems and derived outputs by name, as configurations and manifests need them.

`mbe_stage.problem` finds them. Each names its publication as text (`Problem.publication`), which is imported on first
use. This module only knows the `ProblemFacts` and `OutputFacts` of publications. So configurations and manifests can be
read without the modules that search, write and report.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from mbe_stage.errors import InvalidArgument
from mbe_stage.problem import DerivedOutput, derived_outputs, package_of, problem_named, problem_names

log = logging.getLogger(__name__)

TOP_LEVEL_KEYS = ("problem", "input", "query", "execution", "output")
"""The keys of `pipeline.config.model.Config`, which no other section may use."""

_OF_FINGERPRINTS = frozenset({"derived", "key_type", "schema_version"})
"""Keys of `config_fingerprint` besides the sections: a section of the same name would replace them."""


class ProblemFacts:
    """The attributes of `pipeline.problems.base.Publication` that configurations and manifests use."""

    __slots__ = ()

    problem: str
    section_name: str
    section: type[BaseModel]
    counted: str
    counts: type[BaseModel] | None
    instead: str
    made_of_input: Callable[[Any], str | None]


class OutputFacts:
    """The attributes of `pipeline.problems.base.DerivedPublication` that configurations and manifests use."""

    __slots__ = ()

    name: str
    problem: str
    section: type[BaseModel]
    input_keys: tuple[str, ...]


_Facts = TypeVar("_Facts", ProblemFacts, OutputFacts)


def published_problems() -> tuple[str, ...]:
    """Return the names of the problems that can be published, ours first; names of built-in sections are left out."""
    return tuple(
        name for name in problem_names() if problem_named(name).publication is not None and _may_be_a_section(name)
    )


def problem_facts(problem: str) -> ProblemFacts:
    """Return the publication of a problem.

    Raises
    ------
    InvalidArgument
        There is no such problem, it has no publication, or its entry point names something else.
    """
    where = problem_named(problem).publication
    if where is None:
        names = ", ".join(published_problems())
        raise InvalidArgument(f"problem is {problem!r}, which has no tables: expected one of {names}")
    return imported(where, ProblemFacts)


def derived_facts(problem: str) -> tuple[OutputFacts, ...]:
    """Return the publications of a problem's installed derived outputs, by name.

    Outputs that cannot be imported are skipped with a warning: a broken package must not end unrelated work.
    """
    found = (_of_output(output) for output in derived_outputs(problem) if _may_be_a_section(output.name))
    return tuple(each for each in found if each is not None)


def forget_publications() -> None:
    """Forget the publications, so the next request imports them again; see also `mbe_stage.problem.forget`."""
    imported.cache_clear()
    _of_output.cache_clear()
    _may_be_a_section.cache_clear()


@functools.cache
def imported(where: str, kind: type[_Facts]) -> _Facts:
    """Return the object that a text such as ``"module:ATTRIBUTE"`` names.

    Raises
    ------
    InvalidArgument
        It cannot be imported, or is of another kind.
    """
    module, _, attribute = where.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:
        raise InvalidArgument(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, kind):
        called = "Publication" if kind is ProblemFacts else "DerivedPublication"
        raise InvalidArgument(f"{where} is {found!r}: expected a {called}")
    return found


@functools.cache
def _may_be_a_section(name: str) -> bool:
    if name in TOP_LEVEL_KEYS:
        reason = "the configuration has a key of that name"
    elif name in _OF_FINGERPRINTS:
        reason = "the fingerprint of a configuration has a key of that name"
    else:
        return True
    log.warning("%r of the package %s is left out: %s", name, package_of(name), reason)
    return False


@functools.cache
def _of_output(output: DerivedOutput) -> OutputFacts | None:
    try:
        return imported(output.publication, OutputFacts)
    except InvalidArgument as error:
        log.warning("the derived output %r is left out: %s", output.name, error)
        return None
