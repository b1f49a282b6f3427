"""Contexts in Burmeister's format (`.cxt`): objects are left, attributes right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mbe_stage.errors import InvalidArgument
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import reading
from mbe_stage.pipeline.io.raw import Place, RawEdges, choose_columns, refuse_repeated, refuse_two_sets
from mbe_stage.pipeline.io.text.decoding import read_text
from mbe_stage.pipeline.safe_paths import replaced_file

_NAMES = ["object", "attribute"]


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """A formal context.

    Attributes
    ----------
    objects, attributes : tuple of str
    incidence : (n_objects, n_attributes) bool
        The attributes of each object.
    """

    objects: tuple[str, ...]
    attributes: tuple[str, ...]
    incidence: np.ndarray


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read the edges of a context: the attributes of each object, by their names."""
    context, source = _context(path, read_text(path, config)), str(path)
    for kind, names in zip(_NAMES, (context.objects, context.attributes), strict=True):
        refuse_repeated(names, f"{kind}s", source, "rename one")
    refuse_two_sets(config, source, "a context, whose objects and attributes are not the same vertices")
    chosen = choose_columns(_NAMES, config, source, are_named=False)
    rows, columns = np.nonzero(context.incidence)
    ends = (context.objects, rows), (context.attributes, columns)
    values = [pa.array(names, pa.string()).take(places) for names, places in ends]

    def locate(row: int) -> Place:
        return Place(f"{source}, row {rows[row] + 1}, column {columns[row] + 1}")

    return chosen.edges("cxt", chosen.of(values), locate)


def read_cxt(path: str | Path) -> Context:
    """Read a context from a file in Burmeister's format (`.cxt`).

    Raises
    ------
    InputError
        The file cannot be read, or is of another format.
    """
    with reading(Path(path)):
        return _context(path, read_text(Path(path), InputConfig(), "surrogateescape"))


def _context(path: str | Path, text: str) -> Context:
    lines = text.splitlines()
    # The second line is a title, which some programs leave out.
    start = next((at for at in (2, 1) if all(line.strip().isdecimal() for line in lines[at : at + 2])), None)
    if not lines or lines[0].strip() != "B" or start is None or len(lines) < start + 2:
        raise _refused(path, f"the first lines {lines[:4]}", "B, a title, the numbers of objects and of attributes")
    n_objects, n_attributes = (int(line) for line in lines[start : start + 2])
    rest = lines[start + 2 :]
    if rest and not rest[0].strip():
        del rest[0]
    while len(rest) > 2 * n_objects + n_attributes and not rest[-1].strip():
        del rest[-1]
    n_names = n_objects + n_attributes
    if len(rest) != n_names + n_objects:
        raise _refused(path, f"{len(rest)} lines of names and rows", f"{n_names + n_objects}")
    rows = [line.strip().upper() for line in rest[n_names:]]
    for at, row in enumerate(rows):
        if len(row) != n_attributes or row.strip("X."):
            raise _refused(path, f"row {at + 1} {row[:40]!r}", f"{n_attributes} characters, X or .")
    incidence = np.array([[mark == "X" for mark in row] for row in rows], np.bool_).reshape(n_objects, n_attributes)
    return Context(tuple(rest[:n_objects]), tuple(rest[n_objects:n_names]), incidence)


def write_cxt(context: Context, path: str | Path) -> None:
    """Write a context to a file in Burmeister's format, completely or not at all.

    Raises
    ------
    InvalidArgument
        A name has several lines, or the numbers of names are not those of the incidence.
    """
    names = (*context.objects, *context.attributes)
    if context.incidence.shape != (len(context.objects), len(context.attributes)):
        raise InvalidArgument(
            f"incidence has the shape {context.incidence.shape}: expected a row for each of {len(context.objects)} "
            f"objects and a column for each of {len(context.attributes)} attributes"
        )
    for name in names:
        if len(name.splitlines()) != 1:
            raise InvalidArgument(f"{name!r} is no name for a line of a .cxt file: expected one line of text")
    rows = ("".join("X" if holds else "." for holds in row) for row in context.incidence)
    lines = ("B", "", str(len(context.objects)), str(len(context.attributes)), "", *names, *rows)
    with replaced_file(Path(path).resolve()) as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def _refused(path: str | Path, found: str, expected: str) -> InputError:
    return InputError.at(path, found=found, expected=expected, remedy="write it again in Burmeister's format")
