"""Detection of an input's format from its content.

A name never changes the graph that the same bytes give. It only settles cases that the bytes leave open. For example,
``baskets.dat`` says that lines of unequal length are transactions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import compression, parquet
from mbe_stage.pipeline.io.raw import shortened
from mbe_stage.pipeline.io.text.decoding import Sample, encoding_of, not_in_encoding, read_sample
from mbe_stage.pipeline.io.text.dialect import (
    MARKS,
    SEPARATOR_LINE,
    WHITESPACE,
    agreeing,
    names_rows,
    split_rows,
    uniform_delimiters,
)
from mbe_stage.pipeline.io.text.json_text import is_json
from mbe_stage.pipeline.io.text.layout import rising

_SAMPLE_BYTES = 64 << 10
_OF_BASKETS = (".dat", ".fimi", ".basket")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]|^PK")
# The second line of a context is a title, which some programs leave out.
_CONTEXT = re.compile(rb"B[ \t]*\r?\n(?:[^\n]*\n)?\s*\d+\s*\n\s*\d+\s*\n")
_BY_SUFFIX = {
    **dict.fromkeys(parquet.SUFFIXES, "parquet"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    ".mtx": "matrix_market",
    ".npz": "npz",
    **dict.fromkeys((".fimi", ".basket"), "fimi"),
}


def detect_format(path: Path, config: InputConfig | None = None) -> str:
    """Return the name of the format, as in `input.format`."""
    config = config or InputConfig()
    if path.is_dir():
        return _of_directory(path)
    with compression.open_bytes(path) as stream:
        archive = compression.is_tar(stream)
        head = stream.read(_SAMPLE_BYTES)
    if not head:
        raise InputError.at(
            path, found="an empty file", expected="edges", remedy="check that it was written completely"
        )
    if archive:
        return "konect"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"%%MatrixMarket"):
        return "matrix_market"
    if _CONTEXT.match(head):
        return "cxt"
    name = _BY_SUFFIX.get(Path(compression.plain_name(path)).suffix)
    if name in ("parquet", "matrix_market", "npz") or (head.startswith(b"PK") and b".npy" in head[:256]):
        return name or "npz"
    if name is None:
        _refuse_binary(path, head, config)
    return _by_text(path, read_sample(path, config), config)


def _of_directory(path: Path) -> str:
    if parquet.data_files(path):
        return "parquet"
    names = sorted(entry.name for entry in path.iterdir())
    if sum(name.startswith("out.") for name in names) == 1:
        return "konect"
    found = f"a directory of {', '.join(map(repr, names[:10])) or 'nothing'}"
    expected = "a directory of .parquet files, or with one KONECT file out.*"
    raise InputError.at(path, found=found, expected=expected, remedy="give one of the files in it")


def _refuse_binary(path: Path, head: bytes, config: InputConfig) -> None:
    if encoding_of(path, head, config) not in ("utf-8", "utf-8-sig"):
        return
    text = head.decode(errors="replace")
    if "\0" not in text and text.count("\ufffd") <= len(text) // 10:
        return
    if not _CONTROLS.search(head):
        raise not_in_encoding(path, text[: text.index("\ufffd")].count("\n") + 1)
    kind = "a zip archive" if head.startswith(b"PK") else "binary data"
    raise _unknown(path, kind, f"unpack it, or set {setting('input.format')}")


def _by_text(path: Path, sample: Sample, config: InputConfig) -> str:
    if is_json(sample):
        return "json"
    # Behind a byte order mark, or in UTF-16.
    if _CONTEXT.match(sample.text.encode()):
        return "cxt"
    name = compression.plain_name(path)
    by_name = _BY_SUFFIX.get(Path(name).suffix)
    lines = [line for line in sample.lines if line.strip()]
    marks = ("#", "%") if config.comment is None else ()
    body = [line for line in lines if not (marks and line.lstrip().startswith(marks))]
    if not body:
        return "konect" if lines and all(line.startswith("%") for line in lines) else by_name or "csv"
    if config.delimiter is not None or SEPARATOR_LINE.fullmatch(lines[0]):
        return "csv"
    rows = [line.split() for line in body]
    if any('"' in line for line in body) or not all(_is_number(field) for row in rows for field in row[:2]):
        return _of_names(path, body, name)
    if name.startswith("out.") or lines[0].startswith("%") or any(re.match(r"\s*%\s", line) for line in lines):
        return "konect"
    found = _of_numbers(path, rows, name)
    # The edges are the same either way. Options or a name that ask for CSV decide.
    return "csv" if found == "snap" and (by_name == "csv" or (config.header, config.trim) != (None, None)) else found


def _of_names(path: Path, body: list[str], name: str) -> str:
    text = "\n".join(body)
    found = uniform_delimiters(text)
    if found in ([" "], [WHITESPACE]):
        if name.startswith("out."):
            return "konect"
        if name.endswith(_OF_BASKETS):
            raise _edges_or_transactions(path, "csv")
    lengths = [len(line.split()) for line in body]
    marks = [mark for mark in MARKS if mark in text]
    is_table = any(agreeing(text, mark)[1] >= 0.5 for mark in marks)
    is_of_r = any(names_rows([len(row) for row in split_rows(text, mark) if row]) for mark in (" ", WHITESPACE))
    if found or max(lengths) == 1 or is_table or is_of_r or _BY_SUFFIX.get(Path(name).suffix) == "csv":
        return "csv"
    if name.endswith(_OF_BASKETS) and not marks and not _is_table_with_odd_lines(lengths):
        return "fimi"
    raise _unknown(
        path,
        f"text that begins with {shortened(body[0])}",
        f"set {setting('input.format')}, to fimi if each line is a transaction of items",
        [{"input.format": "fimi", "input.delimiter": mark} for mark in (*marks, WHITESPACE)],
    )


def _of_numbers(path: Path, rows: list[list[str]], name: str) -> str:
    """Return the format of lines of numbers separated by blanks."""
    lengths, is_baskets = [len(row) for row in rows], name.endswith(_OF_BASKETS)
    if len(set(lengths)) > 1:
        return "fimi" if is_baskets and not _is_table_with_odd_lines(lengths) else "csv"
    columns = [[float(row[i]) if _is_number(row[i]) else 0.0 for row in rows] for i in range(lengths[0])]
    rises = len(columns) > 2 and rising(columns)
    if len(columns) > 2 and {field for row in rows for field in row} == {"0", "1"}:
        # It may be a matrix, or edges between numbers: the reader asks the user.
        return "csv"
    if len(columns) > 4:
        return "fimi" if is_baskets and rises else "csv"
    within = rises and len(rows) > 1 and min(columns[2]) <= max(columns[0])
    if is_baskets or within:
        raise _edges_or_transactions(path, "snap")
    return "snap" if len(columns) > 1 else "csv"


def _is_table_with_odd_lines(lengths: list[int]) -> bool:
    """Return whether all lines but a few, such as counts above them, are edges."""
    width = max(set(lengths), key=lengths.count)
    n_odd = max(n for n, length in enumerate(lengths, start=1) if length != width)
    below = len(lengths) - n_odd
    share = lengths.count(width) / len(lengths)
    return width in (2, 3, 4) and (below >= max(2, n_odd) or (len(lengths) >= 10 and share >= 0.8))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _edges_or_transactions(path: Path, of_edges: str) -> InputError:
    return _unknown(
        path,
        "lines that may be edges or transactions",
        f"set {setting('input.format')} to {of_edges} or to fimi",
        [{"input.format": of_edges}, {"input.format": "fimi"}],
    )


def _unknown(path: Path, found: str, remedy: str, settings: Sequence[dict[str, object]] = ()) -> InputError:
    return InputError.at(
        path,
        found=f"{found}, in no recognised format",
        expected="Parquet, CSV, KONECT, SNAP, Matrix Market, NumPy .npz, JSON, transactions or a matrix",
        remedy=remedy,
        settings=settings,
    )
