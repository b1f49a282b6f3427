"""Pairs of dense ids."""

from __future__ import annotations

from typing import Any

from mbe_stage.pipeline.backends.backend import Backend

__all__ = ["distinct_pairs"]


def distinct_pairs(first: Any, second: Any, n_second: int, backend: Backend) -> tuple[Any, Any]:
    """Return each pair once, sorted by the first id and then the second: (n,) int32 each."""
    xp = backend.xp
    codes = first.astype(xp.int64) * n_second + second
    if bool((codes[:-1] < codes[1:]).all()):
        return first, second
    codes = xp.unique(codes)
    first = codes // n_second
    return first.astype(xp.int32), (codes - first * n_second).astype(xp.int32)
