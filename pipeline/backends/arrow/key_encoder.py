"""Columns of keys as dictionaries: each key once, ascending, and its rank in every row.

Readers encode a column batch by batch, so its values are never all in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.graphs import numbering, texts
from mbe_stage.graphs.numbering import Codes, Growing, IntegerNumbers, TextNumbers
from mbe_stage.pipeline.backends.arrow.plain import decoded, plain_type
from mbe_stage.pipeline.backends.backend import is_key


def is_encodable(kind: pa.DataType) -> bool:
    """Return True for a column of text, or of integers within int64."""
    return pa.types.is_large_string(plain_type(kind)) or (pa.types.is_integer(kind) and kind != pa.uint64())


class KeyEncoder:
    """Encodes the batches of a column; with `finds_integers`, text becomes integers if all of it is canonical ones.

    Examples
    --------
    >>> encoder = KeyEncoder(finds_integers=True)
    >>> encoder.add(pa.array(["10", None, "9"]))
    >>> encoder.finish().to_pylist()
    [10, None, 9]
    >>> encoder = KeyEncoder(finds_integers=True)
    >>> for batch in (["10", "9"], ["010"]):
    ...     encoder.add(pa.array(batch))
    >>> column = encoder.finish()
    >>> column.dictionary.to_pylist(), column.indices.to_pylist()
    (['010', '10', '9'], [1, 2, 0])
    """

    def __init__(
        self, *, finds_integers: bool = False, new_codes: type[Codes] = Codes, growing: Growing = numbering.freely
    ) -> None:
        self._finds_integers, self._new_codes, self._growing = finds_integers, new_codes, growing
        self._integers = IntegerNumbers(new_codes(), growing)
        # Set once a text is not an integer; its codes continue those of the integers, which are written meanwhile.
        self._texts: TextNumbers | None = None
        self._written: pa.Array | None = None
        self._codes: Codes
        # Number of rows so far, and from the first batch with nulls on, a mask of the values.
        self.n = self._n_whole = 0
        self._present: Codes | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the table of keys."""
        return self._integers.nbytes if self._texts is None else self._texts.nbytes

    def add(self, batch: pa.Array) -> None:
        """Add the next rows: integers within int64, or text; all batches must be of one kind."""
        if pa.types.is_dictionary(batch.type):
            batch = decoded(batch)
        if batch.null_count and self._present is None:
            self._present, self._n_whole = self._new_codes(np.bool_), self.n
        if self._present is not None:
            self._present.more(len(batch))[:] = batch.is_valid().to_numpy(zero_copy_only=False)
        self.n += len(batch)
        self._number(batch.drop_null() if batch.null_count else batch)

    def _number(self, values: pa.Array) -> None:
        if pa.types.is_integer(values.type):
            self._integers.add(values.cast(pa.int64()).to_numpy())
            return
        ends, data = text_buffers(values)
        if self._texts is None:
            if self._finds_integers and (found := texts.canonical_integers(ends, data)) is not None:
                self._integers.add(found)
                return
            # The integers so far become texts.
            self._texts = TextNumbers(self._growing)
            self._codes, integers = self._integers.ranked()
            self._written = pa.array(integers).cast(pa.large_string())
            self._texts.number(*text_buffers(self._written), np.empty(integers.size, np.int32))
            self._written = None
        self._texts.number(ends, data, self._codes.more(len(values)))

    def finish(self) -> pa.DictionaryArray:
        """Return the whole column: int32 indices of ascending int64 or text."""
        if self._texts is None:
            codes, integers = self._integers.ranked()
            keys = pa.array(integers)
        else:
            # Free the table before there are two copies of the texts.
            buffers, codes, self._texts = self._texts.texts(), self._codes, None
            keys = pa.LargeStringArray.from_buffers(buffers[0].size - 1, *map(pa.py_buffer, buffers))
            order = _ascending(keys, texts.leading_words(*buffers))
            numbering.renumber_all(codes, numbering.inverse(order))
            keys = keys.take(pa.array(order))
            del buffers
        return pa.DictionaryArray.from_arrays(self._in_all_rows(codes), keys, safe=False)

    def _in_all_rows(self, codes: Codes) -> pa.Array:
        if self._present is None:
            return pa.array(codes.whole())
        present = np.append(np.ones(self._n_whole, np.bool_), self._present.whole())
        of_rows = np.zeros(present.size, np.int32)
        of_rows[present] = codes.whole()
        return pa.array(of_rows, mask=~present)


class PlainColumn:
    """Collects the batches of a column of any type."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind, self._batches = kind, list[pa.Array]()

    def add(self, batch: pa.Array) -> None:
        """Add the next rows."""
        self._batches.append(batch)

    def finish(self) -> pa.ChunkedArray:
        """Return the whole column."""
        return pa.chunked_array(self._batches, self._kind)


ColumnOfBatches = KeyEncoder | PlainColumn
NewColumn = Callable[[str, pa.DataType, bool], ColumnOfBatches]
"""Takes the role of a column, its type, and `finds_integers`."""


def plain_column(_: str, kind: pa.DataType, __: bool) -> PlainColumn:
    """Return a collector that keeps a column as it is read."""
    return PlainColumn(kind)


def new_column(role: str, kind: pa.DataType, finds_integers: bool) -> ColumnOfBatches:
    """Return a collector of a column in memory: keys as dictionaries, unless their type needs the host's rules."""
    is_encoded = is_key(role) and is_encodable(kind)
    return KeyEncoder(finds_integers=finds_integers) if is_encoded else PlainColumn(kind)


def encoded(column: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
    """Encode a whole column of int64 or text, or of dictionaries of these; chunks may have different dictionaries."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if not pa.types.is_dictionary(column.type):
        encoder = KeyEncoder()
        for chunk in chunks:
            encoder.add(chunk)
        return encoder.finish() if chunks else pa.array([], pa.dictionary(pa.int32(), column.type))
    if len(chunks) == 1 and is_ascending(chunks[0].dictionary):
        indices, keys = chunks[0].indices, chunks[0].dictionary
        return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), keys.cast(plain_type(keys.type)), safe=False)
    whole = pa.chunked_array(chunks).unify_dictionaries().combine_chunks()
    ranks = encoded(whole.dictionary)
    return pa.DictionaryArray.from_arrays(ranks.indices.take(whole.indices), ranks.dictionary, safe=False)


def with_common_keys(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return tables with integers turned back into text in columns that have text keys in another table."""

    def as_in_all(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        kinds = {table[name].type for table in tables if name in table.column_names}
        if len(kinds) == 1 or not all(map(pa.types.is_dictionary, kinds)):
            return column
        return pa.chunked_array([with_keys(chunk, chunk.dictionary.cast(pa.large_string())) for chunk in column.chunks])

    return [pa.table({name: as_in_all(table[name], name) for name in table.column_names}) for table in tables]


def with_keys(column: pa.DictionaryArray, keys: pa.Array) -> pa.DictionaryArray:
    """Return a column with other keys for the same indices."""
    return pa.DictionaryArray.from_arrays(column.indices, keys, safe=False)


def indices_of(column: pa.DictionaryArray) -> np.ndarray:
    """Return the indices of a column without nulls, ``(n,) int32``; writable, as compiled code expects arrays."""
    indices = column.indices
    found = np.frombuffer(indices.buffers()[1], np.int32, len(indices), 4 * indices.offset) if len(indices) else None
    return np.zeros(0, np.int32) if found is None else found if found.flags.writeable else found.copy()


def text_buffers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the start of the first text and the end of each, ``(n + 1,) int64``; and the bytes of all."""
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    _, offsets, data = column.buffers()
    width = np.int32 if pa.types.is_string(column.type) else np.int64
    # A slice shares its parent's buffers and begins at `offset`; its offsets refer to all bytes.
    count = len(column) + 1 if offsets is not None and offsets.size else 0
    ends = np.frombuffer(offsets, width, count, column.offset * width().itemsize) if count else np.zeros(1, width)
    return ends.astype(np.int64, copy=False), np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def is_ascending(keys: pa.Array) -> bool:
    """Return True if keys ascend, so that no two are equal."""
    return not keys.null_count and bool(pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py())


def _ascending(keys: pa.Array, words: np.ndarray) -> np.ndarray:
    """Return the order of texts by their bytes, given their leading words; only texts with equal words are compared."""
    order = np.argsort(words)
    is_repeated = words[order[1:]] == words[order[:-1]]
    tied = np.flatnonzero(np.append(is_repeated, False) | np.append(False, is_repeated))
    rows = order[tied]
    order[tied] = rows[pc.sort_indices(keys.take(pa.array(rows))).to_numpy()]
    return order
