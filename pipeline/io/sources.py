"""Several sources as one table: files, a pattern such as `dir/*.csv`, a directory of text files; and standard input.

All files must have one format and the same columns. Their rows are concatenated.
"""

from __future__ import annotations

import atexit
import functools
import glob
import logging
import os
import shutil
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from mbe_stage.errors import StageError
from mbe_stage.pipeline.backends.arrow.key_encoder import with_common_keys
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io.compression import no_space
from mbe_stage.pipeline.io.raw import Place, RawEdges, listing
from mbe_stage.pipeline.stores.address import STANDARD_INPUT, is_address, place_of

log = logging.getLogger(__name__)

_CALLED = "standard input"
# Formats whose keys are row numbers (unless columns have names), with the remedy.
_STACK = "stack the matrices with scipy.sparse.vstack, and save one"
_NUMBERED = {
    "fimi": "read them as one: cat FILES | mbe enumerate --format fimi -",
    "json": "write the lists into one file",
    "biadjacency": "name the rows, or read the files one at a time",
    "matrix_market": _STACK,
    "npz": _STACK,
}
# What files of one table have in common.
_COLUMNS = attrgetter("n_columns", "header", "input_columns")
# Number of names that a list of sources shows.
_SHOWN = 3


def are_places(source: object) -> bool:
    """Return whether a source is a list of paths and addresses, or a tuple of paths.

    A tuple of texts is not: it could be two columns.
    """
    kinds = str | os.PathLike if isinstance(source, list) else os.PathLike
    return isinstance(source, list | tuple) and bool(source) and all(isinstance(each, kinds) for each in source)


def is_object(source: object | None) -> bool:
    """Return whether a source is an object in memory, rather than a path or a list of paths."""
    return source is not None and not isinstance(source, str | os.PathLike) and not are_places(source)


def joined_names(places: Any) -> str:
    """Return the name of one or several places for messages."""
    of_each = places if isinstance(places, list | tuple) else [places]
    names = [_CALLED if place == STANDARD_INPUT else str(place) for place in of_each]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


@contextmanager
def at_hand(path: Any, source: object | None = None) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
    """Copy standard input and remote files to a local disk for the duration of the context.

    Yields the places, with local paths for copies, and a function that puts the user's names back into rows. Errors
    within the context get the user's names too. A `source` takes the place of the path; an object is yielded as it is.
    """
    if is_object(source):
        yield source, lambda rows: rows
        return
    given: Any = path if source is None else source
    copies: dict[str, str] = {}

    def named(text: object) -> str:
        return functools.reduce(lambda text, copy: text.replace(*copy), copies.items(), str(text))

    with ExitStack() as stack:

        def copied(place: Any) -> Any:
            meant = place_of(place)
            if meant == STANDARD_INPUT:
                copy, name = _copy_of(sys.stdin), _CALLED
            elif is_address(meant):
                from mbe_stage.pipeline.stores.inputs import fetched_input

                copy, name = stack.enter_context(fetched_input(str(meant)))
            else:
                return meant
            copies[str(copy)] = name
            return copy

        places = [copied(each) for each in given] if isinstance(given, list | tuple) else copied(given)
        try:
            yield places, lambda rows: replace(rows, source=named(rows.source))
        except StageError as error:
            error.args = tuple(named(each) if isinstance(each, str) else each for each in error.args)
            raise


@functools.lru_cache(1)
def _copy_of(stream: Any) -> Path:
    """Return a file with all of standard input, kept until the process ends because another tier may read it again."""
    if stream is None:
        raise InputError.at(_CALLED, found="closed", expected="edges", remedy=f"correct {setting('input.path')}")
    log.info("reading %s", _CALLED)
    folder = tempfile.mkdtemp(prefix="mbe-input-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with (Path(folder) / "stdin").open("wb") as file:
            shutil.copyfileobj(stream.buffer, file, 1 << 20)
    except OSError as error:
        raise no_space(_CALLED, f"cannot be copied to {folder}", "enough free space there", error) from None
    return Path(folder) / "stdin"


def files_of(path: Path, format_name: str) -> list[Path]:
    """Expand a path: itself, the files that match it as a pattern, or the text files of a directory."""
    text = str(path)
    if os.path.lexists(path) or not set("*?[") & set(text) or "\0" in text:
        return _inside(path, format_name)
    found = [file for each in sorted(glob.glob(text, recursive=True)) for file in _inside(Path(each), format_name)]
    if found:
        return found
    remedy = f"correct {setting('input.path')}"
    raise InputError.at(text, found="no file that matches this pattern", expected="at least one", remedy=remedy)


def _inside(path: Path, format_name: str) -> list[Path]:
    """List the files of a directory of text files; any other path stands for itself."""
    from mbe_stage.pipeline.io.parquet import data_files

    if format_name in ("parquet", "konect") or not path.is_dir() or data_files(path):
        return [path]
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith(("_", ".")))
    has_others = any(entry.is_dir() or entry.name.startswith("out.") for entry in entries)
    return [path] if has_others or not entries else entries


def one_table(name: str, files: Sequence[Path], read: Callable[[Path], RawEdges]) -> RawEdges:
    """Read files as one table of that name, in their order; refuse the first with other columns."""
    parts: list[RawEdges] = []
    table, ends = pa.table({}), list[int]()
    for path in files:
        part = read(path)
        if part.format in _NUMBERED and all(column.name is None for column in part.input_columns):
            found = f"one of several files of the format {part.format}, whose keys are row numbers"
            raise InputError.at(path, found=found, expected="one file", remedy=_NUMBERED[part.format])
        parts.append(replace(part, table=part.table.slice(0, 0)))
        if _COLUMNS(part) != _COLUMNS(parts[0]):
            raise _other(path, _listing_of(part), f"{_listing_of(parts[0])}, as in {files[0]}")
        try:
            tables = [table, part.table] if ends else [part.table]
            tables = with_common_keys(tables) if part.keys == "inferred" else tables
            table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            lack_of_memory.pass_on(error)
            raise _other(path, f"columns of other types ({error})", f"those of {files[0]}") from None
        ends.append(table.num_rows)

    def locate(row: int) -> Place:
        of_file = bisect_right(ends, row)
        return parts[of_file].locate(row - (ends[of_file - 1] if of_file else 0))

    # A further column that only some files seem to have is none.
    table = table.select([role for role in table.column_names if all(role in part.names for part in parts)])

    dialect = " / ".join(dict.fromkeys(part.dialect for part in parts))
    return replace(parts[0], table=table, source=name, locate=locate, dialect=dialect)


def _listing_of(part: RawEdges) -> str:
    return f"columns {listing(part.header)}" if part.header else f"{part.n_columns} columns without names"


def _other(path: Path, found: str, expected: str) -> InputError:
    return InputError.at(path, found=found, expected=expected, remedy="correct the file, or leave it out")
