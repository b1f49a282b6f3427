"""Filter, reorder and transpose adjacency arrays, in linear time and with ascending rows."""

from __future__ import annotations

import numpy as np

from mbe_stage.runtime.jit import FLAGS, INTS, LONGS, compiled, steps_in

compile_steps = steps_in(__name__)


@compiled(LONGS, INTS, FLAGS, FLAGS, LONGS)
def filtered(offsets, members, kept_rows, kept_members, new_ids):
    """Return the kept rows with their kept members, under new ids.

    Parameters
    ----------
    offsets : (n_rows + 1,) int64
    kept_rows : (n_rows,) bool
    kept_members : (n_members,) bool
    new_ids : (n_members,) integers
        New ids, ascending over the kept members so that rows stay ascending.

    Returns
    -------
    offsets : (n_kept_rows + 1,) int64
    """
    n_kept_rows = 0
    for i in range(kept_rows.size):
        n_kept_rows += kept_rows[i]
    new_offsets = np.zeros(n_kept_rows + 1, np.int64)
    new_members = np.empty(members.size, np.int32)
    id_of = np.empty(new_ids.size, np.int32)
    for k in range(new_ids.size):
        id_of[k] = new_ids[k] if kept_members[k] else -1
    row, written = 0, np.uint64(0)
    for i in range(kept_rows.size):
        if not kept_rows[i]:
            continue
        # No branch on kept members, since it would be unpredictable.
        for k in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            new_id = id_of[np.uint64(members[k])]
            new_members[written] = new_id
            written += np.uint64(new_id >= 0)
        row += 1
        new_offsets[row] = written
    return new_offsets, new_members[:written].copy()


@compiled(LONGS, INTS, LONGS)
def reordered(offsets, members, order):
    """Reorder the rows: row ``i`` is the former ``order[i]``; return new offsets and members."""
    new_offsets, new_members = np.zeros(order.size + 1, np.int64), np.empty(members.size, np.int32)
    for i in range(order.size):
        start, new_start = np.uint64(offsets[order[i]]), np.uint64(new_offsets[i])
        new_offsets[i + 1] = new_offsets[i] + offsets[order[i] + 1] - offsets[order[i]]
        for k in range(np.uint64(new_offsets[i + 1]) - new_start):
            new_members[new_start + k] = members[start + k]
    return new_offsets, new_members


@compiled(LONGS, INTS, LONGS)
def transposed(offsets, members, column_offsets):
    """Return the rows of each column, ascending, ``(n_entries,) int32``; `column_offsets` are the columns' offsets."""
    ends, rows = column_offsets[:-1].copy(), np.empty(members.size, np.int32)
    for row in range(offsets.size - 1):
        for k in range(np.uint64(offsets[row]), np.uint64(offsets[row + 1])):
            column = np.uint64(members[k])
            rows[np.uint64(ends[column])] = row
            ends[column] += 1
    return rows
