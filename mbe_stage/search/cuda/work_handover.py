"""Choose the open nodes that a device hands over to others. A node's children are a range, so devices may share them.

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
"""Number of largest nodes, in multiples of the devices, whose children are divided among all devices; other nodes
are transferred whole."""

Share = list[tuple[int, int, int]]
"""Nodes, each with the range of its children."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity of a device without work.

    Attributes
    ----------
    words, nodes : int
        Words of blocks, and number of nodes.
    form : object
        What the fields of nodes depend on besides graph and query; it takes nodes of devices with the same form.
    """

    words: int
    nodes: int
    form: Any


@dataclass(slots=True)
class WorkTransfer:
    """Work that is transferred.

    Attributes
    ----------
    roots : (n,) integers
        On the host.
    nodes : (n, NODE_FIELDS) int64 or None
        With offsets into `words`, on the giving device; None if there are none.
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
    """Choose for each receiver nodes within its room, and the range of their children.

    Parameters
    ----------
    cursors, ends, sizes : (n,) integers
        First child that is left, end of the children, and entries of each node.
    room : sequence of tuple of int
        Entries and nodes that each receiver has room for.
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
    """Return what changes for the giver, which keeps the first children of a range.

    Parameters
    ----------
    given : sequence of Share
        As `shares` returns them.
    cursors, ends : (n,) integers

    Returns
    -------
    changed : (m,) int64
        Nodes that were given, or some of their children.
    ends : (m,) int64
        Their new ends. An end of 0 would mark a node that is being written, so nodes without children left keep theirs.
    is_closed : (m,) bool
        True for nodes without children left; their cursors become their ends.
    """
    changed = np.unique(np.array([number for number, _, _ in chain(*given)], np.int64))
    new_ends = np.array(ends, np.int64)
    for number, first, _ in chain(*given):
        new_ends[number] = min(new_ends[number], first)
    is_closed = new_ends[changed] <= cursors[changed]
    return changed, np.where(is_closed, ends[changed], new_ends[changed]), is_closed
