"""NumPy archives: a pair of arrays `u` (left) and `v` (right), or a SciPy sparse matrix.

The columns of a pair are `u`, `v` and then every other flat array of their length, sorted by name. Arrays with other
names must be configured, because their sides are unknown. An undirected graph may call its pair `src` and `dst`. A
sparse matrix has rows (left) and columns (right) from 0. Only the chosen arrays are read.
"""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from mbe_stage.errors import StageError
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io.compression import read_all
from mbe_stage.pipeline.io.raw import Place, RawEdges, as_array, choose_columns


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read an `.npz` archive."""
    content = read_all(path)
    opened = partial(Path, path) if content is None else partial(io.BytesIO, content)
    if not zipfile.is_zipfile(opened()):
        raise _damaged(path, "not a zip archive, or truncated")
    try:
        with np.load(opened(), allow_pickle=False) as archive:
            if "format" in archive.files and "shape" in archive.files:
                # Imported here, because it takes as long as reading a small graph.
                import scipy.sparse

                from mbe_stage.pipeline.io.sparse import matrix_edges

                return matrix_edges(scipy.sparse.load_npz(opened()), str(path), "npz", config)
            with zipfile.ZipFile(opened()) as members:
                arrays = _shapes(members)
            return _pair(path, arrays, archive, config)
    except (StageError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001 - NumPy, SciPy and zipfile raise nearly any for a damaged archive
        raise _damaged(path, " ".join(str(error).split()) or type(error).__name__) from None


def _damaged(path: Path, cause: str) -> InputError:
    return InputError.at(
        path,
        found=f"not a readable NumPy archive ({cause})",
        expected="an .npz with arrays u and v, or a SciPy sparse matrix",
        remedy="write it again with numpy.savez or scipy.sparse.save_npz",
    )


def _shapes(archive: zipfile.ZipFile) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array by its name, without reading any; other members are skipped."""
    shapes = {}
    for member in archive.namelist():
        with archive.open(member) as stream, contextlib.suppress(ValueError):
            layout = np.lib.format
            version = layout.read_magic(stream)
            read_header = layout.read_array_header_1_0 if version == (1, 0) else layout.read_array_header_2_0
            shapes[member.removesuffix(".npy")] = read_header(stream)[0]
    return shapes


def _pair(
    path: Path, arrays: dict[str, tuple[int, ...]], archive: Mapping[str, np.ndarray], config: InputConfig
) -> RawEdges:
    has_ends = {"src", "dst"} <= arrays.keys() and not {"u", "v"} <= arrays.keys()
    pair = ("src", "dst") if config.is_undirected and has_ends else ("u", "v")
    are_named = all(isinstance(name, str) for name in (config.left, *config.right_columns))
    if not set(pair) <= arrays.keys() and not are_named:
        raise InputError.at(
            path,
            found=f"arrays {', '.join(map(repr, arrays)) or 'none'}",
            expected="u (left) and v (right), or a SciPy sparse matrix",
            remedy=f"name the two arrays with {setting('input.left')} and {setting('input.right')}",
        )
    flat = [name for name in arrays if len(arrays[name]) == 1]
    if not flat:
        shapes = ", ".join(f"{name!r} {shape}" for name, shape in arrays.items())
        found, expected = f"no one-dimensional array ({shapes})", "one array per column, one entry per edge"
        raise InputError.at(path, found=found, expected=expected, remedy="store the columns as arrays of their own")
    names = [name for name in pair if name in flat] + [name for name in flat if name not in pair]
    chosen = choose_columns(names, config, path)
    of_left = chosen.names["left"]
    most = arrays[of_left][0]
    for name in chosen.names.values():
        if (size := arrays[name][0]) != most:
            found, expected = f"{size} entries", f"{most}, as in {of_left!r}"
            raise InputError.at(path, column=name, found=found, expected=expected, remedy="store one entry per edge")
    how = {"found": "arrays whose type cannot be keys", "expected": "integers or text", "remedy": "convert the arrays"}
    columns = {role: as_array(archive[name], str(path), **how) for role, name in chosen.names.items()}
    header = {"n_columns": len(names), "header": tuple(names)}
    return chosen.edges("npz", columns, lambda row: Place(f"{path}, row {row + 1}"), **header)
