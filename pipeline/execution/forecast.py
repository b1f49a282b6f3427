"""A forecast of a search from a short trial, for any problem.

A problem with its own estimate provides it in its publication (`Publication.outlook`). For other problems the engine
runs for the time of the trial, and its results are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mbe_stage.options import Execution
from mbe_stage.pipeline.problems.base import Publication
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.wording import bytes_text, percent_text, plural, seconds_text
from mbe_stage.problem import problem_named
from mbe_stage.stream import Progress, stream

if TYPE_CHECKING:
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.views.core_sizes import CoreSize

__all__ = ["Prospect", "Tried", "Trying", "look_ahead"]


@dataclass(frozen=True, slots=True)
class Trying:
    """A trial to run.

    Attributes
    ----------
    graph, query
        Of the problem's own types.
    seconds : float
        Time limit.
    key_types : (pa.DataType, pa.DataType)
        Of the left and right keys.
    seed : int
        Seed of random draws.
    """

    graph: Any
    query: Any
    seconds: float
    engine: str
    execution: Execution
    config: Config
    key_types: tuple[Any, Any]
    cores: Sequence[CoreSize]
    seed: int


@dataclass(frozen=True, slots=True)
class Prospect:
    """The forecast.

    Attributes
    ----------
    trial, estimate
        Dataclasses of plain values, for ``--json``; `estimate` is None if the problem has none.
    lines : sequence of (str, str)
        Label and text, for the terminal.
    suggestions : sequence of str
        What to try first.
    """

    trial: Any
    estimate: Any
    lines: Sequence[tuple[str, str]]
    suggestions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a short run of the engine, for any problem.

    Attributes
    ----------
    seconds : float
        Duration without compilation.
    n_found : int
        Results in that time: all of them if `complete`.
    work_done : float
        Share of the work, as the engine estimates it.
    table_bytes : int or None
        Size of those results in their table, before compression; None if rows have no fixed size.
    """

    engine: str
    device: str
    seconds: float
    n_found: int
    work_done: float
    table_bytes: int | None
    complete: bool


def look_ahead(trying: Trying) -> Prospect:
    """Forecast the search."""
    publication = publication_of(trying.config.problem)
    return _by_trying(publication, trying) if publication.outlook is None else publication.outlook(trying)


def _by_trying(publication: Publication, trying: Trying) -> Prospect:
    last = Progress(0, 0.0, 0.0, "")

    def note(progress: Progress) -> None:
        nonlocal last
        last = progress

    limited = replace(trying.execution, time_limit_seconds=trying.seconds, max_bicliques=None, max_cliques=None)
    problem, sink = problem_named(publication.problem), publication.count_sink()
    facts = stream(problem, sink, trying.graph, trying.query, limited, trying.engine, note)
    row = _row_bytes(publication, trying)
    tried = Tried(
        engine=facts.engine,
        device=facts.device,
        seconds=facts.seconds,
        n_found=facts.n_found,
        work_done=1.0 if facts.truncated is None else last.work_done,
        table_bytes=None if row is None else row * facts.n_found,
        complete=facts.truncated is None,
    )
    return Prospect(tried, None, _lines(publication, tried), _suggestions(publication, tried))


def _row_bytes(publication: Publication, trying: Trying) -> int | None:
    """Return the bytes of a row in the table of results; None unless every column has a fixed width."""
    schemas = publication.schemas(trying.config, trying.key_types)
    schema = schemas.get(publication.counted, schemas.get(f"{publication.counted}.parquet"))
    if schema is None or any(not _is_fixed(column.type) for column in schema):
        return None
    return sum((column.type.bit_width + 7) // 8 for column in schema)


def _is_fixed(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)


def _lines(publication: Publication, tried: Tried) -> Sequence[tuple[str, str]]:
    of = f"a trial of {seconds_text(tried.seconds)} ({tried.engine}: {tried.device})"
    found = f"{of} found {plural(tried.n_found, *publication.unit)}"
    size = "" if tried.table_bytes is None else f", {bytes_text(tried.table_bytes)} before compression"
    if tried.complete:
        return [("trial", f"{found}: all there are{size}")]
    share = f"{percent_text(tried.work_done, 1)} of the work"
    beyond = f"the problem {publication.problem} has no other estimate"
    return [("trial", f"{found}{size}, and did not finish: {share}, as the engine estimates it; {beyond}")]


def _suggestions(publication: Publication, tried: Tried) -> Sequence[str]:
    if tried.complete:
        return ["a full run is quick: the trial found all there are"]
    command = problem_named(publication.problem).called
    return [f"count before you store: mbe {command} INPUT --count-only --time-limit 60"]
