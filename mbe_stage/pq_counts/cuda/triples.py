"""Where bicliques have three rows: two later rows and their root are counted on masks of the root's columns.

A block takes a root. A later row that shares enough columns with it is a *partner*. Rows are in ascending degree, so
the root has no more columns than its partners, and a mask of the columns that each partner shares with it is short:
most roots have all of theirs in shared memory. Two partners whose masks have ``n`` columns in common are a leaf, three
rows with ``n`` optional columns. There are no nodes, no pool and no table of kinds, and lists are read as they are
given (`rank_windows`).

Where the masks of a root do not fit, they are made for some of the columns at a time, and what two partners have in
common is added up. The area for this is the block's part of shared memory, or where that is too small, of the device's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from mbe_stage.device import WARP_SIZE
from mbe_stage.device.jit import I32, I64, U32, bundle, kernel
from mbe_stage.device.warp import ALL, ballot, first_bit, global_nanoseconds, or_all
from mbe_stage.pq_counts.cuda import layout as at
from mbe_stage.pq_counts.cuda.rank_windows import NEVER, add_path, fill, flush, next_root, tally, walk_with
from mbe_stage.pq_counts.cuda.wedges import BLOCKS_PER_MULTIPROCESSOR, THREADS, Wedges

__all__ = ["MOST_PARTNERS", "Needs", "Roots", "Triples"]
__all__ += ["count_partners_block_per_root", "count_triples_block_per_root"]

MOST_PARTNERS = 46_340
"""Of a root: each two of them have a number of 30 bits."""
_WINDOW, _AREA = 4096, 7168
"""Ranks that are looked at at a time, and words of 32 bits for masks: with `_SMALL` counters of leaves what a block may
have of shared memory."""
_HEAD = 64
"""Rows of the highest ranks, most of which share columns with each other: a mask of one word has room for them."""
_LEAST_CHUNK, _USUAL_CHUNK = 8, 32
"""Words of a mask that are made at a time where not all fit: in shared memory at least, and in the device's."""
_WORDS_PER_COLUMN = 64
"""Words of masks that are compared in the time in which a column of a root is walked."""
_PARTNER_WINDOW, _SMALL = 11_264, 512
_FLUSH_FROM = 1 << 30
_I = np.int32
_L = np.int64
_U = np.uint32
_W = np.uint64


class Triples(NamedTuple):
    """What all blocks share.

    Attributes
    ----------
    times : (max_row_degree + 1,) int64
        How many triples of rows share so many columns.
    control, settings : int64
        As `wedges.Wedges` has them.
    ranks : (n_rows,) int32
        Of rows: a triple is counted from the one of lowest rank. -1 for those that are in no triple.
    partners : (n_rows,) int32
        Later rows that share enough columns with each row; of those of the highest ranks, all later ones.
    scratch : (n_blocks * n,) uint32
        An area for each block, in which roots find room that do not in shared memory.
    """

    times: Any
    control: Any
    settings: Any
    ranks: Any
    partners: Any
    scratch: Any


class Roots(NamedTuple):
    """What is below roots.

    Attributes
    ----------
    partners : (n_rows,) int32
        As `Triples` has them.
    costs : (n_rows,) int64
        Of roots that have two partners at least, what is expected below them; 0 for other rows.
    needs : (len(Needs),) int64
    """

    partners: Any
    costs: Any
    needs: Any


class Needs(IntEnum):
    """What is asked of all roots.

    How many have two partners at least; the most partners; the most words of masks that are compared below one; and of
    its area in device memory, `NO_ROOM` where no area will do.
    """

    ROOTS = 0
    PARTNERS = 1
    WORDS = 2
    SCRATCH = 3


NO_ROOM = 1 << 60

_GRAPH = bundle(at.Graph, I64, I32, I64, I64, I32, I32)
_TRIPLES = bundle(Triples, I64, I64, I64, I32, I32, U32)
_WEDGES = bundle(Wedges, I64, I64, I64, I32)
_ROOTS = bundle(Roots, I32, I64, I64)


class _Marks(NamedTuple):
    """Masks that are being made.

    Attributes
    ----------
    numbers : (_WINDOW,) int32, shared
        Of the partners in a window, from 1 on; 0 for other ranks.
    area : (n_words,) uint32
        Word `w` of all masks stands together, in the order of the numbers, from `start` on.
    start : int32
    n_partners : int32
    first_column : int32
        The place in the root's list that the first bit is for.
    """

    numbers: Any
    area: Any
    start: Any
    n_partners: Any
    first_column: Any


@cuda.jit(device=True, forceinline=True)
def _mark(k, column, marks):
    """Set the bit of a column in the mask of the rank `k` of a window, if that is a partner."""
    number = marks.numbers[k]
    if number > 0:
        bit = _I(column - marks.first_column)
        word = _I(marks.start + (bit >> 5) * marks.n_partners + number - 1)
        cuda.atomic.or_(marks.area, word, _U(_U(1) << _U(bit & 31)))


_count_paths = walk_with(add_path)
_mark_paths = walk_with(_mark)


@cuda.jit(device=True, forceinline=True)
def _count_enough(n_here, fewest, counts, slots):
    """Count in `slots[2]` the ranks of a window that share enough columns; their counters are zeros afterwards."""
    k, n = _I(cuda.threadIdx.x), _I(0)
    while k < n_here:
        if counts[k] >= fewest:
            n = _I(n + 1)
        counts[k] = _I(0)
        k = _I(k + _I(cuda.blockDim.x))
    if n > 0:
        cuda.atomic.add(slots, 2, n)


@cuda.jit(device=True, forceinline=True)
def _scratch_words(n_partners, n_words, n_later):
    """Words that a root takes of device memory, int64; 0 where shared memory has room for it.

    Parameters
    ----------
    n_partners, n_words : int64
        Words of a mask.
    n_later : int64
        Rows of higher rank.
    """
    masks, in_chunks = _L(n_partners * n_words), _L(NO_ROOM)
    if n_later <= _WINDOW:
        in_chunks = _L(n_partners * (n_partners - _L(1)) // _L(2) + _LEAST_CHUNK * n_partners)
    if n_later <= _HEAD or min(masks, in_chunks) <= _AREA:
        return _L(0)
    return min(masks, _L(in_chunks + _L(_USUAL_CHUNK - _LEAST_CHUNK) * n_partners))


@cuda.jit(device=True, forceinline=True)
def _write_root(root, n_partners, n_columns, n_later, roots):
    """What is below a root. For one thread; the arguments of the block's other threads are the same."""
    roots.partners[root] = n_partners
    if n_partners > 1:
        n, n_words = _L(n_partners), _L((n_columns + 31) >> 5)
        words = _L(n * (n - _L(1)) // _L(2) * n_words)
        roots.costs[root] = _L(words + _L(_WORDS_PER_COLUMN) * _L(n_columns))
        cuda.atomic.add(roots.needs, Needs.ROOTS, _L(1))
        cuda.atomic.max(roots.needs, Needs.PARTNERS, n)
        cuda.atomic.max(roots.needs, Needs.WORDS, words)
        cuda.atomic.max(roots.needs, Needs.SCRATCH, _scratch_words(n, n_words, _L(n_later)))


@kernel(_GRAPH, _WEDGES, _ROOTS, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=2.0)
def count_partners_block_per_root(graph, wedges, roots):
    """Write how many later rows share enough columns with each root, and what will be below it.

    Parameters
    ----------
    graph : Graph
        Its positions are not read.
    wedges : Wedges
        Its times are not written.
    roots : Roots
        Zeros before.
    """
    counts = cuda.shared.array(_PARTNER_WINDOW, types.int32)
    slots = cuda.shared.array(3, types.int32)
    thread = _I(cuda.threadIdx.x)
    deadline = _L(global_nanoseconds() + wedges.settings[at.QUANTUM_NS])
    fewest, short_list = _I(wedges.settings[at.FEWEST_COLUMNS]), _U(wedges.settings[at.NARROW])
    n_rows = _I(wedges.settings[at.MOST_ROWS])
    fill(counts, _I(0), _I(_PARTNER_WINDOW), _I(0))
    while True:
        if thread == 0:
            slots[0] = next_root(graph.order, deadline, wedges.control)
            slots[2] = _I(0)
        cuda.syncthreads()
        root = slots[0]
        if root < 0:
            break
        n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
        window = _I(wedges.ranks[root] + 1)
        n_later = _I(n_rows - window)
        while window < n_rows and n_later > _HEAD:
            if thread == 0:
                slots[1] = _I(NEVER)
            cuda.syncthreads()
            size = _I(_PARTNER_WINDOW)
            beyond = _count_paths(root, _I(0), n_columns, window, size, short_list, graph, wedges.ranks, counts)
            if cuda.laneid == 0 and beyond != NEVER:
                cuda.atomic.min(slots, 1, beyond)
            cuda.syncthreads()
            _count_enough(min(size, _I(n_rows - window)), fewest, counts, slots)
            window = slots[1]
            cuda.syncthreads()
        if thread == 0:
            _write_root(root, slots[2] if n_later > _HEAD else n_later, n_columns, n_later, roots)
        cuda.syncthreads()


@cuda.jit(device=True, forceinline=True)
def _number(n_here, fewest, counts, slots):
    """Number the ranks of a window that share enough columns, in the place of their counters; zeros for the others."""
    k = _I(cuda.threadIdx.x)
    while k < n_here:
        n = counts[k]
        if n > 0:
            counts[k] = _I(cuda.atomic.add(slots, 2, _I(1)) + 1) if n >= fewest else _I(0)
        k = _I(k + _I(cuda.blockDim.x))


@cuda.jit(device=True, forceinline=True)
def _in_common(one, other, n_words, n_partners, area, start):
    """Columns that two masks have in common, int32."""
    n, at_one, at_other = _I(0), _I(start + one), _I(start + other)
    for _ in range(n_words):
        n = _I(n + _I(cuda.popc(_U(area[at_one] & area[at_other]))))
        at_one, at_other = _I(at_one + n_partners), _I(at_other + n_partners)
    return n


@cuda.jit(device=True, forceinline=True)
def _pairs(n_partners, n_words, start, adds, tallies, fewest, area, small, times):
    """What each two partners have in common: added to what they had in other columns, or counted as a leaf, or both.

    Parameters
    ----------
    n_partners, n_words : int32
    start : int32
        Where masks begin in the area; counters of pairs stand before, each of which has its thread.
    adds, tallies : bool
    fewest : int32
        Columns of a leaf.
    area : uint32
    small, times
        As `rank_windows.tally` has them.
    """
    lane, one = _I(cuda.laneid), _I(cuda.threadIdx.x // WARP_SIZE)
    n_warps = _I(cuda.blockDim.x // WARP_SIZE)
    # Most leaves have as few columns as there may be: lanes count them alone.
    n_fewest = _I(0)
    while one < n_partners - 1:
        row_start = _I(one * (n_partners - 1) - one * (one - 1) // 2 - one - 1)
        other = _I(one + 1 + lane)
        while other < n_partners:
            n = _in_common(one, other, n_words, n_partners, area, start)
            if adds:
                n = _I(n + _I(area[row_start + other]))
                area[row_start + other] = _U(n)
            if tallies:
                if n == fewest:
                    n_fewest = _I(n_fewest + 1)
                elif n > fewest:
                    tally(n, small, times)
            other = _I(other + WARP_SIZE)
        one = _I(one + n_warps)
    if n_fewest > 0:
        if fewest < small.size:
            cuda.atomic.add(small, fewest, n_fewest)
        else:
            cuda.atomic.add(times, fewest, _L(n_fewest))


@cuda.jit(device=True, forceinline=True)
def _window_of_root(root, n_columns, window, short_list, fewest, counts, slots, graph, triples):
    """Number the partners in a window; how many there are so far, and where the next window begins, int32 both."""
    if cuda.threadIdx.x == 0:
        slots[1] = _I(NEVER)
    cuda.syncthreads()
    size, n_rows = _I(_WINDOW), _I(triples.settings[at.MOST_ROWS])
    beyond = _count_paths(root, _I(0), n_columns, window, size, short_list, graph, triples.ranks, counts)
    if cuda.laneid == 0 and beyond != NEVER:
        cuda.atomic.min(slots, 1, beyond)
    cuda.syncthreads()
    _number(min(size, _I(n_rows - window)), fewest, counts, slots)
    cuda.syncthreads()
    return slots[2], slots[1]


@cuda.jit(device=True, forceinline=True)
def _below_root(root, fewest, short_list, area, counts, small, slots, graph, triples):
    """Count the triples of a root.

    Parameters
    ----------
    root : int32
    fewest : int32
        Columns that rows have to share.
    short_list : uint32
        As `rank_windows.walk_with` says.
    area : (n_words,) uint32
        Has room for all masks or, where all later rows are one window, for a counter of each two partners and a part of
        the masks.
    counts : (_WINDOW,) int32, shared
        Zeros, before and afterwards.
    small : (_SMALL,) int32, shared
    slots : (3,) int32, shared
    graph : Graph
    triples : Triples
    """
    n_rows, n_partners = _I(triples.settings[at.MOST_ROWS]), triples.partners[root]
    n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
    n_words, start = _I((n_columns + 31) >> 5), _I(0)
    in_one = _L(n_partners) * _L(n_words) <= _L(area.size)
    if not in_one:
        start = _I(n_partners * (n_partners - 1) // 2)
        n_words = _I((_I(area.size) - start) // n_partners)
    end = _I(start + n_partners * n_words)
    fill(area, _I(0), end, _U(0))
    if cuda.threadIdx.x == 0:
        slots[2] = _I(0)
    n_found, window = _I(0), _I(triples.ranks[root] + 1)
    while window < n_rows and n_found < n_partners:
        n_known = n_found
        n_here = min(_I(_WINDOW), _I(n_rows - window))
        n_found, following = _window_of_root(root, n_columns, window, short_list, fewest, counts, slots, graph, triples)
        if n_found > n_known:
            first = _I(0)
            while first < n_columns:
                stop = min(n_columns, _I(first + 32 * n_words))
                marks = _Marks(counts, area, start, n_partners, first)
                _mark_paths(root, first, stop, window, _I(_WINDOW), short_list, graph, triples.ranks, marks)
                cuda.syncthreads()
                if not in_one:
                    _pairs(n_partners, n_words, start, True, stop == n_columns, fewest, area, small, triples.times)
                    cuda.syncthreads()
                    fill(area, start, end, _U(0))
                    cuda.syncthreads()
                first = stop
        fill(counts, _I(0), n_here, _I(0))
        window = following
        cuda.syncthreads()
    if in_one:
        _pairs(n_partners, n_words, start, False, True, fewest, area, small, triples.times)
    cuda.syncthreads()


@cuda.jit(device=True, forceinline=True)
def _head_bits(start, stop, window, short_list, graph, ranks):
    """Which of `_HEAD` ranks from `window` on are in each lane's list, uint64."""
    bits, lane = _W(0), _U(cuda.laneid)
    is_long = _U(stop - start) > short_list
    if not is_long:
        for place in range(start, stop):
            k = _I(ranks[graph.column_members[place]] - window)
            if k >= 0:
                bits |= _W(1) << _W(k)
    long_lists = ballot(is_long)
    while long_lists != 0:
        source = first_bit(long_lists)
        long_lists = _U(long_lists & _U(long_lists - _U(1)))
        position = _U(_U(cuda.shfl_sync(ALL, _I(start), source)) + lane)
        last = _U(cuda.shfl_sync(ALL, _I(stop), source))
        part = _W(0)
        while position < last:
            k = _I(ranks[graph.column_members[position]] - window)
            if k >= 0:
                part |= _W(1) << _W(k)
            position = _U(position + _U(32))
        cuda.syncwarp()
        low, high = or_all(_U(part)), or_all(_U(part >> _W(32)))
        if lane == source:
            bits = _W(_W(high) << _W(32)) | _W(low)
    cuda.syncwarp()
    return bits


@cuda.jit(device=True, forceinline=True)
def _mark_head(root, first, stop, window, n_partners, start, short_list, area, graph, ranks):
    """Write the masks of all later rows for the columns from `first` up to `stop`; a warp has 32 of them, a word each.

    Parameters
    ----------
    root : int32
    first, stop : int32
        Places of the root's list; 32 divides the first.
    window, n_partners : int32
        The first rank, and how many follow: at most `_HEAD`.
    start : int32
        Where masks begin in the area.
    short_list : uint32
    area : uint32, shared
    graph : Graph
    ranks : (n_rows,) int32, global
    """
    lane, n_warps = _I(cuda.laneid), _I(cuda.blockDim.x // WARP_SIZE)
    own = _U(graph.row_offsets[root])
    word = _I(cuda.threadIdx.x // WARP_SIZE)
    while first + 32 * word < stop:
        column = _I(first + 32 * word + lane)
        begin, end = _U(0), _U(0)
        if column < stop:
            member = graph.row_members[_U(own + _U(column))]
            begin, end = _U(graph.column_offsets[member]), _U(graph.column_offsets[member + 1])
        bits = _head_bits(begin, end, window, short_list, graph, ranks)
        number = _I(0)
        while number < n_partners:
            # The mask of the rank `number + lane` comes to this lane.
            mine = _U(0)
            for k in range(min(_I(WARP_SIZE), _I(n_partners - number))):
                mask = ballot(((bits >> _W(k)) & _W(1)) != _W(0))
                if lane == k:
                    mine = mask
            if number + lane < n_partners:
                area[start + word * n_partners + number + lane] = mine
            bits = _W(bits >> _W(WARP_SIZE))
            number = _I(number + WARP_SIZE)
        word = _I(word + n_warps)


@cuda.jit(device=True, forceinline=True)
def _below_head(root, fewest, short_list, area, small, graph, triples):
    """Count the triples of a root that at most `_HEAD` rows follow: each of these is a partner. As `_below_root`."""
    window = _I(triples.ranks[root] + 1)
    n_partners = _I(_I(triples.settings[at.MOST_ROWS]) - window)
    n_columns = _I(graph.row_offsets[root + 1] - graph.row_offsets[root])
    n_words, start = _I((n_columns + 31) >> 5), _I(0)
    in_one = n_partners * n_words <= _AREA
    if not in_one:
        start = _I(n_partners * (n_partners - 1) // 2)
        n_words = _I((_I(_AREA) - start) // n_partners)
        fill(area, _I(0), start, _U(0))
    first = _I(0)
    while first < n_columns:
        stop = min(n_columns, _I(first + 32 * n_words))
        _mark_head(root, first, stop, window, n_partners, start, short_list, area, graph, triples.ranks)
        cuda.syncthreads()
        n_here = _I((stop - first + 31) >> 5)
        _pairs(n_partners, n_here, start, not in_one, stop == n_columns, fewest, area, small, triples.times)
        cuda.syncthreads()
        first = stop


@kernel(_GRAPH, _TRIPLES, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR), seconds=8.0)
def count_triples_block_per_root(graph, triples):
    """Count the triples of a root and two later rows by the columns that they share, for roots that nobody has taken.

    Parameters
    ----------
    graph : Graph
        Its positions are not read.
    triples : Triples
        With the partners of the roots.
    """
    counts = cuda.shared.array(_WINDOW, types.int32)
    area = cuda.shared.array(_AREA, types.uint32)
    small = cuda.shared.array(_SMALL, types.int32)
    slots = cuda.shared.array(3, types.int32)
    thread = _I(cuda.threadIdx.x)
    deadline = _L(global_nanoseconds() + triples.settings[at.QUANTUM_NS])
    fewest, short_list = _I(triples.settings[at.FEWEST_COLUMNS]), _U(triples.settings[at.NARROW])
    n_scratch = _I(triples.scratch.size // cuda.gridDim.x)
    fill(counts, _I(0), _I(_WINDOW), _I(0))
    fill(small, _I(0), _I(_SMALL), _I(0))
    n_counted = _L(0)
    while True:
        if thread == 0:
            slots[0] = next_root(graph.order, deadline, triples.control)
        cuda.syncthreads()
        root = slots[0]
        if root < 0:
            break
        n_partners = triples.partners[root]
        n_pairs = _L(_L(n_partners) * _L(n_partners - 1) // _L(2))
        n_words = _L((graph.row_offsets[root + 1] - graph.row_offsets[root] + _L(31)) >> _L(5))
        n_later = _L(triples.settings[at.MOST_ROWS] - triples.ranks[root] - 1)
        n_counted = _L(n_counted + n_pairs)
        if n_counted >= _FLUSH_FROM:
            flush(small, triples.times)
            n_counted = n_pairs
        if n_later <= _HEAD:
            _below_head(root, fewest, short_list, area, small, graph, triples)
        elif _scratch_words(_L(n_partners), n_words, n_later) == 0:
            _below_root(root, fewest, short_list, area, counts, small, slots, graph, triples)
        else:
            first = _L(cuda.blockIdx.x) * _L(n_scratch)
            scratch = triples.scratch[first : first + n_scratch]
            _below_root(root, fewest, short_list, scratch, counts, small, slots, graph, triples)
    flush(small, triples.times)
