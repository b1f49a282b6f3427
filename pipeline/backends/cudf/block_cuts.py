"""Cut blocks of results in device memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp


def cut(block: Any, ends: cp.ndarray, most_bytes: int) -> Iterator[Any]:
    """Cut a block into pieces of at most that many bytes; `ends` has the bytes of each result and all before it."""
    n = len(block)
    if n and int(ends[-1]) <= most_bytes:
        yield block
        return
    first, before = 0, 0
    while first < n:
        fitting = int(cp.searchsorted(ends, cp.asarray(before + most_bytes, ends.dtype), side="right"))
        stop = max(first + 1, fitting)
        yield block.part(first, stop)
        first, before = stop, int(ends[stop - 1])
