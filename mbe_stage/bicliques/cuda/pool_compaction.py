"""Compact the pool: choose the nodes that stay, place them, and move them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cupy as cp
import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.memory_plan import PASSING_INTS
from mbe_stage.device.copying import copy_pieces

_LARGE_NODE, _MOST_LARGE = 1 << 14, 1 << 14
"""Entries of a node, on average, from which on the device takes longer to move all than the host to see which have to
move; and how many nodes the host looks at in a few milliseconds."""
_LARGE_PIECE = 1 << 17
"""Entries of a large node that a block of threads moves."""
_LOOKED_AT = 8
"""Nodes at the end that are tried in a gap."""
_LEFT_IN_GAPS = 4
"""Of what is free, the part that may stay in gaps."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveNodes:
    """The nodes that stay, on the host.

    Attributes
    ----------
    numbers : (n,) int64
        Their numbers up to now; from now on they are numbered from 0. The whole graph is the first of them.
    starts, sizes, places : (n,) int64
        Where each begins in the pool, how many entries it has, where it is to begin: at `starts` or before.
    unwritten : (n,) int64
        Entries before `starts` that belong to it and hold nothing: nodes of a walk that only counts know no ids.
    used : int
        Entries of the pool that they will take.
    n_open : int
        How many of them have children that nobody has taken.
    are_apart : bool
        True if nodes that move come to places where no node stands now.
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
        """For each old number the new one, -1 for nodes that are left out; -1 stays -1, as the last entry."""
        numbers = np.full(n_nodes + 1, -1)
        numbers[self.numbers] = np.arange(self.numbers.size)
        return numbers


def live_nodes(nodes: np.ndarray, cursors: np.ndarray, pending: np.ndarray) -> LiveNodes:
    """The whole graph, nodes that have children left, and nodes that a child is being visited of.

    Parameters
    ----------
    nodes : (n, NODE_FIELDS) int64
    cursors : (n,) int32
    pending : int64
        Numbers of nodes that a child has been taken of and not visited; -1 for none.
    """
    is_open = cursors < nodes[:, at.NODE_END]
    is_live = is_open.copy()
    is_live[0] = True
    is_live[pending[pending >= 0]] = True
    numbers = np.flatnonzero(is_live)
    by_place = np.argsort(nodes[numbers, at.NODE_OFFSET], kind="stable")
    standing = laid_out(nodes, numbers[by_place], int(is_open.sum()))
    # Numbers keep their order, wherever nodes stand: warps look for work at the lowest, which are the oldest.
    by_age = np.empty_like(by_place)
    by_age[by_place] = np.arange(by_place.size)
    names = ("numbers", "starts", "sizes", "places", "unwritten")
    return replace(standing, **{name: getattr(standing, name)[by_age] for name in names})


def filled(live: LiveNodes, size: int, needed: int) -> LiveNodes | None:
    """The nodes of a pool of `size` entries where most of them stay: those at its end are moved into gaps before.

    None where nodes are small, or too much of what is free would be left in gaps: no room for a node of `needed`
    entries, or a quarter of it.
    """
    n = live.numbers.size
    if n > _MOST_LARGE or live.used < n * _LARGE_NODE:
        return None
    order = np.argsort(live.starts)
    starts, room = live.starts[order], -(-live.sizes[order] // at.ALIGNMENT) * at.ALIGNMENT
    ends = -(-(starts + room) // at.ALIGNMENT) * at.ALIGNMENT
    gaps = np.flatnonzero(starts[1:] - ends[:-1] >= at.ALIGNMENT)
    moved, used = _into_gaps(ends[gaps].tolist(), starts[gaps + 1].tolist(), starts.tolist(), room.tolist())
    used = max(used, int(np.delete(ends, list(moved)).max()))
    if used + needed > size or used - live.used > (size - live.used) // _LEFT_IN_GAPS:
        return None
    places = starts.copy()
    places[list(moved)] = list(moved.values())
    as_before = np.empty(n, np.int64)
    as_before[order] = places
    return replace(live, places=as_before, used=used, are_apart=True)


def laid_out(nodes: np.ndarray, numbers: np.ndarray, n_open: int) -> LiveNodes:
    """Some nodes one behind the other, in this order.

    Parameters
    ----------
    nodes : (n, NODE_FIELDS) int64
        All that there are.
    numbers : (m,) int64
    n_open : int
        How many of them have children that nobody has taken.
    """
    unwritten = np.where(nodes[numbers, at.NODE_IDS] == 0, nodes[numbers, at.NODE_COLUMNS] + 1, 0)
    sizes = nodes[numbers, at.NODE_SIZE] - unwritten
    room = -(-sizes // at.ALIGNMENT) * at.ALIGNMENT
    return LiveNodes(
        numbers=numbers,
        starts=nodes[numbers, at.NODE_OFFSET] + unwritten,
        sizes=sizes,
        places=np.cumsum(room) - room,
        unwritten=unwritten,
        used=int(room.sum()),
        n_open=n_open,
    )


def _into_gaps(begins: list[int], ends: list[int], starts: list[int], room: list[int]) -> tuple[dict[int, int], int]:
    """Nodes from the last on, each in the first gap before it that has room: where each is to stand; and up to where.

    Parameters
    ----------
    begins, ends : list of int
        Of the gaps, ascending.
    starts, room : list of int
        Where each node begins, ascending, and how much room it takes.
    """
    places: dict[int, int] = {}
    used, node = 0, len(starts) - 1
    for begin, end in zip(begins, ends, strict=True):
        if starts[node] < end:
            break
        # One that does not fit waits for the next gap, and another one is tried.
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
    """Move the nodes to their places within the pool; where these are taken, so many entries at a time.

    Parameters
    ----------
    ints : (n,) int32
        The pool.
    passing_ints : int
        Entries that pass through other memory at a time; `PASSING_INTS` at least.
    """
    moving = np.flatnonzero(live.starts > live.places)
    # In this order nobody's place is taken by another one before it has been moved.
    moving = moving[np.argsort(live.starts[moving], kind="stable")]
    nodes = live.starts[moving], live.sizes[moving], live.places[moving]
    if live.are_apart:
        starts, sizes, places = _pieces(*nodes, _LARGE_PIECE)
        copy_pieces(ints, starts, sizes, ints, places)
        return
    starts, sizes, places = _pieces(*nodes, PASSING_INTS)
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
    """A copy of the nodes alone, each at its place."""
    starts, sizes, places = _pieces(live.starts, live.sizes, live.places, PASSING_INTS)
    copy = cp.empty(live.used, cp.int32)
    copy_pieces(ints, starts, sizes, copy, places)
    return copy


def put_in(copy: cp.ndarray, live: LiveNodes, ints: cp.ndarray) -> None:
    """Put what `moved_out` made into another pool."""
    _, sizes, places = _pieces(live.starts, live.sizes, live.places, PASSING_INTS)
    copy_pieces(copy, places, sizes, ints, places)


def table_of(pool: at.Pool, live: LiveNodes, n_nodes: int, size: int) -> at.Pool:
    """The pool with a table of the live nodes alone, under their new numbers; of its nodes `n_nodes` were in use."""
    numbers = cp.asarray(live.numbers)
    fields, cursors = pool.nodes[numbers], pool.cursors[numbers]
    fields[:, at.NODE_OFFSET] = cp.asarray(live.places - live.unwritten)
    if size != pool.cursors.size:
        pool = pool._replace(nodes=cp.zeros((size, at.NODE_FIELDS), cp.int64), cursors=cp.zeros(size, cp.int32))
    else:
        # A node that is being written has no end yet: what is free is all zero.
        pool.nodes[:n_nodes] = 0
        pool.cursors[:n_nodes] = 0
    pool.nodes[: numbers.size] = fields
    pool.cursors[: numbers.size] = cursors
    return pool


def _pieces(
    starts: np.ndarray, sizes: np.ndarray, places: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, sizes and places of the nodes, the large ones in pieces of at most `most` entries."""
    n_pieces = -(-sizes // most)
    node = np.repeat(np.arange(sizes.size), n_pieces)
    within = (np.arange(node.size) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)) * most
    return starts[node] + within, np.minimum(sizes[node] - within, most), places[node] + within
