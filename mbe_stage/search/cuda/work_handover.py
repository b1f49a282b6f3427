"""Choose the open nodes that a device hands over to others. Devices may share a node, since its children are a range.

The giver keeps transferred work until the other device has copied it, from device to device. Through host memory a
gigabyte would take tenths of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

_RANGES_FROM = 4
"""The children of the largest nodes, this many per device, are divided among all devices; others are moved whole."""

Share = list[tuple[int, int, int]]
"""Nodes, each with a range of its children."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity of a device without work.

    Attributes
    ----------
    words, nodes : int
        Room for words of blocks, and for nodes.
    form : object
        All that the fields of nodes depend on besides graph and query; nodes need the same form.
    """

    words: int
    nodes: int
    form: Any


@dataclass(slots=True)
class WorkTransfer:
    """Work on its way to another device.

    Attributes
    ----------
    roots : (n,) integers
        Roots, on the host.
    nodes : (n, NODE_FIELDS) int64 or None
        Nodes with offsets into `words`, on the giving device; None if there are none.
    words : uint32 or None
    """

    roots: np.ndarray
    nodes: Any = None
    words: Any = None

    @property
    def n_items(self) -> int:
        """Number of roots and nodes."""
        return int(self.roots.size) + (0 if self.nodes is None else len(self.nodes))


def shares(cursors: np.ndarray, ends: np.ndarray, sizes: np.ndarray, room: Sequence[tuple[int, int]]) -> list[Share]:
    """Choose nodes and ranges of their children for each receiver, within its room.

    Parameters
    ----------
    cursors, ends, sizes : (n,) integers
        First remaining child, end of the children, and number of words of each node.
    room : sequence of tuple of int
        Words and nodes that each receiver has room for.
    """
    n = len(room) + 1
    numbers = np.flatnonzero(cursors < ends)
    heaviest = numbers[np.argsort(-(ends - cursors)[numbers] * sizes[numbers], kind="stable")]
    found: list[Share] = [[] for _ in room]
    used = [0 for _ in room]
    is_cut = np.zeros(heaviest.size, np.bool_)
    for rank, number in enumerate(heaviest[: _RANGES_FROM * n].tolist()):
        first, end, size = int(cursors[number]), int(ends[number]), int(sizes[number])
        takers = [k for k, (entries, nodes) in enumerate(room) if used[k] + size <= entries and len(found[k]) < nodes]
        is_cut[rank] = end - first >= 2 * n
        if is_cut[rank] and takers:
            cuts = [first + (end - first) * k // (len(takers) + 1) for k in range(1, len(takers) + 2)]
            for k, start, stop in zip(takers, cuts, cuts[1:], strict=False):
                found[k].append((number, start, stop))
                used[k] += size
    ranks = np.arange(heaviest.size)
    for k, (entries, nodes) in enumerate(room):
        left = entries - used[k]
        whole = heaviest[(ranks % n == k + 1) & ~is_cut]
        whole = whole[sizes[whole] <= left]
        fit = np.searchsorted(np.cumsum(sizes[whole]), left, side="right")
        whole = whole[: max(0, min(int(fit), nodes - len(found[k])))]
        found[k] += zip(whole.tolist(), cursors[whole].tolist(), ends[whole].tolist(), strict=True)
    return found


def left_over(
    given: Sequence[Share], cursors: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the changes for the giver, which keeps the first children of each divided node.

    Parameters
    ----------
    given : sequence of Share
        Result of `shares`.
    cursors, ends : (n,) integers

    Returns
    -------
    changed : (m,) int64
        Nodes that were given away, or some of whose children were.
    ends : (m,) int64
        Their new ends. An end of 0 would mark a node being written, so nodes without remaining children keep theirs.
    is_closed : (m,) bool
        True for nodes without remaining children; their cursors become their ends.
    """
    changed = np.unique(np.array([number for number, _, _ in chain(*given)], np.int64))
    new_ends = np.array(ends, np.int64)
    for number, first, _ in chain(*given):
        new_ends[number] = min(new_ends[number], first)
    is_closed = new_ends[changed] <= cursors[changed]
    return changed, np.where(is_closed, ends[changed], new_ends[changed]), is_closed
