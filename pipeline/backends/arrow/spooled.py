"""Rows in temporary files without a name, which the system removes however the process ends."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs import numbering
from mbe_stage.graphs.distinct import DistinctCounter
from mbe_stage.graphs.numbering import Codes, Growing, IntegerNumbers
from mbe_stage.pipeline.backends.arrow.key_encoder import KeyEncoder, PlainColumn, is_encodable, text_buffers
from mbe_stage.pipeline.backends.backend import is_key
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import InputError

PIECE = 1 << 18
"""Numbers that are in memory together."""


class Spooled(Codes):
    """A growing array in a file.

    Parameters
    ----------
    kind : type
        Of NumPy, of its numbers.

    Examples
    --------
    >>> numbers = Spooled()
    >>> numbers.write(0, np.arange(5, dtype=np.int32))
    >>> numbers.more(1)[:] = 7
    >>> numbers.read(3, 6).tolist()
    [3, 4, 7]
    """

    # Bits take no more than a table might.
    numbers_per_value = 256

    def __init__(self, kind: Any = np.int32) -> None:
        self.n = 0
        self._kind = np.dtype(kind)
        self._file: Any = tempfile.TemporaryFile(prefix="mbe-edges-")  # noqa: SIM115 - open as long as this object
        self._given = np.empty(0, self._kind)

    def more(self, n: int) -> np.ndarray:
        """Return the next `n` places, to be written to before the next call of any method."""
        self._keep_given()
        self._given = np.empty(n, self._kind)
        self.n += n
        return self._given

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return the numbers from one position to another, or to the end."""
        self._keep_given()
        numbers = np.empty(min(stop, self.n) - start, self._kind)
        self._file.seek(self._kind.itemsize * start)
        self._file.readinto(numbers)
        return numbers

    def write(self, start: int, numbers: np.ndarray) -> None:
        """Write numbers of this kind over others, or at the end."""
        self._keep_given()
        with _written():
            self._file.seek(self._kind.itemsize * start)
            self._file.write(numbers.data)
            self._file.flush()
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
        is_empty = not self.n
        return self._given if is_empty else np.asarray(np.memmap(self._file, self._kind, "r+", shape=(self.n,)))

    def _keep_given(self) -> None:
        given, self._given = self._given, np.empty(0, self._kind)
        if given.size:
            self.write(self.n - given.size, given)


class SpooledEncoder(KeyEncoder):
    """A `KeyEncoder` with its keys in memory, but not its rows. Beyond the budget it only counts the distinct keys.

    Attributes
    ----------
    rows, keys : Spooled and pa.Array
        After `finish`: the rank of the key of each row, -1 for a null; and the keys by rank.
    """

    def __init__(self, finds_integers: bool, growing: Growing, refusal: Callable[[], Exception]) -> None:
        super().__init__(finds_integers=finds_integers, new_codes=Spooled, growing=growing)
        self.rows, self.keys, self._refusal = Spooled(), pa.nulls(0), refusal
        self._counter: DistinctCounter | None = None
        # Beyond the budget: the largest mean of bytes of a text, in a batch.
        self._text_bytes: float | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the table of keys, or of the keys."""
        return super().nbytes + int(self.keys.nbytes)

    def _number(self, values: pa.Array) -> None:
        if self._counter is None:
            try:
                super()._number(values)
                return
            except MemoryBudgetExceeded:
                self._count()
        assert self._counter is not None
        if pa.types.is_integer(values.type):
            self._counter.add_integers(values.cast(pa.int64()).to_numpy())
        elif len(values):
            self._count_texts(*text_buffers(values))

    def finish(self) -> pa.DictionaryArray:
        """Return the whole column, whose indices are a view of a file."""
        try:
            column = None if self._counter is not None else super().finish()
        except MemoryBudgetExceeded:
            column = None
        if column is None:
            raise self._refusal()
        self.keys = column.dictionary
        # The tables are not needed any more.
        self._integers, self._texts = IntegerNumbers(), None
        return column

    def most_bytes(self) -> int:
        """Return how many bytes would be enough to number all keys so far."""
        if len(self.keys):
            return int(self.keys.nbytes)
        if self._counter is None:
            self._count()
        assert self._counter is not None
        # The count is an estimate.
        n = self._counter.n * 21 // 20 + 1
        if self._text_bytes is not None:
            return numbering.table_bytes(n, int(n * self._text_bytes))
        return self._integers.most_bytes(n)

    def _count(self) -> None:
        """Count keys from now on, with those so far."""
        self._counter = DistinctCounter()
        self._integers.hand_to(self._counter.add_integers)
        if self._texts is not None and self._texts.n:
            texts, self._texts = self._texts.texts(), None
            self._count_texts(*texts)
        self._integers.give_up()

    def _count_texts(self, ends: np.ndarray, data: np.ndarray) -> None:
        assert self._counter is not None
        self._text_bytes = max(self._text_bytes or 0.0, float(ends[-1] - ends[0]) / (ends.size - 1))
        self._counter.add_texts(ends, data)

    def _in_all_rows(self, codes: Codes) -> pa.Array:
        assert isinstance(codes, Spooled)
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


class SpooledColumn(PlainColumn):
    """A column of any type in a file."""

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._schema = pa.schema([("", kind)])
        self._file: Any = tempfile.TemporaryFile(prefix="mbe-edges-")  # noqa: SIM115 - open as long as this object
        self._writer = pa.ipc.new_stream(self._file, self._schema)
        self.mapped: mmap.mmap | None = None

    def add(self, batch: pa.Array) -> None:
        """Take the next rows."""
        with _written():
            self._writer.write_batch(pa.record_batch([batch], self._schema))

    def finish(self) -> pa.ChunkedArray:
        """Return the whole column, a view of the file."""
        with _written():
            self._writer.close()
            self._file.flush()
        self.mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_stream(pa.py_buffer(self.mapped)).read_all().column(0)


class Spools:
    """The columns of an input in files.

    Parameters
    ----------
    most_bytes : int
        The budget, for distinct keys and their tables.

    Attributes
    ----------
    encoders : dict
        Of each role, those that took its keys, file by file.
    """

    def __init__(self, most_bytes: int) -> None:
        self.encoders: dict[str, list[SpooledEncoder]] = {}
        self._columns, self._most_bytes = list[SpooledColumn](), most_bytes

    def column(self, role: str, kind: pa.DataType, finds_integers: bool) -> KeyEncoder | PlainColumn:
        """Return a new column; see `key_encoder.new_column`."""
        if is_key(role) and is_encodable(kind):
            return self.encoder(role, finds_integers)
        self._columns.append(SpooledColumn(kind))
        return self._columns[-1]

    def encoder(self, role: str, finds_integers: bool = False) -> SpooledEncoder:
        """Return a new encoder, whose `finish` raises `MemoryBudgetExceeded` if distinct keys take too much."""
        self.encoders.setdefault(role, []).append(SpooledEncoder(finds_integers, self._growing, self._refusal))
        return self.encoders[role][-1]

    def release(self) -> None:
        """Give up the memory of what was read of the columns; it is read again when needed."""
        for column in self._columns:
            if column.mapped is not None:
                column.mapped.madvise(mmap.MADV_DONTNEED)

    def check(self, what: str, n_bytes: int) -> None:
        """Refuse what takes too many bytes."""
        if n_bytes > self._most_bytes:
            raise too_much(what, n_bytes, self._most_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and their tables."""
        return sum(encoder.nbytes for encoder in self._all)

    @property
    def _all(self) -> Iterator[SpooledEncoder]:
        return (encoder for of_role in self.encoders.values() for encoder in of_role)

    def _growing(self, n_bytes: int) -> None:
        self.check("tables of distinct keys", self.nbytes + n_bytes)

    def _refusal(self) -> MemoryBudgetExceeded:
        """Return the refusal of the keys of all columns."""
        needed = sum(encoder.most_bytes() for encoder in self._all)
        return too_much("tables of distinct keys", max(needed, self._most_bytes + 1), self._most_bytes)


def too_much(what: str, n_bytes: int, most_bytes: int) -> MemoryBudgetExceeded:
    """Return the refusal of what takes more than the budget."""
    return MemoryBudgetExceeded(
        f"{what} take {n_bytes:,} bytes; expected at most {most_bytes:,} ({setting('execution.memory_budget')}): "
        f"raise it to {(n_bytes >> 20) + 1}MiB or more",
        needed_bytes=n_bytes,
    )


def is_on_disk(column: pa.ChunkedArray) -> bool:
    """Return whether a column is a view of a file, and was not changed since."""
    return not any(buffer.is_mutable for chunk in column.chunks for buffer in chunk.buffers() if buffer is not None)


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError.at(
            tempfile.gettempdir(),
            found=f"edges cannot be written there ({error.strerror or error})",
            expected="16 bytes for each row of the input, and 25 more for each weight and time",
            remedy="free some space, or set TMPDIR to a larger disk",
        ) from None
