"""Leaves of the search tree: merge equal ones, and count their bicliques in integers of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

__all__ = ["Leaves", "bicliques_of", "together"]

_MOST_IN_64_BITS = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """Leaves of the search tree; equal leaves are one entry.

    Attributes
    ----------
    held_left, optional_left, held_right, optional_right : (n,) int64
        Vertices of each leaf: its *signature*.
    times : (n,) int64
        Number of such leaves.
    min_p, min_q : int
        Smallest sizes that they count for. A leaf does not count for smaller bicliques, though it may contain some.
    """

    held_left: np.ndarray
    optional_left: np.ndarray
    held_right: np.ndarray
    optional_right: np.ndarray
    times: np.ndarray
    min_p: int = 1
    min_q: int = 1

    @classmethod
    def none(cls) -> Leaves:
        """No leaf."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, nothing)

    def __len__(self) -> int:
        return self.times.size

    def swapped(self) -> Leaves:
        """Return the same leaves for the graph with its sides exchanged."""
        return Leaves(
            self.held_right, self.optional_right, self.held_left, self.optional_left, self.times, self.min_q, self.min_p
        )


def together(parts: Sequence[Leaves]) -> Leaves:
    """Merge equal leaves, among leaves with the same smallest sizes, in the order of their left sides.

    Each leaf was visited, or a vertex was counted for it, so sums of `times` stay far below 2^64.
    """
    names = ("held_left", "optional_left", "held_right", "optional_right", "times")
    *columns, times = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    widths = [int(column.max(initial=0)).bit_length() for column in columns]
    if sum(widths) < 64:
        order, firsts, kinds = _packed(columns, widths)
    else:
        order = np.lexsort(columns[::-1])
        ordered = np.stack(columns)[:, order]
        firsts = _firsts(ordered)
        kinds = list(ordered[:, firsts])
    sums = np.add.reduceat(times[order], firsts) if firsts.size else times
    return Leaves(kinds[0], kinds[1], kinds[2], kinds[3], sums, parts[0].min_p, parts[0].min_q)


def _packed(columns: Sequence[np.ndarray], widths: Sequence[int]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return the order of leaves, and where others begin: sorting one word per leaf is faster than sorting four.

    Parameters
    ----------
    columns : sequence of (n,) int64
    widths : sequence of int
        Bits that each column takes, together below 64.
    """
    words = np.zeros(columns[0].size, np.int64)
    for column, width in zip(columns, widths, strict=True):
        words = words << width | column
    order = np.argsort(words)
    words = words[order]
    firsts = _firsts(words[None])
    words, kinds = words[firsts], []
    for width in reversed(widths):
        kinds.append(words & ((1 << width) - 1))
        words = words >> width
    return order, firsts, kinds[::-1]


def bicliques_of(leaves: Leaves, ps: range, qs: range) -> list[list[int]]:
    """Count the bicliques of leaves, for each of `ps` left vertices with each of `qs` right ones.

    Leaves are summed by their left sides first, since many differ on the right side only.

    Parameters
    ----------
    leaves : Leaves
        Result of `together`.
    """
    if len(leaves) == 0:
        return [[0] * len(qs) for _ in ps]
    firsts = _firsts(np.stack([leaves.held_left, leaves.optional_left]))
    left = list(zip(leaves.held_left[firsts].tolist(), leaves.optional_left[firsts].tolist(), strict=True))
    # Both are numbers of vertices, below 2^31.
    keys, of_leaf = np.unique(leaves.held_right << 32 | leaves.optional_right, return_inverse=True)
    right = list(zip((keys >> 32).tolist(), (keys & 0xFFFFFFFF).tolist(), strict=True))
    total = sum(leaves.times.tolist())
    by_left = []
    for q in qs:
        ways = _ways(right, q if q >= leaves.min_q else -1)
        dtype: type = np.int64 if total * max(ways) <= _MOST_IN_64_BITS else object
        bicliques: np.ndarray = np.array(ways, dtype)[of_leaf] * leaves.times.astype(dtype)
        by_left.append(np.add.reduceat(bicliques, firsts).tolist())
    counts = []
    for p in ps:
        ways = _ways(left, p if p >= leaves.min_p else -1)
        counts.append([sum(map(int.__mul__, ways, of_left)) for of_left in by_left])
    return counts


def _firsts(kinds: np.ndarray) -> np.ndarray:
    """Positions of the columns of a (n_rows, n) array that differ from the one before."""
    is_first = np.ones(kinds.shape[1], np.bool_)
    is_first[1:] = (kinds[:, 1:] != kinds[:, :-1]).any(axis=0)
    return np.flatnonzero(is_first)


def _ways(sides: Sequence[tuple[int, int]], size: int) -> list[int]:
    """Count the sets of `size` with all held vertices and some optional ones."""
    return [comb(optional, size - held) if size >= held else 0 for held, optional in sides]
