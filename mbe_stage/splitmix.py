"""The finaliser of splitmix64 (Steele, Lea and Flood 2014): spreads the bits of a 64-bit number over all of it."""

from __future__ import annotations

from typing import Any

import numpy as np

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
"""Added to the value first if 0 must not map to 0."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def finalised(value: Any) -> Any:
    """Apply the finaliser to a uint64 or an array of uint64; callers compile it in their loops."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)
