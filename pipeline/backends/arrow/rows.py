"""Columns of rows from the readers of `pipeline.io` in the form that the cleaning rules need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.keys import as_keys
from mbe_stage.pipeline.backends.arrow.measures import as_numbers, as_times
from mbe_stage.pipeline.backends.backend import Column, KeyType, is_key
from mbe_stage.pipeline.io import RawEdges


def measured(rows: RawEdges, role: str, are_numbers: bool | None = None) -> pa.Array:
    """Return weights as numbers, or times as numbers or moments; `are_numbers` decides for times as text."""
    values, refuse = rows.table.column(role), rows.refusal_of(role)
    return as_numbers(values, refuse) if role == "weight" else as_times(values, refuse, are_numbers)


def column_of(rows: RawEdges, role: str, key_type: KeyType = "auto") -> Column:
    """Implement `Backend.column`."""
    if is_key(role):
        keys = as_keys(rows.table.column(role), key_type, rows.refusal_of(role))
        return Column(keys, _present(keys))
    values = measured(rows, role)
    moments = pa.types.is_timestamp(values.type)
    numbers = values.cast(pa.int64()) if moments else values
    if numbers.null_count:
        numbers = numbers.fill_null(0)
    return Column(numbers.to_numpy(zero_copy_only=False), _present(values), moments)


def _present(values: pa.Array) -> np.ndarray | None:
    return values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
