"""The result of every reader: unchanged rows, and the place of each in the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.plain import plain_type
from mbe_stage.pipeline.backends.backend import Refusal, Rows, key_roles
from mbe_stage.pipeline.clean.facts import InputColumn
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import did_you_mean, setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io.further import KEPT, further_columns

FIRST_ROWS = 1000
"""Rows of a first look at the content of columns."""

_LONGEST_QUOTE = 80


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a row: ``file, line 7`` or ``file, row 7``, and the text of the line if there is one."""

    where: str
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEdges(Rows):
    """Rows in host memory, or in files.

    Attributes
    ----------
    table : pa.Table
        Columns `left` and `right`. If several columns make the key, `right` becomes `right 0`, `right 1` and so on.
        `weight` and `timestamp` if a filter, time buckets or an output need them. Further columns that may narrow the
        right key (`pipeline.io.further`).
    names : mapping
        The user's name for each of the table's columns; for messages.
    locate : callable
        Maps a row number (from 0) to its place. It may read the input again, so only errors call it.
    header : tuple of str
        The names of all columns, if the input has names.
    """

    table: pa.Table
    names: Mapping[str, str]
    locate: Callable[[int], Place]
    header: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        return self.table.num_rows

    @property
    def roles(self) -> list[str]:
        return self.table.column_names

    def with_roles(self, roles: Sequence[str]) -> RawEdges:
        return replace(self, table=self.table.select(roles))

    def part(self, start: int, n: int) -> RawEdges:
        """Return `n` rows from `start`; errors name their places in the input."""
        return replace(self, table=self.table.slice(start, n), locate=lambda row: self.locate(start + row))

    def with_column(self, role: str, values: pa.ChunkedArray) -> RawEdges:
        """Return the same rows with another column."""
        return replace(self, table=self.table.set_column(self.roles.index(role), role, values))

    def refusal(self, row: int | None, role: str | None, *, found: str, expected: str, remedy: str) -> InputError:
        place = Place(self.source) if row is None else self.locate(row)
        if place.text is not None:
            found += f" in the line {shortened(place.text)}"
        column = None if role is None else self.names[role]
        return InputError.at(place.where, column=column, found=found, expected=expected, remedy=remedy)

    def refusal_of(self, role: str) -> Refusal:
        """Return a function that makes errors about a column."""
        return partial(self.refusal, role=role)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The columns to read.

    Attributes
    ----------
    source : str
        The input, for messages.
    available : sequence of str
        The names of all its columns.
    positions : mapping
        The position of the column of each role.
    meant : tuple of InputColumn
        The configured columns, read or not, for `InputFacts.columns`.
    """

    source: str
    available: Sequence[str]
    positions: Mapping[str, int]
    meant: tuple[InputColumn, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """The name of the column of each role."""
        return self.of(self.available)

    def of(self, columns: Sequence[Any]) -> dict[str, Any]:
        """Return the entry of each role, given one for every column."""
        return {role: columns[position] for role, position in self.positions.items()}

    def edges(
        self, format_name: str, columns: dict[str, Any], locate: Callable[[int], Place], **others: Any
    ) -> RawEdges:
        """Return the rows, given the column of each role."""
        of_input: dict[str, Any] = {"source": self.source, "format": format_name, "input_columns": self.meant}
        return RawEdges(table=pa.table(columns), names=self.names, locate=locate, **of_input, **others)


Choose = Callable[[Sequence[str], str], Chosen]
"""Chooses columns, given the names of all, and the source for messages."""


def choose_columns(
    available: Sequence[str],
    config: InputConfig,
    source: object,
    sample: Callable[[int], Iterable[Any]] | None = None,
    *,
    are_named: bool = True,
) -> Chosen:
    """Choose the columns to read.

    A column is chosen by its name or its position from 0. A number as text is a position unless it is a column's name.
    Configured weight and timestamp columns must exist. They are read only for a filter, for time buckets, or if an
    output keeps them (`InputConfig.keeps_events`). Further columns are added if an output tries them as parts of the
    right key (`InputConfig.tries_keys`).

    Parameters
    ----------
    sample : callable, optional
        Takes a position; returns some values of that column. Without it, no further columns are read.
    are_named : bool
        True if the names come from the input rather than from the reader.
    """
    meant = _positions(available, config, str(source))
    chosen = dict(meant)
    _refuse_one_twice(chosen, available, config, str(source))
    if config.min_weight is None and not config.keeps_events:
        chosen.pop("weight", None)
    if {config.time_from, config.time_until, config.time_bucket} == {None} and not config.keeps_events:
        chosen.pop("timestamp", None)
    if config.tries_keys and sample is not None:
        taken = [position for role, position in meant.items() if role != "weight"]
        chosen |= further_columns(available, sample, taken, has_time=config.timestamp is not None)
    names = available if are_named else [None] * len(available)
    columns = (InputColumn(role.partition(" ")[0], at, names[at]) for role, at in meant.items())
    return Chosen(str(source), available, chosen, tuple(columns))


def all_columns(available: Sequence[str], source: str) -> Chosen:
    """Choose every column, in a role of its own: a `Choose`."""
    return Chosen(source, available, {f"{KEPT} {at}": at for at in range(len(available))})


def with_all_columns(chosen: Chosen, config: InputConfig) -> Chosen:
    """Return the chosen columns and, if all are wanted, also every column in a role of its own."""
    every = all_columns(chosen.available, chosen.source).positions if config.keeps_rows else {}
    return replace(chosen, positions={**chosen.positions, **every})


def as_array(
    values: Any, source: str, column: str | None = None, *, found: str, expected: str, remedy: str, **settings: Any
) -> pa.Array | pa.ChunkedArray:
    """Return values as a column, or refuse them; NaNs of pandas are nulls."""
    try:
        if getattr(values, "ndim", 1) != 1:
            raise ValueError(f"{values.ndim} dimensions")
        return pa.array(values, from_pandas=source == "memory:pandas")
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        lack_of_memory.pass_on(error)
        found = f"{found} ({' '.join(str(error).split())})"
        raise InputError.at(source, column=column, found=found, expected=expected, remedy=remedy, **settings) from None


def is_simple(kind: pa.DataType) -> bool:
    """Return whether values of this type, maybe in dictionaries, are integers, floats, text, moments or dates."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = ("is_integer", "is_float32", "is_float64", "is_string", "is_large_string", "is_timestamp", "is_date32")
    return any(getattr(pa.types, name)(kind) for name in tests)


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column whose type an attribute or a time may have; none of another type."""
    kind = plain_type(column.type)
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        # Any date will do: Python has none for years beyond 9999.
        return [date.min if is_present else None for is_present in column.is_valid().to_pylist()]
    return column.to_pylist() if is_simple(column.type) else []


def shortened(value: object) -> str:
    """Quote a value for a message, and cut it if it is too long to read."""
    quoted = repr(value)
    return quoted if len(quoted) <= _LONGEST_QUOTE else f"{quoted[:_LONGEST_QUOTE]}... ({len(quoted)} characters)"


def refuse_several(config: InputConfig, source: str, has: str) -> None:
    """Refuse a right key of several columns, and a column of graphs, for a format with a single key column."""
    several = list(config.right_columns) if len(config.right_columns) > 1 else None
    for key, given, one, columns in (
        ("right", several, "right column", "column for each part"),
        ("by", config.by, "graph", "column of graphs"),
    ):
        if given is not None:
            found = f"{has}, while {setting(f'input.{key}')} is {given!r}"
            remedy = f"write the edges as a table with a {columns}, for example as CSV or Parquet"
            raise InputError.at(source, found=found, expected=f"one {one}", remedy=remedy)


def refuse_repeated(names: Sequence[Any], kind: str, source: str, remedy: str) -> None:
    """Refuse a name that several things share."""
    twice, n = next(iter(Counter(names).most_common(1)), ("", 0))
    if n > 1:
        found = f"{n} {kind} named {shortened(twice)}"
        raise InputError.at(source, found=found, expected="distinct names", remedy=remedy)


def refuse_two_sets(config: InputConfig, source: str, has: str) -> None:
    """Refuse an input with two kinds of vertices if an undirected graph is requested."""
    if config.is_undirected:
        remedy = f"ask for a projection: {setting('cliques.project')} left or right"
        raise InputError.at(source, found=has, expected="edges between vertices of one kind", remedy=remedy)


def _positions(available: Sequence[str], config: InputConfig, source: str) -> dict[str, int]:
    """Return the position of each configured column, by role."""
    right_roles = key_roles("right", len(config.right_columns))
    wanted: dict[str, int | str | None] = dict(zip(right_roles, config.right_columns, strict=True))
    wanted = {"left": config.left, **wanted, "weight": config.weight, "timestamp": config.timestamp, "by": config.by}
    return {role: _position(available, key, role, source) for role, key in wanted.items() if key is not None}


def _refuse_one_twice(chosen: dict[str, int], available: Sequence[str], config: InputConfig, source: str) -> None:
    right = [chosen[role] for role in key_roles("right", len(config.right_columns))]
    if chosen["left"] in right:
        found, expected = f"{setting('input.left')} and {setting('input.right')} are both", "two columns"
        again = config.left
    elif len(set(right)) < len(right):
        found, expected = f"{setting('input.right')} repeats", "each column once"
        again = next(key for i, key in enumerate(config.right_columns) if right[i] in right[:i])
    elif chosen.get("by") in (chosen["left"], *right):
        found, expected = f"{setting('input.by')} and another key are both", "a column of graphs"
        again = available[chosen["by"]]
    else:
        return
    remedy = f"choose {'two' if len(right) == 1 else 'others'} of {listing(available)}"
    raise InputError.at(source, found=f"{found} column {again!r}", expected=expected, remedy=remedy)


def _position(available: Sequence[str], key: int | str, full_role: str, source: str) -> int:
    role = full_role.partition(" ")[0]
    if isinstance(key, str):
        matches = [position for position, name in enumerate(available) if name == key]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise InputError.at(
                source,
                found=f"{len(matches)} columns are named {key!r}",
                expected="one",
                remedy=f"set {setting(f'input.{role}')} to a position from 0: {matches[0]} is the first of them",
                settings=[{f"input.{role}": position} for position in matches if role == full_role],
            )
    if (isinstance(key, int) or key.isdecimal()) and 0 <= int(key) < len(available):
        return int(key)
    kind = "column at position" if isinstance(key, int) else "column"
    together = role == "right" and isinstance(key, str) and set(key.split(",")) <= set(available)
    raise InputError.at(
        source,
        found=f"no {kind} {key!r} for {setting(f'input.{role}')}",
        expected=f"one of {listing(available)}",
        remedy=f"for a key of several columns give {setting('input.right')} once for each, or a list in YAML"
        if together
        else f"{did_you_mean(str(key), available)}set {setting(f'input.{role}')} to one of these names or positions "
        "(from 0)",
    )


def listing(available: Sequence[str]) -> str:
    """List positions and names of the first 20 columns."""
    shown = ", ".join(f"{position} {name!r}" for position, name in enumerate(available[:20]))
    return shown + (f" and {len(available) - 20} more" if len(available) > 20 else "") if available else "no columns"
