"""The publications of the problems and derived outputs that are installed, and those that a configuration asks for.

`pipeline.config.registry` finds and imports them.
"""

from __future__ import annotations

import logging
from typing import cast

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.config.model import Config, InputConfig
from mbe_stage.pipeline.config.plugin_sections import OURS
from mbe_stage.pipeline.config.registry import derived_facts, forget_publications, problem_facts, published_problems
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import ConfigError
from mbe_stage.pipeline.problems.base import DerivedPublication, Publication
from mbe_stage.problem import problem_named

__all__ = [
    "derived_of",
    "derived_publications",
    "every_publication",
    "forget_publications",
    "inputs_of",
    "limit_of",
    "publication_of",
    "published_problems",
    "reading_of",
    "unknown_sections",
]

log = logging.getLogger(__name__)


def publication_of(problem: str) -> Publication:
    """The publication of the problem of that name.

    Raises
    ------
    InvalidArgument
        There is no such problem, it has none, or names something else.
    """
    # Nothing else has the facts of one.
    return cast(Publication, problem_facts(problem))


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
    return cast(tuple[DerivedPublication, ...], derived_facts(problem))


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

    outputs = tuple(each for each in derived_publications(config.problem) if config.section(each.name) is not None)
    writers: dict[str, str] = {}
    tables_of = {
        config.problem: publication_of(config.problem).schemas,
        **{each.name: each.schemas for each in outputs},
    }
    for name, schemas in tables_of.items():
        for table in schemas(config, (pa.int64(), pa.int64())):
            if table in writers:
                raise ConfigError(
                    f"{writers[table]} and {name} both write {table}; expected one writer for each table; leave the "
                    f"section {name!r} out"
                )
            writers[table] = name
    return outputs


def reading_of(config: Config, **given: str) -> InputConfig:
    """Return the section `input` with the requirements of the problem and of derived outputs.

    Weights and times are read where a derived output wants them; columns as ends of edges without direction where the
    problem searches such graphs.

    Parameters
    ----------
    **given
        Keys of the section to be replaced.

    Raises
    ------
    ConfigError
        As `derived_of`; columns that make right keys only, for a graph that has no right side; a column of graphs for
        what does not keep them apart; or no column of weights for what ranks by them.
    """
    section = config.input.model_copy(update=given)
    if section.by is not None:
        _refuse_what_mixes_graphs(config)
    if publication_of(config.problem).undirected(config):
        _refuse_right_keys(config)
        section = section.of_one_set()
    outputs = derived_of(config)
    if any(each.tries_keys(config) for each in outputs):
        section = section.trying_keys()
    keeps_events = publication_of(config.problem).weighs(config) or any(each.events for each in outputs)
    return section.keeping_events() if keeps_events else section


def _refuse_what_mixes_graphs(config: Config) -> None:
    """A column of graphs is for bicliques alone, whose rows say which graph they are of, and for tables of the host."""
    others = [setting(each.name) for each in derived_of(config)]
    if config.problem != OURS:
        others = [f"{setting('problem')} {config.problem}"]
    if config.execution.engine == "rapids":
        others.append(f"{setting('execution.engine')} rapids")
    if others:
        raise ConfigError(
            f"{setting('input.by')} lists the bicliques of each graph by itself, which {others[0]} does not; leave one "
            "of the two out"
        )


def _refuse_right_keys(config: Config) -> None:
    """An edge without direction has two ends of one kind: no end of several columns, none with a time bucket."""
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


def inputs_of(config: Config, *, of_search: bool = False) -> dict[str, dict[str, str]]:
    """Fingerprints of the files that derived outputs are given, by output and key of its section.

    Parameters
    ----------
    of_search : bool
        Leave out those that change nothing in the search (`DerivedPublication.late_keys`).

    Raises
    ------
    InputError
        One of them cannot be used.
    ConfigError
        Two outputs would write the same table.
    """
    found = {}
    for each in derived_of(config):
        left_out = each.late_keys if of_search else ()
        found[each.name] = {key: value for key, value in each.inputs(config).items() if key not in left_out}
    return {name: inputs for name, inputs in found.items() if inputs}
