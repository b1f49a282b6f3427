"""GPU code for any problem: warps, grids, launches, compiling, and graphs in device memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

WARP_SIZE = 32
WARPS_PER_BLOCK = 8
"""Warps per block in grids of `mbe_stage.device.grid`."""
LINE_WORDS = 32
"""Words of 32 bits on a cache line."""


def whole_lines(n: Any) -> Any:
    """Round entries up to whole cache lines, for any type; takes an int or an array.

    Two warps must not share a cache line that one of them changes with atomics. The other's reading would put the line
    back into the multiprocessor's cache during an atomic, and the first would then read an old value.
    """
    return -(-n // LINE_WORDS) * LINE_WORDS


def bytes_together(sizes: Iterable[int]) -> int:
    """Return the bytes of a piece of memory with room for parts of these sizes."""
    return _ends(sizes)[-1]


def views_in(memory: Any, arrays: Sequence[Any]) -> list[Any]:
    """Return parts of a piece of memory with the types and sizes of these arrays of one dimension.

    Two parts share no cache line.
    """
    # A view costs as much as a part: one for each type.
    typed = {array.dtype: memory.view(array.dtype) for array in arrays}
    begins = zip(_ends(array.nbytes for array in arrays), arrays, strict=False)
    firsts = [begin // array.itemsize for begin, array in begins]
    return [typed[array.dtype][first : first + array.size] for first, array in zip(firsts, arrays, strict=True)]


def _ends(sizes: Iterable[int]) -> list[int]:
    return list(accumulate((4 * whole_lines(-(-size // 4)) for size in sizes), initial=0))
