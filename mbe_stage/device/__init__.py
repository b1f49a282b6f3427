"""Code for a GPU that knows no problem: warps, grids, launches, compiling, and graphs in its memory."""

from __future__ import annotations

from typing import Any

WARP_SIZE = 32
WARPS_PER_BLOCK = 8
"""Of the grids of `mbe_stage.device.grid`."""


def whole_lines(n: Any) -> Any:
    """So many entries that they fill cache lines, whatever their type; of an int, or of an array.

    Two warps must not share a line that one of them changes with atomics: the other's reading puts it back into the
    multiprocessor's cache while an atomic is on its way, and the first would read what was before.
    """
    return -(-n // 32) * 32
