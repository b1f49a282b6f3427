"""Numbers of any size as the two columns `count` and `count_text`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mbe_stage.pq_counts.digits import BITS, carried, digits_of, integers, n_digits
from pipeline.large_numbers import digits_text
from pipeline.outputs.pq_counts.schemas import COUNT

__all__ = ["columns_of_digits", "columns_of_integers"]

# The first number of 39 digits, as two words.
_HIGH, _LOW = divmod(10**38, 1 << 64)
_DIGITS_OF_TWO_WORDS = 128 // BITS


def columns_of_integers(numbers: list[int]) -> tuple[pa.Array, pa.Array]:
    """`count` and `count_text` of Python's integers."""
    return columns_of_digits(digits_of(numbers, n_digits(max(numbers, default=0))))


def columns_of_digits(digits: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """`count` and `count_text` of numbers as digits: (n, n_digits) uint64, carried or not."""
    low, high, fits = _words(carried(digits))
    words = np.column_stack([np.where(fits, low, 0), np.where(fits, high, 0)]).astype("<u8")
    is_valid = pa.py_buffer(np.packbits(fits, bitorder="little"))
    count = pa.Array.from_buffers(COUNT, fits.size, [is_valid, pa.py_buffer(np.ascontiguousarray(words))])
    text = pc.cast(count, pa.string())
    if not fits.all():
        others = pa.array([digits_text(number) for number in integers(digits[~fits])], pa.string())
        text = pc.replace_with_mask(text, pa.array(~fits), others)
    return count, text


def _words(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lowest two words of 64 bits of each number, and whether it has at most 38 decimal digits."""
    shift = np.uint64(BITS)
    lowest = np.zeros((digits.shape[0], _DIGITS_OF_TWO_WORDS), np.uint64)
    lowest[:, : digits.shape[1]] = digits[:, :_DIGITS_OF_TWO_WORDS]
    low, high = (lowest[:, i] | lowest[:, i + 1] << shift for i in (0, 2))
    fits = (high < _HIGH) | ((high == _HIGH) & (low < _LOW))
    return low, high, fits & ~digits[:, _DIGITS_OF_TWO_WORDS:].any(axis=1)
