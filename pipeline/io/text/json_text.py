"""JSON: objects with named fields, or lists of items, one per line or in one array.

An object is an edge, and its fields are the columns. A list is a transaction with column 0 `transaction` and column 1
`item`. Its left key is its number from 1, or the line number for one list per line. A field that holds a list stands
for one edge per item.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.raw import Place, RawEdges, as_array, choose_columns, shortened
from mbe_stage.pipeline.io.text.decoding import Sample, read_text

_ITEM_NAMES = ["transaction", "item"]


def is_json(sample: Sample) -> bool:
    """Return whether a text begins with a JSON object or array."""
    start = sample.text.lstrip()
    if start[:1] not in ("{", "["):
        return False
    first = next(line for line in sample.lines if line.strip())
    try:
        json.loads(first)
    except ValueError:
        # Or the bracket stands alone on the first line: the next character decides.
        return start[1:].lstrip()[:1] in ("{", "[", '"')
    return True


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read objects or lists."""
    found = list(_values(path, config))
    if not found:
        raise InputError.at(path, found="no values", expected="objects or lists", remedy="check that it is complete")
    places, values = zip(*found, strict=True)
    kind: Any = type(values[0])
    odd = next((i for i, value in enumerate(values) if type(value) is not kind or kind not in (dict, list)), None)
    if odd is not None:
        either = "objects with the columns as fields, or lists of items"
        expected = {dict: "a object", list: "a list"}.get(kind, either)
        remedy = "convert the file, one object or list a line"
        raise InputError.at(f"{path}, {places[odd]}", found=shortened(values[odd]), expected=expected, remedy=remedy)
    is_object = kind is dict
    names = list(dict.fromkeys(name for value in values for name in value)) if is_object else _ITEM_NAMES
    chosen = choose_columns(names, config, path, are_named=is_object)
    if is_object:
        picked = {role: [value.get(name) for value in values] for role, name in chosen.names.items()}
    else:
        picked = chosen.of([[int(place.split()[1]) for place in places], values])
    picked, of_row = _exploded(path, picked)
    return chosen.edges(
        "json",
        {role: _array(path, name, picked[role], config) for role, name in chosen.names.items()},
        lambda row: Place(f"{path}, {places[of_row[row]]}", json.dumps(values[of_row[row]])),
        dialect="objects" if is_object else "lists of items",
        n_columns=len(names) if is_object else None,
        header=tuple(names) if is_object else (),
    )


def _values(path: Path, config: InputConfig) -> Iterator[tuple[str, Any]]:
    """Yield each object or list, and its place."""
    text = read_text(path, config).removeprefix("\ufeff")
    lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    try:
        first = json.loads(lines[0][1])
    except (ValueError, IndexError):
        is_whole = True
    else:
        is_whole = len(lines) == 1 and isinstance(first, list) and isinstance(next(iter(first), None), dict | list)
    if is_whole:
        whole = _parsed(path, text, None)
        yield from ((f"entry {n}", each) for n, each in enumerate(whole if isinstance(whole, list) else [whole], 1))
    else:
        yield from ((f"line {n}", _parsed(path, line, n)) for n, line in lines)


def _parsed(path: Path, text: str, line: int | None) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError.at(
            path,
            line=line or getattr(error, "lineno", None),
            found=f"invalid JSON ({error})",
            expected="one object or list a line, or one array of them",
            remedy=f"correct it, or set {setting('input.format')}",
        ) from None


def _exploded(path: Path, columns: dict[str, list[Any]]) -> tuple[dict[str, list[Any]], list[int]]:
    """Return one row per item of the field with lists, and the value that each row came from."""
    with_lists = [role for role, column in columns.items() if any(isinstance(each, list) for each in column)]
    if len(with_lists) > 1:
        found = "lists in two fields, which may be columns or fully joined sets of vertices"
        remedy = "write one object per edge, for example with pandas.DataFrame.to_json(orient='records')"
        expected = "one edge, or one transaction of items, per object"
        raise InputError.at(path, found=found, expected=expected, remedy=remedy)
    # Without lists, any column has one item a row.
    listed = with_lists[0] if with_lists else next(iter(columns))
    items = [each if isinstance(each, list) else [each] for each in columns[listed]]
    of_row = [i for i, each in enumerate(items) for _ in each]
    exploded = {role: [column[i] for i in of_row] for role, column in columns.items()}
    return exploded | {listed: [item for each in items for item in each]}, of_row


def _array(path: Path, name: str, values: list[Any], config: InputConfig) -> pa.Array:
    if config.key_type == "string":
        values = [str(value) if type(value) is int else value for value in values]
    remedy = f"convert them, or set {setting('input.key_type')} to string for integers and text together"
    how: dict[str, Any] = {"expected": "integers, or text", "settings": [{"input.key_type": "string"}]}
    return as_array(values, str(path), name, found="values of mixed types", remedy=remedy, **how)
