"""Further input tables, such as lists of known keys: CSV, TSV or Parquet with a header, read like edges."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import compression, reading
from mbe_stage.pipeline.io.raw import Chosen, RawEdges


def read_named_columns(given: str, required: Sequence[str], optional: Sequence[str], setting_name: str) -> RawEdges:
    """Read columns of a file, compressed or not, or of a directory of Parquet files, by their names.

    Missing optional columns are left out. CSV columns are text. `setting_name` holds the path, for messages.
    """

    def choose(available: Sequence[str], source: str) -> Chosen:
        for name in required:
            if name not in available:
                shown = ", ".join(map(repr, available[:20])) or "none"
                raise InputError.at(
                    source,
                    found=f"no column {name!r} for {setting_name}; its columns are {shown}",
                    expected=f"a header with {' and '.join(map(repr, required))}"
                    + (f", and optionally {' and '.join(map(repr, optional))}" if optional else ""),
                    remedy="rename a column, or add a first line with the names",
                )
        positions = {name: list(available).index(name) for name in (*required, *optional) if name in available}
        for name in positions:
            if (n := list(available).count(name)) > 1:
                found, remedy = f"{n} columns are named {name!r}", "rename all but one of them"
                raise InputError.at(source, found=found, expected="distinct names", remedy=remedy)
        return Chosen(source, available, positions)

    path = Path(os.path.expanduser(given))
    with reading(path):
        if not path.exists():
            expected = f"a table for {setting_name}: CSV, TSV or Parquet"
            raise InputError.at(path, found="no such file", expected=expected, remedy=f"correct {setting_name}")
        compression.check_path(path)
        if path.is_dir() or _is_parquet(path, setting_name):
            from mbe_stage.pipeline.io import parquet

            return parquet.read(path, InputConfig(), choose)
        from mbe_stage.pipeline.io.text import delimited

        return delimited.read(path, InputConfig(header=True), choose)


def _is_parquet(path: Path, setting_name: str) -> bool:
    with compression.open_bytes(path) as stream:
        head = stream.read(4)
    if not head:
        expected, remedy = f"a table for {setting_name}", "check that it was written completely"
        raise InputError.at(path, found="an empty file", expected=expected, remedy=remedy)
    return head == b"PAR1"
