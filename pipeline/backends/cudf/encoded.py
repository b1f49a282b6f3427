"""Rows read in parts: each part keeps its distinct keys, and a number for each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import cudf
import cupy as cp
import numpy as np

from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.backend import Column, HostNeeded
from mbe_stage.pipeline.backends.cudf.keys import distinct_pairs, factorised
from mbe_stage.pipeline.config.model import InputConfig

MOST_ROWS = 2**31 - 1
"""Most rows of a cuDF column."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedKeys:
    """The keys of rows: the key of a row is ``distinct[numbers[row]]``.

    Attributes
    ----------
    numbers : (n,) int32
        Undefined for rows without a key.
    distinct : cudf.Series
        Ascending.
    """

    numbers: cp.ndarray
    distinct: cudf.Series

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
    """Return the keys of all parts."""
    if (n_keys := sum(len(part.distinct) for part in parts)) > MOST_ROWS:
        raise HostNeeded(f"{n_keys} distinct keys in all parts of the rows")
    ranks, distinct = factorised(cudf.concat([part.distinct for part in parts], ignore_index=True))
    numbers, first = [], 0
    for part in parts:
        end = first + len(part.distinct)
        # No row has a key where there are none.
        numbers.append(ranks[first:end][part.numbers] if end > first else part.numbers)
        first = end
    return EncodedKeys(cp.concatenate(numbers), distinct)


def are_only_pairs(roles: Iterable[str], config: InputConfig) -> bool:
    """Return whether nothing depends on rows that repeat the keys of others, except their number."""
    return {*roles} == {"left", "right"} and config.nulls == "error" and not (config.keeps_rows or config.is_undirected)


def joined_columns(parts: Iterable[dict[str, Column]], *, only_pairs: bool) -> dict[str, Column]:
    """Join the columns of all parts by role. Each part is encoded before the next one is read.

    With `only_pairs` (`are_only_pairs`), rows that repeat the keys of others may be left out.
    """
    encoded: list[dict[str, Column]] = []
    for columns in parts:
        encoded.append({role: _encoded(columns.pop(role)) for role in list(columns)})
        sizes = [next(iter(part.values())).present.size for part in encoded]
        run_state.count_edges_read(sizes[-1])
        if only_pairs and 2 * sum(sizes[1:]) >= sizes[0]:
            encoded = [_without_repeats(_of_all(encoded))]
    return _of_all(encoded)


def _of_all(parts: Sequence[dict[str, Column]]) -> dict[str, Column]:
    if len(parts) == 1:
        return parts[0]
    return {role: _joined([part.pop(role) for part in parts]) for role in list(parts[0])}


def _without_repeats(columns: dict[str, Column]) -> dict[str, Column]:
    """Return each pair of keys once."""
    if not all(bool(column.present.all()) for column in columns.values()):
        raise HostNeeded("nulls")
    numbers = distinct_pairs(*(column.values.numbers for column in columns.values()))
    return {
        role: Column(EncodedKeys(ids, column.values.distinct), cp.ones(ids.size, np.bool_))
        for ids, (role, column) in zip(numbers, columns.items(), strict=True)
    }


def _encoded(column: Column) -> Column:
    """Replace keys by encoded keys."""
    if not isinstance(column.values, cudf.Series):
        return column
    numbers, distinct = factorised(column.values)
    return Column(EncodedKeys(numbers.astype(np.int32, copy=False), distinct), column.present)


def _joined(columns: Sequence[Column]) -> Column:
    present, values = cp.concatenate([column.present for column in columns]), [column.values for column in columns]
    if isinstance(values[0], EncodedKeys):
        return Column(joined(values), present)
    kinds = {column.moments for column in columns if bool(column.present.any())}
    if len(kinds) > 1:
        raise HostNeeded("times that are numbers in some parts of the rows, and moments in others")
    # Text is numbers with fractions in some parts, and without in others.
    return Column(cp.concatenate(values), present, True in kinds)
