"""Sets of subsets of six vertices, as one word: bit ``s`` is set if the subset with index ``s`` is in it.

Bit ``b`` of ``s`` stands for vertex ``b``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["WITHOUT_0", "WITHOUT_1", "WITHOUT_2", "WITHOUT_3", "WITHOUT_4", "WITHOUT_5", "down_set"]

_U = np.uint64
# Subsets without vertex 0, 1, ... 5.
WITHOUT_0 = _U(0x5555555555555555)
WITHOUT_1 = _U(0x3333333333333333)
WITHOUT_2 = _U(0x0F0F0F0F0F0F0F0F)
WITHOUT_3 = _U(0x00FF00FF00FF00FF)
WITHOUT_4 = _U(0x0000FFFF0000FFFF)
WITHOUT_5 = _U(0x00000000FFFFFFFF)


@njit(inline="always")
def down_set(subsets):
    """All subsets of the members of a set of subsets."""
    subsets |= (subsets & ~WITHOUT_0) >> _U(1)
    subsets |= (subsets & ~WITHOUT_1) >> _U(2)
    subsets |= (subsets & ~WITHOUT_2) >> _U(4)
    subsets |= (subsets & ~WITHOUT_3) >> _U(8)
    subsets |= (subsets & ~WITHOUT_4) >> _U(16)
    subsets |= (subsets & ~WITHOUT_5) >> _U(32)
    return subsets
