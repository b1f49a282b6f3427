"""GPU code for all problems: warps, grids, launches, compiling, and graphs in device memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

WARP_SIZE = 32
WARPS_PER_BLOCK = 8
"""Warps per block in grids of `mbe_stage.device.grid`."""
LINE_WORDS = 32
"""Number of 32-bit words in a cache line."""


def whole_lines(n: Any) -> Any:
    """Round a number of 4-byte entries up to whole cache lines; takes an int or an array.

    Two warps must not share a cache line that one of them changes with atomics. Otherwise a read by the other warp
    would put the line back into the multiprocessor's cache during an atomic, and the first warp would then read an old
    value.
    """
    return -(-n // LINE_WORDS) * LINE_WORDS


def bytes_together(sizes: Iterable[int]) -> int:
    """Return the bytes of a memory block with room for parts of these sizes."""
    return _ends(sizes)[-1]


def views_in(memory: Any, arrays: Sequence[Any]) -> list[Any]:
    """Return parts of a memory block with the types and sizes of these flat arrays; parts share no cache line."""
    # Making a view by type costs as much as slicing a part, so make one per type.
    typed = {array.dtype: memory.view(array.dtype) for array in arrays}
    begins = zip(_ends(array.nbytes for array in arrays), arrays, strict=False)
    firsts = [begin // array.itemsize for begin, array in begins]
    return [typed[array.dtype][first : first + array.size] for first, array in zip(firsts, arrays, strict=True)]


def _ends(sizes: Iterable[int]) -> list[int]:
    return list(accumulate((4 * whole_lines(-(-size // 4)) for size in sizes), initial=0))
