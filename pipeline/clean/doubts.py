"""What about an input looks as if other columns were meant: at most one sentence, for `InputFacts.warnings`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from pipeline.clean.facts import InputFacts, column_text
from pipeline.config import InputConfig
from pipeline.naming import setting

__all__ = ["with_doubts"]

log = logging.getLogger(__name__)

# Of other formats the place says what a column is.
_WITH_COLUMNS = ("csv", "json", "parquet", "memory", "snap")
_FLAGS = ({"0", "1"}, {"0.0", "1.0"}, {"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"}, {"x"})
_DATE = re.compile(r"(\d{4})-?([01]\d)-?([0-3]\d)([T ]\d.{0,30})?")
_YEARS = range(1900, 2101)
# Keys that are looked at, evenly spread among the ordered ones.
_SAMPLE = 50
# Fewer rows tell flags from ids only if each vertex of the other side has one of them.
_FEW_ROWS, _FEW_OTHERS = 10, 3
_MOST_TYPES = 5
_ROWS_PER_TYPE = 200


def with_doubts(edges: Any, config: InputConfig, vertices: Mapping[str, Sequence[int]]) -> Any:
    """The same edges, with a warning if columns should be named; it is logged, too.

    Parameters
    ----------
    edges : Edges
    config : InputConfig
    vertices : mapping
        Ascending ids of the vertices that stand in the column of ``left`` and of ``right``.
    """
    facts = edges.facts
    reasons = list(_reasons(edges, config, vertices))
    if not reasons:
        return edges
    meant = f"name the ones that are meant: {setting('input.left')} and {setting('input.right')}"
    remedy = meant if _has_columns(facts) else f"check the input and {setting('input.format')}"
    warning = f"{facts.source}: {'; '.join(reasons)}; taken: {facts.taken}; {remedy}"
    log.warning("%s", warning)
    return replace(edges, facts=replace(facts, warnings=(*facts.warnings, warning)))


def _reasons(edges: Any, config: InputConfig, vertices: Mapping[str, Sequence[int]]) -> Iterator[str]:
    facts, named = edges.facts, config.model_fields_set
    n_taken = len({column.position for column in facts.columns})
    if _has_columns(facts) and not named & {"left", "right"} and facts.n_columns > n_taken:
        yield f"no column was named, and there are {facts.n_columns}"
    for side, other in (("left", "right"), ("right", "left")):
        n, n_others = len(vertices[side]), len(vertices[other])
        if n == 1 and n_others > 1 and facts.undirected is None:
            yield f"the {side} side has one vertex"
        if not _has_columns(facts) or side in named or config.time_bucket is not None:
            continue
        ids = vertices[side][:: max(1, n // _SAMPLE)]
        kind = _kind([str(edges.key_of(int(vertex), side)) for vertex in ids], n, n_others, facts)
        if kind is not None:
            column = next(column for column in facts.columns if column.setting == side)
            yield f"{column_text(column)} holds {kind}"


def _has_columns(facts: InputFacts) -> bool:
    return facts.format in _WITH_COLUMNS and facts.n_columns is not None and bool(facts.columns)


def _kind(keys: Sequence[str], n: int, n_others: int, facts: InputFacts) -> str | None:
    """What a column holds in the place of names of vertices, by some of its distinct keys; None if nothing tells."""
    has_rows = facts.rows_read >= _FEW_ROWS or facts.n_edges == n_others >= _FEW_OTHERS
    if has_rows and any({key.strip().lower() for key in keys} <= flags for flags in _FLAGS):
        return f"flags ({', '.join(keys)})"
    if n > 1 and all(map(_is_date, keys)):
        return f"dates ({keys[0]} to {keys[-1]})"
    if n <= _MOST_TYPES < n_others and facts.rows_read >= n * _ROWS_PER_TYPE:
        return f"{n} distinct values in {facts.rows_read:,} rows, like types of records"
    return None


def _is_date(key: str) -> bool:
    found = _DATE.fullmatch(key)
    if found is None or int(found[1]) not in _YEARS:
        return False
    try:
        date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return False
    return True
