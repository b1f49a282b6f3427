"""From bicliques of the reduced graph to the user's vertices, on the device: twins put back, members sorted.

Two launches and one look at the sums: how long every list becomes, then all lists in place, in pieces where they are
more than a piece may hold; where there are long lists, a third launch sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda.device import device_work, kernel_bundles, kernel_views
from mbe_stage.bicliques.cuda.expand_kernels import (
    LEFT,
    LONG,
    LONGEST_STAGED,
    RIGHT,
    SECTIONS,
    TILE,
    USED,
    Lists,
    expanded_lists_warp_per_tile,
    full_sizes_warp_per_tile,
    sort_long_lists_block_per_list,
)
from mbe_stage.bicliques.cuda.grid import THREADS, WARPS_PER_BLOCK
from mbe_stage.bicliques.cuda.groups import DeviceGroups
from mbe_stage.bicliques.cuda.layout import Output
from mbe_stage.device.blocks import DeviceBlock

__all__ = ["Piece", "SizedLists", "expanded", "piece_block", "pieces", "sized"]


@dataclass(frozen=True, slots=True, eq=False)
class SizedLists:
    """Found bicliques, and how long their lists become.

    Attributes
    ----------
    found : Output
        In ids of the reduced graph. Slots of left size 0 are unused.
    groups : pair of DeviceGroups
        Of the left and of the right side.
    full : (2, n_slots) int32
        The user's vertices in each list.
    sums : (1 + SECTIONS * n_tiles,) int64
        Bicliques, left and right vertices, and long lists before each tile, section after section.
    totals : (SECTIONS,) int64
        Of all of them, on the host.
    """

    found: Output
    groups: tuple[DeviceGroups, DeviceGroups]
    full: cp.ndarray
    sums: cp.ndarray
    totals: np.ndarray

    @property
    def n_slots(self) -> int:
        """Used ones and unused ones."""
        return self.found.left_sizes.size

    @property
    def n_tiles(self) -> int:
        """Tiles that the slots are worked on in."""
        return -(-self.n_slots // TILE)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The slots from `begin` to `stop`, and the sums of each section, (SECTIONS,) int64, at both."""

    begin: int
    stop: int
    before: np.ndarray
    behind: np.ndarray


def expanded(
    found: Output, groups: tuple[DeviceGroups, DeviceGroups], piece_members: int, budget_bytes: int
) -> Iterator[DeviceBlock]:
    """Blocks of at most so many members, a larger biclique alone in its own; none where nothing was found.

    Parameters
    ----------
    found : Output
        As a slice left it; `Session.take_found`.
    groups : pair of DeviceGroups
        Of the left and of the right side.
    piece_members : int
    budget_bytes : int
        What an error names where the device has less memory than was promised.

    Raises
    ------
    MemoryBudgetExceeded
        The device has less.
    """
    if found.left_sizes.size == 0:
        return
    with device_work(budget_bytes):
        lists = sized(found, groups)
    for piece in pieces(lists, piece_members):
        with device_work(budget_bytes):
            block = piece_block(lists, piece)
        yield block


def sized(found: Output, groups: tuple[DeviceGroups, DeviceGroups]) -> SizedLists:
    """Work out how long every list becomes, and wait for the sums."""
    n_slots = found.left_sizes.size
    n_tiles = -(-n_slots // TILE)
    full, parts = cp.empty((2, n_slots), cp.int32), cp.empty(1 + SECTIONS * n_tiles, cp.int64)
    full_sizes_warp_per_tile[_blocks(n_tiles), THREADS](
        *kernel_bundles(full_sizes_warp_per_tile, found, *groups), *kernel_views(full, parts)
    )
    sums = cp.cumsum(parts)
    return SizedLists(found, groups, full, sums, np.diff(cp.asnumpy(sums[::n_tiles])))


def pieces(lists: SizedLists, piece_members: int) -> Iterator[Piece]:
    """Cut between bicliques, so that each piece has at most so many members or is a single biclique."""
    if lists.totals[LEFT] + lists.totals[RIGHT] <= piece_members:
        if lists.totals[USED]:
            first = np.concatenate([[0], np.cumsum(lists.totals)[:-1]])
            yield Piece(0, lists.n_slots, first, first + lists.totals)
        return
    n_tiles = lists.n_tiles
    sums = cp.asnumpy(lists.sums)
    section = n_tiles * np.arange(SECTIONS)
    members = sums[LEFT * n_tiles :][: n_tiles + 1] + sums[RIGHT * n_tiles :][: n_tiles + 1]
    last = sums[section + n_tiles]
    stop, behind = 0, sums[section]
    while behind[USED] < last[USED]:
        begin, before = stop, behind
        most = before[LEFT] + before[RIGHT] + piece_members
        tile = int(np.searchsorted(members, most, side="right")) - 1
        stop, behind = min(tile * TILE, lists.n_slots), sums[section + tile]
        if tile < n_tiles:
            sizes = cp.asnumpy(lists.full[:, stop : stop + TILE]).astype(np.int64)
            n_more = int(np.searchsorted(members[tile] + np.cumsum(sizes.sum(axis=0)), most, side="right"))
            counts = _counts(sizes[:, :n_more])
            if behind[USED] + counts[USED] == before[USED]:
                # The next one alone is more than a piece should hold.
                n_more += 1
                counts = _counts(sizes[:, :n_more])
            stop, behind = stop + n_more, behind + counts
        yield Piece(begin, stop, before, behind)


def _counts(sizes: np.ndarray) -> np.ndarray:
    """What a tile's sums would be, for some of its slots."""
    left, right = sizes
    return np.array([(left > 0).sum(), left.sum(), right.sum(), (sizes > LONGEST_STAGED).sum()])


def piece_block(lists: SizedLists, piece: Piece) -> DeviceBlock:
    """The bicliques of a piece, with the user's vertices."""
    n = piece.behind - piece.before
    left, right = (
        Lists(cp.empty(int(n[USED]) + 1, cp.int64), cp.empty(int(n[side]), cp.int32)) for side in (LEFT, RIGHT)
    )
    n_long = int(n[LONG])
    long_lists = cp.empty(max(1, n_long), cp.int64)
    kernel = expanded_lists_warp_per_tile
    kernel[_blocks(-(-piece.stop // TILE) - piece.begin // TILE), THREADS](
        *kernel_bundles(kernel, lists.found),
        *kernel_views(lists.full, lists.sums),
        *kernel_bundles(kernel, *lists.groups, left, right),
        *kernel_views(long_lists),
        piece.begin,
        piece.stop,
        tuple(piece.before.tolist()),
    )
    if n_long:
        kernel = sort_long_lists_block_per_list
        kernel[n_long, THREADS](*kernel_bundles(kernel, left, right), *kernel_views(long_lists))
    return DeviceBlock(*left, *right)


def _blocks(n_warps: int) -> int:
    return -(-n_warps // WARPS_PER_BLOCK)
