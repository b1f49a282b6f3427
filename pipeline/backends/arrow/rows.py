"""Rows from the readers of `pipeline.io`, with columns in the form that the cleaning rules need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.keys import as_keys
from mbe_stage.pipeline.backends.arrow.measures import as_numbers, as_times
from mbe_stage.pipeline.backends.backend import Column, KeyType, Refusal, is_key
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import RawEdges


@dataclass(frozen=True, slots=True)
class HostRows(RawEdges):
    """See `pipeline.backends.backend.Rows`."""

    reader: str | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: RawEdges) -> HostRows:
        """Return the rows of a reader."""
        return cls(**{field.name: getattr(raw, field.name) for field in fields(raw)})

    @property
    def n_rows(self) -> int:
        return self.table.num_rows

    @property
    def roles(self) -> list[str]:
        return self.table.column_names

    def called(self, source: str) -> HostRows:
        return replace(self, source=source)

    def with_roles(self, roles: Sequence[str]) -> HostRows:
        return replace(self, table=self.table.select(roles))

    def none_left(self, *, found: str, expected: str, remedy: str) -> InputError:
        return InputError.at(self.source, found=found, expected=expected, remedy=remedy)

    def part(self, start: int, n: int) -> HostRows:
        """Return so many rows from one on; errors name their places in the input."""
        return replace(self, table=self.table.slice(start, n), locate=lambda row: self.locate(start + row))

    def with_column(self, role: str, values: pa.ChunkedArray) -> HostRows:
        """Return the same rows with another column."""
        return replace(self, table=self.table.set_column(self.roles.index(role), role, values))

    def measured(self, role: str, are_numbers: bool | None = None) -> pa.Array:
        """Return weights as numbers, times as numbers or moments; `are_numbers` says which texts of times are."""
        values, refuse = self.table.column(role), self.refusal_of(role)
        return as_numbers(values, refuse) if role == "weight" else as_times(values, refuse, are_numbers)

    def column(self, role: str, key_type: KeyType) -> Column:
        """Implement `Backend.column`."""
        if is_key(role):
            keys = as_keys(self.table.column(role), key_type, self.refusal_of(role))
            return Column(keys, _present(keys))
        measured = self.measured(role)
        moments = pa.types.is_timestamp(measured.type)
        numbers = measured.cast(pa.int64()) if moments else measured
        if numbers.null_count:
            numbers = numbers.fill_null(0)
        return Column(numbers.to_numpy(zero_copy_only=False), _present(measured), moments)

    def refusal_of(self, role: str) -> Refusal:
        """Return what makes errors about a column."""
        return lambda row, **words: self.refusal(row, role, **words)


def _present(values: pa.Array) -> np.ndarray | None:
    return values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
