"""Check the bytes of text on the device: valid UTF-8, and delimited files regular enough for cuDF's reader."""

from __future__ import annotations

import io
from collections.abc import Iterator

import cupy as cp
import numpy as np

from mbe_stage.pipeline.backends.backend import HostNeeded
from mbe_stage.pipeline.io.text.dialect import Dialect

UTF8_PIECE_BYTES = 64 << 20
"""Bytes to check at once, which needs about ten times as much memory."""

_PIECE_BYTES = 128 << 20
_LF, _CR, _QUOTE, _NUL = 10, 13, 34, 0
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_utf8(offsets: cp.ndarray, data: cp.ndarray, piece_bytes: int = UTF8_PIECE_BYTES) -> bool:
    """Return whether every text by itself is UTF-8.

    Parameters
    ----------
    offsets : (n + 1,) int32 or int64
        Start of each text in `data`, and the end of the last.
    data : uint8
    piece_bytes : int
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


def count_rows(stream: io.BufferedReader, dialect: Dialect) -> int:
    """Return the number of non-blank rows, including the header."""
    if stream.peek(3)[:3] == _BYTE_ORDER_MARK:
        raise HostNeeded("a byte order mark")
    delimiter = ord(dialect.delimiter)
    return sum(_rows_of(_on_device(piece), delimiter, dialect.n_columns) for piece in _pieces(stream))


def _pieces(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield the content in pieces of whole lines."""
    rest = b""
    while chunk := stream.read(_PIECE_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield rest


def _on_device(piece: bytes) -> cp.ndarray:
    return cp.asarray(np.frombuffer(piece, np.uint8))


def _rows_of(piece: cp.ndarray, delimiter: int, n_columns: int) -> int:
    ends = cp.flatnonzero(piece == _LF)
    if int(piece[-1]) != _LF:
        ends = cp.append(ends, piece.size)
    starts = cp.concatenate((cp.zeros(1, ends.dtype), ends[:-1] + 1))
    _check_bytes(piece)
    separates = piece == delimiter
    quotes = piece == _QUOTE
    if bool(quotes.any()):
        quoted = cp.cumsum(quotes, dtype=np.int32) & 1
        _check_quotes(piece, quotes, delimiter)
        if bool(quoted[cp.maximum(ends - 1, 0)].any()):
            raise HostNeeded("a quote that is not closed on its line")
        separates &= quoted == 0
    n_before = cp.searchsorted(cp.flatnonzero(separates), ends)
    per_line = cp.diff(n_before, prepend=cp.zeros(1, n_before.dtype))
    lengths = ends - starts
    blank = (lengths == 0) | ((lengths == 1) & (piece[cp.minimum(starts, piece.size - 1)] == _CR))
    if bool((~blank & (per_line != n_columns - 1)).any()):
        raise HostNeeded(f"rows of other than {n_columns} fields")
    return int(cp.count_nonzero(~blank))


def _check_bytes(piece: cp.ndarray) -> None:
    if bool((piece == _NUL).any()):
        raise HostNeeded("NUL bytes")
    returns = cp.flatnonzero(piece == _CR)
    # Pieces end with a line feed, so a return at the end of one is the last byte of the file.
    if bool((returns == piece.size - 1).any()) or bool((_at(piece, returns + 1) != _LF).any()):
        raise HostNeeded("a carriage return without a line feed")


def _check_quotes(piece: cp.ndarray, quotes: cp.ndarray, delimiter: int) -> None:
    """Check that quotes open at the start and close at the end of a field; a doubled quote does both."""
    at = cp.flatnonzero(quotes)
    opening = (cp.arange(at.size) & 1) == 0
    before, after = _at(piece, at - 1), _at(piece, at + 1)
    begins = (before == delimiter) | (before == _LF) | (before == _QUOTE)
    ends = (after == delimiter) | (after == _LF) | (after == _CR) | (after == _QUOTE)
    if not bool(cp.where(opening, begins, ends).all()):
        raise HostNeeded("a quote inside a field")


def _at(piece: cp.ndarray, positions: cp.ndarray) -> cp.ndarray:
    """Return the bytes at these positions; outside the piece, a line feed."""
    inside = (positions >= 0) & (positions < piece.size)
    return cp.where(inside, piece[cp.clip(positions, 0, piece.size - 1)], _LF)
