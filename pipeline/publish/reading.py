"""Tables of a published run; a damaged table gives a one-line error that names the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mbe_stage.bicliques.problem import PROBLEM as BICLIQUE_PROBLEM
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution import lack_of_memory
from mbe_stage.pipeline.publish.manifest import lost_file, read_manifest
from mbe_stage.pipeline.publish.run_files import MANIFEST_NAME
from mbe_stage.pipeline.publish.schemas import BICLIQUES
from mbe_stage.pipeline.safe_paths import is_directory

if TYPE_CHECKING:
    from mbe_stage.pipeline.publish.manifest import Manifest

_REMEDY = "see mbe verify, or publish it again"
_PARQUET = ".parquet"


@contextmanager
def reading(run_path: str | Path) -> Iterator[None]:
    """Turn Arrow's three kinds of read errors into an error that names the damaged run."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowIndexError, OSError) as error:
        lack_of_memory.pass_on(error)
        what = " ".join(str(error).split())
        raise PublishError(f"{run_path}: cannot be read ({what}); expected a published run; {_REMEDY}") from error


def refuse_nulls(table: pa.Table, schema: pa.Schema) -> None:
    """Raise `ArrowInvalid` for a null in a column that has none by the schema; columns may be missing."""
    for field in schema:
        if not field.nullable and field.name in table.column_names and table[field.name].null_count:
            raise pa.ArrowInvalid(f"a null in the column {field.name}")


def bicliques_parts(run_path: str | Path) -> list[Path]:
    """Return the files of a run's table `bicliques`, in reading order.

    A run without bicliques that was made from another run uses the other run's (`run_with_bicliques`).

    Raises
    ------
    PublishError
        There are none, or one has other columns.
    """
    source = run_with_bicliques(run_path)
    parts = [] if source is None else sorted((source / "bicliques").glob("*.parquet"))
    if not parts:
        check_problem(run_path)
        _check_written(run_path)
        raise PublishError(
            f"{run_path}: no table of bicliques; expected bicliques/part-*.parquet as in a published run"
        )
    for part in parts:
        with reading(run_path):
            schema = pq.read_schema(part)
        for field in BICLIQUES:
            at = schema.get_field_index(field.name)
            found = "no column" if at < 0 else str(schema.field(at).type)
            if at < 0 or _plain(schema.field(at).type) != _plain(field.type):
                raise PublishError(f"{part}: {field.name}: {found}; expected {field.type}; {_REMEDY}")
    return parts


def bicliques_batches(run_path: str | Path, members: int) -> Iterator[tuple[pa.RecordBatch, float]]:
    """Yield rows of the table in order, and the share of the table done.

    Parameters
    ----------
    members : int
        Approximate members of a side per batch, by the average row of the row group; this bounds memory.

    Raises
    ------
    PublishError
        The table cannot be read, or see `bicliques_parts`.
    """
    with reading(run_path):
        files = [open_part(part) for part in bicliques_parts(run_path)]
        n_rows = sum(file.metadata.num_rows for file in files)
        n_done = 0
        for file in files:
            for group in range(file.metadata.num_row_groups):
                rows = _rows_at_once(file.metadata.row_group(group), members)
                for batch in file.iter_batches(rows, row_groups=[group]):
                    n_done += batch.num_rows
                    yield batch, n_done / n_rows


def _rows_at_once(group: pq.RowGroupMetaData, members: int) -> int:
    most = max(group.column(i).num_values for i in range(group.num_columns))
    return max(1, members * group.num_rows // max(1, most))


def has_bicliques(run_path: str | Path) -> bool:
    """Return whether a run, published or not yet, has the table `bicliques`; see `output.bicliques`."""
    return (Path(run_path) / "bicliques").is_dir()


def run_with_bicliques(run_path: str | Path) -> Path | None:
    """Return the run with the table of a run's bicliques: itself, or the run it was made from; None without either.

    The other run must be in the same directory, complete, and have the same bicliques.
    """
    run_path = Path(run_path)
    if has_bicliques(run_path):
        return run_path
    if not (run_path / MANIFEST_NAME).is_file():
        return None
    manifest = read_manifest(run_path)
    if manifest.made_of is None:
        return None
    source = run_path.resolve().parent / manifest.made_of
    if not is_directory(source) or not (source / MANIFEST_NAME).is_file():
        return None
    found = read_manifest(source)
    is_same = found.content_fingerprint == manifest.content_fingerprint and has_bicliques(source)
    return source if is_same and lost_file(source, found) is None else None


def _check_written(run_path: str | Path) -> None:
    """Refuse a run that was published without the table."""
    if not (Path(run_path) / MANIFEST_NAME).is_file():
        return
    manifest = read_manifest(run_path)
    if not manifest.config.output.bicliques:
        remedy = "run it again with them: mbe enumerate writes them by default, mbe groups with --bicliques"
        if manifest.made_of is not None:
            remedy += f"; run {manifest.made_of}, from which it was made, is not in the same directory"
        raise PublishError(
            f"{run_path}: was published without its bicliques (output.bicliques: false); expected a run with "
            f"bicliques; {remedy}"
        )


def problem_of(run_path: str | Path) -> str | None:
    """Return the problem of a run's results; None without a manifest.

    Raises
    ------
    PublishError
        The manifest cannot be read.
    """
    return read_manifest(run_path).problem if (Path(run_path) / MANIFEST_NAME).is_file() else None


def check_problem(run_path: str | Path) -> None:
    """Refuse a run whose manifest names another problem.

    Raises
    ------
    PublishError
        It is one.
    """
    problem = problem_of(run_path)
    if problem not in (None, BICLIQUE_PROBLEM.name):
        raise PublishError(
            f"{run_path}: holds results of the problem {problem!r}; expected a run of {BICLIQUE_PROBLEM.name}, "
            "whose members this command reads; read its Parquet tables with another tool"
        )


def open_part(part: Path) -> pq.ParquetFile:
    """Open a part to read in batches; without `pre_buffer`, which keeps all read data until the file is closed."""
    return pq.ParquetFile(part, pre_buffer=False)


def key_type(run_path: str | Path, side: str) -> pa.DataType:
    """Return the type of one side's keys.

    Raises
    ------
    PublishError
        The table is missing or cannot be read, or its keys are neither integers nor text.
    """
    path = Path(run_path) / f"{side}_vertices.parquet"
    if not path.is_file():
        check_problem(run_path)
        raise PublishError(f"{path}: no such table; expected a run directory with both vertex tables")
    with reading(run_path):
        schema = pq.read_schema(path)
    at = schema.get_field_index("key")
    found = "no column" if at < 0 else str(schema.field(at).type)
    if found not in ("int64", "string", "large_string"):
        raise PublishError(f"{path}: key: {found}; expected int64 or string; {_REMEDY}")
    return schema.field(at).type


def vertex_keys(run_path: str | Path, side: str) -> pa.ChunkedArray:
    """Return the user's own keys of one side; the position is the dense id.

    Raises
    ------
    PublishError
        See `key_type`.
    """
    key_type(run_path, side)
    with reading(run_path), pq.ParquetFile(Path(run_path) / f"{side}_vertices.parquet") as file:
        return file.read(columns=["key"])["key"]


def numbers_of(column: pa.Array) -> np.ndarray:
    """Return the numbers of a column without nulls, without a copy.

    Arrow's `to_numpy` imports pandas if it is installed, which takes longer than the rest of `mbe top`.

    Raises
    ------
    pa.ArrowInvalid
        There is a null.
    """
    if column.null_count:
        raise pa.ArrowInvalid(f"{column.null_count} nulls in a column of {column.type}")
    kind = np.dtype(str(column.type))
    values = column.buffers()[1]
    return np.frombuffer(values, kind, len(column), column.offset * kind.itemsize) if len(column) else np.empty(0, kind)


def check_members(run_path: str | Path, rows: pa.RecordBatch, side: str, n_vertices: int) -> None:
    """Refuse members that are not vertices, and sizes that differ from the lists.

    Compiled code would read beyond the end of an array.

    Raises
    ------
    PublishError
    """
    lists = rows.column(side)
    if not np.array_equal(np.diff(numbers_of(lists.offsets)), numbers_of(rows.column(f"n_{side}"))):
        raise PublishError(f"{run_path}: n_{side} is not the number of members in {side}; {_REMEDY}")
    members = numbers_of(lists.flatten())
    if members.size and not (members.min() >= 0 and members.max() < n_vertices):
        raise PublishError(
            f"{run_path}: {side} has a vertex that is not in {side}_vertices; expected ids below "
            f"{n_vertices:,}; {_REMEDY}"
        )


def _plain(of_type: pa.DataType) -> pa.DataType:
    return pa.list_(of_type.value_type) if pa.types.is_list(of_type) else of_type


class PublishedTables(Mapping[str, "pa.Table"]):
    """The tables of a run: ``tables["groups"]`` reads ``groups.parquet``, ``tables["bicliques"]`` all of its parts.

    Each look-up reads from disk; nothing is cached.

    Parameters
    ----------
    manifest : Manifest
        The manifest of the run; the files in it determine the tables.
    """

    def __init__(self, run_dir: Path, manifest: Manifest) -> None:
        self._run_dir = run_dir
        paths = (entry.path for entry in manifest.files if entry.path.endswith(_PARQUET))
        self._names = tuple(dict.fromkeys(path.partition("/")[0].removesuffix(_PARQUET) for path in paths))

    def __getitem__(self, name: str) -> pa.Table:
        """The whole table.

        Raises
        ------
        KeyError
            The run has no such table; the message lists its tables.
        PublishError
            It can no longer be read.
        """
        if name not in self._names:
            raise KeyError(f"{name!r} is not a table of {self._run_dir}; expected one of {', '.join(self._names)}")
        single = self._run_dir / f"{name}{_PARQUET}"
        with reading(self._run_dir):
            return pq.read_table(single if single.is_file() else self._run_dir / name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
