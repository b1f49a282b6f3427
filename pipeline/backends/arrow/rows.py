"""Rows from the readers of `pipeline.io`, with columns in the form that the cleaning rules need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.backends.arrow.keys import as_keys
from mbe_stage.pipeline.backends.arrow.measures import as_numbers, as_times
from mbe_stage.pipeline.backends.backend import Column, KeyOrigin, KeyType, is_key
from mbe_stage.pipeline.clean.facts import InputColumn
from mbe_stage.pipeline.errors import InputError
from mbe_stage.pipeline.io import RawEdges


@dataclass(frozen=True, slots=True)
class HostRows:
    """See `pipeline.backends.backend.Rows`."""

    raw: RawEdges
    reader: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        return self.raw.table.num_rows

    @property
    def roles(self) -> list[str]:
        return self.raw.table.column_names

    @property
    def source(self) -> str:
        return self.raw.source

    @property
    def format(self) -> str:
        return self.raw.format

    @property
    def keys(self) -> KeyOrigin:
        return self.raw.keys

    @property
    def input_columns(self) -> tuple[InputColumn, ...]:
        return self.raw.input_columns

    @property
    def dialect(self) -> str:
        return self.raw.dialect

    @property
    def n_columns(self) -> int | None:
        return self.raw.n_columns

    @property
    def n_lone(self) -> int:
        return self.raw.n_lone

    def called(self, source: str) -> HostRows:
        return replace(self, raw=replace(self.raw, source=source))

    def with_roles(self, roles: Sequence[str]) -> HostRows:
        return replace(self, raw=replace(self.raw, table=self.raw.table.select(roles)))

    def refusal(self, row: int | None, role: str, *, found: str, expected: str, remedy: str) -> InputError:
        return self.raw.refusal(row, role, found=found, expected=expected, remedy=remedy)

    def none_left(self, *, found: str, expected: str, remedy: str) -> InputError:
        return InputError.at(self.raw.source, found=found, expected=expected, remedy=remedy)

    def column(self, role: str, key_type: KeyType) -> Column:
        """Implement `Backend.column`."""
        values, refuse = self.raw.table.column(role), partial(self._refusal_of, role)
        if is_key(role):
            keys = as_keys(values, key_type, refuse)
            return Column(keys, _present(keys))
        measured = as_numbers(values, refuse) if role == "weight" else as_times(values, refuse)
        moments = pa.types.is_timestamp(measured.type)
        numbers = measured.cast(pa.int64()) if moments else measured
        if numbers.null_count:
            numbers = numbers.fill_null(0)
        return Column(numbers.to_numpy(zero_copy_only=False), _present(measured), moments)

    def _refusal_of(self, role: str, row: int | None, *, found: str, expected: str, remedy: str) -> InputError:
        return self.refusal(row, role, found=found, expected=expected, remedy=remedy)


def _present(values: pa.Array) -> np.ndarray | None:
    return values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
