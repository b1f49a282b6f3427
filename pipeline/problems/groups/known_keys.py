"""Tables of known keys: known cases (`groups.labels`) and known good ones (`groups.allow`).

A table has a column `key` and, unless all keys are of the left side, a column `side`. Labels may have a column `class`.
Keys are compared as text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.backends.arrow.keys import as_keys, as_utf8, first_true
from mbe_stage.pipeline.backends.arrow.plain import as_plain
from mbe_stage.pipeline.config.setting_names import did_you_mean, setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.named_columns import read_named_columns
from mbe_stage.pipeline.io.raw import RawEdges, shortened
from mbe_stage.pipeline.problems.derived_inputs import LabelClass
from mbe_stage.pipeline.problems.groups.section import GroupsSection

LABELS, ALLOW = "labels", "allow"
"""The lists, named like their keys in the section."""

POSITIVE = "positive"
"""The class of all labels in a table without a class column."""

_SIDES = ("left", "right")
_MOST_CLASSES = 1_000
_NAMED = 10


@dataclass(frozen=True, slots=True, eq=False)
class KeyList:
    """A list of keys, distinct per side.

    Attributes
    ----------
    name : str
        `LABELS` or `ALLOW`.
    table : pa.Table
        Text columns `side`, `key` and `class`, ascending by side and key; the class is null in `ALLOW`.
    fingerprint : str
        SHA-256 of its rows, each a JSON list ended by a line feed. It does not depend on the file's format or order.
    classes : tuple of LabelClass
        Classes of `LABELS`, by name.
    """

    name: str
    table: pa.Table
    fingerprint: str
    classes: tuple[LabelClass, ...] = ()


def read_lists(section: GroupsSection) -> dict[str, KeyList]:
    """Read the lists that the section names; return them by name.

    Raises
    ------
    InputError
        A file cannot be read or lacks a column; a key or class is missing; a side is invalid; a key has two classes; or
        it is unclear which classes are known cases.
    """
    paths = {LABELS: section.labels, ALLOW: section.allow}
    return {name: _read(name, path, section) for name, path in paths.items() if path is not None}


def fingerprint_of(table: pa.Table) -> str:
    """Return the `KeyList.fingerprint` of ordered rows with `side`, `key` and `class`."""
    digest = hashlib.sha256()
    for row in zip(*(table[column].to_pylist() for column in ("side", "key", "class")), strict=True):
        digest.update(json.dumps(row).encode() + b"\n")
    return digest.hexdigest()


def taken_as(name: str, section: GroupsSection) -> Literal["positive", "negative", "ignored"] | None:
    """Return the meaning of a class of labels; None if neither the section nor its name tells."""
    word = section.word(name)
    positive, negative = ({section.word(each) for each in given} for given in section.names_classes.values())
    if word in positive or word in negative:
        return "positive" if word in positive else "negative"
    if word in section.UNLABELLED_WORDS or (positive and negative):
        return "ignored"
    if positive or negative:
        return "negative" if positive else "positive"
    return "positive" if word in section.POSITIVE_WORDS else "negative" if word in section.NEGATIVE_WORDS else None


def classes_of(column: pa.ChunkedArray, section: GroupsSection) -> tuple[LabelClass, ...]:
    """Return the classes of the labels, by name."""
    keys = {row["values"]: row["counts"] for row in column.value_counts().to_pylist()}
    taken = ((name, taken_as(name, section)) for name in sorted(keys))
    return tuple(LabelClass(name=name, taken=how, keys=keys[name]) for name, how in taken if how is not None)


def _read(name: str, path: str, section: GroupsSection) -> KeyList:
    called, with_class = setting(f"groups.{name}"), name == LABELS
    raw = read_named_columns(path, ("key",), ("side", "class") if with_class else ("side",), called)
    n_rows = raw.table.num_rows
    keys = _texts(raw, "key")
    sides = _sides(raw) if "side" in raw.names else _constant("left", n_rows)
    classes = pa.nulls(n_rows, pa.large_string())
    if with_class:
        classes = _texts(raw, "class") if "class" in raw.names else _constant(POSITIVE, n_rows)
    table = pa.table({"side": sides, "key": keys, "class": classes, "row": pa.array(range(n_rows), pa.int64())})
    table = table.sort_by([("side", "ascending"), ("key", "ascending"), ("row", "ascending")]).combine_chunks()
    table = _distinct(raw, table)
    if with_class:
        _check_classes(raw, table["class"], section)
    return KeyList(name, table, fingerprint_of(table), classes_of(table["class"], section) if with_class else ())


def _check_classes(raw: RawEdges, column: pa.ChunkedArray, section: GroupsSection) -> None:
    """Refuse labels if the known cases are unclear, if none is negative, or if a setting is mistyped."""
    names = sorted(pc.unique(column).to_pylist())
    has_classes = "class" in raw.names
    words = {section.word(name) for name in names}
    # Without the column, all keys are known cases.
    checked = {how: given for how, given in section.names_classes.items() if has_classes or how == "positive"}
    for how, given in checked.items():
        if given and names and not words & {section.word(each) for each in given}:
            key, meant = setting(f"groups.{how}"), did_you_mean(str(given[0]), names)
            found = f"none of the classes named by {key} ({_named(map(str, given))})"
            raise _of_classes(raw, found, f"one of {_named(names)}", f"{meant}correct {key}")
    if len(names) > _MOST_CLASSES:
        remedy = "check that the column holds classes"
        raise _of_classes(raw, f"{len(names):,} classes", f"at most {_MOST_CLASSES:,}", remedy)
    taken = {name: taken_as(name, section) for name in names}
    unsure = [name for name, how in taken.items() if how is None]
    if any(map(_is_number, unsure)):
        # With -1 or 2 as another class, the meaning of 1 is unclear.
        taken = {name: None if _is_number(name) else how for name, how in taken.items()}
        unsure = [name for name, how in taken.items() if how is None]
    if unsure or (has_classes and names and "negative" not in taken.values() and not section.positive):
        raise _unsure(raw, taken, unsure)


def _unsure(raw: RawEdges, taken: Mapping[str, str | None], unsure: Sequence[str]) -> InputError:
    """Name the classes, and offer each way to state their meaning."""
    known = {each: [name for name, how in taken.items() if how == each] for each in ("positive", "negative")}
    error = _of_classes(
        raw,
        found=f"{_named(unsure)}: it is unclear which of these classes are known cases"
        if unsure
        else f"{_named(taken)}: no class is clearly one of other cases",
        expected="clear class names, such as 0 and 1, or fraud and legit",
        remedy=f"name the classes of known cases with {setting('groups.positive')}, or the other classes with "
        f"{setting('groups.negative')}",
    )
    ways: list[dict[str, object]] = [
        {f"groups.{each}": [*names, name]} for name in unsure[:_NAMED] for each, names in known.items()
    ]
    if not ways and known["positive"]:
        ways.append({"groups.positive": known["positive"]})
    error.settings = tuple(ways)
    return error


def _of_classes(raw: RawEdges, found: str, expected: str, remedy: str) -> InputError:
    return raw.refusal(None, "class" if "class" in raw.names else "key", found=found, expected=expected, remedy=remedy)


def _is_number(name: str) -> bool:
    return name.strip().lstrip("-").replace(".", "", 1).isdecimal()


def _named(names: Iterable[str]) -> str:
    listed = list(map(shortened, names))
    return ", ".join(listed[:_NAMED]) + (f" and {len(listed) - _NAMED:,} more" if len(listed) > _NAMED else "")


def _texts(raw: RawEdges, role: str) -> pa.Array:
    """Return a column as text without nulls: whole numbers in decimal digits, booleans as ``true`` and ``false``."""

    def refuse(row: int | None, *, found: str, expected: str, remedy: str) -> InputError:
        del expected, remedy
        return raw.refusal(row, role, found=found, expected="text or whole numbers", remedy="correct the table")

    column = raw.table[role]
    if pa.types.is_boolean(column.type):
        values = as_plain(column).cast(pa.large_string())
    else:
        values = as_keys(column, "string", refuse)
        as_utf8(values.drop_null(), refuse)
    empty = first_true(pc.is_null(values))
    if empty is not None:
        remedy = "complete the row, or leave it out" if role != "class" else "leave out rows whose class is unknown"
        raise raw.refusal(empty, role, found="nothing", expected=f"a {role} in every row", remedy=remedy)
    return values


def _sides(raw: RawEdges) -> pa.Array:
    sides = _texts(raw, "side")
    odd = first_true(pc.invert(pc.is_in(sides, pa.array(_SIDES, pa.large_string()))))
    if odd is not None:
        found = shortened(sides[odd].as_py())
        remedy = "correct it; without the column all keys are of the left side"
        raise raw.refusal(odd, "side", found=found, expected="left or right", remedy=remedy)
    return sides


def _constant(value: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.large_string()), n)


def _distinct(raw: RawEdges, table: pa.Table) -> pa.Table:
    """Return the distinct keys per side; `table` is ordered by them.

    Raises
    ------
    InputError
        A key has two classes.
    """
    if table.num_rows < 2:
        return table.drop_columns("row")
    one, next_one = table.slice(0, table.num_rows - 1), table.slice(1)
    repeats = pc.and_(*(pc.equal(next_one[name], one[name]) for name in ("side", "key"))).combine_chunks()
    differs = pc.not_equal(next_one["class"], one["class"])
    contrary = first_true(pc.and_(repeats, pc.fill_null(differs, False)).combine_chunks())
    if contrary is not None:
        first, second = (part["class"][contrary].as_py() for part in (one, next_one))
        raise raw.refusal(
            next_one["row"][contrary].as_py(),
            "class",
            found=f"{shortened(second)} for the {one['side'][contrary].as_py()} key "
            f"{shortened(one['key'][contrary].as_py())}, which is {shortened(first)} in a row before",
            expected="one class for each key",
            remedy="leave one of the rows out",
        )
    is_first = pa.concat_arrays([pa.array([True]), pc.invert(repeats)])
    return table.filter(is_first).drop_columns("row")
