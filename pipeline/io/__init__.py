"""Readers of edges: one module per format, loaded on first use.

Every function refuses an unusable input with an `InputError` that names the place and the reason.

A new format is a module with ``read(path, config) -> RawEdges`` and a row in `READERS`. If the format can be
recognised, it also gets a rule in `detect`.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.compression import check_path, unreadable
from mbe_stage.pipeline.io.raw import Place, RawEdges, shortened
from mbe_stage.pipeline.io.sources import files_of, is_object, joined_names, one_table

__all__ = ["FORMATS", "READERS", "FoundInput", "Place", "RawEdges", "find_input", "is_object", "read_edges", "reading"]

READERS = {
    "parquet": "mbe_stage.pipeline.io.parquet",
    "csv": "mbe_stage.pipeline.io.text.delimited",
    "konect": "mbe_stage.pipeline.io.text.konect",
    "snap": "mbe_stage.pipeline.io.text.snap",
    "matrix_market": "mbe_stage.pipeline.io.matrix_market",
    "npz": "mbe_stage.pipeline.io.npz",
    "fimi": "mbe_stage.pipeline.io.text.fimi",
    "json": "mbe_stage.pipeline.io.text.json_text",
    "biadjacency": "mbe_stage.pipeline.io.text.biadjacency",
    "cxt": "mbe_stage.pipeline.io.cxt",
}
FORMATS = tuple(READERS)
_DIRECTORY_FORMATS = ("parquet", "konect")
_TABLES = ("csv", "fimi", "biadjacency")
_APPLIES_TO = {
    "delimiter": _TABLES,
    "header": _TABLES,
    "trim": ("csv",),
    "encoding": (*_TABLES, "konect", "snap", "json", "cxt"),
    "skip_lines": (*_TABLES, "konect", "snap"),
    "comment": (*_TABLES, "konect", "snap"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FoundInput:
    """An existing path and its format.

    If several files form one table, they are in `files`, `name` is the user's name for them, and `path` is the first.
    """

    path: Path
    format: str
    files: tuple[Path, ...] = ()
    name: str = ""


def read_edges(config: InputConfig, source: object | None = None, **how: Any) -> RawEdges:
    """Read the rows of a path or of an object in memory, unchanged; `how` has options for the reader of the format.

    A `source` is read instead of `config.path`: an object in memory (see `pipeline.io.memory.read_object`), a path, or
    a list of paths.
    """
    if is_object(source):
        from mbe_stage.pipeline.io.memory import read_object

        _refuse_what_does_not_apply(FoundInput(Path("memory"), "memory"), config)
        return with_measures(read_object(source, config), config)
    found = find_input(config, source)
    reader = cast(Callable[..., RawEdges], importlib.import_module(READERS[found.format]).read)

    def read(path: Path) -> RawEdges:
        with reading(path):
            return reader(path, config, **how)

    raw = one_table(found.name, found.files, read) if found.files else read(found.path)
    return with_measures(raw, config)


def find_input(config: InputConfig, source: object | None = None) -> FoundInput:
    """Find the path to read and its format: the configured one, or the one detected from bytes, name and first lines.

    Several files must have the same format.
    """
    given = config.path if source is None else cast(Any, source)
    if not given:
        name = setting("input.path")
        raise InputError.at(name, found="nothing", expected="a file or directory of edges", remedy=f"set {name}")
    found = []
    for place in given if isinstance(given, list | tuple) else [given]:
        # Path.expanduser raises for an unknown user. This keeps the name, which is then reported as missing.
        path = Path(os.path.expanduser(place))
        with reading(path):
            found += [(each, _format(each, config)) for each in files_of(path, config.format)]
    first, common = found[0]
    for path, kind in found:
        if kind != common:
            odd = f"the format {kind}, while {first} is {common}"
            remedy = f"read them one at a time, or set {setting('input.format')}"
            raise InputError.at(path, found=odd, expected="one format in all files", remedy=remedy)
    several = (tuple(path for path, _ in found), joined_names(given)) if len(found) > 1 else ()
    chosen = FoundInput(first, common, *several)
    _refuse_what_does_not_apply(chosen, config)
    return chosen


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an `OSError` within the context into a refusal of this path, or into `MemoryError` if it means that."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(str(error)) from error
        # One of the files in a directory, or of a pattern.
        raise unreadable(Path(error.filename or path), error) from None


def _format(path: Path, config: InputConfig) -> str:
    from mbe_stage.pipeline.io.foreign import refuse_foreign

    check_path(path)
    refuse_foreign(path, config)
    if config.format == "auto":
        from mbe_stage.pipeline.io.detect import detect_format

        return detect_format(path, config)
    if path.is_dir() and config.format not in _DIRECTORY_FORMATS:
        expected = f"a file in the format {config.format}"
        raise InputError.at(path, found="a directory", expected=expected, remedy="give one of the files in it")
    return config.format


def _refuse_what_does_not_apply(found: FoundInput, config: InputConfig) -> None:
    for key, formats in _APPLIES_TO.items():
        if getattr(config, key) is not None and found.format not in formats:
            raise InputError.at(
                found.path,
                found=f"{setting(f'input.{key}')} for the format {found.format}"
                + (" that was detected" if config.format == "auto" else ""),
                expected=f"it only for {', '.join(formats[:-1])}{' or ' if len(formats) > 1 else ''}{formats[-1]}",
                remedy=f"leave it out, or set {setting('input.format')}",
                settings=[{f"input.{key}": None}],
            )


def with_measures(raw: RawEdges, config: InputConfig) -> RawEdges:
    """Return the same rows, with text weights and times parsed by `config.decimal` and `config.date_format`."""
    for role in [role for role in ("weight", "timestamp") if role in raw.roles]:
        values = raw.table.column(role)
        if role == "timestamp" and config.date_format is not None and pa.types.is_integer(values.type):
            # Dates such as 20240131.
            values = values.cast(pa.string())
        if values.type not in (pa.string(), pa.large_string()):
            continue
        if role == "timestamp" and config.date_format is not None:
            raw = raw.with_column(role, _moments(raw, values, config.date_format))
        elif config.decimal == ",":
            raw = raw.with_column(role, pc.replace_substring(values, ",", "."))
    return raw


def _moments(raw: RawEdges, values: Any, date_format: str) -> pa.ChunkedArray:
    coded = pc.dictionary_encode(values.combine_chunks())
    microseconds: list[int | None] = []
    for code, text in enumerate(coded.dictionary.to_pylist()):
        try:
            moment = datetime.strptime(text, date_format)
        except ValueError:
            raise raw.refusal(
                int(pc.index(coded.indices, code).as_py()),
                "timestamp",
                found=shortened(text),
                expected=f"a time written as {date_format}",
                remedy=f"correct it, or set {setting('input.date_format')}",
            ) from None
        delta = (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment) - _EPOCH
        microseconds.append(delta // timedelta(microseconds=1))
    moments = pa.array([*microseconds, None], pa.timestamp("us"))
    return pa.chunked_array([moments.take(pc.fill_null(coded.indices, len(microseconds)))])
