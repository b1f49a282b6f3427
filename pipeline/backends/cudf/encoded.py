"""Rows read in parts, by one device or several: each part keeps its distinct keys, and a number for each row."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import cudf
import cupy as cp
import numpy as np
import pyarrow as pa

from mbe_stage.device.peers import copied_from
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.backend import Column, HostNeeded
from mbe_stage.pipeline.backends.cudf.keys import factorised


@dataclass(frozen=True, slots=True, eq=False)
class EncodedKeys:
    """The keys of rows: the key of a row is ``distinct[numbers[row]]``.

    Attributes
    ----------
    numbers : (n,) int32
        Undefined for rows without a key.
    distinct : cudf.Series or pa.Array
        Ascending; an array of Arrow's if another device has read the rows.
    """

    numbers: cp.ndarray
    distinct: Any

    def __getitem__(self, rows: cp.ndarray) -> EncodedKeys:
        return EncodedKeys(self.numbers[rows], self.distinct)

    def factorised(self) -> tuple[cp.ndarray, cudf.Series]:
        """Implement `Backend.factorised`, in ascending order: no key without a row remains."""
        is_used = cp.zeros(len(self.distinct), np.bool_)
        is_used[self.numbers] = True
        if bool(is_used.all()):
            return self.numbers, self.distinct
        ranks = cp.cumsum(is_used, dtype=np.int32) - np.int32(1)
        return ranks[self.numbers], self.distinct.take(cp.flatnonzero(is_used)).reset_index(drop=True)


def joined(parts: Sequence[EncodedKeys]) -> EncodedKeys:
    """Return the keys of all parts, on the current device."""
    here = [cudf.Series.from_arrow(of) if isinstance(of := part.distinct, pa.Array) else of for part in parts]
    ranks, distinct = factorised(cudf.concat(here, ignore_index=True))
    numbers, row, key = _concatenated([part.numbers for part in parts]), 0, 0
    for part, keys in zip(parts, here, strict=True):
        of_part = numbers[row : row + part.numbers.size]
        if len(keys):
            of_part[:] = ranks[key : key + len(keys)][of_part]
        row, key = row + part.numbers.size, key + len(keys)
    return EncodedKeys(numbers, distinct)


def read_in_parts(
    read: Callable[[int, int], dict[str, Column]], n_rows: int, most_rows: int, devices: Sequence[int]
) -> dict[str, Column]:
    """Read rows in parts, one at a time on each device, and return their columns by role, on the current device.

    Parameters
    ----------
    read : callable
        Takes the first row of a part and the number of its rows, and reads it on the current device.
    devices : sequence of int
        The current one if there are none.
    """
    here, free = cp.cuda.Device().id, queue.SimpleQueue[int]()
    for device in devices or [here]:
        free.put(device)

    def encoded_part(first: int) -> dict[str, Column]:
        device = free.get()
        try:
            with cp.cuda.Device(device):
                columns = read(first, min(most_rows, n_rows - first))
                encoded = {role: _encoded(columns.pop(role), device == here) for role in list(columns)}
                cp.cuda.get_current_stream().synchronize()
        finally:
            free.put(device)
        return encoded

    parts = []
    with ThreadPoolExecutor(free.qsize(), thread_name_prefix="reader") as threads:
        for part in threads.map(encoded_part, range(0, n_rows, most_rows)):
            parts.append(part)
            run_state.count_edges_read(next(iter(part.values())).present.size)
    return {role: _joined([part.pop(role) for part in parts]) for role in list(parts[0])}


def _encoded(column: Column, stays: bool) -> Column:
    """Replace a column of keys by encoded keys."""
    if not isinstance(column.values, cudf.Series):
        return column
    numbers, distinct = factorised(column.values)
    return Column(
        EncodedKeys(numbers.astype(np.int32, copy=False), distinct if stays else distinct.to_arrow()), column.present
    )


def _joined(columns: Sequence[Column]) -> Column:
    if len({(column.moments, getattr(column.values, "dtype", None)) for column in columns}) > 1:
        raise HostNeeded("times or weights that are of different kinds in parts of the rows")
    present = _concatenated([column.present for column in columns])
    values = [column.values for column in columns]
    whole = joined(values) if isinstance(values[0], EncodedKeys) else _concatenated(values)
    return Column(whole, present, columns[0].moments)


def _concatenated(arrays: Sequence[cp.ndarray]) -> cp.ndarray:
    """Return arrays of any devices as one, on the current device."""
    ends = np.cumsum([array.size for array in arrays])
    whole = cp.empty(int(ends[-1]), arrays[0].dtype)
    copied_from(*((whole[end - array.size : end], array) for end, array in zip(ends.tolist(), arrays, strict=True)))
    return whole
