"""The publications of the problems and derived outputs that are installed, by name.

`mbe_stage.problem` finds problems and derived outputs; each names its publication as text (`Problem.publication`),
which is imported here when it is asked for.
"""

from __future__ import annotations

import functools
import importlib
import logging
from typing import TYPE_CHECKING, Any

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.problems.base import DerivedPublication, Publication
from mbe_stage.problem import DerivedOutput, derived_outputs, package_of, problem_named, problem_names

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config, InputConfig

__all__ = [
    "derived_of",
    "derived_publications",
    "every_publication",
    "forget_publications",
    "limit_of",
    "publication_of",
    "published_problems",
    "reading_of",
    "unknown_sections",
]

log = logging.getLogger(__name__)

_OF_FINGERPRINTS = frozenset({"derived", "key_type", "schema_version"})
"""Keys that `config_fingerprint` sums up beside the sections: a section of that name would replace them."""


def published_problems() -> tuple[str, ...]:
    """The names of the problems that the pipeline can publish, ours first; not one that is called like our sections."""
    return tuple(
        name for name in problem_names() if problem_named(name).publication is not None and _may_be_a_section(name)
    )


def publication_of(problem: str) -> Publication:
    """The publication of the problem of that name.

    Raises
    ------
    InvalidArgument
        There is no such problem, it has none, or names something else.
    """
    where = problem_named(problem).publication
    if where is None:
        raise InvalidArgument(f"problem is {problem!r}, which has no tables: expected one of {_names()}")
    return _imported(where, Publication)


def every_publication() -> tuple[Publication, ...]:
    """The publications of all problems that there are here; one that cannot be imported is left out with a warning."""
    found = []
    for name in published_problems():
        try:
            found.append(publication_of(name))
        except InvalidArgument as error:
            log.warning("the problem %r is left out: %s", name, error)
    return tuple(found)


def limit_of(problem: str) -> str | None:
    """The key of the section `execution` that bounds the number of results, if the problem has one."""
    return problem_named(problem).limit


def derived_publications(problem: str) -> tuple[DerivedPublication, ...]:
    """The publications of the derived outputs of a problem that there are here, by name.

    One that cannot be imported is left out with a warning: a broken package must not end what needs none of it.
    """
    found = (_of_output(output) for output in derived_outputs(problem) if _may_be_a_section(output.name))
    return tuple(each for each in found if each is not None)


def forget_publications() -> None:
    """Import and look at publications anew when next asked; beside `mbe_stage.problem.forget`."""
    _imported.cache_clear()
    _of_output.cache_clear()
    _may_be_a_section.cache_clear()


def derived_of(config: Config) -> tuple[DerivedPublication, ...]:
    """The derived outputs that a configuration asks for, by having their sections.

    Raises
    ------
    ConfigError
        Two of them, or one of them and the problem, would write the same table.
    """
    if not config.model_extra:
        # Nothing that is not ours is asked for: no other package is looked for.
        return ()
    import pyarrow as pa

    asked = tuple(each for each in derived_publications(config.problem) if config.section(each.name) is not None)
    writers: dict[str, str] = {}
    tables_of = {config.problem: publication_of(config.problem).schemas, **{each.name: each.schemas for each in asked}}
    for name, schemas in tables_of.items():
        for table in schemas(config, (pa.int64(), pa.int64())):
            if table in writers:
                raise ConfigError(
                    f"{writers[table]} and {name} both write {table}; expected one writer for each table; leave the "
                    f"section {name!r} out"
                )
            writers[table] = name
    return asked


def reading_of(config: Config, **given: str) -> InputConfig:
    """How the input of a run is read: its section `input`, with what problem and derived outputs make of it.

    Weights and times are read where a derived output wants them; columns as ends of edges without direction where the
    problem searches such graphs.

    Parameters
    ----------
    **given
        Keys of the section to be replaced.

    Raises
    ------
    ConfigError
        As `derived_of`; or columns that make right keys only, for a graph that has no right side.
    """
    section = config.input.model_copy(update=given)
    if publication_of(config.problem).undirected(config):
        _refuse_right_keys(config)
        section = section.of_one_set()
    return section.keeping_events() if any(each.events for each in derived_of(config)) else section


def _refuse_right_keys(config: Config) -> None:
    """An edge without direction has two ends of one kind: no end of several columns, none with a bucket of time."""
    several = len(config.input.right_columns) > 1
    if several or config.input.time_bucket is not None:
        key = setting("input.right" if several else "input.time_bucket")
        has = "has several columns" if several else f"is {config.input.time_bucket!r}"
        raise ConfigError(
            f"{key} {has}, which makes keys of right vertices; expected one column for each end of an edge: an "
            "undirected graph has one kind of vertex; leave it out"
        )


def unknown_sections(config: Config) -> tuple[str, ...]:
    """The sections of a configuration that nothing here has: those of derived outputs of another installation."""
    if not config.model_extra:
        return ()
    known = {config.problem, *(each.name for each in derived_publications(config.problem))}
    return tuple(name for name in config.model_extra or {} if name not in known)


def _names() -> str:
    return ", ".join(published_problems())


@functools.cache
def _may_be_a_section(name: str) -> bool:
    from mbe_stage.pipeline.config.model import Config

    if name in Config.model_fields:
        reason = "the configuration has a key of that name"
    elif name in _OF_FINGERPRINTS:
        reason = "the fingerprint of a configuration has a key of that name"
    else:
        return True
    log.warning("%r of the package %s is left out: %s", name, package_of(name), reason)
    return False


@functools.cache
def _of_output(output: DerivedOutput) -> DerivedPublication | None:
    try:
        return _imported(output.publication, DerivedPublication)
    except InvalidArgument as error:
        log.warning("the derived output %r is left out: %s", output.name, error)
        return None


@functools.cache
def _imported(where: str, kind: type) -> Any:
    module, _, attribute = where.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:
        raise InvalidArgument(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, kind):
        raise InvalidArgument(f"{where} is {found!r}: expected a {kind.__name__}")
    return found
