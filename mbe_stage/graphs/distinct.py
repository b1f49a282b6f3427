"""How many values are distinct, estimated in little memory."""

from __future__ import annotations

import numpy as np
from numba import uint64

from mbe_stage.graphs.numbering import mix, text_hash
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import BYTES, LONGS, compiled, readonly, readonly_view, steps_of

_REGISTER_BITS = 14


class DistinctCounter:
    """Estimates how many values are distinct, in 16 KiB (HyperLogLog): within 5 %, but for one time in a million.

    Examples
    --------
    >>> counter = DistinctCounter()
    >>> counter.add_integers(np.arange(30_000) % 1000)
    >>> 950 < counter.n < 1050
    True
    """

    def __init__(self) -> None:
        self._registers = np.zeros(1 << _REGISTER_BITS, np.uint8)

    def add_integers(self, values: np.ndarray) -> None:
        """Take integers, int64."""
        _sketch_integers(readonly_view(values), self._registers)

    def add_texts(self, ends: np.ndarray, data: np.ndarray) -> None:
        """Take texts, as `TextNumbers.number` does."""
        _sketch_texts(readonly_view(ends), readonly_view(data), self._registers)

    @property
    def n(self) -> int:
        """The estimate."""
        size = self._registers.size
        estimate = 0.7213 / (1 + 1.079 / size) * size**2 / float(np.sum(0.5**self._registers))
        n_empty = int(np.count_nonzero(self._registers == 0))
        return int(size * np.log(size / n_empty) if estimate < 2.5 * size and n_empty else estimate)


def compile_steps() -> tuple[CompileStep, ...]:
    """Compile the functions of this module."""
    return steps_of(_sketch_integers, _sketch_texts)


@compiled()
def _sketch(hash_, registers):
    rest, rank = hash_ << uint64(_REGISTER_BITS) | uint64(1), 1
    while rest >> uint64(63) == uint64(0):
        rest, rank = rest << uint64(1), rank + 1
    register = hash_ >> uint64(64 - _REGISTER_BITS)
    registers[register] = max(registers[register], rank)


@compiled(readonly(LONGS), BYTES)
def _sketch_integers(values, registers):
    for i in range(values.size):
        _sketch(mix(uint64(values[i])), registers)


@compiled(readonly(LONGS), readonly(BYTES), BYTES)
def _sketch_texts(ends, data, registers):
    for i in range(ends.size - 1):
        _sketch(uint64(text_hash(data, ends[i], ends[i + 1])), registers)
