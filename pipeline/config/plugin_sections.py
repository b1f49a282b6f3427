"""The configuration sections of problems and derived outputs, and the rules between them.

`query` is the section of bicliques and always exists. Other sections have the name of their problem or derived output.
Other packages are only searched if a configuration names a problem or a section beyond the built-in ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from mbe_stage.pipeline.config.registry import derived_facts, problem_facts, published_problems
from mbe_stage.pipeline.config.section import read_section, refusal
from mbe_stage.pipeline.config.setting_names import did_you_mean, setting

OURS = "bicliques"
"""The problem whose section always exists."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a section: a problem, or a derived output of the problem."""

    problem: str
    model: type[BaseModel]
    is_derived: bool


def owner_of(section: str) -> Owner | None:
    """Return the installed owner of a section; None if there is none."""
    problems = published_problems()
    if section != OURS and section in problems:
        return Owner(section, problem_facts(section).section, is_derived=False)
    for problem in problems:
        for output in derived_facts(problem):
            if output.name == section:
                return Owner(problem, output.section, is_derived=True)
    return None


def section_names() -> tuple[str, ...]:
    """List the sections of installed problems and derived outputs, besides the built-in ones."""
    problems = published_problems()
    outputs = (output.name for problem in problems for output in derived_facts(problem))
    return (*(name for name in problems if name != OURS), *sorted(outputs))


def is_here(problem: str) -> bool:
    """Return whether runs of that problem can be published here."""
    return problem == OURS or problem in published_problems()


def check_problem(problem: str) -> str:
    """Return the name of an installed problem.

    Raises
    ------
    ValueError
        The problem is not installed.
    """
    if is_here(problem):
        return problem
    names = published_problems()
    raise ValueError(f"{did_you_mean(problem, names)}expected one of {', '.join(names)}")


def read_sections(problem: str, sections: Mapping[str, Any]) -> dict[str, BaseModel]:
    """Read the sections of problems and derived outputs in a run of that problem.

    Raises
    ------
    pydantic.ValidationError
        A section is unknown, belongs to another problem, or holds an unknown key or a wrong value.
    """
    read = {}
    for name, value in sections.items():
        owner = owner_of(name)
        if owner is None:
            raise refusal((name,), "unknown key", value, kind="extra_forbidden")
        if owner.problem != problem:
            raise refusal((name,), _of_another_problem(owner, problem), {})
        read[name] = read_section(owner.model, name, value)
    return read


def _of_another_problem(owner: Owner, problem: str) -> str:
    what = "an output" if owner.is_derived else "the section"
    return (
        f"{what} of the problem {owner.problem}, but {setting('problem')} is {problem!r}; "
        f"set {setting('problem')} to {owner.problem!r}, or leave the section out"
    )
