"""Signs that other columns of the input may be meant: at most one sentence, for `InputFacts.warnings`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from mbe_stage.pipeline.clean.facts import InputFacts, column_text
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting

log = logging.getLogger(__name__)

# In other formats the position defines a column.
_WITH_COLUMNS = ("csv", "json", "parquet", "memory", "snap")
_FLAGS = ({"0", "1"}, {"0.0", "1.0"}, {"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"}, {"x"})
_DATE = re.compile(r"((?:19|20)\d\d)-?([01]\d)-?([0-3]\d)([T ]\d.{0,30})?")
# Number of keys to check, evenly spread among the ordered ones.
_SAMPLE = 50
# With fewer rows, flags may be ids, unless there are this many vertices on the other side, each with one flag.
_FEW_ROWS, _FEW_OTHERS = 10, 3
_MOST_TYPES, _ROWS_PER_TYPE = 5, 200


def with_doubts(edges: Any, config: InputConfig, vertices: Mapping[str, Sequence[int]]) -> Any:
    """Return the same edges, with a warning if other columns may be meant; the warning is also logged.

    `vertices` has the ascending ids of the vertices in the columns of ``left`` and of ``right``.
    """
    facts = edges.facts
    has_columns = facts.format in _WITH_COLUMNS and facts.n_columns is not None
    reasons = list(_reasons(edges, config, vertices, has_columns))
    if not reasons:
        return edges
    meant = f"name the right ones: {setting('input.left')} and {setting('input.right')}"
    remedy = meant if has_columns else f"check the input and {setting('input.format')}"
    warning = f"{facts.source}: {'; '.join(reasons)}; taken: {facts.taken}; {remedy}"
    log.warning("%s", warning)
    return replace(edges, facts=replace(facts, warnings=(*facts.warnings, warning)))


def _reasons(
    edges: Any, config: InputConfig, vertices: Mapping[str, Sequence[int]], has_columns: bool
) -> Iterator[str]:
    facts, named = edges.facts, config.model_fields_set
    taken = {column.position for column in facts.columns}
    if has_columns and not named & {"left", "right"} and facts.n_columns > len(taken):
        yield f"no column was named, and there are {facts.n_columns}"
    for side, other in (("left", "right"), ("right", "left")):
        n, n_others = len(vertices[side]), len(vertices[other])
        if n == 1 and n_others > 1 and facts.undirected is None:
            yield f"the {side} side has one vertex"
        if has_columns and side not in named and config.time_bucket is None:
            keys = [str(edges.key_of(int(vertex), side)) for vertex in vertices[side][:: max(1, n // _SAMPLE)]]
            for kind in _kinds(keys, n, n_others, facts):
                column = next(column for column in facts.columns if column.setting == side)
                yield f"{column_text(column)} holds {kind}"


def _kinds(keys: Sequence[str], n: int, n_others: int, facts: InputFacts) -> Iterator[str]:
    """Describe the content of a column that does not look like vertex names, from some of its distinct keys."""
    has_rows = facts.rows_read >= _FEW_ROWS or facts.n_edges == n_others >= _FEW_OTHERS
    if has_rows and any({key.strip().lower() for key in keys} <= flags for flags in _FLAGS):
        yield f"flags ({', '.join(keys)})"
    elif n > 1 and all(map(_is_date, keys)):
        yield f"dates ({keys[0]} to {keys[-1]})"
    elif n <= _MOST_TYPES < n_others and facts.rows_read >= n * _ROWS_PER_TYPE:
        yield f"{n} distinct values in {facts.rows_read:,} rows, like types of records"


def _is_date(key: str) -> bool:
    found = _DATE.fullmatch(key)
    try:
        return found is not None and bool(date(int(found[1]), int(found[2]), int(found[3])))
    except ValueError:
        return False
