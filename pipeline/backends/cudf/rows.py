"""Rows as read, in device memory, with columns in the form that the cleaning rules need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cudf
import pylibcudf as plc

from mbe_stage.pipeline.backends.backend import A_VALUE, Column, HostNeeded, KeyType, Rows, is_key
from mbe_stage.pipeline.backends.cudf.buffers import kind_of, text_buffers
from mbe_stage.pipeline.backends.cudf.byte_checks import is_utf8
from mbe_stage.pipeline.backends.cudf.keys import keys_of
from mbe_stage.pipeline.backends.cudf.measures import times_of, weights_of


@dataclass(frozen=True, slots=True)
class DeviceRows(Rows):
    """See `pipeline.backends.backend.Rows`; `columns` are by role.

    If rows were read in parts, columns are converted and may lack rows that repeat others.
    """

    columns: dict[str, cudf.Series | Column]
    n: int

    @property
    def n_rows(self) -> int:
        return self.n

    @property
    def roles(self) -> list[str]:
        return list(self.columns)

    def with_roles(self, roles: Sequence[str]) -> DeviceRows:
        return replace(self, columns={role: self.columns[role] for role in roles})

    def refusal(self, row: int | None, role: str | None, *, found: str, expected: str, remedy: str) -> HostNeeded:  # noqa: ARG002 - as in `Rows`
        # The host knows the row in the file.
        return HostNeeded("no row that is left" if role is None else "nulls" if expected == A_VALUE else found)

    def column(self, role: str, key_type: KeyType) -> Column:
        """Implement `Backend.column`."""
        column = self.columns[role]
        if isinstance(column, Column):
            return column
        if kind_of(column) == plc.TypeId.STRING and not is_utf8(*text_buffers(column)):
            raise HostNeeded(f"bytes that are not UTF-8 in the column for {role}")
        if is_key(role):
            return keys_of(column, key_type)
        return weights_of(column) if role == "weight" else times_of(column)
