"""Which format an input is in: by what its bytes say, then by its name, then by how its first lines look."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import InputError
from pipeline.io import compression, parquet
from pipeline.io.dialect import sample_rows, splitting_delimiter
from pipeline.naming import setting

__all__ = ["detect_format"]

_SAMPLE_BYTES = 64 << 10
_BY_SUFFIX = {
    **dict.fromkeys(parquet.SUFFIXES, "parquet"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    ".mtx": "matrix_market",
    ".npz": "npz",
    **dict.fromkeys((".fimi", ".basket"), "fimi"),
}


def detect_format(path: Path) -> str:
    """The name of the format, as in `input.format`.

    Raises
    ------
    InputError
        The file is empty, a directory holds no data, or nothing tells the format.
    """
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
    return _by_name(path) or _by_text(path, head)


def _of_directory(path: Path) -> str:
    if parquet.data_files(path):
        return "parquet"
    names = sorted(entry.name for entry in path.iterdir())
    if sum(name.startswith("out.") for name in names) == 1:
        return "konect"
    raise InputError.at(
        path,
        found=f"a directory of {', '.join(map(repr, names[:10])) or 'nothing'}",
        expected="a directory of .parquet files, or with one KONECT file out.*",
        remedy="give one of the files in it",
    )


def _by_name(path: Path) -> str | None:
    name = compression.plain_name(path)
    known = _BY_SUFFIX.get(Path(name).suffix)
    return known or ("konect" if name.startswith("out.") else None)


def _by_text(path: Path, head: bytes) -> str:
    text = head.decode("utf-8-sig", errors="replace")
    if "\0" in text or text.count("\ufffd") > len(text) // 10:
        kind = "a zip archive" if head.startswith(b"PK") else "binary data"
        raise _unknown(path, kind, f"unpack it, or set {setting('input.format')}")
    if text.startswith(("%", "#")):
        return "konect" if text.startswith("%") else "snap"
    lines = [line.split() for line in text.splitlines() if line.strip()]
    whole = len(head) < _SAMPLE_BYTES
    # The last line of a sample may be cut off.
    lines = lines if whole or len(lines) < 2 else lines[:-1]
    sizes = {len(line) for line in lines}
    numbers = all(field.lstrip("-").isdecimal() for line in lines for field in line[:2])
    pairs = len(sizes) == 1 and sizes <= {2, 3, 4}
    if compression.plain_name(path).endswith(".dat") and numbers:
        if pairs:
            raise _unknown(
                path, "lines that may be edges or transactions", f"set {setting('input.format')} to snap or to fimi"
            )
        return "fimi"
    if pairs and numbers:
        return "snap"
    delimiter = splitting_delimiter(text, whole=whole)
    rows = [row for row in sample_rows(text, delimiter, whole=whole) if row] if delimiter else []
    if delimiter and all(len(row) == len(rows[0]) for row in rows):
        return "csv"
    first = text.splitlines()[0] if text.strip() else ""
    raise _unknown(path, f"text that begins with {first[:60]!r}", f"set {setting('input.format')}")


def _unknown(path: Path, found: str, remedy: str) -> InputError:
    return InputError.at(
        path,
        found=f"{found}, of no format that is recognised",
        expected="Parquet, CSV, KONECT, SNAP, Matrix Market, NumPy .npz or FIMI",
        remedy=remedy,
    )
