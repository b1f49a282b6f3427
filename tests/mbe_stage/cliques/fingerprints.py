"""Fingerprint a set of cliques, independent of order and blocks; for NumPy or CuPy arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mbe_stage.splitmix import INCREMENT, finalised

__all__ = ["fingerprint"]


def fingerprint(blocks: Iterable[Any], library: Any = np) -> tuple[int, int]:
    """Return the number of cliques and the sum of their hashes, modulo 2^64.

    Parameters
    ----------
    blocks : iterable of CliqueBlock or DeviceCliqueBlock
        With members.
    library : module
        numpy or cupy, whose arrays the blocks hold.
    """
    n, total = 0, 0
    for block in blocks:
        if len(block) == 0:
            continue
        offsets = library.asarray(block.offsets)
        sums = library.zeros(block.members.size + 1, np.uint64)
        numbers = finalised((block.members.astype(np.uint64) + np.uint64(1)) * INCREMENT)
        library.cumsum(numbers, out=sums[1:])
        # Sums modulo 2^64 can be subtracted.
        hashes = finalised(sums[offsets[1:]] - sums[offsets[:-1]] + block.sizes.astype(np.uint64) * INCREMENT)
        n += len(block)
        total = (total + int(hashes.sum(dtype=np.uint64))) % 2**64
    return n, total
