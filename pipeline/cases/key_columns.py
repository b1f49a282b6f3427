"""Columns of a side's key, and published keys split into them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mbe_stage.pipeline import wording
from mbe_stage.pipeline.clean.facts import InputColumn
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.errors import PublishError

BUCKET = "time_bucket"
"""The column with the start of a key's time bucket."""
PLAIN, BUCKETS = "items", ("1h", "1d", "7d", "30d")
"""Names of tried keys: the items alone, and the buckets; attributes have other names."""


def key_columns(config: Config, side: str, columns: Sequence[InputColumn] = ()) -> tuple[str, ...]:
    """Return the names of the columns of a side's key, the time bucket last.

    A column selected by position gets its name from `manifest.input.columns`. Without a name it is called `left` or
    `right`, or `right_1`, `right_2` if there are several. Repeated names get the suffix `_2`, `_3`.

    Examples
    --------
    >>> config = Config.from_mapping({"input": {"left": "account", "right": ["item", 3]}})
    >>> key_columns(config, "left"), key_columns(config, "right")
    (('account',), ('item', 'right_2'))
    """
    chosen = (config.input.left,) if side == "left" else config.input.right_columns
    of_input = dict(enumerate(column.name for column in columns if column.setting == side))
    names = [
        name if isinstance(name, str) else of_input.get(at) or (side if len(chosen) == 1 else f"{side}_{at + 1}")
        for at, name in enumerate(chosen)
    ]
    if side == "right" and config.input.time_bucket is not None:
        names.append(BUCKET)
    return distinct_names(names)


def value_columns(key: str | None) -> tuple[str, ...]:
    """Return the names of the columns that a group's key adds to the item, for `key_value` of its members."""
    if key is None or key == PLAIN:
        return ()
    if key in BUCKETS:
        return (BUCKET,)
    attribute, x, bucket = key.rpartition(" x ")
    return (attribute, BUCKET) if x and bucket in BUCKETS else (key,)


def distinct_names(names: Sequence[str], taken: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names, with the suffix `_2`, `_3` for those that are repeated or already taken."""
    found: list[str] = []
    for name in names:
        unlike, number = name, 2
        while unlike in found or unlike in taken:
            unlike, number = f"{name}_{number}", number + 1
        found.append(unlike)
    return tuple(found)


def split_keys(keys: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> pa.Table:
    """Return published keys as one column per name; keys of several columns are JSON arrays.

    A column holds integers if all of its parts are integers, else text. A null key is null in each column.

    Examples
    --------
    >>> split_keys(pa.array(['["B00A7",5]', '["B00A8",4]', None]), ["item", "rating"]).to_pydict()
    {'item': ['B00A7', 'B00A8', None], 'rating': [5, 4, None]}
    """
    if len(names) == 1:
        return pa.table([keys], names=list(names))
    parts = [key_parts(key, len(names)) for key in keys.to_pylist()]
    return pa.table([_column([row[at] for row in parts]) for at in range(len(names))], names=list(names))


def key_parts(key: Any, n: int) -> list[Any]:
    """Return the parts of a key or a `key_value`; raise `PublishError` unless it is a JSON array of `n` parts."""
    found = [None] * n if key is None else wording.key_parts(key)
    if found is None or len(found) != n:
        raise PublishError(
            f"the key {str(key)[:80]!r} is no JSON array of {n} parts, as its columns need; expected the keys of a "
            "published run; see mbe verify, or publish it again"
        )
    return found


def _column(values: list[Any]) -> pa.Array:
    if all(value is None or (type(value) is int and -(2**63) <= value < 2**63) for value in values):
        return pa.array(values, pa.int64())
    return pa.array([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])
