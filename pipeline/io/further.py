"""A first look at further columns of an input: which of them may be an attribute or a time of each row.

`pipeline.clean.attributes` decides with all rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

ATTRIBUTE, TIME = "attribute", "moment"
"""The first word of the roles of these columns; the rest is the column's name."""
KEPT = "kept"
"""The first word of the roles of all columns, read as they are (`InputConfig.keeps_rows`); the rest is the position."""

MOST_VALUES, MOST_ATTRIBUTES = 50, 6
_SECONDS = 10**8, 10**11
_LONGEST_VALUE = 64
# Labels are no attributes: groups would be found by the very cases that they should reveal.
_LABELS = re.compile(
    r"(?i)(^|[^a-z])(label|labels|class|target|truth|fraud|fraudulent|is_?fraud|anomaly|split|fold)($|[^a-z])"
)
_TIMES = re.compile(r"(?i)(time|date|stamp|moment|^ts?$|_ts$|_at$|^when$)")
_ISO = re.compile(r"[12]\d{3}-[01]\d-[0-3]\d([T ]\d\d:\d\d.*)?")


def further_columns(
    names: Sequence[str], sample: Callable[[int], Iterable[Any]], taken: Iterable[int], *, has_time: bool
) -> dict[str, int]:
    """Choose further columns to read, by a first look; return their positions by role, such as ``attribute rating``.

    `sample` takes a position, and returns some values of the column. Columns for keys and times are `taken`; with
    `has_time` the times are known already.
    """
    used, found, n_attributes = set(taken), dict[str, int](), 0
    for position, name in enumerate(names):
        if position in used or names.count(name) > 1 or _LABELS.search(name):
            continue
        values = [value for value in sample(position) if value is not None and value != ""]
        if not values:
            continue
        if all(_is_time(name, value) for value in values):
            if not has_time:
                found[f"{TIME} {name}"] = position
                has_time = True
        elif n_attributes < MOST_ATTRIBUTES and _may_be_attribute(values):
            found[f"{ATTRIBUTE} {name}"] = position
            n_attributes += 1
    return found


def is_further(role: str) -> bool:
    """Return whether a role is that of a further column."""
    return role.partition(" ")[0] in (ATTRIBUTE, TIME)


def _is_time(name: str, value: Any) -> bool:
    if isinstance(value, date):
        return True
    if isinstance(value, str) and _ISO.fullmatch(value):
        return True
    if not _TIMES.search(name) or isinstance(value, bool):
        return False
    try:
        number = float(value)
    except (TypeError, ValueError):
        return False
    return _SECONDS[0] <= number < _SECONDS[1]


def _may_be_attribute(values: Sequence[Any]) -> bool:
    is_short = all(len(str(value)) <= _LONGEST_VALUE for value in values)
    return is_short and len(set(map(str, values))) <= MOST_VALUES
