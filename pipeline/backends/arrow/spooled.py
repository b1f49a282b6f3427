"""Rows in unnamed temporary files, which the system removes even if the process is killed."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import hash_text
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs import numbering
from mbe_stage.graphs.numbering import Codes, Growing, IntegerNumbers
from mbe_stage.pipeline.backends.arrow.key_encoder import KeyEncoder, PlainColumn, is_encodable, text_buffers
from mbe_stage.pipeline.backends.backend import is_key
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.io.compression import no_space
from mbe_stage.splitmix import finalised

PIECE = 1 << 18
"""Numbers in memory at once; a multiple of 8."""
# Enough hashes to estimate the number of distinct ones within 3 %, except once in 10,000 times.
_HASHES = 1 << 14


class Spooled(Codes):
    """A growing array in a temporary file. Parts of it are mapped into memory."""

    # A table of bits then takes at most as much memory as a hash table.
    numbers_per_value = 256

    def __init__(self, kind: Any = np.int32) -> None:
        self.n, self._kind = 0, np.dtype(kind)
        self._file: Any = tempfile.TemporaryFile(buffering=0, prefix="mbe-edges-")  # noqa: SIM115 - open as this object

    def more(self, n: int) -> np.ndarray:
        """Return the next `n` places, to be written to."""
        if n:
            with _written():
                # On a full disk, writing to a mapped place would end the process.
                os.posix_fallocate(self._file.fileno(), self._kind.itemsize * self.n, self._kind.itemsize * n)
        self.n += n
        return self._mapped(self.n - n, n)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return a copy of the numbers from one position to another, or to the end."""
        self._file.seek(self._kind.itemsize * start)
        return np.fromfile(self._file, self._kind, max(0, min(stop, self.n) - start))

    def write(self, start: int, numbers: np.ndarray) -> None:
        """Write numbers over others, or at the end."""
        self.more(max(0, start + numbers.size - self.n))
        self._mapped(start, numbers.size)[:] = numbers

    def parts(self) -> Iterator[np.ndarray]:
        """Yield the array in pieces; changes to a piece are kept."""
        return (self._mapped(start, min(PIECE, self.n - start)) for start in range(0, self.n, PIECE))

    def whole(self) -> np.ndarray:
        """Return the array as a view of the file."""
        return self._mapped(0, self.n)

    def _mapped(self, start: int, n: int) -> np.ndarray:
        at = self._kind.itemsize * start
        return np.asarray(np.memmap(self._file, self._kind, "r+", at, (n,))) if n else np.empty(0, self._kind)


class SavedState(NamedTuple):
    """Arrays and plain facts after a step of reading; a restored state has a `pa.RecordBatchFileReader` for each."""

    arrays: list[Any]
    facts: dict[str, Any]


class ReadingSteps:
    """The steps of a reading; here they are not saved."""

    def begin(self, files: Callable[[], Sequence[Path]], settings: str) -> None:
        """Note the files of the input before they are read, and all that the states depend on besides."""

    def load(self, step: str, restore: Callable[[SavedState], Any]) -> Any:
        """Return what `restore` makes of the state after a step; None if there is none."""

    def save(self, step: str, state: SavedState) -> None:
        """Save the state after a step if that is worth it; it replaces an earlier one."""


class SpooledEncoder(KeyEncoder):
    """A `KeyEncoder` with its rows in files and its keys in memory. Beyond the budget it only counts distinct keys.

    After `finish`, `rows` has the rank of the key of each row, -1 for a null, and `keys` are in the order of the ranks.
    """

    def __init__(self, finds_integers: bool, growing: Growing) -> None:
        super().__init__(finds_integers=finds_integers, new_codes=Spooled, growing=growing)
        self.rows, self.keys = Spooled(), pa.nulls(0)
        # Beyond the budget: the least hashes of distinct keys, and the largest mean length of the texts of a batch.
        self._least: np.ndarray | None = None
        self._text_bytes: float | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the table of keys, or of the keys."""
        return super().nbytes + int(self.keys.nbytes)

    @property
    def is_beyond(self) -> bool:
        """True if the keys exceed the budget."""
        return self._least is not None

    def _number(self, values: pa.Array) -> None:
        if not self.is_beyond:
            with self._counting_beyond():
                super()._number(values)
                return
        self._count(values)

    def finish(self) -> pa.DictionaryArray:
        """Return the whole column, with indices as a view of a file; all null if the keys exceed the budget."""
        if not self.is_beyond:
            with self._counting_beyond():
                column = super().finish()
                self.keys = column.dictionary
                self._integers, self._texts = IntegerNumbers(), None
                return column
        return pa.DictionaryArray.from_arrays(pa.nulls(self.n, pa.int32()), pa.array([], pa.large_string()))

    def most_bytes(self) -> int:
        """Return a sufficient number of bytes to number all keys so far."""
        if len(self.keys):
            return int(self.keys.nbytes)
        if self._least is None:
            self._begin_to_count()
        # Add 5 %, because the count is an estimate.
        n = self._n_counted() * 21 // 20 + 1
        if self._text_bytes is not None:
            return numbering.table_bytes(n, int(n * self._text_bytes))
        return self._integers.most_bytes(n)

    @contextmanager
    def _counting_beyond(self) -> Iterator[None]:
        try:
            yield
        except MemoryBudgetExceeded:
            self._begin_to_count()

    def _n_counted(self) -> int:
        """Estimate the number of distinct hashes, which are spread evenly, from the least ones."""
        assert self._least is not None
        return self._least.size if self._least.size < _HASHES else int((_HASHES - 1) * 2.0**64 / self._least[-1])

    def _begin_to_count(self) -> None:
        """Switch to counting distinct keys, including those so far."""
        self._least = np.zeros(0, np.uint64)
        if self._texts is None:
            for integers in self._integers.seen():
                self._count(pa.array(integers))
        elif self._written is not None:
            # Only some of them are in the table yet.
            self._count(self._written)
        else:
            ends, data = self._texts.texts()
            self._count(pa.LargeStringArray.from_buffers(ends.size - 1, pa.py_buffer(ends), pa.py_buffer(data)))
        self._texts = self._written = None

    def _count(self, values: pa.Array) -> None:
        assert self._least is not None
        if not len(values):
            return
        if pa.types.is_integer(values.type):
            hashes = values.cast(pa.int64()).to_numpy().view(np.uint64)
        else:
            ends, data = text_buffers(values)
            self._text_bytes = max(self._text_bytes or 0.0, float(ends[-1] - ends[0]) / len(values))
            hashes = hash_text(ends, data)
        hashes = finalised(hashes)
        fewer = hashes if self._least.size < _HASHES else hashes[hashes < self._least[-1]]
        self._least = np.unique(np.append(self._least, fewer))[:_HASHES]

    def _in_all_rows(self, codes: Codes) -> pa.Array:
        assert isinstance(codes, Spooled)
        if self._present is None:
            self.rows = codes
            return pa.array(codes.whole())
        assert isinstance(self._present, Spooled)
        bits, at = Spooled(np.uint8), 0
        for start in range(0, self.n, PIECE):
            part = self.rows.more(min(PIECE, self.n - start))
            part[:] = -1
            # The mask starts at row `_n_whole`; earlier rows have no nulls.
            present, ahead = np.ones(part.size, np.bool_), start - self._n_whole
            present[max(0, -ahead) :] = self._present.read(max(0, ahead), ahead + part.size)
            n = int(np.count_nonzero(present))
            part[present] = codes.read(at, at + n)
            bits.write(bits.n, np.packbits(present, bitorder="little"))
            at += n
        return pa.Array.from_buffers(pa.int32(), self.n, [pa.py_buffer(bits.whole()), pa.py_buffer(self.rows.whole())])


class SpooledColumn(PlainColumn):
    """A column of any type in a file."""

    def __init__(self, kind: pa.DataType) -> None:
        self._schema = pa.schema([("", kind)])
        self._file: Any = tempfile.TemporaryFile(prefix="mbe-edges-")  # noqa: SIM115 - open as long as this object
        self._writer = pa.ipc.new_stream(self._file, self._schema)
        self.mapped: mmap.mmap | None = None

    def add(self, batch: pa.Array) -> None:
        """Add the next rows."""
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
    """The columns of an input in files, with a budget for distinct keys and their tables.

    There are `encoders` of each role, one per input file.
    """

    def __init__(self, most_bytes: int) -> None:
        self.encoders: dict[str, list[SpooledEncoder]] = {}
        self._columns, self._most_bytes = list[SpooledColumn](), most_bytes

    def column(self, role: str, kind: pa.DataType, finds_integers: bool) -> KeyEncoder | PlainColumn:
        """Return a collector for a column; see `key_encoder.new_column`. Call `check_keys` after the last column."""
        if is_key(role) and is_encodable(kind):
            self.encoders.setdefault(role, []).append(SpooledEncoder(finds_integers, self._growing))
            return self.encoders[role][-1]
        self._columns.append(SpooledColumn(kind))
        return self._columns[-1]

    def encoded(self, role: str, batches: Iterable[pa.Array]) -> SpooledEncoder:
        """Return an encoder with all batches of a column."""
        encoder = SpooledEncoder(False, self._growing)
        self.encoders.setdefault(role, []).append(encoder)
        for batch in batches:
            encoder.add(batch)
        encoder.finish()
        self.check_keys()
        return encoder

    def release(self) -> None:
        """Free the memory of the mapped columns; they are read from disk again when needed."""
        for column in self._columns:
            if column.mapped is not None:
                column.mapped.madvise(mmap.MADV_DONTNEED)

    def check(self, what: str, n_bytes: int) -> None:
        """Raise an error if something exceeds the budget."""
        if n_bytes > self._most_bytes:
            raise too_much(what, n_bytes, self._most_bytes)

    def check_keys(self) -> None:
        """Raise an error if the distinct keys of any column exceed the budget."""
        if any(encoder.is_beyond for encoder in self._all):
            needed = sum(each.most_bytes() for each in self._all)
            self.check("tables of distinct keys", max(needed, self._most_bytes + 1))

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and their tables."""
        return sum(encoder.nbytes for encoder in self._all)

    @property
    def _all(self) -> Iterator[SpooledEncoder]:
        return (encoder for of_role in self.encoders.values() for encoder in of_role)

    def _growing(self, n_bytes: int) -> None:
        self.check("tables of distinct keys", self.nbytes + n_bytes)


def too_much(what: str, n_bytes: int, most_bytes: int, remedy: str = " or more") -> MemoryBudgetExceeded:
    """Return the error for something that exceeds the budget."""
    return MemoryBudgetExceeded(
        f"{what} take {n_bytes:,} bytes; expected at most {most_bytes:,} ({setting('execution.memory_budget')}): "
        f"raise it to {(n_bytes >> 20) + 1}MiB{remedy}",
        needed_bytes=n_bytes,
    )


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        expected = "16 bytes for each row of the input, and 25 more for each weight and time"
        raise no_space(tempfile.gettempdir(), "edges cannot be written there", expected, error) from error
