"""What is on the disk: every file there, unchanged, and of the published schema."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import VerificationError
from pipeline.manifest import Manifest
from pipeline.schemas import BICLIQUES, MEMBERS, SIZE_HISTOGRAM, vertices

__all__ = ["check_files", "check_schemas", "table_parts"]

_MANIFEST = "manifest.json"


def check_files(run: Path, manifest: Manifest, on_progress: Callable[[float], None]) -> str:
    """Names, sizes, checksums and rows against the manifest; `on_progress` gets the share of the bytes."""
    listed = {entry.path: entry for entry in manifest.files}
    present = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()} - {_MANIFEST}
    for name in sorted(present ^ set(listed)):
        raise VerificationError(
            f"{run / name}: {'is not in the manifest' if name in present else 'is missing, but the manifest lists it'}"
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


def check_schemas(run: Path, manifest: Manifest) -> str:
    """Columns and types of every table, and that each table is there."""
    tables = {
        "bicliques": BICLIQUES,
        "size_histogram": SIZE_HISTOGRAM,
        "left_vertices": None,
        "right_vertices": None,
    }
    if manifest.config.output.members:
        tables["members"] = MEMBERS
    for name, schema in tables.items():
        for path in table_parts(run, name):
            found = pq.read_schema(path)
            _check_columns(path, found, schema or _vertex_schema(found))
    return ", ".join(tables)


def table_parts(run: Path, name: str) -> list[Path]:
    """The files of a table: one, or the parts of a directory."""
    single = run / f"{name}.parquet"
    parts = [single] if single.is_file() else sorted((run / name).glob("*.parquet"))
    if not parts:
        raise VerificationError(f"{run / name}: the table is missing")
    return parts


def _metadata(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise VerificationError(f"{path}: is no Parquet file ({error})") from None


def _vertex_schema(found: pa.Schema) -> pa.Schema:
    index = found.get_field_index("key")
    is_text = index >= 0 and _plain(found.field(index).type) == pa.string()
    return vertices(pa.string() if is_text else pa.int64())


def _check_columns(path: Path, found: pa.Schema, expected: pa.Schema) -> None:
    if found.names != expected.names:
        raise VerificationError(
            f"{path}: has the columns {', '.join(found.names)}; expected {', '.join(expected.names)}"
        )
    for field in expected:
        kind = _plain(found.field(field.name).type)
        if kind != _plain(field.type):
            raise VerificationError(f"{path}, column {field.name!r}: has type {kind}; expected {_plain(field.type)}")


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without what does not change the values: dictionaries, wide offsets, names inside lists."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_type)
    return kind
