"""Reading edges: one module a format, loaded when it is first needed.

A new format is a module with ``read(path, config) -> RawEdges``, a row in `_READERS`, and, where it can be recognised,
a rule in `detect`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.compression import check_path
from pipeline.io.raw import Place, RawEdges

__all__ = ["FORMATS", "Place", "RawEdges", "read_edges"]

_READERS = {
    "parquet": "pipeline.io.parquet",
    "csv": "pipeline.io.delimited",
    "konect": "pipeline.io.konect",
    "snap": "pipeline.io.snap",
    "matrix_market": "pipeline.io.matrix_market",
    "npz": "pipeline.io.npz",
    "fimi": "pipeline.io.fimi",
}
FORMATS = tuple(_READERS)
_DIRECTORY_FORMATS = ("parquet", "konect")


def read_edges(config: InputConfig, source: object | None = None) -> RawEdges:
    """Read the rows of a path or of an object in memory, as they stand.

    Parameters
    ----------
    config : InputConfig
    source : object, optional
        Read instead of `config.path`: an object in memory (see `pipeline.io.memory.read_object`), or a path.

    Raises
    ------
    InputError
        The input is not there, is not in the format, or has not the columns asked for.
    """
    if source is not None and not isinstance(source, str | os.PathLike):
        from pipeline.io.memory import read_object

        return read_object(source, config)
    given = config.path if source is None else os.fspath(cast(Any, source))
    if not given:
        raise InputError.at(
            "input.path", found="nothing", expected="a file or directory of edges", remedy="set input.path"
        )
    # Path.expanduser raises for a user who is not there; this leaves the name as it is, to be reported as missing.
    path = Path(os.path.expanduser(given))
    try:
        return _read_path(path, config)
    except OSError as error:
        found = f"cannot be read ({error.strerror or error})"
        raise InputError.at(
            path, found=found, expected="a readable file", remedy="check the path and the disk"
        ) from None


def _read_path(path: Path, config: InputConfig) -> RawEdges:
    check_path(path)
    name: str = config.format
    if name == "auto":
        from pipeline.io.detect import detect_format

        name = detect_format(path)
    elif path.is_dir() and name not in _DIRECTORY_FORMATS:
        raise InputError.at(
            path, found="a directory", expected=f"a file in the format {name}", remedy="give one of the files in it"
        )
    reader = cast(Callable[[Path, InputConfig], RawEdges], importlib.import_module(_READERS[name]).read)
    return reader(path, config)
