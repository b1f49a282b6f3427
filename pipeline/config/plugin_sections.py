"""The sections of the configuration that problems and derived outputs bring, and the rules between them.

`query` is that of bicliques and always there; another stands in a configuration by the name of its problem or derived
output. What another package brings is looked for only where a configuration names a problem or a section beside these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from mbe_stage.pipeline.config.registry import derived_facts, problem_facts, published_problems
from mbe_stage.pipeline.config.section import read_section, refusal
from mbe_stage.pipeline.config.setting_names import did_you_mean, setting

__all__ = ["OURS", "Owner", "check_problem", "is_here", "owner_of", "read_sections", "section_names"]

OURS = "bicliques"
"""The problem whose section is always there."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose section it is: a problem's own, or that of a derived output of the problem."""

    problem: str
    model: type[BaseModel]
    is_derived: bool


def owner_of(section: str) -> Owner | None:
    """Whose section that is, of what is here; None where nothing here has it."""
    problems = published_problems()
    if section != OURS and section in problems:
        return Owner(section, problem_facts(section).section, is_derived=False)
    for problem in problems:
        for output in derived_facts(problem):
            if output.name == section:
                return Owner(problem, output.section, is_derived=True)
    return None


def section_names() -> tuple[str, ...]:
    """The sections that problems and derived outputs have here, beside ours."""
    problems = published_problems()
    outputs = (output.name for problem in problems for output in derived_facts(problem))
    return (*(name for name in problems if name != OURS), *sorted(outputs))


def is_here(problem: str) -> bool:
    """Whether runs of that problem can be published here."""
    return problem == OURS or problem in published_problems()


def check_problem(problem: str) -> str:
    """The name itself.

    Raises
    ------
    ValueError
        There is no such problem here.
    """
    if is_here(problem):
        return problem
    names = published_problems()
    raise ValueError(f"{did_you_mean(problem, names)}expected one of {', '.join(names)}")


def read_sections(problem: str, sections: Mapping[str, Any]) -> dict[str, BaseModel]:
    """The models of sections that are not ours, in a run of that problem.

    Raises
    ------
    pydantic.ValidationError
        Nothing here has such a section, it is of another problem, or holds an unknown key or a wrong value.
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
