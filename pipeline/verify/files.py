"""Checks of the files on disk: present, unchanged, and of the published schema."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.safe_paths import entries_below

REPORT = "report.html"
_MANIFEST = "manifest.json"
# Parquet's names for the codecs of `output.compression`; LZ4 has several.
_CODECS = {"zstd": "ZSTD", "snappy": "SNAPPY", "lz4": "LZ4", "none": "UNCOMPRESSED"}
_TYPES = (pa.int64(), pa.string())
# The possible types of the keys of the two sides.
_KEY_TYPES = [(left, right) for left in _TYPES for right in _TYPES]


def check_files(run: Path, manifest: Manifest, on_progress: Callable[[float], None]) -> str:
    """Check names, kinds, sizes, checksums and rows against the manifest; `on_progress` gets the share of the bytes."""
    listed = {entry.path: entry for entry in manifest.files}
    entries = dict(entries_below(run))
    if (odd := next((name for name, what in entries.items() if what), None)) is not None:
        raise VerificationError(f"{run / odd}: {entries[odd]}; expected only the files of the manifest")
    present = set(entries) - {_MANIFEST}
    for name in sorted(present ^ set(listed)):
        raise VerificationError(
            f"{run / name}: {'is not in the manifest' if name in present else 'is listed in the manifest, but missing'}"
        )
    n_bytes, n_done = sum(entry.bytes for entry in manifest.files), 0
    for name, entry in listed.items():
        path = run / name
        size = path.stat().st_size
        if size != entry.bytes:
            raise VerificationError(f"{path}: has {size} bytes; the manifest says {entry.bytes}")
        with open(path, "rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        if checksum != entry.sha256:
            raise VerificationError(f"{path}: has SHA-256 {checksum}; the manifest says {entry.sha256}")
        rows = _metadata(path).num_rows if path.suffix == ".parquet" else None
        if rows != entry.rows:
            raise VerificationError(f"{path}: has {rows} rows; the manifest says {entry.rows}")
        n_done += size
        on_progress(n_done / n_bytes)
    return f"{len(listed)} files, {n_bytes:,} bytes"


def check_asked(run: Path, manifest: Manifest, tables: Iterable[str]) -> None:
    """Check that the report exists exactly if `output.report` is set, and that all other files are tables.

    Parameters
    ----------
    manifest : Manifest
        A manifest whose files match those on disk.
    tables : iterable of str
        Names of the configured tables, as in `Publication.schemas`.

    Raises
    ------
    VerificationError
        A file was not requested, or the report is missing.
    """
    names = {name.removesuffix(".parquet") for name in tables}
    is_reported, paths = manifest.config.output.report, {entry.path for entry in manifest.files}
    if is_reported != (REPORT in paths):
        there = "is missing" if is_reported else "is there"
        raise VerificationError(
            f"{run / REPORT}: {there}, but output.report of the config is {str(is_reported).lower()}"
        )
    for path in sorted(paths - {REPORT}):
        # A table is one file, or a directory of parts.
        is_table = path.removesuffix(".parquet") in names or path.rpartition("/")[0] in names
        if not (is_table and path.endswith(".parquet")):
            expected = ", ".join(sorted(names))
            raise VerificationError(f"{run / path}: is not one of the tables of the config: {expected}")


def check_codecs(run: Path, manifest: Manifest, tables: Iterable[str]) -> list[str]:
    """Check the compression named in the Parquet footers; return notes on tables whose footers do not say.

    A column that compression does not shrink may be stored uncompressed with any codec.

    Raises
    ------
    VerificationError
        A column has another compression than `output.compression`.
    """
    stated = manifest.config.output.compression
    wanted, plain, seen = _CODECS[stated], _CODECS["none"], set()
    for name in tables:
        for path in table_parts(run, name.removesuffix(".parquet")):
            for column, codec in _codecs(path):
                seen.add(codec)
                if codec not in (wanted, plain):
                    raise VerificationError(
                        f"{path}, column {column!r}: is compressed with {codec}; output.compression of the config is "
                        f"{stated}: expected {wanted}"
                    )
    return [] if wanted in seen else ["config.output: compression: no column of the tables is compressed"]


def check_schemas(run: Path, schemas: Callable[[tuple[pa.DataType, pa.DataType]], Mapping[str, pa.Schema]]) -> str:
    """Check that every table exists and has the right columns and types.

    Parameters
    ----------
    schemas : callable
        Takes the types of the left and right keys, and returns the schema of every table by its name in the run.
    """
    found = {
        name: [(path, pq.read_schema(path)) for path in table_parts(run, name.removesuffix(".parquet"))]
        for name in schemas(_KEY_TYPES[0])
    }
    wrong = [_first_wrong(found, schemas(key_types)) for key_types in _KEY_TYPES]
    if None not in wrong:
        # Choose the key types with which the first wrong table comes last.
        raise VerificationError(max((each for each in wrong if each is not None), key=lambda each: each[0])[1])
    return ", ".join(name.removesuffix(".parquet") for name in found)


def table_parts(run: Path, name: str) -> list[Path]:
    """Return the files of a table: one, or the parts of a directory."""
    single = run / f"{name}.parquet"
    parts = [single] if single.is_file() else sorted((run / name).glob("*.parquet"))
    if not parts:
        raise VerificationError(f"{run / name}: the table is missing")
    return parts


def _metadata(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise VerificationError(f"{path}: is not a Parquet file ({error})") from None


def _codecs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield every column of every row group, and its codec by the name in `_CODECS`."""
    footer = _metadata(path)
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(footer.num_columns)):
            yield column.path_in_schema, column.compression.partition("_")[0]


def _first_wrong(
    tables: Mapping[str, list[tuple[Path, pa.Schema]]], expected: Mapping[str, pa.Schema]
) -> tuple[int, str] | None:
    """Return the number of good files before the first bad one, and its fault, or None."""
    n_right = 0
    for name, files in tables.items():
        for path, found in files:
            if (what := _offence(found, expected[name])) is not None:
                return n_right, f"{path}{what}"
            n_right += 1
    return None


def _offence(found: pa.Schema, expected: pa.Schema) -> str | None:
    if found.names != expected.names:
        return f": has the columns {', '.join(found.names)}; expected {', '.join(expected.names)}"
    for field in expected:
        kind = _plain(found.field(field.name).type)
        if kind != _plain(field.type):
            return f", column {field.name!r}: has type {kind}; expected {_plain(field.type)}"
    return None


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without encoding details: dictionaries, wide offsets, views, names inside lists."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_type)
    return kind
