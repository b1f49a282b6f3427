"""Parquet: one file, or a directory of files, Hive partitions (`day=2024-01-01/`) included as columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import dataset, fs
from pyarrow import parquet as pq

from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.compression import read_all
from pipeline.io.raw import Place, RawEdges, choose_columns

__all__ = ["SUFFIXES", "data_files", "read"]

SUFFIXES = (".parquet", ".parq", ".pq")


def read(path: Path, config: InputConfig) -> RawEdges:
    """Read a Parquet file or directory."""
    if path.is_dir():
        return _read_directory(path, config)
    content = read_all(path)
    try:
        with pq.ParquetFile(path if content is None else pa.BufferReader(content)) as file:
            names = file.schema_arrow.names
            chosen = choose_columns(names, config, str(path))
            _refuse_repeated(names, chosen, path)
            table = file.read([names[position] for position in chosen.values()])
            # Of a nested column the reader returns what it finds under the name; the order is the file's.
            columns = {role: table.column(names[position]) for role, position in chosen.items()}
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None
    return RawEdges(
        table=pa.table(columns),
        source=str(path),
        format="parquet",
        names={role: names[position] for role, position in chosen.items()},
        locate=lambda row: Place(f"{path}, row {row + 1}"),
    )


def data_files(directory: Path) -> list[Path]:
    """The Parquet files below a directory, in order; names that begin with ``_`` or ``.`` are no data."""
    files = []
    for path in sorted(directory.rglob("*")):
        hidden = any(part.startswith(("_", ".")) for part in path.relative_to(directory).parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            files.append(path)
    return files


def _read_directory(directory: Path, config: InputConfig) -> RawEdges:
    files = data_files(directory)
    if not files:
        raise InputError.at(
            directory,
            found="a directory without .parquet files",
            expected="Parquet files in it or below it",
            remedy="give the directory that holds them, or one file",
        )
    schema = _common_schema(files)
    try:
        factory = dataset.FileSystemDatasetFactory(
            fs.LocalFileSystem(),
            [str(path) for path in files],
            dataset.ParquetFileFormat(),
            dataset.FileSystemFactoryOptions(
                partition_base_dir=str(directory), partitioning=dataset.HivePartitioning.discover()
            ),
        )
        # What the paths add (the partitions) comes after what the files hold.
        in_paths = [field for field in factory.inspect(promote_options="permissive") if field.name not in schema.names]
        schema = pa.schema([*schema, *in_paths])
        data = factory.finish(schema)
        names = schema.names
        chosen = choose_columns(names, config, str(directory))
        _refuse_repeated(names, chosen, directory)
        _refuse_missing(files, [names[i] for i in chosen.values() if names[i] not in {f.name for f in in_paths}])
        table = data.to_table(columns=[names[position] for position in chosen.values()])
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(directory, error) from None
    return RawEdges(
        table=pa.table(dict(zip(chosen, table.columns, strict=True))),
        source=str(directory),
        format="parquet",
        names={role: names[position] for role, position in chosen.items()},
        locate=lambda row: _place(files, row),
    )


def _common_schema(files: list[Path]) -> pa.Schema:
    """One schema for all files: integer and float widths may differ, kinds may not."""
    common = None
    for path in files:
        try:
            schema = pq.read_schema(path).remove_metadata()
            common = schema if common is None else pa.unify_schemas([common, schema], promote_options="permissive")
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None
    return common


def _refuse_missing(files: list[Path], columns: list[str]) -> None:
    for path in files:
        names = pq.read_schema(path).names
        for column in columns:
            if column not in names:
                raise InputError.at(
                    path,
                    found=f"no column {column!r}",
                    expected=f"the columns of the other files; this one has {', '.join(map(repr, names))}",
                    remedy="move the file away, or write it again with that column",
                )


def _refuse_repeated(names: list[str], chosen: dict[str, int], path: Path) -> None:
    for position in chosen.values():
        if names.count(names[position]) > 1:
            raise InputError.at(
                path,
                found=f"{names.count(names[position])} columns are named {names[position]!r}",
                expected="distinct names",
                remedy="write the file again with distinct names",
            )


def _place(files: list[Path], row: int) -> Place:
    for path in files:
        n_rows = pq.read_metadata(path).num_rows
        if row < n_rows:
            return Place(f"{path}, row {row + 1}")
        row -= n_rows
    raise AssertionError("a row beyond the last file")


def _unreadable(path: Path, error: Exception) -> InputError:
    cause = " ".join(str(error).split())
    return InputError.at(
        path,
        found=f"not readable as Parquet ({cause})",
        expected="complete Parquet data with the same columns in every file",
        remedy="check input.format, or write the file again",
    )
