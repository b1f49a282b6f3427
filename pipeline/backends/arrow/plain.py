"""Arrow columns without encodings that do not change their values: dictionaries, views, narrow offsets, run lengths."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def as_plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of its values' own type: dictionaries decoded, text as large_string.

    UUIDs become text in their usual form, other bytes of a fixed length hexadecimal text.
    """
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array(map(decoded, column.chunks), plain_type(column.type))
    kind = column.type
    is_uuid = isinstance(kind, pa.UuidType)
    if isinstance(kind, pa.BaseExtensionType) and (is_uuid or is_text(plain_type(kind.storage_type))):
        column, kind = column.cast(kind.storage_type), kind.storage_type
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width:
        column = pa.chunked_array([_hexadecimal(chunk, is_uuid) for chunk in column.chunks], pa.large_string())
    # Before the chunks are joined: together they may exceed the 2 GiB of plain strings.
    column = column.cast(plain_type(column.type))
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def decoded(keys: pa.DictionaryArray) -> pa.Array:
    """Decode a dictionary column; Arrow cannot take values from a dictionary of views."""
    values = keys.dictionary.cast(plain_type(keys.type.value_type))
    return pa.DictionaryArray.from_arrays(keys.indices, values).dictionary_decode()


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values without dictionaries, views and narrow offsets."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Return True if a column of this plain type is text, or bytes that are read as text."""
    return pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)


def _hexadecimal(values: pa.Array, is_uuid: bool) -> pa.Array:
    width, (_, data) = values.type.byte_width, values.buffers()
    numbers = np.frombuffer(data, np.uint8, len(values) * width, values.offset * width)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[np.stack([numbers >> 4, numbers & 15], axis=1)]
    texts = pa.array(digits.reshape(-1).view(f"S{2 * width}"), mask=values.is_null().to_numpy(zero_copy_only=False))
    texts = texts.cast(pa.large_string())
    return pc.replace_substring_regex(texts, "^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-") if is_uuid else texts
