"""Fewer pieces that stand for all: sampling with unequal chances, one random number for all of them."""

from __future__ import annotations

import numpy as np

__all__ = ["chances", "thinned"]


def chances(sizes: np.ndarray, n_kept: int) -> np.ndarray:
    """Chance of each piece to be kept: proportional to its size, the largest for certain; they sum to `n_kept`.

    Examples
    --------
    >>> chances(np.array([8.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    descending = np.sort(np.maximum(sizes, sizes.max() * 1e-30))[::-1]
    rest = np.cumsum(descending[::-1])[::-1]
    certain = 0
    while certain < n_kept - 1 and descending[certain] * (n_kept - certain) >= rest[certain]:
        certain += 1
    return np.minimum(1.0, np.maximum(sizes, sizes.max() * 1e-30) * ((n_kept - certain) / rest[certain]))


def thinned(order: np.ndarray, chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions that are kept, each with its chance, by one random offset and equal steps along `order`.

    Neighbours in that order stand for each other: of pieces alike in size it keeps as many as their chances sum to,
    but for one.
    """
    ends = np.cumsum(chance[order]) + rng.random()
    # The first ends where the offset says, so that a piece is kept for every whole number that is passed.
    crossed = np.floor(ends) > np.floor(np.concatenate([[ends[0] - chance[order[0]]], ends[:-1]]))
    return order[crossed]
