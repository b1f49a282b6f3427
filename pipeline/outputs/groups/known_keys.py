"""What the user knows of keys: known cases (`groups.labels`) and known good (`groups.allow`), as tables say it.

A table has a column `key`, and where that is not the left side a column `side`; labels may have a column `class`. Keys
are compared as text, as everywhere.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.backends.arrow.keys import as_keys, as_plain, as_utf8, first_true
from pipeline.errors import InputError
from pipeline.io.named_columns import read_named_columns
from pipeline.io.raw import RawEdges, shortened
from pipeline.naming import setting
from pipeline.outputs.groups.section import GroupsSection

__all__ = ["ALLOW", "LABELS", "POSITIVE", "KeyList", "fingerprint_of", "is_negative", "read_lists"]

LABELS, ALLOW = "labels", "allow"
"""The lists, by the keys of the section that name them."""

POSITIVE = "positive"
"""The class of labels in a table without that column."""

_SIDES = ("left", "right")


@dataclass(frozen=True, slots=True, eq=False)
class KeyList:
    """One of the lists, every key of a side once.

    Attributes
    ----------
    name : str
        `LABELS` or `ALLOW`.
    table : pa.Table
        Columns `side`, `key` and `class`, text, the class null in `ALLOW`; ascending by side and key.
    fingerprint : str
        Of what it says, whatever the format and order of the file: SHA-256 of its rows, each as a JSON list and ended
        by a line feed.
    """

    name: str
    table: pa.Table
    fingerprint: str


def read_lists(asked: GroupsSection) -> dict[str, KeyList]:
    """The lists that the section names, by name.

    Raises
    ------
    InputError
        A file cannot be read or lacks a column; a key or class is missing, a side is none, or a key has two classes.
    """
    paths = {LABELS: asked.labels, ALLOW: asked.allow}
    return {name: _read(name, path) for name, path in paths.items() if path is not None}


def fingerprint_of(table: pa.Table) -> str:
    """The `KeyList.fingerprint` of rows that have `side`, `key` and `class` and are in their order."""
    digest = hashlib.sha256()
    for row in zip(*(table[column].to_pylist() for column in ("side", "key", "class")), strict=True):
        digest.update(json.dumps(row).encode() + b"\n")
    return digest.hexdigest()


def is_negative(name: str, asked: GroupsSection) -> bool:
    """Whether a label of this class says that its key is no known case."""
    return name.strip().lower() in {str(each).strip().lower() for each in asked.negative}


def _read(name: str, path: str) -> KeyList:
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
    return KeyList(name, table, fingerprint_of(table))


def _texts(raw: RawEdges, role: str) -> pa.Array:
    """A column as text without nulls; whole numbers as they are written, booleans as ``true`` and ``false``."""

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
        remedy = "complete the row, or leave it out" if role != "class" else "leave rows out whose class nobody knows"
        raise raw.refusal(empty, role, found="nothing", expected=f"a {role} in every row", remedy=remedy)
    return values


def _sides(raw: RawEdges) -> pa.Array:
    sides = _texts(raw, "side")
    odd = first_true(pc.invert(pc.is_in(sides, pa.array(_SIDES, pa.large_string()))))
    if odd is not None:
        found = shortened(sides[odd].as_py())
        remedy = "correct it; without the column every key is of the left side"
        raise raw.refusal(odd, "side", found=found, expected="left or right", remedy=remedy)
    return sides


def _constant(value: str, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.large_string()), n)


def _distinct(raw: RawEdges, table: pa.Table) -> pa.Table:
    """Every key of a side once; `table` is ordered by them.

    Raises
    ------
    InputError
        One has two classes.
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
