"""Parquet: one file, or a directory of files, Hive partitions (`day=2024-01-01/`) included as columns.

Page checksums are verified where the writer left them; a file without them may be damaged unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset, fs
from pyarrow import parquet as pq

from pipeline import lack_of_memory
from pipeline.config import InputConfig
from pipeline.errors import InputError
from pipeline.io.compression import read_all
from pipeline.io.raw import Choose, Place, RawEdges, choose_columns, columns_meant
from pipeline.naming import setting

__all__ = ["SUFFIXES", "ParquetPlan", "data_files", "plan_reading", "read", "unreadable"]

SUFFIXES = (".parquet", ".parq", ".pq")


@dataclass(frozen=True, slots=True)
class ParquetPlan:
    """What to read of which files, known from their footers alone.

    Attributes
    ----------
    path : Path
        The file or directory as given.
    content : pa.Buffer or None
        The decompressed bytes, where one file is compressed as a whole.
    files : list of Path
        In the order of the rows.
    schema : pa.Schema
        Common to all files, the columns that directory names hold at its end.
    n_rows : int
    chosen : dict of str to int
        Position in `schema` of the column of each role.
    in_paths : frozenset of str
        Columns that stand in directory names (``day=2024-01-01/``).
    """

    path: Path
    content: pa.Buffer | None
    files: list[Path]
    schema: pa.Schema
    n_rows: int
    chosen: dict[str, int]
    in_paths: frozenset[str] = frozenset()

    @property
    def names(self) -> dict[str, str]:
        """The name of the column of each role."""
        return {role: self.schema.names[position] for role, position in self.chosen.items()}

    def footers(self) -> list[pq.FileMetaData]:
        """The footer of each file, read again."""
        if self.content is not None:
            return [pq.read_metadata(pa.BufferReader(self.content))]
        return [pq.read_metadata(path) for path in self.files]

    def place(self, row: int) -> Place:
        """Where a row stands."""
        for path in self.files:
            n_rows = self.n_rows if len(self.files) == 1 else pq.read_metadata(path).num_rows
            if row < n_rows:
                return Place(f"{path}, row {row + 1}")
            row -= n_rows
        raise AssertionError("a row beyond the last file")


def read(path: Path, config: InputConfig, choose: Choose | None = None) -> RawEdges:
    """Read a Parquet file or directory; `choose` says which columns, by default those of edges."""
    plan = plan_reading(path, config, choose)
    names = list(plan.names.values())
    try:
        if path.is_dir():
            table = _dataset(plan).to_table(columns=names)
            columns = dict(zip(plan.chosen, table.columns, strict=True))
        else:
            with pq.ParquetFile(_opened(path, plan.content), page_checksum_verification=True) as file:
                table = file.read(names)
            # Of a nested column the reader returns what it finds under the name; the order is the file's.
            columns = {role: table.column(name) for role, name in plan.names.items()}
    except (pa.ArrowException, OSError) as error:
        lack_of_memory.pass_on(error)
        raise unreadable(path, error) from None
    # Whoever can say where a row stood must not keep the decompressed file.
    locate = replace(plan, content=None).place
    return RawEdges(
        table=pa.table(columns),
        source=str(path),
        format="parquet",
        names=plan.names,
        locate=locate,
        input_columns=() if choose else columns_meant(plan.schema.names, config, str(path)),
        n_columns=len(plan.schema.names),
        header=tuple(plan.schema.names),
    )


def plan_reading(path: Path, config: InputConfig, choose: Choose | None = None) -> ParquetPlan:
    """Look at the footers and choose the columns, by default those of edges; no row is read.

    Raises
    ------
    InputError
        A file is no Parquet, the files have no common schema, or a column is not there or there twice.
    """
    choose = choose or partial(_of_edges, config)
    if path.is_dir():
        return _plan_directory(path, choose)
    content = read_all(path)
    try:
        with pq.ParquetFile(_opened(path, content)) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        lack_of_memory.pass_on(error)
        raise unreadable(path, error) from None
    chosen = choose(schema.names, str(path))
    _refuse_repeated(schema.names, chosen, path)
    return ParquetPlan(path, content, [path], schema, n_rows, chosen)


def data_files(directory: Path) -> list[Path]:
    """The Parquet files below a directory, in order; names that begin with ``_`` or ``.`` are no data."""
    files = []
    for path in sorted(directory.rglob("*")):
        hidden = any(part.startswith(("_", ".")) for part in path.relative_to(directory).parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            files.append(path)
    return files


def unreadable(path: Path, error: Exception) -> InputError:
    """The refusal of data that is no Parquet, or not all of it."""
    cause = " ".join(str(error).split())
    return InputError.at(
        path,
        found=f"not readable as Parquet ({cause})",
        expected="complete Parquet data with the same columns in every file",
        remedy=f"check {setting('input.format')}, or write the file again",
    )


def _of_edges(config: InputConfig, available: Sequence[str], source: str) -> dict[str, int]:
    return choose_columns(available, config, source)


def _plan_directory(directory: Path, choose: Choose) -> ParquetPlan:
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
        inspected = _factory(directory, files).inspect(promote_options="permissive")
    except (pa.ArrowException, OSError) as error:
        lack_of_memory.pass_on(error)
        raise unreadable(directory, error) from None
    # What the paths add (the partitions) comes after what the files hold.
    in_paths = [field for field in inspected if field.name not in schema.names]
    schema = pa.schema([*schema, *in_paths])
    chosen = choose(schema.names, str(directory))
    _refuse_repeated(schema.names, chosen, directory)
    plan = ParquetPlan(
        path=directory,
        content=None,
        files=files,
        schema=schema,
        n_rows=sum(pq.read_metadata(path).num_rows for path in files),
        chosen=chosen,
        in_paths=frozenset(field.name for field in in_paths),
    )
    _refuse_missing(files, [name for name in plan.names.values() if name not in plan.in_paths])
    return plan


def _dataset(plan: ParquetPlan) -> dataset.Dataset:
    return _factory(plan.path, plan.files).finish(plan.schema)


def _factory(directory: Path, files: list[Path]) -> dataset.FileSystemDatasetFactory:
    return dataset.FileSystemDatasetFactory(
        fs.LocalFileSystem(),
        [str(path) for path in files],
        dataset.ParquetFileFormat(
            default_fragment_scan_options=dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        ),
        dataset.FileSystemFactoryOptions(
            partition_base_dir=str(directory), partitioning=dataset.HivePartitioning.discover()
        ),
    )


def _opened(path: Path, content: pa.Buffer | None) -> Path | pa.BufferReader:
    return path if content is None else pa.BufferReader(content)


def _common_schema(files: list[Path]) -> pa.Schema:
    """One schema for all files: integer and float widths may differ, kinds may not."""
    common = None
    for path in files:
        try:
            schema = pq.read_schema(path).remove_metadata()
            common = schema if common is None else pa.unify_schemas([common, schema], promote_options="permissive")
        except (pa.ArrowException, OSError) as error:
            lack_of_memory.pass_on(error)
            raise unreadable(path, error) from None
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
