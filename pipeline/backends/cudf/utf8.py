"""Whether bytes in device memory are UTF-8: cuDF takes any, the pipeline's tables must not."""

from __future__ import annotations

import cupy as cp
import numpy as np

__all__ = ["PIECE_BYTES", "is_utf8"]

PIECE_BYTES = 64 << 20
"""Bytes to check at once, which needs about ten times as much memory."""


def is_utf8(offsets: cp.ndarray, data: cp.ndarray, piece_bytes: int = PIECE_BYTES) -> bool:
    """Return whether every text by itself is UTF-8.

    Parameters
    ----------
    offsets : (n + 1,) int32 or int64
        Start of each text in `data`, and the end of the last.
    data : uint8
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
