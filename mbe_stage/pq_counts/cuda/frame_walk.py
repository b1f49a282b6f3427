"""Walk a frame: at most 64 rows and 64 columns of one warp, in shared memory.

Each lane has two rows and two columns in registers. A node is two masks, of its rows and of its columns, with the
numbers of its held and optional vertices. It is reduced first: vertices adjacent to everything become optional, and
vertices with too few neighbours are dropped. Then the pivot is the row (or column) that misses the fewest columns
(rows). There is a child for each missed vertex, which holds it and has no earlier missed vertex. The last child has no
missed vertex, and the pivot is optional (node pivots: Ye et al., arXiv 2412.16485, section 3). Nodes with at most two
rows or columns, or with one more vertex to choose, are counted as leaves without children.

Stack entries can also become nodes that any warp can continue, in this quantum or in the next one.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.device.grid import this_warp
from mbe_stage.device.masks import bit_of, first_of, has, low_bits, nth_of, size_of, voted
from mbe_stage.device.warp import ALL, max_all
from mbe_stage.pq_counts.cuda import layout
from mbe_stage.pq_counts.cuda.layout import Chosen
from mbe_stage.pq_counts.cuda.leaves import chosen_of, count_leaves, is_wanted, key_of, reserve_slots
from mbe_stage.pq_counts.cuda.techniques import DONATION
from mbe_stage.search.cuda.nodes import quantum_is_over, stack_entries_with, warps_are_waiting

_KEY = (1 << layout.KEY_BITS) - 1
OPEN, NOTHING, ONE_LEAF, BY_ROWS, BY_COLUMNS = range(5)
"""Kinds of nodes (`kind_of_end`)."""
_LOOK_EVERY = 32
_I = np.int32


@cuda.jit(device=True, forceinline=True)
def write_frame(pool_offset, frame, work):  # noqa: ARG001 - it stands in shared memory
    """Copy rows and columns of the frame into the pool."""
    own, words = work.own, work.device.words
    k = np.int64(cuda.laneid)
    for _ in range(layout.STACK // 32):
        mask = own.frame[own.frame_at + k]
        words[pool_offset + 2 * k] = np.uint32(mask & np.uint64(0xFFFFFFFF))
        words[pool_offset + 2 * k + 1] = np.uint32(mask >> np.uint64(32))
        k += 32


@cuda.jit(device=True, forceinline=True)
def _frame_words(frame):  # noqa: ARG001 - all frames have the same size
    return layout.MATRIX_WORDS


@cuda.jit(device=True, forceinline=True)
def _write_entry(node, entry, frame, work):  # noqa: ARG001
    """Write a stack entry as a node; return the number of its remaining children, int32."""
    own, nodes = work.own, work.device.nodes
    place = own.frame_at + layout.STACK + entry * layout.ENTRY_WORDS
    rows, columns, missing, tag = own.frame[place], own.frame[place + 1], own.frame[place + 2], own.frame[place + 3]
    if cuda.laneid == 0:
        nodes[node, layout.KEY] = np.int64(np.uint64(tag & np.uint64(_KEY)))
        nodes[node, layout.PIVOT] = np.int64(tag >> np.uint64(layout.KEY_BITS))
        nodes[node, layout.KIND] = np.int64(layout.IS_FRAME)
        nodes[node, layout.ROW_MASK] = np.int64(rows)
        nodes[node, layout.COLUMN_MASK] = np.int64(columns)
        nodes[node, layout.MISSING] = np.int64(missing)
    cuda.syncwarp()
    return _I(size_of(missing) + 1)


@cuda.jit(device=True, forceinline=True)
def _pool_offset_of(settings):
    """Return the pool offset of this warp's own words, which its current frame uses; int64."""
    return np.int64(settings[layout.POOL_LIMIT] + np.int64(this_warp()) * np.int64(layout.MATRIX_WORDS))


share_entry, keep_entries = stack_entries_with(_frame_words, write_frame, _write_entry, _pool_offset_of)


@cuda.jit(device=True, forceinline=True)
def open_entry(node, child, own, device, bounds):
    """Load the frame of a node into shared memory; return one of the node's children.

    Parameters
    ----------
    node, child : int32

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    pool_offset : int64
        Offset of the frame in the pool.
    """
    fields = device.nodes[node]
    pool_offset = fields[layout.OFFSET]
    cuda.syncwarp()
    k = np.int64(cuda.laneid)
    for _ in range(layout.STACK // 32):
        low, high = device.words[pool_offset + 2 * k], device.words[pool_offset + 2 * k + 1]
        own.frame[own.frame_at + k] = np.uint64(np.uint64(np.uint64(high) << np.uint64(32)) | np.uint64(low))
        k += 32
    cuda.syncwarp()
    rows, columns, missing = (
        np.uint64(fields[layout.ROW_MASK]),
        np.uint64(fields[layout.COLUMN_MASK]),
        np.uint64(fields[layout.MISSING]),
    )
    pivot = _I(fields[layout.PIVOT])
    chosen = chosen_of(fields[layout.KEY], bounds)
    held_rows, optional_rows = chosen.held_rows, chosen.optional_rows
    held_columns, optional_columns = chosen.held_columns, chosen.optional_columns
    by_columns = pivot < 64
    if child == size_of(missing):
        if by_columns:
            rows = np.uint64(rows & ~bit_of(pivot))
            columns = np.uint64(columns & ~missing)
            optional_rows = _I(optional_rows + 1)
        else:
            columns = np.uint64(columns & ~bit_of(_I(pivot & 63)))
            rows = np.uint64(rows & ~missing)
            optional_columns = _I(optional_columns + 1)
    else:
        member = nth_of(missing, child)
        gone = np.uint64(missing & low_bits(_I(member + 1)))
        if by_columns:
            columns = np.uint64(columns & ~gone)
            rows = np.uint64(rows & own.frame[own.frame_at + layout.FRAME_COLUMNS + member])
            held_columns = _I(held_columns + 1)
        else:
            rows = np.uint64(rows & ~gone)
            columns = np.uint64(columns & own.frame[own.frame_at + member])
            held_rows = _I(held_rows + 1)
    return rows, columns, Chosen(held_rows, optional_rows, held_columns, optional_columns), pool_offset


@cuda.jit(device=True, forceinline=True)
def kind_of_end(rows, columns, chosen, bounds):
    """Classify a node: open, empty, one leaf, or leaves for its rows or columns."""
    n_rows, n_columns = size_of(rows), size_of(columns)
    end = OPEN
    if (
        chosen.held_rows + chosen.optional_rows + n_rows < bounds.fewest_rows
        or chosen.held_columns + chosen.optional_columns + n_columns < bounds.fewest_columns
    ):
        end = NOTHING
    elif (
        n_rows == 0
        or n_columns == 0
        or chosen.held_rows == bounds.most_rows
        or chosen.held_columns == bounds.most_columns
    ):
        end = ONE_LEAF
    elif n_rows <= 2 or chosen.held_rows == bounds.most_rows - 1:
        end = BY_ROWS
    elif n_columns <= 2 or chosen.held_columns == bounds.most_columns - 1:
        end = BY_COLUMNS
    return end


@cuda.jit(device=True, forceinline=True)
def _one_leaf(rows, columns, chosen, bounds):
    """Return the leaf of a node without rows or columns, or with all wanted vertices of a side held."""
    optional_rows = _I(chosen.optional_rows + size_of(rows))
    optional_columns = _I(chosen.optional_columns + size_of(columns))
    if chosen.held_rows == bounds.most_rows:
        optional_rows = _I(0)
    if chosen.held_columns == bounds.most_columns:
        optional_columns = _I(0)
    return Chosen(chosen.held_rows, optional_rows, chosen.held_columns, optional_columns)


@cuda.jit(device=True, forceinline=True)
def _with_members(chosen, n_more, n_others, by_rows, bounds):
    """Return the leaf with `n_more` more rows held, and `n_others` optional columns; or the other way round."""
    held_rows, optional_rows = chosen.held_rows, chosen.optional_rows
    held_columns, optional_columns = chosen.held_columns, chosen.optional_columns
    if by_rows:
        held_rows = _I(held_rows + n_more)
        optional_columns = _I(optional_columns + n_others)
        if held_rows == bounds.most_rows:
            optional_rows = _I(0)
    else:
        held_columns = _I(held_columns + n_more)
        optional_rows = _I(optional_rows + n_others)
        if held_columns == bounds.most_columns:
            optional_columns = _I(0)
    return Chosen(held_rows, optional_rows, held_columns, optional_columns)


@cuda.jit(device=True, forceinline=True)
def leaf_of_lane(part, end, rows, columns, chosen, own, bounds):
    """Return this lane's leaf in one of three rounds, and True if it has one.

    Parameters
    ----------
    part : int
        Round: 0 and 1 for the leaf that holds this lane's first or second row (or column); 2 for the leaves that hold
        none, or two.
    end : int
    rows, columns : uint64
    """
    lane = _I(cuda.laneid)
    if end == ONE_LEAF:
        leaf = _one_leaf(rows, columns, chosen, bounds)
        return part == 0 and lane == 0, leaf
    by_rows = end == BY_ROWS
    members, others, members_at = columns, rows, _I(own.frame_at + layout.FRAME_COLUMNS)
    most_held, held = bounds.most_columns, chosen.held_columns
    if by_rows:
        members, others, members_at = rows, columns, own.frame_at
        most_held, held = bounds.most_rows, chosen.held_rows
    n_more = _I(0)
    met = others
    is_leaf = lane == 0
    if part < 2:
        member = _I(lane + 32 * part)
        n_more = _I(1)
        is_leaf = has(members, member)
        met = np.uint64(others & own.frame[members_at + member])
    elif lane == 1:
        n_more = _I(2)
        is_leaf = size_of(members) == 2 and held + 2 <= most_held
        first = first_of(members)
        second = first_of(np.uint64(members & np.uint64(members - np.uint64(1))))
        met = np.uint64(others & own.frame[members_at + first])
        met = np.uint64(met & own.frame[members_at + max(second, _I(0))])
    return is_leaf, _with_members(chosen, n_more, size_of(met), by_rows, bounds)


@cuda.jit(device=True, forceinline=True)
def _count_end(end, rows, columns, chosen, own, device, bounds):
    """Count the leaves of a node; return the number of new signatures, int32.

    Parameters
    ----------
    end : int
    rows, columns : uint64
    """
    n_new = _I(0)
    for part in range(3):
        is_leaf, leaf = leaf_of_lane(part, end, rows, columns, chosen, own, bounds)
        is_leaf = is_leaf and is_wanted(leaf, bounds)
        if cuda.any_sync(ALL, is_leaf):
            n_new = _I(n_new + count_leaves(is_leaf, key_of(leaf, bounds), 1, device.keys, device.times))
    return n_new


@cuda.jit(device=True, forceinline=True)
def reduced(rows, columns, chosen, bounds, mine):
    """Drop rows and columns that are adjacent to all, or to too few; return the rest, and this lane's best pivots.

    Parameters
    ----------
    rows, columns : uint64
    mine : four uint64
        The two rows and the two columns of this lane.

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    best_row, best_column : int32
        Number of remaining neighbours, times 64, plus the number of the row (column).
    full_rows, full_columns : uint64
        Vertices adjacent to all.
    """
    lane = _I(cuda.laneid)
    n_rows, n_columns = size_of(rows), size_of(columns)
    fewest_columns = _I(bounds.fewest_columns - chosen.held_columns - chosen.optional_columns)
    fewest_rows = _I(bounds.fewest_rows - chosen.held_rows - chosen.optional_rows)
    best_row, best_column = _I(-1), _I(-1)
    is_row, is_high_row = has(rows, lane), has(rows, lane + 32)
    met, met_high = size_of(mine[0] & columns), size_of(mine[1] & columns)
    full_rows = voted(is_row and met == n_columns, is_high_row and met_high == n_columns)
    kept_rows = voted(
        is_row and met < n_columns and met >= fewest_columns,
        is_high_row and met_high < n_columns and met_high >= fewest_columns,
    )
    if has(kept_rows, lane):
        best_row = _I(met * 64 + lane)
    if has(kept_rows, lane + 32):
        best_row = max(best_row, _I(met_high * 64 + lane + 32))
    is_column, is_high_column = has(columns, lane), has(columns, lane + 32)
    met, met_high = size_of(mine[2] & rows), size_of(mine[3] & rows)
    full_columns = voted(is_column and met == n_rows, is_high_column and met_high == n_rows)
    kept_columns = voted(
        is_column and met < n_rows and met >= fewest_rows,
        is_high_column and met_high < n_rows and met_high >= fewest_rows,
    )
    if has(kept_columns, lane):
        best_column = _I(met * 64 + lane)
    if has(kept_columns, lane + 32):
        best_column = max(best_column, _I(met_high * 64 + lane + 32))
    chosen = Chosen(
        chosen.held_rows,
        _I(chosen.optional_rows + size_of(full_rows)),
        chosen.held_columns,
        _I(chosen.optional_columns + size_of(full_columns)),
    )
    return kept_rows, kept_columns, chosen, best_row, best_column, full_rows, full_columns


@cuda.jit(device=True, forceinline=True)
def _visit(rows, columns, chosen, own, device, bounds, mine):
    """Reduce a node, and count its leaves if it has no children.

    Parameters
    ----------
    rows, columns : uint64
    mine : four uint64
        The two rows and the two columns of this lane.

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    pivot : int32
        A row, or 64 plus a column; -1 if the node is done.
    n_new : int32
        Number of new leaf signatures.
    """
    pivot = _I(-1)
    n_new = _I(0)
    while True:
        end = kind_of_end(rows, columns, chosen, bounds)
        if end != OPEN:
            if end != NOTHING:
                n_new = _count_end(end, rows, columns, chosen, own, device, bounds)
            break
        n_before = _I(size_of(rows) + size_of(columns))
        rows, columns, chosen, best_row, best_column, _, _ = reduced(rows, columns, chosen, bounds, mine)
        n_rows, n_columns = size_of(rows), size_of(columns)
        if n_rows + n_columns == n_before:
            best_row, best_column = max_all(best_row), max_all(best_column)
            pivot = _I(best_row & 63)
            if n_columns - (best_row >> 6) > n_rows - (best_column >> 6):
                pivot = _I(64 + (best_column & 63))
            break
    return rows, columns, chosen, pivot, n_new


@cuda.jit(device=True, forceinline=True)
def _push(depth, rows, columns, key, pivot, own):
    """Push an open node on the stack.

    Parameters
    ----------
    depth : int
        Number of entries before.
    rows, columns : uint64
    key : int64
        Key of the held and optional vertices.
    pivot : int32
    """
    missing = np.uint64(rows & ~own.frame[own.frame_at + layout.FRAME_COLUMNS + (pivot & 63)])
    if pivot < 64:
        missing = np.uint64(columns & ~own.frame[own.frame_at + pivot])
    entry = own.frame_at + layout.STACK + depth * layout.ENTRY_WORDS
    cuda.syncwarp()
    if cuda.laneid == 0:
        own.frame[entry] = rows
        own.frame[entry + 1] = columns
        own.frame[entry + 2] = missing
        own.frame[entry + 3] = np.uint64(np.uint64(np.uint64(pivot) << np.uint64(layout.KEY_BITS)) | np.uint64(key))
    cuda.syncwarp()


@cuda.jit(device=True, forceinline=True)
def _next_child(depth, own, bounds):
    """Return the next child of the top entry, which is popped with its last child.

    Returns
    -------
    rows, columns : uint64
    chosen : Chosen
    depth : int32
    """
    entry = own.frame_at + layout.STACK + (depth - 1) * layout.ENTRY_WORDS
    rows, columns, missing, tag = own.frame[entry], own.frame[entry + 1], own.frame[entry + 2], own.frame[entry + 3]
    cuda.syncwarp()
    pivot = _I(tag >> np.uint64(layout.KEY_BITS))
    chosen = chosen_of(np.int64(np.uint64(tag & np.uint64((1 << layout.KEY_BITS) - 1))), bounds)
    member = first_of(missing)
    is_last = member < 0
    by_columns = pivot < 64
    if is_last:
        depth = _I(depth - 1)
        member = _I(pivot & 63)
        if by_columns:
            rows = np.uint64(rows & ~bit_of(member))
            chosen = Chosen(
                chosen.held_rows, _I(chosen.optional_rows + 1), chosen.held_columns, chosen.optional_columns
            )
        else:
            columns = np.uint64(columns & ~bit_of(member))
            chosen = Chosen(
                chosen.held_rows, chosen.optional_rows, chosen.held_columns, _I(chosen.optional_columns + 1)
            )
        return rows, columns, chosen, depth
    if cuda.laneid == 0:
        own.frame[entry + 2] = np.uint64(missing & ~bit_of(member))
    if by_columns:
        columns = np.uint64(columns & ~bit_of(member))
        if cuda.laneid == 0:
            own.frame[entry + 1] = columns
        rows = np.uint64(rows & own.frame[own.frame_at + layout.FRAME_COLUMNS + member])
        chosen = Chosen(chosen.held_rows, chosen.optional_rows, _I(chosen.held_columns + 1), chosen.optional_columns)
    else:
        rows = np.uint64(rows & ~bit_of(member))
        if cuda.laneid == 0:
            own.frame[entry] = rows
        columns = np.uint64(columns & own.frame[own.frame_at + member])
        chosen = Chosen(_I(chosen.held_rows + 1), chosen.optional_rows, chosen.held_columns, chosen.optional_columns)
    cuda.syncwarp()
    return rows, columns, chosen, depth


@cuda.jit(device=True, forceinline=True)
def walk_frame(rows, columns, chosen, pool_offset, n_reserved, work):
    """Count all leaves below a node. If the quantum ends earlier, the stack becomes nodes (`keep_entries`).

    Parameters
    ----------
    rows, columns : uint64
        Masks of the node in the frame in shared memory.
    pool_offset : int64
        As in `share_entry`.
    n_reserved : int32
        At least `VISIT_SLOTS`.

    Returns
    -------
    n_reserved : int32
    """
    own, device, launch = work.own, work.device, work.launch
    lane = cuda.laneid
    frame_at, bounds = own.frame_at, launch.bounds
    mine = (
        own.frame[frame_at + lane],
        own.frame[frame_at + lane + 32],
        own.frame[frame_at + lane + 64],
        own.frame[frame_at + lane + 96],
    )
    bottom = _I(0)
    depth = _I(0)
    steps = _I(0)
    while True:
        rows, columns, chosen, pivot, n_new = _visit(rows, columns, chosen, own, device, bounds, mine)
        n_reserved = _I(n_reserved - n_new)
        if pivot >= 0:
            _push(depth, rows, columns, key_of(chosen, bounds), pivot, own)
            depth = _I(depth + 1)
        steps = _I(steps + 1)
        if depth == bottom:
            break
        n_reserved = reserve_slots(layout.VISIT_SLOTS, n_reserved, device.control, device.settings)
        is_over = n_reserved < layout.VISIT_SLOTS
        if not is_over and (steps & (_LOOK_EVERY - 1)) == 0:
            is_over = quantum_is_over(device.control, launch.deadline)
            if not is_over and launch.techniques & DONATION != 0 and warps_are_waiting(device.control):
                pool_offset, is_shared = share_entry(bottom, pool_offset, None, work)
                if is_shared:
                    bottom = _I(bottom + 1)
                if depth == bottom:
                    break
        if is_over:
            keep_entries(bottom, depth, pool_offset, None, work)
            break
        rows, columns, chosen, depth = _next_child(depth, own, bounds)
    if cuda.laneid == 0:
        own.state[layout.N_VISITED] += np.int64(steps)
    return n_reserved
