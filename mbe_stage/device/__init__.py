"""GPU code for any problem: warps, grids, launches, compiling, and graphs in device memory."""

from __future__ import annotations

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
