"""Write the difference of two runs as Parquet, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.parts import PartNames, PartWriter, write_table
from mbe_stage.pipeline.publish.new_directory import new_directory
from mbe_stage.pipeline.publish.reading import key_type
from mbe_stage.pipeline.views.diff.job import PAIRED, RunDiff
from mbe_stage.pipeline.views.diff.members import rows_with_members
from mbe_stage.pipeline.views.diff.rows import Side


def difference_schema(left_keys: pa.DataType, right_keys: pa.DataType) -> pa.Schema:
    """Columns of `differences`: one row per biclique of one run only; a pair has one row, for its new biclique."""
    return pa.schema(
        [
            pa.field("status", pa.string(), nullable=False),
            pa.field("biclique_key", pa.int64(), nullable=False),
            pa.field("partner_key", pa.int64(), nullable=True),
            pa.field("jaccard", pa.float64(), nullable=True),
            *_member_fields(left_keys, right_keys),
        ]
    )


def partner_schema(left_keys: pa.DataType, right_keys: pa.DataType) -> pa.Schema:
    """Columns of `partners`: one row per biclique of the old run that has a partner in the new one."""
    return pa.schema([pa.field("biclique_key", pa.int64(), nullable=False), *_member_fields(left_keys, right_keys)])


def difference_batches(diff: RunDiff) -> Iterator[pa.RecordBatch]:
    """Yield rows of `differences` in batches: first those of the new run, then those only in the old one."""
    types = key_types(diff)
    schema = difference_schema(*types)
    without = "new" if diff.comparability.knows_new else "only_in_new"
    names = np.array([without, *PAIRED], object)
    for at, left, right in rows_with_members(diff.only_new, np.ones(len(diff.only_new), np.bool_)):
        kinds = np.zeros(at.size, np.int8) if diff.pairs is None else diff.pairs.kind[at]
        partners = np.zeros(at.size, np.int64) if diff.pairs is None else diff.pairs.partner_of_new[at]
        jaccards = np.zeros(at.size) if diff.pairs is None else diff.pairs.jaccard[at]
        partner_keys = np.zeros(at.size, np.int64)
        partner_keys[kinds > 0] = diff.only_old.keys[partners[kinds > 0]]
        first = [
            pa.array(names[kinds], pa.string()),
            pa.array(diff.only_new.keys[at]),
            pa.array(partner_keys, mask=kinds == 0),
            pa.array(jaccards, mask=kinds == 0),
        ]
        yield _batch(schema, first, diff.only_new, at, left, right)
    status = "gone" if diff.comparability.knows_gone else "only_in_old"
    for at, left, right in rows_with_members(diff.only_old, ~_has_partner(diff)):
        nothing = [pa.nulls(at.size, pa.int64()), pa.nulls(at.size, pa.float64())]
        first = [pa.array([status] * at.size, pa.string()), pa.array(diff.only_old.keys[at]), *nothing]
        yield _batch(schema, first, diff.only_old, at, left, right)


def partner_batches(diff: RunDiff) -> Iterator[pa.RecordBatch]:
    """Yield rows of `partners`."""
    schema = partner_schema(*key_types(diff))
    for at, left, right in rows_with_members(diff.only_old, _has_partner(diff)):
        yield _batch(schema, [pa.array(diff.only_old.keys[at])], diff.only_old, at, left, right)


def write_diff(
    diff: RunDiff,
    directory: str | Path,
    summary: dict[str, Any] | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Path:
    """Write ``differences/``, ``partners/`` and, if given, ``summary.json`` into a directory that appears atomically.

    Parameters
    ----------
    directory : path
        A new or empty directory.
    on_progress : callable
        Called with the share of the rows written.

    Returns
    -------
    Path
        The directory.

    Raises
    ------
    PublishError
        It is not empty or cannot be written; nothing of it remains.
    """
    n_rows = len(diff.only_new) + len(diff.only_old)
    with new_directory(directory, summary) as growing:
        types = key_types(diff)
        written = _write(difference_batches(diff), difference_schema(*types), growing / "differences")
        partners = _write(partner_batches(diff), partner_schema(*types), growing / "partners")
        done = 0
        for rows in (written, partners):
            for n in rows:
                done += n
                on_progress(done / n_rows)
    return Path(directory)


def key_types(diff: RunDiff) -> tuple[pa.DataType, pa.DataType]:
    """Return the types of the left and right keys; text if the two runs differ."""
    types = [{key_type(run, side) for run in (diff.old, diff.new)} for side in ("left", "right")]
    left, right = (found.pop() if len(found) == 1 else pa.string() for found in types)
    return left, right


def _write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, directory: Path) -> Iterator[int]:
    names = PartNames(directory)
    writer = PartWriter(names, schema, "zstd")
    try:
        for batch in batches:
            writer.write(batch)
            yield batch.num_rows
        writer.close()
    except BaseException:
        writer.abort()
        raise
    if names.n_taken == 0:
        write_table(schema.empty_table(), names.take(), "zstd")


def _batch(
    schema: pa.Schema, first: list[pa.Array], side: Side, at: np.ndarray, left: pa.ListArray, right: pa.ListArray
) -> pa.RecordBatch:
    """Return some rows of a table of differences.

    Parameters
    ----------
    first : list of pa.Array
        The columns before those of members.
    at : (n,) integers
        Positions in `side`.
    left, right : pa.ListArray
        Keys of the members.
    """
    n_left, n_right = side.n_left[at], side.n_right[at]
    columns = [
        *first,
        pa.array(n_left),
        pa.array(n_right),
        pa.array(n_left.astype(np.int64) * n_right),
        left.cast(schema.field("left_keys").type),
        right.cast(schema.field("right_keys").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _member_fields(left_keys: pa.DataType, right_keys: pa.DataType) -> list[pa.Field]:
    def keys(of_type: pa.DataType) -> pa.DataType:
        return pa.list_(pa.field("element", of_type, nullable=True))

    return [
        pa.field("n_left", pa.int32(), nullable=False),
        pa.field("n_right", pa.int32(), nullable=False),
        pa.field("n_edges", pa.int64(), nullable=False),
        pa.field("left_keys", keys(left_keys), nullable=False),
        pa.field("right_keys", keys(right_keys), nullable=False),
    ]


def _has_partner(diff: RunDiff) -> np.ndarray:
    return np.zeros(len(diff.only_old), np.bool_) if diff.pairs is None else diff.pairs.partner_of_gone >= 0
