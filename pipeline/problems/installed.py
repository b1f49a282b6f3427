"""The installed publications of problems and derived outputs, and those that a configuration uses.

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
    """Return the publication of a problem.

    Raises
    ------
    InvalidArgument
        There is no such problem, it has no publication, or its entry point names something else.
    """
    # Only publications provide these facts.
    return cast(Publication, problem_facts(problem))


def every_publication() -> tuple[Publication, ...]:
    """Return the publications of all installed problems; those that cannot be imported are skipped with a warning."""
    found = []
    for name in published_problems():
        try:
            found.append(publication_of(name))
        except InvalidArgument as error:
            log.warning("the problem %r is left out: %s", name, error)
    return tuple(found)


def limit_of(problem: str) -> str | None:
    """Return the key of the section `execution` that limits the number of results, if the problem has one."""
    return problem_named(problem).limit


def derived_publications(problem: str) -> tuple[DerivedPublication, ...]:
    """Return the publications of a problem's installed derived outputs, by name.

    Outputs that cannot be imported are skipped with a warning: a broken package must not end unrelated work.
    """
    return cast(tuple[DerivedPublication, ...], derived_facts(problem))


def derived_of(config: Config) -> tuple[DerivedPublication, ...]:
    """Return the derived outputs whose sections are in a configuration.

    Raises
    ------
    ConfigError
        Two of them, or one of them and the problem, would write the same table.
    """
    if not config.model_extra:
        # Without other sections, no other package is imported.
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

    If a derived output uses weights and times, they are read. If the problem searches undirected graphs, both columns
    name vertices of one set.

    Parameters
    ----------
    **given
        Values that replace keys of the section.

    Raises
    ------
    ConfigError
        See `derived_of`; right keys of several columns or with time buckets for an undirected graph; a column of graphs
        for outputs that would mix them; or a ranking by weight without a column of weights.
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
    """Refuse a column of graphs for outputs whose rows do not name their graph, and for tables in device memory."""
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
    """Refuse right keys of several columns or with a time bucket; both ends of an undirected edge are of one kind."""
    several = len(config.input.right_columns) > 1
    if several or config.input.time_bucket is not None:
        key = setting("input.right" if several else "input.time_bucket")
        has = "has several columns" if several else f"is {config.input.time_bucket!r}"
        raise ConfigError(
            f"{key} {has}, which makes keys of right vertices; expected one column for each end of an edge: an "
            "undirected graph has one kind of vertex; leave it out"
        )


def unknown_sections(config: Config) -> tuple[str, ...]:
    """Return the sections of a configuration that are unknown here: derived outputs of another installation."""
    if not config.model_extra:
        return ()
    known = {config.problem, *(each.name for each in derived_publications(config.problem))}
    return tuple(name for name in config.model_extra or {} if name not in known)


def inputs_of(config: Config, *, of_search: bool = False) -> dict[str, dict[str, str]]:
    """Return fingerprints of the input files of derived outputs, by output and key of its section.

    Parameters
    ----------
    of_search : bool
        Leave out files that do not affect the search (`DerivedPublication.late_keys`).

    Raises
    ------
    InputError
        A file cannot be used.
    ConfigError
        Two outputs would write the same table.
    """
    found = {}
    for each in derived_of(config):
        left_out = each.late_keys if of_search else ()
        found[each.name] = {key: value for key, value in each.inputs(config).items() if key not in left_out}
    return {name: inputs for name, inputs in found.items() if inputs}
