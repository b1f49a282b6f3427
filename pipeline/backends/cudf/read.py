"""Read into device memory: cuDF reads Parquet and CSV; the host reads other formats, whose rows are copied."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import cudf
import cupy as cp
import pyarrow.parquet as pq

from mbe_stage.pipeline.backends.arrow.plain import as_plain, is_text, plain_type
from mbe_stage.pipeline.backends.backend import Column, HostNeeded, Rows
from mbe_stage.pipeline.backends.cudf.buffers import SIGNED_INTEGERS, kind_of
from mbe_stage.pipeline.backends.cudf.byte_checks import count_rows
from mbe_stage.pipeline.backends.cudf.encoded import MOST_ROWS, are_only_pairs, joined_columns
from mbe_stage.pipeline.backends.cudf.files import have_page_checksums, integer_bounds, opened
from mbe_stage.pipeline.backends.cudf.memory import DevicePool
from mbe_stage.pipeline.backends.cudf.rows import DeviceRows
from mbe_stage.pipeline.config.model import InputConfig
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import RawEdges, find_input, is_object, read_edges, reading
from mbe_stage.pipeline.io.compression import open_bytes, read_all
from mbe_stage.pipeline.io.further import is_further
from mbe_stage.pipeline.io.parquet import ParquetPlan, plan_reading
from mbe_stage.pipeline.io.raw import FIRST_ROWS, choose_columns, is_simple
from mbe_stage.pipeline.io.text.dialect import DELIMITER_NAMES, Dialect, find_dialect
from mbe_stage.pipeline.io.text.layout import may_be_counts, refuse_other_layout

_MOST_ROWS_AT_ONCE, _VALUE_BYTES = 1 << 27, (64, 256)
"""Most rows of a part of a Parquet file; and device memory for each value, of a number or of text."""

_JOINED_BYTES = 32
"""Device memory for each row while two columns of parts are joined and ordered."""

_CUDF_REFUSES = (RuntimeError, ValueError, OverflowError, TypeError)

_Bounds = dict[str, tuple[int, list[int]]]
"""For each column of signed integers, the number of nulls, and the least and the largest value if there is one."""

Readers = tuple[Callable[[], DeviceRows], Callable[[], RawEdges]]


def readers(config: InputConfig, source: object | None, pool: DevicePool | None) -> Readers:
    """Implement `Backend.readers`; a cuDF frame is used in place."""
    if isinstance(source, cudf.DataFrame):
        return partial(_of_frame, source, config), partial(read_edges, config, source)
    found = None if is_object(source) else find_input(config, source)
    reads_as_written = config.decimal == "." and config.date_format is None
    if found is not None and not found.files and found.format in _DEVICE_READERS and reads_as_written:
        read = reading(found.path)(_DEVICE_READERS[found.format])
        return partial(read, found.path, config, pool), partial(read_edges, config, source)
    raw = read_edges(config, source)
    return partial(_copied, raw), lambda: raw


def _of_frame(frame: cudf.DataFrame, config: InputConfig) -> DeviceRows:
    source = "memory:cudf"
    names = [str(name) for name in frame.columns]
    head = frame.head(FIRST_ROWS).to_arrow(preserve_index=False) if config.tries_keys else None
    chosen = choose_columns(names, config, source, None if head is None else lambda at: head.column(at).to_pylist())
    columns = {role: frame[frame.columns[i]].reset_index(drop=True) for role, i in chosen.positions.items()}
    for role, column in columns.items():
        if isinstance(column.dtype, cudf.CategoricalDtype):
            columns[role] = column.astype(column.cat.categories.dtype)
    how: dict[str, Any] = {"input_columns": chosen.meant, "n_columns": len(names)}
    return DeviceRows(columns, len(frame), source=source, format="memory", reader="cuDF", **how)


def _copied(raw: RawEdges) -> DeviceRows:
    _refuse_too_many(raw.table.num_rows, raw.source)
    columns = {role: as_plain(raw.table.column(role)) for role in raw.table.column_names}
    for role, column in columns.items():
        if not is_simple(column.type):
            raise HostNeeded(f"column {raw.names[role]!r} of type {column.type}")
    of_rows = {field.name: getattr(raw, field.name) for field in fields(Rows)}
    of_rows["reader"] = "the host's reader, then copied"
    return DeviceRows({role: cudf.Series.from_arrow(column) for role, column in columns.items()}, raw.n_rows, **of_rows)


def _read_parquet(path: Path, config: InputConfig, pool: DevicePool | None) -> DeviceRows:
    plan = plan_reading(path, config)
    _check_plan(plan)
    sources = opened(plan.files) if plan.content is None else [io.BytesIO(plan.content)]
    row_bytes = sum(_VALUE_BYTES[is_text(plain_type(kind))] for kind in plan.chosen.of(plan.schema.types).values())
    left_bytes = cp.cuda.Device().mem_info[0] if pool is None else pool.left_bytes()
    most_rows = max(1, min(_MOST_ROWS_AT_ONCE, left_bytes // row_bytes))
    bounds: list[_Bounds] = []
    if plan.n_rows <= most_rows or any(map(is_further, plan.chosen.names)):
        _refuse_too_many(plan.n_rows, str(path))
        columns: dict[str, Any] = _columns(plan, sources, (0, plan.n_rows), bounds)
    else:

        def part(first: int) -> dict[str, Column]:
            n = min(most_rows, plan.n_rows - first)
            rows = DeviceRows(_columns(plan, sources, (first, n), bounds), n, source=str(path), format="parquet")
            return {role: rows.column(role, config.key_type) for role in rows.roles}

        only_pairs = plan.n_rows * _JOINED_BYTES > left_bytes and are_only_pairs(plan.chosen.names, config)
        columns = joined_columns(map(part, range(0, plan.n_rows, most_rows)), only_pairs=only_pairs)
    _check_bounds(plan, bounds)
    return DeviceRows(
        columns=columns,
        n=plan.n_rows,
        source=str(path),
        format="parquet",
        reader="cudf.read_parquet",
        warnings=_unverified(plan),
        input_columns=plan.chosen.meant,
        n_columns=len(plan.schema.names),
    )


def _columns(
    plan: ParquetPlan, sources: Sequence[Any], part: tuple[int, int], bounds: list[_Bounds]
) -> dict[str, cudf.Series]:
    """Read a part of the rows, given the first one and their number: the column of each role; and its bounds."""
    names = list(dict.fromkeys(plan.chosen.names.values()))
    first, n_rows = part
    try:
        frame = cudf.read_parquet(
            sources,
            columns=names,
            use_pandas_metadata=False,
            ignore_missing_columns=False,
            # Read the listed files without a search for partitions, which the plan has already found.
            dataset_kwargs={"format": "parquet", "partitioning": None},
            **({} if n_rows == plan.n_rows else {"skip_rows": first, "nrows": n_rows}),
        )
    except _CUDF_REFUSES as error:
        raise _refused_by_cudf(error) from error
    if len(frame) != n_rows or not set(names) <= set(frame.columns):
        raise HostNeeded(f"{len(frame)} rows of {list(frame.columns)} read by cuDF, not {n_rows} of {names}")
    integers = {name: frame[name] for name in names if kind_of(frame[name]) in SIGNED_INTEGERS}
    bounds.append(
        {
            name: (column.null_count, [int(column.min()), int(column.max())] if column.null_count < n_rows else [])
            for name, column in integers.items()
        }
    )
    return {role: frame[name] for role, name in plan.chosen.names.items()}


def _unverified(plan: ParquetPlan) -> tuple[str, ...]:
    """Return a warning if there are page checksums that were not verified."""
    files = plan.files if plan.content is None else [plan.content]
    if not have_page_checksums(files, plan.chosen.names.values()):
        return ()
    return (
        f"{plan.path}: its page checksums were not verified, which cuDF cannot do: a damaged page may have been read "
        "as it is (the engines cpu and cuda verify them)",
    )


def _check_plan(plan: ParquetPlan) -> None:
    schemas = [pq.read_schema(file) for file in plan.files] if len(plan.files) > 1 else []
    for position in plan.chosen.positions.values():
        name, kind = plan.schema.names[position], plan.schema.field(position).type
        if position >= plan.n_in_files:
            raise HostNeeded(f"column {name!r}, which stands in directory names")
        if plan.schema.names.count(name) > 1:
            raise HostNeeded(f"several columns of the name {name!r}")
        if not is_simple(plain_type(kind)):
            raise HostNeeded(f"column {name!r} of type {kind}")
        if any(schema.field(name).type != kind for schema in schemas):
            raise HostNeeded(f"column {name!r}, which has not the same type in all files")


def _check_bounds(plan: ParquetPlan, of_parts: list[_Bounds]) -> None:
    """Check integers against the footers' bounds, which reveals damaged pages."""
    footers = None
    for name in of_parts[0]:
        n_nulls, values = sum(of[name][0] for of in of_parts), [value for of in of_parts for value in of[name][1]]
        if not values:
            continue
        footers = plan.footers() if footers is None else footers
        said, found = integer_bounds(name, footers), (min(values), max(values), n_nulls)
        if said is not None and said != found:
            raise HostNeeded(
                f"column {name!r}, which cuDF reads as {found[0]} to {found[1]} with {found[2]} nulls, and which is "
                f"{said[0]} to {said[1]} with {said[2]} by the footer"
            )


def _read_csv(path: Path, config: InputConfig, _pool: DevicePool | None) -> DeviceRows:
    dialect = find_dialect(path, config)
    if dialect.is_ragged:
        raise HostNeeded("rows of unequal length")
    look, are_named = (lambda at: (row[at] for row in dialect.rows)), dialect.has_header
    chosen = choose_columns(dialect.names, config, path, look, are_named=are_named)
    refuse_other_layout(path, config, dialect)
    _check_plain(dialect, config)
    with open_bytes(path) as stream:
        n_rows = count_rows(stream, dialect) - (1 if dialect.n_skipped else 0)
    _refuse_too_many(n_rows, str(path))
    if n_rows == 0:
        raise HostNeeded("a file without rows")
    # Generated names, because those in the file may repeat.
    names = [str(i) for i in range(dialect.n_columns)]
    wanted, content = [names[position] for position in sorted(set(chosen.positions.values()))], read_all(path)
    try:
        frame = cudf.read_csv(
            opened([path])[0] if content is None else io.BytesIO(content),
            sep=dialect.delimiter,
            header=None,
            names=names,
            usecols=wanted,
            dtype=dict.fromkeys(wanted, "str"),
            skiprows=dialect.n_skipped,
            # Only empty text is a null, which the common code for all formats handles.
            na_filter=False,
            compression=None,
        )
    except _CUDF_REFUSES as error:
        raise _refused_by_cudf(error) from error
    if any(bool((frame[name].str.strip(" \t") != frame[name]).any()) for name in frame.columns):
        raise HostNeeded("blanks around fields")
    if (not dialect.has_header or dialect.is_named_by_comment) and may_be_counts(dialect.rows[:1], n_rows):
        raise HostNeeded("a first line that may be counts")
    if len(frame) != n_rows:
        raise HostNeeded(f"{len(frame)} rows read by cuDF, where {n_rows} were counted")
    return DeviceRows(
        columns={role: frame[name] for role, name in chosen.of(names).items()},
        n=n_rows,
        source=str(path),
        format="csv",
        reader="cudf.read_csv",
        keys="inferred",
        input_columns=chosen.meant,
        n_columns=dialect.n_columns,
        dialect=dialect.text,
    )


def _check_plain(dialect: Dialect, config: InputConfig) -> None:
    """Check that the device can read the bytes unchanged, apart from one header line."""
    if len(dialect.delimiter) > 1:
        raise HostNeeded(f"{DELIMITER_NAMES[dialect.delimiter]} between fields")
    if dialect.n_skipped > dialect.has_header or config.comment or config.encoding or dialect.pads_quotes:
        raise HostNeeded("lines that are no rows, or text that is not plain UTF-8")


def _refused_by_cudf(error: Exception) -> Exception:
    """Return the reason why the host has to read; lack of device memory stays an error."""
    said = " ".join(str(error).split())
    return error if "out_of_memory" in said else HostNeeded(f"an error of cuDF: {said}")


def _refuse_too_many(n_rows: int, source: str) -> None:
    if n_rows >= MOST_ROWS:
        raise InputError.at(
            source,
            found=f"{n_rows} rows",
            expected=f"fewer than {MOST_ROWS}, the limit of a cuDF column",
            remedy=f"set {setting('execution.engine')} to cuda, which keeps its tables on the host, or split the input",
        )


_DEVICE_READERS: dict[str, Callable[..., DeviceRows]] = {"parquet": _read_parquet, "csv": _read_csv}
