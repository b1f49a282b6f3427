"""Turn bicliques of the reduced graph into the user's vertices, on the device: expand twins, sort members.

Two steps, and one look at the sums between them: how long every list becomes, enqueued behind the walk, so that it is
known when the host hears of the walk's end; then all lists in place, in pieces where they are more than a piece may
hold. Where there are long lists, another launch sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda.blocks import DeviceBlock
from mbe_stage.bicliques.cuda.collapse_twins import DeviceGroups
from mbe_stage.bicliques.cuda.layout import Output
from mbe_stage.bicliques.cuda.twin_expansion_kernels import (
    LEFT,
    LONG,
    LONGEST_STAGED,
    RIGHT,
    SECTIONS,
    TILE,
    USED,
    expanded_lists_warp_per_tile,
    full_sizes_warp_per_tile,
    sort_long_lists_block_per_list,
)
from mbe_stage.device.arrays import kernel_bundles, kernel_views
from mbe_stage.device.grid import THREADS, WARPS_PER_BLOCK, on_grid
from mbe_stage.device.jit import Lists
from mbe_stage.device.memory_budget import device_work

MOST_BLOCKS = 1 << 11
"""More than are resident at once."""


@dataclass(frozen=True, slots=True, eq=False)
class ListSizes:
    """Lengths of the lists of found bicliques once expanded; one for a run, computed anew for each quantum.

    Attributes
    ----------
    groups : pair of DeviceGroups
        Of the left and of the right side.
    full : (2, most slots) int32
        The user's vertices in each list, as far as slots were taken.
    parts, sums : (1 + SECTIONS * n_tiles,) int64
        A 0, then bicliques, left and right vertices, and long lists of each tile, section after section; and what lies
        before each tile.
    ends : (1 + SECTIONS,) int64
        The sums before each section and behind the last.
    """

    groups: tuple[DeviceGroups, DeviceGroups]
    full: cp.ndarray
    parts: cp.ndarray
    sums: cp.ndarray
    ends: cp.ndarray

    @property
    def n_tiles(self) -> int:
        """Tiles that all slots are worked on in."""
        return (self.sums.size - 1) // SECTIONS


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The slots from `begin` to `stop`, and the sums of each section, (SECTIONS,) int64, at both."""

    begin: int
    stop: int
    before: np.ndarray
    behind: np.ndarray


def room_for_sizes(n_slots: int, groups: tuple[DeviceGroups, DeviceGroups]) -> ListSizes:
    """Room for so many bicliques, with the groups of the left and of the right side."""
    n_sums = 1 + SECTIONS * -(-n_slots // TILE)
    parts, sums, ends = (cp.empty(n, cp.int64) for n in (n_sums, n_sums, 1 + SECTIONS))
    return ListSizes(groups, cp.empty((2, n_slots), cp.int32), parts, sums, ends)


def work_out_sizes(sizes: ListSizes, found: Output, taken: cp.ndarray) -> None:
    """Enqueue working out how long every list becomes, behind what writes `found` and `taken`.

    Parameters
    ----------
    found : Output
        In ids of the reduced graph. Slots of left size 0 are unused.
    taken : (1,) int64
        How many slots are taken, all of them where that is more.
    """
    sizes.parts.fill(0)
    kernel = full_sizes_warp_per_tile
    on_grid(kernel, min(_blocks(sizes.n_tiles), MOST_BLOCKS), THREADS)(
        *kernel_bundles(kernel, found),
        *kernel_views(taken),
        *kernel_bundles(kernel, *sizes.groups),
        *kernel_views(sizes.full, sizes.parts),
    )
    cp.cumsum(sizes.parts, out=sizes.sums)
    sizes.ends[:] = sizes.sums[:: sizes.n_tiles]


def expanded(
    found: Output, n_slots: int, sizes: ListSizes, piece_members: int, budget_bytes: int
) -> Iterator[DeviceBlock]:
    """Blocks of at most so many members, a larger biclique alone in its own; none where nothing was found.

    Parameters
    ----------
    found : Output
        As a quantum left it.
    n_slots : int
        How many slots it took.
    sizes : ListSizes
        Worked out for it.
    budget_bytes : int
        What an error names where the device has less memory than was promised.

    Raises
    ------
    MemoryBudgetExceeded
        The device has less.
    """
    for piece in pieces(sizes, n_slots, piece_members):
        with device_work(budget_bytes):
            block = piece_block(found, sizes, piece)
        yield block


def pieces(sizes: ListSizes, n_slots: int, piece_members: int) -> Iterator[Piece]:
    """Cut between bicliques, so that each piece has at most so many members or is a single biclique."""
    ends = cp.asnumpy(sizes.ends)
    totals = np.diff(ends)
    if totals[LEFT] + totals[RIGHT] <= piece_members:
        if totals[USED]:
            yield Piece(0, n_slots, ends[:-1], ends[1:])
        return
    n_tiles = sizes.n_tiles
    sums = cp.asnumpy(sizes.sums)
    section = n_tiles * np.arange(SECTIONS)
    members = sums[LEFT * n_tiles :][: n_tiles + 1] + sums[RIGHT * n_tiles :][: n_tiles + 1]
    last = sums[section + n_tiles]
    stop, behind = 0, sums[section]
    while behind[USED] < last[USED]:
        begin, before = stop, behind
        most = before[LEFT] + before[RIGHT] + piece_members
        tile = int(np.searchsorted(members, most, side="right")) - 1
        stop, behind = min(tile * TILE, n_slots), sums[section + tile]
        if tile < n_tiles:
            full = cp.asnumpy(sizes.full[:, stop : min(stop + TILE, n_slots)]).astype(np.int64)
            n_more = int(np.searchsorted(members[tile] + np.cumsum(full.sum(axis=0)), most, side="right"))
            counts = _counts(full[:, :n_more])
            if behind[USED] + counts[USED] == before[USED]:
                # The next one alone is more than a piece should hold.
                n_more += 1
                counts = _counts(full[:, :n_more])
            stop, behind = stop + n_more, behind + counts
        yield Piece(begin, stop, before, behind)


def _counts(full: np.ndarray) -> np.ndarray:
    """Sums of some of a tile's slots, as the kernel would make them."""
    left, right = full
    return np.array([(left > 0).sum(), left.sum(), right.sum(), (full > LONGEST_STAGED).sum()])


def piece_block(found: Output, sizes: ListSizes, piece: Piece) -> DeviceBlock:
    """The bicliques of a piece, with the user's vertices."""
    n = piece.behind - piece.before
    left, right = (
        Lists(cp.empty(int(n[USED]) + 1, cp.int64), cp.empty(int(n[side]), cp.int32)) for side in (LEFT, RIGHT)
    )
    n_long = int(n[LONG])
    long_lists = cp.empty(max(1, n_long), cp.int64)
    kernel = expanded_lists_warp_per_tile
    on_grid(kernel, _blocks(-(-piece.stop // TILE) - piece.begin // TILE), THREADS)(
        *kernel_bundles(kernel, found),
        *kernel_views(sizes.full, sizes.sums),
        *kernel_bundles(kernel, *sizes.groups, left, right),
        *kernel_views(long_lists),
        piece.begin,
        piece.stop,
        tuple(piece.before.tolist()),
    )
    if n_long:
        kernel = sort_long_lists_block_per_list
        on_grid(kernel, n_long, THREADS)(*kernel_bundles(kernel, left, right), *kernel_views(long_lists))
    return DeviceBlock(*left, *right)


def _blocks(n_warps: int) -> int:
    return -(-n_warps // WARPS_PER_BLOCK)
