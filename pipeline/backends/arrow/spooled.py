"""Rows in temporary files without a name, which the system removes however the process ends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.graphs.numbering import Codes, IntegerNumbers
from mbe_stage.pipeline.backends.arrow.key_encoder import KeyEncoder
from mbe_stage.pipeline.errors import InputError

PIECE = 1 << 18
"""Numbers that are in memory together."""


class SpooledInts(Codes):
    """A growing array of int32 in a file.

    Examples
    --------
    >>> numbers = SpooledInts()
    >>> numbers.write(0, np.arange(5, dtype=np.int32))
    >>> numbers.more(1)[:] = 7
    >>> numbers.read(3, 6).tolist()
    [3, 4, 7]
    """

    def __init__(self) -> None:
        self.n = 0
        self._file: Any = tempfile.TemporaryFile(prefix="mbe-edges-")  # noqa: SIM115 - open as long as this object
        self._given = np.empty(0, np.int32)

    def more(self, n: int) -> np.ndarray:
        """Return the next `n` places, to be written to before the next call of any method."""
        self._keep_given()
        self._given = np.empty(n, np.int32)
        self.n += n
        return self._given

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the numbers from one position to another, or to the end."""
        self._keep_given()
        numbers = np.empty(min(stop, self.n) - start, np.int32)
        self._file.seek(4 * start)
        self._file.readinto(numbers)
        return numbers

    def write(self, start: int, numbers: np.ndarray) -> None:
        """Write int32 numbers over others, or at the end."""
        self._keep_given()
        try:
            self._file.seek(4 * start)
            self._file.write(numbers.data)
            self._file.flush()
        except OSError as error:
            raise InputError.at(
                tempfile.gettempdir(),
                found=f"edges cannot be written there ({error.strerror or error})",
                expected="16 bytes for each row of the input",
                remedy="free some space, or set TMPDIR to a larger disk",
            ) from None
        self.n = max(self.n, start + numbers.size)

    def parts(self) -> Iterator[np.ndarray]:
        """Yield the array in pieces; changes to a piece are kept."""
        for start in range(0, self.n, PIECE):
            piece = self.read(start, start + PIECE)
            yield piece
            self.write(start, piece)

    def whole(self) -> np.ndarray:
        """Return the array as a view of the file."""
        self._keep_given()
        return np.asarray(np.memmap(self._file, np.int32, "r+", shape=(self.n,))) if self.n else np.empty(0, np.int32)

    def _keep_given(self) -> None:
        given, self._given = self._given, np.empty(0, np.int32)
        if given.size:
            self.write(self.n - given.size, given)


class SpooledEncoder(KeyEncoder):
    """A `KeyEncoder` with its keys in memory, but not its rows.

    Parameters
    ----------
    check : callable
        Called after each batch.

    Attributes
    ----------
    rows, keys : SpooledInts and pa.Array
        After `finish`: the rank of the key of each row, -1 for a null; and the keys by rank.
    """

    def __init__(self, finds_integers: bool, check: Callable[[], None]) -> None:
        super().__init__(finds_integers=finds_integers, new_codes=SpooledInts)
        self.rows, self.keys, self._check = SpooledInts(), pa.nulls(0), check

    def add(self, batch: pa.Array) -> None:
        """Take the next rows."""
        super().add(batch)
        self._check()

    def finish(self) -> pa.DictionaryArray:
        """Return the whole column, whose indices are a view of a file."""
        column = super().finish()
        self.keys = column.dictionary
        # The tables are not needed any more.
        self._integers, self._texts = IntegerNumbers(), None
        return column

    def _in_all_rows(self, codes: Codes) -> pa.Array:
        assert isinstance(codes, SpooledInts)
        if all(isinstance(each, int) for each in self._present):
            self.rows = codes
            return pa.array(codes.whole())
        masks = [np.ones(each, np.bool_) if isinstance(each, int) else each for each in self._present]
        at = 0
        for mask in masks:
            n, numbers = int(np.count_nonzero(mask)), np.full(mask.size, -1, np.int32)
            numbers[mask] = codes.read(at, at + n)
            self.rows.write(self.rows.n, numbers)
            at += n
        return pa.array(self.rows.whole(), mask=~np.concatenate(masks))
