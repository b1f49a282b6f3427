"""Walk a frame: at most 64 candidates of one warp, with their rows in shared memory and in registers.

A node is two sets of the frame's candidates: joined ones, and those that may still join. There is no list of excluded
vertices. A row belongs to one if and only if it contains all joined vertices and is not a candidate's row (Wei, Xie,
Lin, PPoPP 2026). Candidates adjacent to all others join at once. Then the pivot is the candidate or excluded vertex
adjacent to the most candidates. Each candidate not adjacent to it joins in turn, without the earlier ones. Nodes with
few candidates are finished at once (`small_ends`).

Entries of a frame's stack can also become nodes, which any warp can continue now or in the next quantum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.emit import emit
from mbe_stage.cliques.cuda.small_ends import MOST_CANDIDATES, is_excluded, lowest_six, maximal_sets
from mbe_stage.cliques.cuda.techniques import DONATION, EXCLUDED_PIVOTS, JOINS, SHRINKING, SMALL_ENDS
from mbe_stage.device.masks import bit_of, first_of, has, low_bits, nth_of, of_halves, size_of, voted
from mbe_stage.device.warp import ALL, ballot, count_bits, max_all, next_tile, rank
from mbe_stage.search.cuda.nodes import pool_offset_of, quantum_is_over, stack_entries_with, warps_are_waiting

_LOOK_EVERY = 32
_FEW_EXCLUDED = 32
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _frame_words(frame):
    """Return the number of words in a frame's block, int32."""
    return _I(layout.BASE_AT + 2 * frame.n_base + 2 * frame.n_excluded)


@cuda.jit(device=True, forceinline=True)
def _write_frame(pool_offset, frame, work):
    """Write a frame into a block: the candidates' rows, and the rest unless the block has it already."""
    own, words = work.own, work.device.words
    k = _I(cuda.laneid)
    for _ in range(2):
        row = own.frame[own.frame_at + k]
        words[pool_offset + 2 * k] = _U(row & _W(0xFFFFFFFF))
        words[pool_offset + 2 * k + 1] = _U(row >> _W(32))
        k = next_tile(k)
    if pool_offset < work.device.settings[layout.POOL_LIMIT]:
        n = _frame_words(frame)
        k = _I(layout.IDS_AT + _I(cuda.laneid))
        while k < n:
            words[pool_offset + k] = words[frame.pool_offset + k]
            k = next_tile(k)


@cuda.jit(device=True, forceinline=True)
def _write_entry(node, entry, frame, work):
    """Write a node for a stack entry; return its number of remaining children, int32."""
    own, nodes = work.own, work.device.nodes
    place = own.frame_at + layout.STACK + entry * layout.ENTRY_WORDS
    joined, candidates, branches = own.frame[place], own.frame[place + 1], own.frame[place + 2]
    if cuda.laneid == 0:
        nodes[node, layout.KIND] = _L(layout.FRAME)
        nodes[node, layout.N_EXCLUDED] = _L(frame.n_excluded)
        nodes[node, layout.N_BASE] = _L(frame.n_base)
        nodes[node, layout.JOINED] = _L(joined)
        nodes[node, layout.CANDIDATES] = _L(candidates)
        nodes[node, layout.BRANCHES] = _L(branches)
    cuda.syncwarp()
    return size_of(branches)


share_entry, keep_entries = stack_entries_with(_frame_words, _write_frame, _write_entry)


@cuda.jit(device=True, forceinline=True)
def open_entry(node, child, own, device):
    """Load the rows of a node's frame into shared memory; return one of the node's children.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    joined, candidates : uint64
    frame : Frame
    """
    fields = device.nodes[node]
    pool_offset = _L(fields[layout.OFFSET])
    lane = _I(cuda.laneid)
    low = of_halves(device.words[pool_offset + 2 * lane], device.words[pool_offset + 2 * lane + 1])
    high = of_halves(device.words[pool_offset + 2 * lane + 64], device.words[pool_offset + 2 * lane + 65])
    cuda.syncwarp()
    own.frame[own.frame_at + lane] = low
    own.frame[own.frame_at + lane + 32] = high
    cuda.syncwarp()
    joined, candidates, branches = _W(fields[layout.JOINED]), _W(fields[layout.CANDIDATES]), _W(fields[layout.BRANCHES])
    branch = nth_of(branches, child)
    gone = _W(branches & low_bits(branch))
    candidates = _W(_W(candidates & ~gone) & own.frame[own.frame_at + branch])
    n_base = _I(fields[layout.N_BASE])
    excluded_at = _L(pool_offset + layout.BASE_AT + 2 * n_base)
    frame = layout.Frame(pool_offset, n_base, _I(fields[layout.N_EXCLUDED]), excluded_at, low, high)
    return _W(joined | bit_of(branch)), candidates, frame


class RowCapacity(NamedTuple):
    """Space for rows of excluded vertices.

    Attributes
    ----------
    place : int64
    most : int32
        Number of rows; 0 for none.
    """

    place: Any
    most: Any


@cuda.jit(device=True, forceinline=True)
def _listed(is_live, row, n_live, capacity, words):
    """Append the lanes' live rows to a list as far as they fit; return the total number of live rows, int32."""
    live = ballot(is_live)
    n_after = _I(n_live + count_bits(live))
    if is_live and n_after <= capacity.most:
        to = _L(capacity.place + 2 * _I(n_live + rank(live)))
        words[to] = _U(row & _W(0xFFFFFFFF))
        words[to + 1] = _U(row >> _W(32))
    return n_after


@cuda.jit(device=True, forceinline=True)
def _pivot_row(joined, candidates, frame, capacity, words, techniques):
    """Return the row of the vertex adjacent to the most candidates; all bits if it is adjacent to all of them.

    Parameters
    ----------
    joined, candidates : uint64
    capacity : RowCapacity
        Space for the rows of excluded vertices adjacent to all joined vertices and to a candidate.
    words : uint32, global
    techniques : int

    Returns
    -------
    row : uint64
    n_live : int32
        Number of listed rows; -1 if they did not fit.
    """
    lane = _I(cuda.laneid)
    best, most = frame.row, _I(-1)
    if has(candidates, lane) or (techniques & EXCLUDED_PIVOTS != 0 and is_excluded(frame.row, joined)):
        most = size_of(_W(frame.row & candidates))
    if has(candidates, lane + 32) or (techniques & EXCLUDED_PIVOTS != 0 and is_excluded(frame.high_row, joined)):
        met = size_of(_W(frame.high_row & candidates))
        if met > most:
            best, most = frame.high_row, met
    n = size_of(candidates)
    is_dominated = False
    if techniques & EXCLUDED_PIVOTS == 0:
        is_dominated = (is_excluded(frame.row, joined) and _W(candidates & ~frame.row) == _W(0)) or (
            is_excluded(frame.high_row, joined) and _W(candidates & ~frame.high_row) == _W(0)
        )
    place = _L(frame.excluded_at + 2 * lane)
    n_live = _I(0)
    tile = _I(0)
    while tile < frame.n_excluded:
        row, met = _W(0), _I(0)
        if _I(tile + lane) < frame.n_excluded:
            row = of_halves(words[place], words[place + 1])
            if _W(joined & ~row) == _W(0):
                met = size_of(_W(row & candidates))
                if met > most and (techniques & EXCLUDED_PIVOTS != 0 or met == n):
                    best, most = row, met
        if techniques & SHRINKING != 0 and capacity.most > 0:
            n_live = _listed(met > 0, row, n_live, capacity, words)
        place = _L(place + 64)
        tile = next_tile(tile)
    if n_live > capacity.most or capacity.most == 0:
        n_live = _I(-1)
    if cuda.any_sync(ALL, is_dominated or most == n):
        return _W(0xFFFFFFFFFFFFFFFF), n_live
    source = _I(max_all(_I(most * 32 + lane)) & 31)
    return _W(cuda.shfl_sync(ALL, _L(best), source)), n_live


@cuda.jit(device=True, forceinline=True)
def _capacity_beside(frame, list_depth, device):
    """Reserve space for half of a frame's excluded rows, if they are many and none are listed yet."""
    capacity = RowCapacity(_L(0), _I(0))
    if list_depth < 0 and frame.n_excluded > _FEW_EXCLUDED:
        beside = _L(pool_offset_of(device.settings) + layout.BASE_AT + 2 * _I(frame.n_base + frame.n_excluded))
        capacity = RowCapacity(beside, _I(frame.n_excluded >> 1))
    return capacity


@cuda.jit(device=True, forceinline=True)
def _with_excluded(frame, excluded_at, n_excluded):
    """Return the frame with other rows of excluded vertices."""
    return layout.Frame(frame.pool_offset, frame.n_base, n_excluded, excluded_at, frame.row, frame.high_row)


@cuda.jit(device=True, forceinline=True)
def _shrunk(frame, n_live, own, device):
    """Return the frame with the listed rows; the number of all rows is kept in shared memory."""
    place = _capacity_beside(frame, _I(-1), device).place
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[own.frame_at + layout.N_WHOLE_AT] = _W(frame.n_excluded)
    cuda.syncwarp()
    return _with_excluded(frame, place, n_live)


@cuda.jit(device=True, forceinline=True)
def _whole(frame, list_depth, own):
    """Return the frame with all its rows."""
    n_excluded = frame.n_excluded
    if list_depth >= 0:
        n_excluded = _I(own.frame[own.frame_at + layout.N_WHOLE_AT])
    return _with_excluded(frame, _L(frame.pool_offset + layout.BASE_AT + 2 * frame.n_base), n_excluded)


@cuda.jit(device=True, forceinline=True)
def _visit(joined, candidates, frame, list_depth, work):
    """Join the candidates that are adjacent to all others, then find a pivot or count the node's cliques.

    Parameters
    ----------
    joined, candidates : uint64
    list_depth : int32
        As in `walk_frame`.

    Returns
    -------
    joined, candidates : uint64
    branches : uint64
        Candidates to join in turn; none if the node is done.
    is_done : bool
        False if the output had no space.
    n_found : int32
    n_live : int32
        Number of rows listed beside the frame; -1 if none were listed.
    """
    own, device, launch = work.own, work.device, work.launch
    lane = _I(cuda.laneid)
    n = size_of(candidates)
    if launch.mode != layout.COUNT:
        size = _I(frame.n_base + size_of(joined))
        if size + n < launch.min_size or size > launch.max_size:
            return joined, candidates, _W(0), True, _I(0), _I(-1)
    if launch.techniques & JOINS != 0:
        full = voted(
            has(candidates, lane) and size_of(_W(frame.row & candidates)) == n - 1,
            has(candidates, lane + 32) and size_of(_W(frame.high_row & candidates)) == n - 1,
        )
        joined, candidates = _W(joined | full), _W(candidates & ~full)
        n = size_of(candidates)
    if n == 0 or (launch.techniques & SMALL_ENDS != 0 and n <= MOST_CANDIDATES):
        low, high = maximal_sets(joined, candidates, lowest_six(candidates), frame, device.words)
        is_done, n_found = emit(low, high, joined, candidates, frame, own, device, work.output, launch)
        return joined, candidates, _W(0), is_done, n_found, _I(-1)
    capacity = RowCapacity(_L(0), _I(0))
    if launch.techniques & SHRINKING != 0:
        capacity = _capacity_beside(frame, list_depth, device)
    row, n_live = _pivot_row(joined, candidates, frame, capacity, device.words, launch.techniques)
    return joined, candidates, _W(candidates & ~row), True, _I(0), n_live


@cuda.jit(device=True, forceinline=True)
def _push(depth, joined, candidates, branches, own):
    """Push a node with branches to visit on the stack."""
    entry = own.frame_at + layout.STACK + depth * layout.ENTRY_WORDS
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[entry] = joined
        own.frame[entry + 1] = candidates
        own.frame[entry + 2] = branches
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _next_child(depth, own):
    """Return the next child of the top entry; its last child pops the entry.

    Returns
    -------
    joined, candidates : uint64
    branch : int32
        The joined candidate.
    depth : int32
    """
    entry = own.frame_at + layout.STACK + (depth - 1) * layout.ENTRY_WORDS
    joined, candidates, branches = own.frame[entry], own.frame[entry + 1], own.frame[entry + 2]
    cuda.syncwarp()
    branch = first_of(branches)
    bit = bit_of(branch)
    branches = _W(branches & ~bit)
    if cuda.laneid == 0:
        own.frame[entry + 1] = _W(candidates & ~bit)
        own.frame[entry + 2] = branches
    cuda.syncwarp()
    if branches == _W(0):
        depth = _I(depth - 1)
    return _W(joined | bit), _W(candidates & own.frame[own.frame_at + branch]), branch, depth


@cuda.jit(device=True, forceinline=True)
def _take_back(branch, depth, own):
    """Undo taking the last branch of the entry at `depth`, so that it is visited again."""
    entry = own.frame_at + layout.STACK + depth * layout.ENTRY_WORDS
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[entry + 1] = _W(own.frame[entry + 1] | bit_of(branch))
        own.frame[entry + 2] = _W(own.frame[entry + 2] | bit_of(branch))
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def walk_frame(joined, candidates, frame, work):
    """Walk all nodes below a node. If the quantum ends first, the rest becomes nodes (`keep_entries`).

    Parameters
    ----------
    joined, candidates : uint64
    frame : Frame
        Its rows are in shared memory.

    Returns
    -------
    bool
        False if the output had no space for the cliques of the node itself; then nothing is done.
    """
    own, device, launch = work.own, work.device, work.launch
    bottom = depth = _I(0)
    pool_offset = frame.pool_offset if frame.pool_offset < device.settings[layout.POOL_LIMIT] else _L(-1)
    steps = _I(0)
    found = _L(0)
    branch, branch_depth = _I(-1), _I(0)
    # Above this depth, the excluded rows are those listed beside the frame.
    list_depth = _I(-1)
    while True:
        joined, candidates, branches, is_done, n_found, n_live = _visit(joined, candidates, frame, list_depth, work)
        found = _L(found + n_found)
        if branches != _W(0):
            if launch.techniques & SHRINKING != 0 and n_live >= 0:
                list_depth, frame = depth, _shrunk(frame, n_live, own, device)
            _push(depth, joined, candidates, branches, own)
            depth = _I(depth + 1)
        steps = _I(steps + 1)
        if not is_done:
            if branch < 0:
                break
            _take_back(branch, branch_depth, own)
            depth = _I(branch_depth + 1)
        if depth == bottom:
            break
        is_over = not is_done
        if not is_over and (steps & (_LOOK_EVERY - 1)) == 0:
            is_over = quantum_is_over(device.control, launch.deadline)
            if not is_over and launch.techniques & DONATION != 0 and warps_are_waiting(device.control):
                pool_offset, is_shared = share_entry(bottom, pool_offset, _whole(frame, list_depth, own), work)
                if is_shared:
                    bottom = _I(bottom + 1)
                if depth == bottom:
                    break
        if is_over:
            is_done = True
            keep_entries(bottom, depth, pool_offset, _whole(frame, list_depth, own), work)
            break
        branch_depth = _I(depth - 1)
        if launch.techniques & SHRINKING != 0 and branch_depth < list_depth:
            frame = _whole(frame, list_depth, own)
            list_depth = _I(-1)
        joined, candidates, branch, depth = _next_child(depth, own)
    if cuda.laneid == 0:
        if found != 0:
            cuda.atomic.add(device.control, layout.FOUND, found)
        own.state[layout.N_VISITED] += _L(steps)
    return is_done
