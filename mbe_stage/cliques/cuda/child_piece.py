"""A child of a wide node, as a frame or a wide node with the remaining candidates and excluded vertices.

In child ``k`` the ``k``-th branch joins, and earlier branches are excluded. Candidates adjacent to all others join at
once. The remaining candidates are the columns. The row of an excluded vertex is kept if the vertex is adjacent to all
joined vertices and to some candidate. If it is adjacent to all candidates, the child has no maximal clique.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.root_piece import DONE, FRAME, NODE, SHORT_OF, new_wide, no_frame, open_wide, publish_wide
from mbe_stage.cliques.cuda.techniques import JOINS
from mbe_stage.cliques.cuda.writing import place_members
from mbe_stage.device.masks import bits_below, low_bits, of_halves
from mbe_stage.device.warp import ALL, ballot, count_bits, first_bit, inclusive_sum, next_one, next_tile, nth_bit, rank
from mbe_stage.search.cuda.nodes import pool_offset_of

_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


@cuda.jit(device=True, forceinline=True)
def _nth_branch(wide, n, words):
    """Return the branch with `n` branches before it, int32."""
    tile = _I(0)
    branch = _I(-1)
    while branch < 0 and tile < wide.n_words:
        word = _I(tile + _I(cuda.laneid))
        branches = _U(0)
        if word < wide.n_words:
            branches = _U(words[wide.branches_at + word])
        ends = inclusive_sum(count_bits(branches))
        behind = ballot(ends > n)
        if behind != 0:
            here = _I(32 * word + nth_bit(branches, _I(n - ends + count_bits(branches))))
            branch = cuda.shfl_sync(ALL, here, first_bit(behind))
        n = _I(n - cuda.shfl_sync(ALL, ends, 31))
        tile = next_tile(tile)
    return branch


@cuda.jit(device=True, forceinline=True)
def _mask_candidates(wide, branch, own, words):
    """Write a child's candidates, and mark the branch as joined; return the number of candidates, int32."""
    row_at = _L(wide.rows_at + _L(branch) * _L(wide.n_words))
    n = _I(0)
    tile = _I(0)
    while tile < wide.n_words:
        word = _I(tile + _I(cuda.laneid))
        n_here = _I(0)
        if word < wide.n_words:
            gone = _U(_U(words[wide.branches_at + word]) & bits_below(word, branch))
            mask = _U(_U(words[row_at + word]) & ~gone)
            own.mask[word] = mask
            own.joined[word] = _U(_U(1) << _U(branch & 31)) if word == branch >> 5 else _U(0)
            n_here = count_bits(mask)
        n = _I(n + cuda.shfl_sync(ALL, inclusive_sum(n_here), 31))
        tile = next_tile(tile)
    cuda.syncwarp()
    return n


@cuda.jit(device=True, forceinline=True)
def _join_full(wide, n, own, words):
    """Join the candidates that are adjacent to all others; return their number, int32."""
    lane = _I(cuda.laneid)
    n_joined = _I(0)
    word = _I(0)
    while word < wide.n_words:
        is_there = _U(_U(own.mask[word]) >> _U(lane)) & _U(1) != 0
        met = _I(-1)
        if is_there:
            row_at = _L(wide.rows_at + _L(_I(32 * word + lane)) * _L(wide.n_words))
            met = _I(0)
            k = _I(0)
            while k < wide.n_words:
                met = _I(met + count_bits(_U(words[row_at + k] & own.mask[k])))
                k = next_one(k)
        full = ballot(is_there and met == n - 1)
        if lane == 0 and full != 0:
            own.joined[word] = _U(own.joined[word] | full)
        n_joined = _I(n_joined + count_bits(full))
        word = next_one(word)
    cuda.syncwarp()
    # Only after all candidates have been compared.
    word = lane
    while word < wide.n_words:
        own.mask[word] = _U(own.mask[word] & ~_U(own.joined[word]))
        word = next_tile(word)
    cuda.syncwarp()
    return n_joined


@cuda.jit(device=True, forceinline=True)
def _list_candidates(wide, own):
    """List the columns of the remaining candidates."""
    lane = _I(cuda.laneid)
    n = _I(0)
    word = _I(0)
    while word < wide.n_words:
        mask = _U(own.mask[word])
        if _U(mask >> _U(lane)) & _U(1) != 0:
            own.columns[n + rank(mask)] = _I(32 * word + lane)
        n = _I(n + count_bits(mask))
        word = next_one(word)
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _keep_row(row, n, n_kept, wide, own, words):
    """Append each lane's row (-1 for none) to the list if it belongs to an excluded vertex of the child.

    Parameters
    ----------
    row : int32
    n : int32
        Number of candidates of the child.
    n_kept : int32
        Number of rows in the list.
    words : uint32, global

    Returns
    -------
    int32
        New number of rows in the list; -1 if one contains all candidates.
    """
    is_excluded = row >= 0
    met = _I(0)
    if is_excluded:
        row_at = _L(wide.rows_at + _L(row) * _L(wide.n_words))
        lacking = _U(0)
        k = _I(0)
        while k < wide.n_words:
            word = _U(words[row_at + k])
            lacking = _U(lacking | _U(_U(own.joined[k]) & ~word))
            met = _I(met + count_bits(_U(word & own.mask[k])))
            k = next_one(k)
        is_excluded = lacking == 0
    if cuda.any_sync(ALL, is_excluded and met == n):
        return _I(-1)
    is_kept = is_excluded and met > 0
    kept = ballot(is_kept)
    if is_kept:
        own.rows[n_kept + rank(kept)] = row
    return _I(n_kept + count_bits(kept))


@cuda.jit(device=True, forceinline=True)
def _list_excluded(wide, branch, n, own, words):
    """List the rows of the child's excluded vertices; return their number, int32, or -1 if one has all candidates."""
    lane = _I(cuda.laneid)
    n_kept = _I(0)
    tile = _I(0)
    while tile < wide.n_excluded and n_kept >= 0:
        row = _I(tile + lane)
        row = _I(wide.n + row) if row < wide.n_excluded else _I(-1)
        n_kept = _keep_row(row, n, n_kept, wide, own, words)
        tile = next_tile(tile)
    word = _I(0)
    while word <= branch >> 5 and n_kept >= 0:
        gone = _U(_U(words[wide.branches_at + word]) & bits_below(word, branch))
        if gone != 0:
            row = _I(32 * word + lane) if _U(gone >> _U(lane)) & _U(1) != 0 else _I(-1)
            n_kept = _keep_row(row, n, n_kept, wide, own, words)
        word = next_one(word)
    cuda.syncwarp()
    return n_kept


@cuda.jit(device=True, forceinline=True)
def _packed(row_at, first, n, own, words):
    """Pack this lane's row to up to 32 listed candidates, from position `first` on, uint32."""
    bits = _U(0)
    word, number = _U(0), _I(-1)
    last = min(n, _I(first + 32))
    k = first
    while k < last:
        column = _I(own.columns[k])
        if column >> 5 != number:
            number = _I(column >> 5)
            word = _U(words[row_at + number])
        bits = _U(bits | _U(_U(_U(word >> _U(column & 31)) & _U(1)) << _U(k - first)))
        k = next_one(k)
    return bits


@cuda.jit(device=True, forceinline=True)
def _write_base(wide, to, stride, own, words):
    """Write the base of a child: the base of its node, then the joined vertices."""
    lane = _I(cuda.laneid)
    k = lane
    while k < wide.n_base:
        words[to + stride * k] = words[wide.base_at + k]
        k = next_tile(k)
    n = wide.n_base
    word = _I(0)
    while word < wide.n_words:
        joined = _U(own.joined[word])
        if _U(joined >> _U(lane)) & _U(1) != 0:
            words[to + stride * _I(n + rank(joined))] = words[wide.ids_at + _I(32 * word + lane)]
        n = _I(n + count_bits(joined))
        word = next_one(word)


@cuda.jit(device=True, forceinline=True)
def _packed_row(row, n, wide, own, words):
    """Pack a row of the node to the child's candidates, at most 64, into a uint64."""
    row_at = _L(wide.rows_at + _L(row) * _L(wide.n_words))
    high = _U(0)
    low = _packed(row_at, _I(0), n, own, words)
    if n > 32:
        high = _packed(row_at, _I(32), n, own, words)
    return of_halves(low, high)


@cuda.jit(device=True, forceinline=True)
def _child_frame(wide, n, n_excluded, n_base, own, device, mode):
    """Make the frame of a child with at most 64 candidates, after its candidates and excluded vertices were listed.

    Parameters
    ----------
    n, n_excluded, n_base : int32
        Numbers of the child's candidates, excluded rows and base vertices.
    mode : int
    """
    words = device.words
    lane = _I(cuda.laneid)
    pool_offset = pool_offset_of(device.settings)
    excluded_at = _L(pool_offset + layout.BASE_AT + 2 * n_base)
    low, high = _W(0), _W(0)
    if lane < n:
        column = _I(own.columns[lane])
        low = _packed_row(column, n, wide, own, words)
        words[pool_offset + layout.IDS_AT + lane] = words[wide.ids_at + column]
    if lane + 32 < n:
        column = _I(own.columns[lane + 32])
        high = _packed_row(column, n, wide, own, words)
        words[pool_offset + layout.IDS_AT + lane + 32] = words[wide.ids_at + column]
    cuda.syncwarp()
    own.frame[own.frame_at + lane] = low
    own.frame[own.frame_at + lane + 32] = high
    k = lane
    while k < n_excluded:
        row = _packed_row(own.rows[k], n, wide, own, words)
        words[excluded_at + 2 * k] = _U(row & _W(0xFFFFFFFF))
        words[excluded_at + 2 * k + 1] = _U(row >> _W(32))
        k = next_tile(k)
    _write_base(wide, _L(pool_offset + layout.BASE_AT), _I(2), own, words)
    cuda.syncwarp()
    if mode == layout.MEMBERS:
        place_members(pool_offset, n_base, n, words)
    return layout.Frame(pool_offset, n_base, n_excluded, excluded_at, low, high)


@cuda.jit(device=True, forceinline=True)
def _child_node(wide, child, newest, own, device, techniques):
    """Make the wide node of a child; return the newest node of this warp, or -2, like `publish_wide`.

    Parameters
    ----------
    wide, child : Wide
        The node, and the block of its child.
    newest : int32
    techniques : int
    """
    words = device.words
    lane = _I(cuda.laneid)
    n_rows = _I(child.n + child.n_excluded)
    k = lane
    while k < n_rows:
        row = _I(own.columns[k]) if k < child.n else _I(own.rows[k - child.n])
        row_at = _L(wide.rows_at + _L(row) * _L(wide.n_words))
        to = _L(child.rows_at + _L(k) * _L(child.n_words))
        word = _I(0)
        while word < child.n_words:
            words[to + word] = _packed(row_at, _I(32 * word), child.n, own, words)
            word = next_one(word)
        if k < child.n:
            words[child.ids_at + k] = words[wide.ids_at + row]
        k = next_tile(k)
    _write_base(wide, child.base_at, _I(1), own, words)
    return publish_wide(child, newest, device, techniques)


@cuda.jit(device=True, forceinline=True)
def child_subproblem(node, child, newest, own, device, launch):
    """Make the frame or the wide node of a wide node's child.

    Parameters
    ----------
    node, child : int32
    newest : int32
        The last node made by this warp, or -1.

    Returns
    -------
    outcome : int
        As in `root_subproblem`.
    joined, candidates : uint64
        Masks of the frame, if there is one.
    frame : Frame
    newest : int32
    """
    words = device.words
    wide = open_wide(node, device.nodes)
    branch = _nth_branch(wide, child, words)
    n = _mask_candidates(wide, branch, own, words)
    n_base = _I(wide.n_base + 1)
    if launch.techniques & JOINS != 0:
        n_joined = _join_full(wide, n, own, words)
        n, n_base = _I(n - n_joined), _I(n_base + n_joined)
    is_out = launch.mode != layout.COUNT and (n_base + n < launch.min_size or n_base > launch.max_size)
    n_excluded = _I(-1)
    if not is_out:
        n_excluded = _list_excluded(wide, branch, n, own, words)
    if n_excluded < 0:
        return DONE, _W(0), _W(0), no_frame(), newest
    _list_candidates(wide, own)
    if n <= device.settings[layout.NARROW]:
        frame = _child_frame(wide, n, n_excluded, n_base, own, device, launch.mode)
        return FRAME, _W(0), low_bits(n), frame, newest
    block = new_wide(n, n_excluded, n_base, device)
    if block.ids_at < 0:
        return SHORT_OF, _W(0), _W(0), no_frame(), newest
    made = _child_node(wide, block, newest, own, device, launch.techniques)
    if made == -2:
        return SHORT_OF, _W(0), _W(0), no_frame(), newest
    return NODE, _W(0), _W(0), no_frame(), made
