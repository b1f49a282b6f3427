"""Parquet: one file or a directory of files, with Hive partitions (`day=2024-01-01/`) as columns.

Partition values are text as in the directory names. They become integers only if each has the canonical form of an
integer, so `acct=007` and `acct=7` stay two keys.

Page checksums are verified if the writer stored them. Damage to a file without them may go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet as pq

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.key_encoder import NewColumn, new_column, plain_column
from mbe_stage.pipeline.backends.arrow.plain import plain_type
from mbe_stage.pipeline.clean.facts import written_integer
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.io.compression import read_all
from mbe_stage.pipeline.io.raw import (
    FIRST_ROWS,
    Choose,
    Chosen,
    Place,
    RawEdges,
    choose_columns,
    values_of,
    with_all_columns,
)
from mbe_stage.pipeline.io.text.layout import refuse_matrix_table

SUFFIXES = (".parquet", ".parq", ".pq")
_BATCH_ROWS = 1 << 18
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class ParquetPlan:
    """The files, columns and rows to read, known from the footers alone.

    Attributes
    ----------
    path : Path
        The file or directory as given.
    content : pa.Buffer or None
        The decompressed bytes, if one file is compressed as a whole.
    files : list of Path
        In the order of the rows.
    schema : pa.Schema
        Common to all files; columns from directory names come last.
    chosen : Chosen
        Columns of `schema`.
    in_paths : tuple of dict
        For each file, the values of the columns from directory names (``day=2024-01-01/``).
    """

    path: Path
    content: pa.Buffer | None
    files: list[Path]
    schema: pa.Schema
    n_rows: int
    chosen: Chosen
    in_paths: tuple[dict[str, str | int | None], ...]

    @property
    def n_in_files(self) -> int:
        """Number of columns in the files; those of directory names come after them."""
        return len(self.schema) - len(self.in_paths[0])

    def footers(self) -> list[pq.FileMetaData]:
        """The footer of each file, read again."""
        return [pq.read_metadata(_opened(path, self.content)) for path in self.files]

    def place(self, row: int) -> Place:
        """Return the place of a row."""
        for path in self.files:
            n_rows = self.n_rows if len(self.files) == 1 else pq.read_metadata(path).num_rows
            if row < n_rows:
                return Place(f"{path}, row {row + 1}")
            row -= n_rows
        raise AssertionError("a row beyond the last file")


def read(
    path: Path,
    config: InputConfig,
    choose: Choose | None = None,
    new_column: NewColumn = new_column,
    share: tuple[int, int] = (0, 1),
    count: Callable[[int], None] = run_state.count_edges_read,
) -> RawEdges:
    """Read a Parquet file or directory; `choose` selects the columns, by default those of edges.

    The share ``(k, n)`` is the k-th of n parts of the row groups, from 0. `count` is called with numbers of rows.
    """
    plan = plan_reading(path, config, choose)
    try:
        columns = _columns(plan, new_column if choose is None else plain_column, share, count)
    except (pa.ArrowException, OSError) as error:
        lack_of_memory.pass_on(error)
        raise unreadable(path, error) from None
    # `locate` outlives this call and must not keep the decompressed file.
    locate, header = replace(plan, content=None).place, tuple(plan.schema.names)
    return plan.chosen.edges("parquet", columns, locate, n_columns=len(header), header=header)


def plan_reading(path: Path, config: InputConfig, choose: Choose | None = None) -> ParquetPlan:
    """Read the footers and choose the columns, by default those of edges; no row is read."""
    files, content = (data_files(path), None) if path.is_dir() else ([path], read_all(path))
    if not files:
        found, expected = "a directory without .parquet files", "Parquet files in it or below it"
        remedy = "give the directory that holds them, or one file"
        raise InputError.at(path, found=found, expected=expected, remedy=remedy)

    def of_edges(available: Sequence[str], source: str) -> Chosen:
        looks = config.tries_keys and len(set(available)) == len(available)
        first = _first_rows(path, files, content) if looks else pa.table({})

        def look(position: int) -> list[Any]:
            name = available[position]
            return values_of(first.column(name)) if name in first.column_names else []

        return with_all_columns(choose_columns(available, config, source, look), config)

    plan = _plan(path, files, content, choose or of_edges)
    if choose is None and len(plan.schema) > 2 and not config.names_columns and plan.n_rows:
        refuse_matrix_table(_first_rows(path, files, content), path, config)
    return plan


def _first_rows(path: Path, files: list[Path], content: pa.Buffer | None) -> pa.Table:
    try:
        file = pq.ParquetFile(_opened(files[0], content))
        batches = [next(file.iter_batches(batch_size=FIRST_ROWS))] if file.metadata.num_rows else []
        return pa.Table.from_batches(batches, file.schema_arrow)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def files_at(path: Path) -> list[Path]:
    """List a file, or the `data_files` of a directory."""
    return data_files(path) if path.is_dir() else [path]


def data_files(directory: Path) -> list[Path]:
    """List the Parquet files below a directory in order, without names that begin with ``_`` or ``.``."""
    files = []
    for path in sorted(directory.rglob("*")):
        hidden = any(part.startswith(("_", ".")) for part in path.relative_to(directory).parts)
        if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
            files.append(path)
    return files


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the refusal of data that is not Parquet, or is incomplete."""
    cause = " ".join(str(error).split())
    return InputError.at(
        path,
        found=f"not readable as Parquet ({cause})",
        expected="complete Parquet data with the same columns in every file",
        remedy=f"check {setting('input.format')}, or write the file again",
    )


def _plan(path: Path, files: list[Path], content: pa.Buffer | None, choose: Choose) -> ParquetPlan:
    footers = [_footer(each, content) for each in files]
    in_files: dict[tuple[str, int], list[pa.DataType]] = {}
    for schema, _ in footers:
        for position, field in enumerate(schema):
            in_files.setdefault((field.name, schema.names[:position].count(field.name)), []).append(field.type)
    in_paths = _in_paths(path, files)
    names = [*(name for name, _ in in_files), *in_paths[0]]
    chosen = choose(names, str(path))
    fields = [(name, kinds[0]) for (name, _), kinds in in_files.items()]
    integers = {name for name in in_paths[0] if any(isinstance(values[name], int) for values in in_paths)}
    fields += [(name, pa.int64() if name in integers else pa.large_string()) for name in in_paths[0]]
    for position in set(chosen.positions.values()):
        if position < len(in_files):
            name, nth = list(in_files)[position]
            _refuse_missing(files, [schema.names for schema, _ in footers], name)
            fields[position] = name, _common_type(files, name, in_files[name, nth])
    n_rows = sum(n for _, n in footers)
    return ParquetPlan(path, content, files, pa.schema(fields), n_rows, chosen, in_paths)


def _columns(
    plan: ParquetPlan, new_column: NewColumn, share: tuple[int, int], count: Callable[[int], None]
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return the column of each role."""
    columns = {role: new_column(role, kind, False) for role, kind in plan.chosen.of(plan.schema.types).items()}
    for at, row_groups in _row_groups(plan, *share):
        for batch in _batches(plan, at, row_groups):
            count(len(next(iter(batch.values()))))
            for role, column in batch.items():
                columns[role].add(column)
    return {role: column.finish() for role, column in columns.items()}


def _row_groups(plan: ParquetPlan, k: int, n: int) -> Iterator[tuple[int, list[int] | None]]:
    """Yield the positions of files, and the row groups of each in the k-th of n parts; None for all."""
    if n == 1:
        yield from ((at, None) for at in range(len(plan.files)))
        return
    groups = [(at, group) for at, footer in enumerate(plan.footers()) for group in range(footer.num_row_groups)]
    # Rounded up, so that the first part has some.
    start, end = (-(-len(groups) * part // n) for part in (k, k + 1))
    for at, of_file in groupby(groups[start:end], lambda place: place[0]):
        yield at, [group for _, group in of_file]


def _batches(plan: ParquetPlan, at: int, row_groups: list[int] | None) -> Iterator[dict[str, pa.Array]]:
    """Yield the columns of each role in row groups of the file at this position, some rows at a time."""
    names, n_in_files = plan.schema.names, plan.n_in_files
    wanted = [names[position] for position in plan.chosen.positions.values() if position < n_in_files]
    # Buffered ahead, a file would be in memory as a whole.
    source = _opened(plan.files[at], plan.content)
    with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False) as file:
        for batch in file.iter_batches(_BATCH_ROWS, row_groups, columns=wanted):
            yield {role: _of_batch(plan, at, batch, position) for role, position in plan.chosen.positions.items()}


def _of_batch(plan: ParquetPlan, at: int, batch: pa.RecordBatch, position: int) -> pa.Array:
    names, kind = plan.schema.names, plan.schema.field(position).type
    if position >= plan.n_in_files:
        return pa.repeat(pa.scalar(plan.in_paths[at][names[position]], kind), batch.num_rows)
    # For a nested name the reader returns every match, in the order of the file.
    nth = names[:position].count(names[position])
    same_name = [i for i, name in enumerate(batch.schema.names) if name == names[position]]
    column = batch.column(same_name[nth])
    if column.type != kind and pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if column.type == kind else column.cast(kind)


def _in_paths(directory: Path, files: list[Path]) -> tuple[dict[str, str | int | None], ...]:
    """Return the columns in the directory names above each file; None for a directory that marks a missing value."""
    texts: list[dict[str, str | None]] = []
    for path in files:
        pairs = [part.partition("=") for part in path.relative_to(directory).parts[:-1]]
        texts.append({unquote(name): unquote(value) for name, equals, value in pairs if equals})
    names = list(dict.fromkeys(name for values in texts for name in values))
    columns: dict[str, list[str | int | None]] = {}
    for name in names:
        values = [None if values.get(name) in ("", _NO_VALUE) else values.get(name) for values in texts]
        integers = [None if value is None else written_integer(value) for value in values]
        whole = all((value is None) == (integer is None) for value, integer in zip(values, integers, strict=True))
        columns[name] = [*integers] if whole else [*values]
    return tuple({name: columns[name][at] for name in names} for at in range(len(files)))


def _opened(path: Path, content: pa.Buffer | None) -> Path | pa.BufferReader:
    return path if content is None else pa.BufferReader(content)


def _footer(path: Path, content: pa.Buffer | None = None) -> tuple[pa.Schema, int]:
    """Return the columns and the number of rows."""
    try:
        with pq.ParquetFile(_opened(path, content)) as file:
            return file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        lack_of_memory.pass_on(error)
        if isinstance(error, pa.ArrowNotImplementedError) and "64 bits" in str(error):
            raise InputError.at(
                path,
                found="128-bit integers, which pyarrow cannot read",
                expected="integers of at most 64 bits, decimals or text",
                remedy=f"write them as text: polars.read_parquet({str(path)!r}).with_columns(polars.col(polars.Int128, "
                "polars.UInt128).cast(polars.String)).write_parquet('edges.parquet')",
            ) from None
        raise unreadable(path, error) from None


def _common_type(files: list[Path], name: str, kinds: list[pa.DataType]) -> pa.DataType:
    """Return one type for a column of all files: widths, dictionaries and offsets may differ, kinds may not."""
    common = kinds[0]
    for path, kind in zip(files, kinds, strict=True):
        if kind != common:
            schemas = [pa.schema([(name, plain_type(each))]) for each in (common, kind)]
            try:
                common = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
            except pa.ArrowException as error:
                raise unreadable(path, error) from None
    return common


def _refuse_missing(files: list[Path], columns: list[list[str]], name: str) -> None:
    """Refuse files that lack the column, or have more or fewer columns of that name than the others."""
    most = max(names.count(name) for names in columns)
    for path, names in zip(files, columns, strict=True):
        if (n_found := names.count(name)) < most:
            raise InputError.at(
                path,
                found=f"{n_found} columns named {name!r}" if name in names else f"no column {name!r}",
                expected=f"the columns of the other files; this one has {', '.join(map(repr, names))}",
                remedy="move the file away, or write it again with that column",
            )
