"""Compact the pool: choose the nodes to keep, place them, and move them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout
from mbe_stage.bicliques.cuda.memory_plan import PASSING_INTS
from mbe_stage.device import whole_lines
from mbe_stage.device.copying import copy_pieces

_LARGE_NODE, _MOST_LARGE = 1 << 14, 1 << 14
"""Average entries of a node from which on the device takes longer to move all nodes than the host to find those that
have to move; and the number of nodes that the host checks in a few milliseconds."""
_LARGE_SEGMENT = 1 << 17
"""Entries of a large node that one block of threads moves."""
_LOOKED_AT = 8
"""Nodes at the end that are tried in a gap."""
_LEFT_IN_GAPS = 4
"""Share of the free entries that may stay in gaps."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveNodes:
    """The kept nodes, on the host.

    Attributes
    ----------
    numbers : (n,) int64
        Their former numbers; they get new numbers from 0 on. The first of them is the whole graph.
    starts, sizes, places : (n,) int64
        Begin of each in the pool, its entries, and its new begin, which is not after the old one.
    unwritten : (n,) int64
        Entries before `starts` that belong to it and are unused: nodes of a walk that only counts have neither ids nor
        their offsets.
    used : int
        Entries of the pool that they will take.
    n_open : int
        Number of nodes with children that are not taken.
    are_apart : bool
        True if nodes move only to places where no node is now.
    """

    numbers: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    places: np.ndarray
    unwritten: np.ndarray
    used: int
    n_open: int
    are_apart: bool = False

    def new_numbers(self, n_nodes: int) -> np.ndarray:
        """New number of each old one, -1 for nodes left out; -1 stays -1, as the last entry."""
        numbers = np.full(n_nodes + 1, -1)
        numbers[self.numbers] = np.arange(self.numbers.size)
        return numbers


def live_nodes(nodes: np.ndarray, cursors: np.ndarray, pending: np.ndarray, mode: int) -> LiveNodes:
    """Return the whole graph, nodes with children left, and nodes with a child being visited.

    Parameters
    ----------
    nodes : (n, NODE_FIELDS) int64
    cursors : (n,) int32
    pending : int64
        Numbers of nodes with a child that is taken and not yet visited; -1 for none.
    mode : int
        Output mode of the walk.
    """
    is_open = cursors < nodes[:, layout.NODE_END]
    is_live = is_open.copy()
    is_live[0] = True
    is_live[pending[pending >= 0]] = True
    numbers = np.flatnonzero(is_live)
    by_place = np.argsort(nodes[numbers, layout.NODE_OFFSET], kind="stable")
    arranged = laid_out(nodes, numbers[by_place], int(is_open.sum()), mode)
    # Numbers keep their order, wherever nodes are: warps look for work at the lowest numbers, which are the oldest
    # nodes.
    by_age = np.empty_like(by_place)
    by_age[by_place] = np.arange(by_place.size)
    names = ("numbers", "starts", "sizes", "places", "unwritten")
    return replace(arranged, **{name: getattr(arranged, name)[by_age] for name in names})


def filled(live: LiveNodes, size: int, needed: int) -> LiveNodes | None:
    """Move nodes at the end of a pool of `size` entries into gaps, if most nodes stay.

    None if nodes are small, or if gaps would keep too much of the free entries: no room for a node of `needed` entries,
    or a quarter of them.
    """
    n = live.numbers.size
    if n > _MOST_LARGE or live.used < n * _LARGE_NODE:
        return None
    order = np.argsort(live.starts)
    starts, room = live.starts[order], whole_lines(live.sizes[order])
    ends = whole_lines(starts + room)
    gaps = np.flatnonzero(starts[1:] - ends[:-1] >= layout.ALIGNMENT)
    moved, used = _into_gaps(ends[gaps].tolist(), starts[gaps + 1].tolist(), starts.tolist(), room.tolist())
    used = max(used, int(np.delete(ends, list(moved)).max()))
    if used + needed > size or used - live.used > (size - live.used) // _LEFT_IN_GAPS:
        return None
    places = starts.copy()
    places[list(moved)] = list(moved.values())
    as_before = np.empty(n, np.int64)
    as_before[order] = places
    return replace(live, places=as_before, used=used, are_apart=True)


def laid_out(nodes: np.ndarray, numbers: np.ndarray, n_open: int, mode: int) -> LiveNodes:
    """Place some nodes contiguously, in this order.

    Parameters
    ----------
    nodes : (n, NODE_FIELDS) int64
        All nodes.
    numbers : (m,) int64
    n_open : int
        Number of them with children that are not taken.
    mode : int
        Output mode of the walk.
    """
    # Without ids there are offsets nevertheless if sizes are written. The whole graph has ids.
    is_bare = (nodes[numbers, layout.NODE_IDS] == 0) & (mode == layout.COUNT)
    unwritten = np.where(is_bare, nodes[numbers, layout.NODE_COLUMNS] + 1, 0)
    sizes = nodes[numbers, layout.NODE_SIZE] - unwritten
    room = whole_lines(sizes)
    return LiveNodes(
        numbers=numbers,
        starts=nodes[numbers, layout.NODE_OFFSET] + unwritten,
        sizes=sizes,
        places=np.cumsum(room) - room,
        unwritten=unwritten,
        used=int(room.sum()),
        n_open=n_open,
    )


def _into_gaps(begins: list[int], ends: list[int], starts: list[int], room: list[int]) -> tuple[dict[int, int], int]:
    """Put nodes from the last on into the first gap that fits; return the place of each, and the new end.

    Parameters
    ----------
    begins, ends : list of int
        Begins and ends of the gaps, ascending.
    starts, room : list of int
        Begin of each node, ascending, and its entries.
    """
    places: dict[int, int] = {}
    used, node = 0, len(starts) - 1
    for begin, end in zip(begins, ends, strict=True):
        if starts[node] < end:
            break
        # A node that does not fit waits for the next gap, and another one is tried.
        first = node
        for _ in range(_LOOKED_AT):
            if starts[first] < end:
                break
            if first not in places and room[first] <= end - begin:
                places[first] = begin
                begin = used = begin + room[first]
            first -= 1
        while node in places:
            node -= 1
    return places, used


def move(ints: cp.ndarray, live: LiveNodes, passing_ints: int) -> None:
    """Move the nodes to their places within the pool; through other memory if these are taken.

    Parameters
    ----------
    ints : (n,) int32
        The pool.
    passing_ints : int
        Entries that pass through other memory at a time, at least `PASSING_INTS`.
    """
    moving = np.flatnonzero(live.starts > live.places)
    # In this order no place is overwritten before its node has moved.
    moving = moving[np.argsort(live.starts[moving], kind="stable")]
    nodes = live.starts[moving], live.sizes[moving], live.places[moving]
    if live.are_apart:
        starts, sizes, places = _segments(*nodes, _LARGE_SEGMENT)
        copy_pieces(ints, starts, sizes, ints, places)
        return
    starts, sizes, places = _segments(*nodes, PASSING_INTS)
    ends = np.cumsum(sizes)
    passing = cp.empty(min(max(passing_ints, PASSING_INTS), int(sizes.sum())), cp.int32)
    first = 0
    while first < sizes.size:
        before = int(ends[first] - sizes[first])
        stop = int(np.searchsorted(ends, before + passing.size, side="right"))
        now = slice(first, stop)
        between = ends[now] - sizes[now] - before
        copy_pieces(ints, starts[now], sizes[now], passing, between)
        copy_pieces(passing, between, sizes[now], ints, places[now])
        first = stop


def moved_out(ints: cp.ndarray, live: LiveNodes) -> cp.ndarray:
    """Copy the nodes alone, each to its place."""
    starts, sizes, places = _segments(live.starts, live.sizes, live.places, PASSING_INTS)
    copy = cp.empty(live.used, cp.int32)
    copy_pieces(ints, starts, sizes, copy, places)
    return copy


def put_in(copy: cp.ndarray, live: LiveNodes, ints: cp.ndarray) -> None:
    """Copy the result of `moved_out` into another pool."""
    _, sizes, places = _segments(live.starts, live.sizes, live.places, PASSING_INTS)
    copy_pieces(copy, places, sizes, ints, places)


def table_of(pool: layout.Pool, live: LiveNodes, n_nodes: int, size: int) -> layout.Pool:
    """Return the pool with a table of the live nodes, under their new numbers; `n_nodes` nodes were in use."""
    numbers = cp.asarray(live.numbers)
    fields, cursors = pool.nodes[numbers], pool.cursors[numbers]
    fields[:, layout.NODE_OFFSET] = cp.asarray(live.places - live.unwritten)
    if size != pool.cursors.size:
        pool = pool._replace(nodes=cp.zeros((size, layout.NODE_FIELDS), cp.int64), cursors=cp.zeros(size, cp.int32))
    else:
        # A node without an end is being written, so unused entries are all zero.
        pool.nodes[:n_nodes] = 0
        pool.cursors[:n_nodes] = 0
    pool.nodes[: numbers.size] = fields
    pool.cursors[: numbers.size] = cursors
    return pool


def _segments(
    starts: np.ndarray, sizes: np.ndarray, places: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, sizes and places of the nodes; large ones in segments of at most `most` entries."""
    n_segments = -(-sizes // most)
    node = np.repeat(np.arange(sizes.size), n_segments)
    within = (np.arange(node.size) - np.repeat(np.cumsum(n_segments) - n_segments, n_segments)) * most
    return starts[node] + within, np.minimum(sizes[node] - within, most), places[node] + within
