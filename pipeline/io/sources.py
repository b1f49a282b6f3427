"""Several sources that are one table: files, a pattern such as `dir/*.csv`, a directory of text files; standard input.

They have one format and the same columns, or are refused. Their rows stand one file behind the other.
"""

from __future__ import annotations

import atexit
import functools
import glob
import itertools
import logging
import os
import shutil
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from mbe_stage.errors import StageError
from pipeline import lack_of_memory
from pipeline.errors import InputError
from pipeline.io.raw import Place, RawEdges, listing
from pipeline.naming import setting
from pipeline.stores.address import STANDARD_INPUT, is_address, place_of

__all__ = ["are_places", "at_hand", "files_of", "joined_names", "one_format", "one_table"]

log = logging.getLogger(__name__)

_CALLED = "standard input"
_PATTERN = frozenset("*?[")
# Their keys are numbers of rows, which begin anew in each file.
_NUMBERED = {
    "fimi": "join them, and read them as one: cat FILES | mbe enumerate --format fimi -",
    "biadjacency": "name the rows, or read the files one at a time",
    "npz": "stack them with scipy.sparse.vstack, and save one matrix",
    "matrix_market": "stack them with scipy.sparse.vstack, and save one matrix",
}
# Names in a list of sources.
_SHOWN = 3


def are_places(source: object) -> bool:
    """Whether a source is a list of paths and addresses, or a tuple of paths; a tuple of texts could be two columns."""
    kinds = str | os.PathLike if isinstance(source, list) else os.PathLike
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(each, kinds) for each in source)


def joined_names(places: Any) -> str:
    """What messages call a place, or several together."""
    of_each = places if isinstance(places, list | tuple) else [places]
    names = [_CALLED if place == STANDARD_INPUT else str(place) for place in of_each]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@contextmanager
def at_hand(given: Any) -> Iterator[tuple[Any, Callable[[object], str]]]:
    """Copy what is not on this machine's disk to it while the context lasts: standard input, and addresses.

    Yields
    ------
    places
        As given, with paths of the copies.
    named : callable
        Gives texts the user's names in the place of these paths. What is refused within the context has them.
    """
    named: list[Callable[[object], str]] = []
    with ExitStack() as stack:

        def copied(place: Any) -> Any:
            meant = place_of(place)
            if meant == STANDARD_INPUT:
                copy = _copy_of(sys.stdin)
                named.append(lambda text: str(text).replace(str(copy), _CALLED))
                return copy
            if not is_address(meant):
                return place if meant is place else meant
            from pipeline.stores.remote_input import fetched_input

            copy, mirror = stack.enter_context(fetched_input(str(meant)))
            named.append(mirror.named)
            return copy

        def name(text: object) -> str:
            return functools.reduce(lambda told, each: each(told), named, str(text))

        places = [copied(each) for each in given] if isinstance(given, list | tuple) else copied(given)
        try:
            yield places, name
        except StageError as error:
            error.args = tuple(name(each) if isinstance(each, str) else each for each in error.args)
            raise


@functools.lru_cache(1)
def _copy_of(stream: Any) -> Path:
    """A file with all that a stream has to say; there until the process ends, as it can be read once."""
    if stream is None:
        raise InputError.at(_CALLED, found="closed", expected="edges", remedy=f"correct {setting('input.path')}")
    log.info("reading standard input")
    folder = tempfile.mkdtemp(prefix="mbe-input-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder) / "stdin"
    try:
        with copy.open("wb") as file:
            shutil.copyfileobj(stream.buffer, file, 1 << 20)
    except OSError as error:
        copy.unlink(missing_ok=True)
        raise InputError.at(
            _CALLED,
            found=f"cannot be copied to {folder} ({error.strerror or error})",
            expected="room for it there",
            remedy="free some space, or set TMPDIR to a larger disk",
        ) from None
    return copy


def files_of(path: Path, format_name: str) -> list[Path]:
    """What a path stands for: itself, the files that match it as a pattern, or the text files of a directory.

    Raises
    ------
    InputError
        Nothing matches the pattern.
    """
    text = str(path)
    if os.path.lexists(path) or not _PATTERN & set(text) or "\0" in text:
        return _inside(path, format_name)
    found = sorted(map(Path, glob.glob(text, recursive=True)))
    if not found:
        raise InputError.at(
            text,
            found="no file that matches this pattern",
            expected="at least one",
            remedy=f"correct {setting('input.path')}",
        )
    return [file for each in found for file in _inside(each, format_name)]


def _inside(path: Path, format_name: str) -> list[Path]:
    """The files of a directory of text files; of all else the path itself."""
    from pipeline.io.parquet import data_files

    if format_name in ("parquet", "konect") or not path.is_dir() or data_files(path):
        return [path]
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith(("_", ".")))
    is_other = any(entry.is_dir() or entry.name.startswith("out.") for entry in entries)
    return [path] if is_other or not entries else entries


def one_format(files: Sequence[tuple[Path, str]]) -> str:
    """The format of all files.

    Raises
    ------
    InputError
        One is in another than the first, or files of that format cannot be one table.
    """
    (first, common), *others = files
    for path, found in others:
        if found != common:
            raise InputError.at(
                path,
                found=f"the format {found}, while {first} is {common}",
                expected="one format in all files",
                remedy=f"read them one at a time, or set {setting('input.format')}",
            )
    if common in ("fimi", "matrix_market"):
        raise _collision(files[1][0], common)
    return common


def one_table(name: str, files: Sequence[Path], read: Callable[[Path], RawEdges]) -> RawEdges:
    """Read files as one table, in their order.

    Parameters
    ----------
    name : str
        What to call them together.
    files : sequence of Path
        Two at least.
    read : callable
        Reads one.

    Raises
    ------
    InputError
        As `read`; or one has other columns than the first.
    """
    parts: list[RawEdges] = []
    for path in files:
        part = read(path)
        if part.format in _NUMBERED and all(column.name is None for column in part.input_columns):
            raise _collision(path, part.format)
        if parts and _columns(part) != _columns(parts[0]):
            raise _otherwise(path, _columns_text(part), _columns_text(parts[0]), files[0])
        parts.append(part)
    schema = parts[0].table.schema
    for path, part in zip(files, parts, strict=True):
        try:
            schema = pa.unify_schemas([schema, part.table.schema], promote_options="permissive")
        except pa.ArrowException:
            of_types = (
                ", ".join(f"{n} {t}" for n, t in zip(s.names, s.types, strict=True))
                for s in (part.table.schema, parts[0].table.schema)
            )
            raise _otherwise(path, *of_types, files[0]) from None
    try:
        table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    except pa.ArrowException as error:
        lack_of_memory.pass_on(error)
        raise _otherwise(Path(name), f"columns of types that do not go together ({error})", "types", files[0]) from None
    places, ends = [part.locate for part in parts], list(itertools.accumulate(part.table.num_rows for part in parts))

    def locate(row: int) -> Place:
        of_file = bisect_right(ends, row)
        return places[of_file](row - (ends[of_file - 1] if of_file else 0))

    dialect = " / ".join(dict.fromkeys(part.dialect for part in parts))
    return replace(parts[0], table=table, source=name, locate=locate, dialect=dialect)


def _columns(part: RawEdges) -> object:
    return part.n_columns, part.header, part.input_columns


def _columns_text(part: RawEdges) -> str:
    return f"columns {listing(part.header)}" if part.header else f"{part.n_columns} columns without names"


def _otherwise(path: Path, found: str, expected: str, first: Path) -> InputError:
    return InputError.at(
        path,
        found=found,
        expected=f"{expected}, as in {first}: together they are one table",
        remedy="correct the file, or leave it out",
    )


def _collision(path: Path, format_name: str) -> InputError:
    return InputError.at(
        path,
        found=f"a second file of the format {format_name}, whose keys are numbers of rows",
        expected="one file, as two would give one number to different vertices",
        remedy=_NUMBERED[format_name],
    )
