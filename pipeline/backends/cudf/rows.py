"""Rows as read, in device memory, with columns in the form that the cleaning rules need."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cudf
import cupy as cp
import numpy as np
import pylibcudf as plc

from mbe_stage.pipeline.backends.backend import A_VALUE, Column, HostNeeded, KeyOrigin, KeyType, is_key
from mbe_stage.pipeline.backends.cudf.buffers import kind_of, text_buffers
from mbe_stage.pipeline.backends.cudf.keys import as_keys
from mbe_stage.pipeline.backends.cudf.measures import times_of, weights_of
from mbe_stage.pipeline.clean.facts import InputColumn

__all__ = ["PIECE_BYTES", "DeviceRows", "is_utf8"]

PIECE_BYTES = 64 << 20
"""Bytes to check at once, which needs about ten times as much memory."""


def is_utf8(offsets: cp.ndarray, data: cp.ndarray, piece_bytes: int = PIECE_BYTES) -> bool:
    """Return whether every text by itself is UTF-8.

    Parameters
    ----------
    offsets : (n + 1,) int32 or int64
        Start of each text in `data`, and the end of the last.
    data : uint8
    """
    begin, end = int(offsets[0]), int(offsets[-1])
    starts = offsets[:-1][cp.diff(offsets) > 0]
    # The whole data is UTF-8, and no text begins inside a character.
    if bool(((data[starts] & 0xC0) == 0x80).any()):
        return False
    texts = data[begin:end]
    return all(_is_sound(texts, first, piece_bytes) for first in range(0, texts.size, piece_bytes))


def _is_sound(data: cp.ndarray, begin: int, piece_bytes: int) -> bool:
    """Return whether a piece may follow the bytes before it; the last piece must end with a whole character."""
    end = min(begin + piece_bytes, data.size)
    # The three bytes before a byte decide if it is valid; before the first and after the last there is ASCII.
    first, past_end = max(begin - 3, 0), 3 if end == data.size else 0
    n_before = 3 - (begin - first)
    window = cp.zeros(3 + end - begin + past_end, np.uint8)
    window[n_before : 3 + end - begin] = data[first:end]
    if not bool((window >= 0x80).any()):
        return True
    byte, one, two, three = window[3:], window[2:-1], window[1:-2], window[:-3]
    continues = (byte & 0xC0) == 0x80
    expected = (one >= 0xC0) | (two >= 0xE0) | (three >= 0xF0)
    never = (byte == 0xC0) | (byte == 0xC1) | (byte >= 0xF5)
    # Overlong forms, surrogates, and code points beyond U+10FFFF.
    wrong_second = (
        ((one == 0xE0) & (byte < 0xA0))
        | ((one == 0xED) & (byte > 0x9F))
        | ((one == 0xF0) & (byte < 0x90))
        | ((one == 0xF4) & (byte > 0x8F))
    )
    return not bool(((continues != expected) | never | wrong_second).any())


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """Rows as read, with nothing dropped or converted: the device's `RawEdges`.

    Attributes
    ----------
    columns : dict of str to cudf.Series
        By role: those of `key_roles`; ``weight`` and ``timestamp`` if a filter needs them.
    source, format : str
        As in `InputFacts`.
    reader : str
        The reader of the rows, for the log.
    keys : {"typed", "inferred", "integers"}
        As in `RawEdges`.
    warnings : tuple of str
        As in `InputFacts`.
    input_columns : tuple of InputColumn
        As `InputFacts.columns`.
    n_lone : int
        As in `Rows`.
    dialect, n_columns
        As in `InputFacts`.
    """

    columns: dict[str, cudf.Series]
    n_rows: int
    source: str
    format: str
    reader: str
    keys: KeyOrigin = "typed"
    warnings: tuple[str, ...] = ()
    input_columns: tuple[InputColumn, ...] = ()
    n_lone: int = 0
    dialect: str = ""
    n_columns: int | None = None

    @property
    def roles(self) -> list[str]:
        """As in `Rows`."""
        return list(self.columns)

    def called(self, source: str) -> DeviceRows:
        """As in `Rows`."""
        return replace(self, source=source)

    def refusal(self, row: int | None, role: str, *, found: str, expected: str, remedy: str) -> HostNeeded:  # noqa: ARG002 - as in `Rows`
        """Ask for the host, which knows the row in the file."""
        return HostNeeded("nulls" if expected == A_VALUE else found)

    def none_left(self, *, found: str, expected: str, remedy: str) -> HostNeeded:  # noqa: ARG002 - as in `Rows`
        """As `refusal`."""
        return HostNeeded("no row that is left")

    def column(self, role: str, key_type: KeyType) -> Column:
        """Implement `Backend.column`.

        Raises
        ------
        HostNeeded
            Values of a type that only the host accepts, or refuses.
        """
        column = self.columns[role]
        if kind_of(column) == plc.TypeId.STRING and not is_utf8(*text_buffers(column)):
            raise HostNeeded(f"bytes that are not UTF-8 in the column for {role}")
        if is_key(role):
            return Column(*as_keys(column, key_type))
        return weights_of(column) if role == "weight" else times_of(column)
