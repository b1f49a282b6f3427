"""Key columns: integers within int64 or text; integers rank by value, text by its UTF-8 bytes.

An empty string is a null in every format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.graphs import numbering
from mbe_stage.graphs.numbering import IntegerNumbers
from mbe_stage.pipeline.backends.arrow.key_encoder import encoded, indices_of, is_ascending, text_buffers, with_keys
from mbe_stage.pipeline.backends.arrow.plain import as_plain, is_text, plain_type
from mbe_stage.pipeline.backends.backend import KeyType, Refusal
from mbe_stage.pipeline.config.setting_names import setting
from mbe_stage.pipeline.errors import with_settings
from mbe_stage.pipeline.io.raw import shortened

_PART = 1 << 18
# Beyond this not every integer is a float, so a float does not identify an integer.
_EXACT_FLOATS = 2.0**53
# The canonical form of an integer: "007" and "+7" stay strings when integers are inferred.
_CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_INTEGER = r"^-?[0-9]+$"
_AS_STRING: dict[str, object] = {"input.key_type": "string"}
_A_KEY, _ANOTHER = "integers or text as keys", "choose another column, or convert this one to text"
# The first part of a key of several columns, as JSON.
_FIRST_PART = r'^\[(?P<first>"(?:[^"\\]|\\.)*"|-?[0-9]+),'
# Characters that JSON escapes within quotes. The backslash comes first, because the other escapes add backslashes.
_ESCAPED = {character: json.dumps(character)[1:-1] for character in ("\\", '"', *map(chr, range(32)))}
_TO_ESCAPE = r'[\x00-\x1f"\\]'


def as_keys(column: pa.ChunkedArray, key_type: KeyType, refuse: Refusal) -> pa.Array:
    """Return a column of any type as int64 or large_string, with nulls, NaNs and empty strings as nulls.

    A column of dictionaries of these stays one, with each key once.
    """
    if pa.types.is_dictionary(column.type) and plain_type(column.type) in (pa.int64(), pa.large_string()):
        return _encoded_keys(encoded(column), key_type)
    values = as_plain(column)
    kind = values.type
    if pa.types.is_null(kind):
        return values.cast(pa.large_string())
    if is_text(kind):
        return _texts(values, refuse)
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return values.cast(pa.large_string()) if key_type == "string" else _integers(values, refuse)
    if pa.types.is_floating(kind):
        values = _whole_floats(values, refuse)
        return values.cast(pa.large_string()) if key_type == "string" else values
    raise refuse(None, found=f"values of type {kind}", expected=_A_KEY, remedy=_ANOTHER)


def factorised(keys: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Implement `Backend.factorised`, in ascending order."""
    column = keys if pa.types.is_dictionary(keys.type) else encoded(keys)
    codes, distinct = indices_of(column), column.dictionary
    used = numbering.in_use(codes, len(distinct))
    if used.all():
        return codes, distinct
    # Some keys belong only to dropped rows.
    codes = codes.copy()
    numbering.renumber(codes, np.cumsum(used, dtype=np.int32) - np.int32(1))
    return codes, distinct.filter(pa.array(used))


def ranked(codes: np.ndarray, distinct: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Implement `Backend.ranked`: integers by value, text by its bytes."""
    if not is_ascending(distinct):
        order = pc.sort_indices(distinct).to_numpy()
        codes, distinct = codes.astype(np.int32), distinct.take(order)
        numbering.renumber(codes, numbering.inverse(order))
    # Plain strings if they fit, because every reader supports those.
    is_plain = not pa.types.is_integer(distinct.type) and distinct.nbytes < 2**31
    return codes, distinct.cast(pa.string()) if is_plain else distinct


def merged(codes: np.ndarray, integers: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Implement `Backend.merged`."""
    rank, ordered = renumbered(integers.to_numpy())
    codes = codes.astype(np.int32)
    numbering.renumber(codes, rank)
    return codes, pa.array(ordered)


def renumbered(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Implement `Backend.renumbered`."""
    numbers = IntegerNumbers()
    numbers.add(codes)
    ranks, distinct = numbers.ranked()
    return ranks.whole(), distinct


def as_utf8(distinct: pa.Array, refuse: Refusal) -> None:
    """Implement `Backend.as_utf8`: text is only checked here, because here each key occurs once."""
    try:
        distinct.validate(full=True)
    except pa.ArrowInvalid:
        for code, value in enumerate(distinct.cast(pa.large_binary()).to_pylist()):
            try:
                value.decode()
            except UnicodeDecodeError:
                found, remedy = f"bytes that are not UTF-8: {shortened(value)}", "write the data again as UTF-8"
                raise refuse(code, found=found, expected="UTF-8 text", remedy=remedy) from None
        raise


def as_integers(texts: pa.Array, must: bool, refuse: Refusal) -> pa.Array | None:
    """Implement `Backend.as_integers`."""
    matches = pc.match_substring_regex(texts, _INTEGER if must else _CANONICAL_INTEGER)
    odd = first_true(pc.invert(matches))
    if odd is not None and not must:
        return None
    if odd is not None:
        found = f"the key {shortened(texts[odd].as_py())}"
        raise with_settings(refuse(odd, found=found, expected="an integer", remedy=_as_string()), _AS_STRING)
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        code = next(i for i, text in enumerate(texts.to_pylist()) if not -(2**63) <= int(text) < 2**63)
        raise _beyond(code, texts[code].as_py(), refuse) from None


def as_json(keys: pa.Array) -> pa.Array:
    """Implement `Backend.as_json`."""
    texts = keys.cast(pa.large_string())
    if pa.types.is_integer(keys.type):
        return texts
    if first_true(pc.match_substring_regex(texts, _TO_ESCAPE)) is not None:
        for character, escaped in _ESCAPED.items():
            texts = pc.replace_substring(texts, character, escaped)
    return _joined('"', texts, '"')


def joined(first: pa.Array, second: pa.Array) -> pa.Array:
    """Implement `Backend.joined` for results of `as_keys`."""
    both = [keys if pa.types.is_dictionary(keys.type) else encoded(keys) for keys in (first, second)]
    if both[0].type != both[1].type:
        both = [with_keys(keys, keys.dictionary.cast(pa.large_string())) for keys in both]
    return encoded(pa.chunked_array(both))


def json_arrays(columns: Sequence[pa.Array]) -> pa.Array:
    """Implement `Backend.json_arrays`."""
    first, *others = columns
    return _joined("[", first, *(part for column in others for part in (",", column)), "]")


def made_in_parts(texts_of: Callable[[np.ndarray], pa.Array], n: int) -> pa.Array:
    """Implement `Backend.made_in_parts`: the texts are in memory once, beside those of a part."""
    ends, data = np.zeros(n + 1, np.int64), np.empty(0, np.uint8)
    for start in range(0, n, _PART):
        part_ends, part = text_buffers(texts_of(np.arange(start, min(start + _PART, n))))
        at = data.size
        # The system can move a large array to a free place without a copy.
        data.resize(at + part_ends[-1], refcheck=False)
        data[at:] = part[: part_ends[-1]]
        ends[start + 1 : start + part_ends.size] = part_ends[1:] + at
    return pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(data))


def first_true(mask: pa.Array) -> int | None:
    """Return the position of the first true value, with nulls as false; None if there is none."""
    position = pc.index(mask, pa.scalar(True)).as_py()
    return None if position < 0 else position


def without_empty(texts: pa.Array) -> pa.Array:
    """Return texts with nulls in place of empty ones."""
    empty = pc.equal(pc.binary_length(texts), 0)
    return texts if first_true(empty) is None else pc.if_else(empty, pa.scalar(None, texts.type), texts)


def _joined(*parts: pa.Array | str) -> pa.Array:
    """Concatenate the texts of each row; plain text is repeated in every row."""
    text = pa.large_string()
    columns = [pa.scalar(part, text) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar("", text))


def _encoded_keys(column: pa.DictionaryArray, key_type: KeyType) -> pa.DictionaryArray:
    keys = column.dictionary
    if pa.types.is_integer(keys.type):
        return with_keys(column, keys.cast(pa.large_string())) if key_type == "string" else column
    empty = first_true(pc.equal(pc.binary_length(keys), 0))
    if empty is None:
        return column
    indices = pc.if_else(pc.equal(column.indices, empty), pa.scalar(None, pa.int32()), column.indices)
    return pa.DictionaryArray.from_arrays(indices, keys, safe=False)


def _texts(values: pa.Array, refuse: Refusal) -> pa.Array:
    if pa.types.is_large_binary(values.type):
        try:
            values = values.cast(pa.large_string())
        except pa.ArrowInvalid:
            remedy = "convert the column to text, for example hexadecimal"
            raise refuse(None, found="bytes that are not UTF-8 text", expected=_A_KEY, remedy=remedy) from None
    return without_empty(values)


def _integers(values: pa.Array, refuse: Refusal) -> pa.Array:
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid:
        # Rare, so a slow loop over the values is fine.
        row = next(i for i, value in enumerate(values.to_pylist()) if value is not None and abs(value) >= 2**63)
        raise _beyond(row, values[row].as_py(), refuse) from None


def _whole_floats(values: pa.Array, refuse: Refusal) -> pa.Array:
    values = values.cast(pa.float64())
    nan = pc.is_nan(values)
    if first_true(nan) is not None:
        values = pc.if_else(nan, pa.scalar(None, pa.float64()), values)
    odd = pc.or_(pc.not_equal(pc.trunc(values), values), pc.greater(pc.abs(values), _EXACT_FLOATS))
    row = first_true(odd)
    if row is not None:
        expected = f"{_A_KEY} (floats only if they are whole and at most 2**53)"
        raise refuse(row, found=f"the number {values[row].as_py()!r}", expected=expected, remedy=_ANOTHER)
    return values.cast(pa.int64())


def _beyond(row: int, value: object, refuse: Refusal) -> Any:
    found, expected = f"the id {shortened(value)}, beyond int64", f"integers up to {2**63 - 1}"
    return with_settings(refuse(row, found=found, expected=expected, remedy=_as_string()), _AS_STRING)


def _as_string() -> str:
    return f"set {setting('input.key_type')} to string"


def graphs_of(keys: pa.Array) -> pa.DictionaryArray:
    """Return the first part of each key of several columns, as text: the value of the column of graphs.

    Examples
    --------
    >>> graphs_of(pa.array(['["acme","u1"]', '["acme","u2"]', '[7,"u1"]'])).to_pylist()
    ['acme', 'acme', '7']
    """
    first = pc.struct_field(pc.extract_regex(keys, _FIRST_PART), "first").dictionary_encode()
    values = pa.array([str(json.loads(each)) for each in first.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(first.indices, values)
