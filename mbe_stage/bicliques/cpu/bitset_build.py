"""Building a bitset frame from raw candidate rows: sort, merge, drop what is dominated, restrict what is excluded."""

from __future__ import annotations

import numpy as np
from numba import njit

from mbe_stage.bicliques.constraints import ACTIVE
from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.bounds import is_hopeless, path_multiplicity, word_multiplicity
from mbe_stage.bicliques.cpu.row_words import (
    drop_dominated,
    drop_dominated_with_payload,
    merge_equal,
    restrict_distinct,
    sort_rows,
    sort_rows_with_payload,
    table_size,
)
from mbe_stage.bicliques.cpu.techniques import DOMINATED
from mbe_stage.jit import compiled

_U = np.uint64


@compiled(nrt=False)
def push_bitset_frame(top, raw_end, excluded, behind, n_path, columns_at, worker, output):
    """Make a frame from the raw candidate rows ``words[top:raw_end]``, unless nothing can come of it.

    The arena must have room for the rows, all excluded ones and their hash table. What is behind the rows is used only
    where members are wanted; the arena of ints is free behind the payload.

    Parameters
    ----------
    top : int
        Where the arena of words is free.
    raw_end : int
        One past the last of the rows, which begin at `top`.
    n_path : int
        Right members on the path.
    columns_at : int
        Where starts and ids of the columns stand in the arena of ints.
    """
    words, control, frames = worker.words, worker.control, worker.frames
    depth = control[at.DEPTH]
    ints_start = ints_top = behind.payload
    multiplicity = 0
    kept_end = raw_end
    # Two thirds of the rows are dominated: looking at each is cheaper than sorting them all.
    if output is None:
        if DOMINATED:
            kept_end = drop_dominated(words, top, raw_end, excluded)
        sort_rows(words, top, kept_end)
        kept_end = merge_equal(words, top, kept_end)
        if DOMINATED and kept_end == top + 1:
            control[at.COUNT] += 1
            return
    else:
        if DOMINATED:
            kept_end = drop_dominated_with_payload(words, top, raw_end, excluded, worker.ints, behind.payload)
        sort_rows_with_payload(words, top, kept_end, worker.ints, behind.payload)
        kept_end, ints_start, ints_top, multiplicity = _merge_into_groups(top, kept_end, behind, worker, output)
    # Every left set below lies inside some candidate, so excluded rows only matter in what the candidates cover.
    union = _U(0)
    for k in range(top, kept_end):
        union |= words[k]
    if output is not None and output.constraints[ACTIVE]:
        right_least = path_multiplicity(worker.path, n_path, output.right_multiplicities)
        left_most = word_multiplicity(union, columns_at, worker.ints, output.left_multiplicities)
        if is_hopeless(left_most, right_least, right_least + multiplicity, output.constraints):
            return
    if kept_end == top:
        return
    n_all = excluded.end - excluded.start + excluded.siblings_end - excluded.siblings
    table_at = kept_end + n_all
    table_end = table_at + table_size(n_all)
    words[table_at:table_end] = _U(0)
    singles = excluded.singles & union
    end, singles = restrict_distinct(
        words, excluded.start, excluded.end, union, kept_end, kept_end, singles, table_at, table_end
    )
    end, singles = restrict_distinct(
        words, excluded.siblings, excluded.siblings_end, union, kept_end, end, singles, table_at, table_end
    )
    depth += 1
    frames[depth, at.KIND] = at.BITSET
    frames[depth, at.FIRST] = 0
    frames[depth, at.CURSOR] = 0
    frames[depth, at.END] = kept_end - top
    frames[depth, at.N_ROWS] = kept_end - top
    frames[depth, at.N_EXCLUDED] = end - kept_end
    frames[depth, at.SINGLES] = np.int64(singles)
    frames[depth, at.WORDS] = top
    frames[depth, at.WORDS_TOP] = end
    frames[depth, at.INTS] = ints_start
    frames[depth, at.INTS_TOP] = ints_top
    frames[depth, at.COLUMNS] = columns_at
    frames[depth, at.N_PATH] = n_path
    control[at.DEPTH] = depth


@njit(inline="always")
def _merge_into_groups(top, end, behind, worker, output):
    """Merge equal (sorted) rows, and gather the right vertices behind each that is left.

    Returns
    -------
    kept_end, ints_start, ints_top, multiplicity : int
        The end of the rows, where their groups begin in the arena of ints, where they end, and how many of the user's
        right vertices they hold.
    """
    words, ints = worker.words, worker.ints
    n_rows = end - top
    starts_at = behind.payload + n_rows
    new_ids_at = starts_at + n_rows + 1
    kept_end = top
    n_ids = 0
    multiplicity = 0
    for k in range(top, end):
        if k == top or words[k] != words[kept_end - 1]:
            words[kept_end] = words[k]
            ints[starts_at + kept_end - top] = n_ids
            kept_end += 1
        number = ints[behind.payload + k - top]
        if behind.groups == at.NO_GROUPS:
            ints[new_ids_at + n_ids] = number
            multiplicity += output.right_multiplicities[number]
            n_ids += 1
            continue
        group = behind.groups + number
        for j in range(behind.ids + ints[group], behind.ids + ints[group + 1]):
            ints[new_ids_at + n_ids] = ints[j]
            multiplicity += output.right_multiplicities[ints[j]]
            n_ids += 1
    # The ids must stand right behind the starts: move them down over the unused ones.
    n_kept = kept_end - top
    ints[starts_at + n_kept] = n_ids
    final_ids_at = starts_at + n_kept + 1
    for j in range(n_ids):
        ints[final_ids_at + j] = ints[new_ids_at + j]
    return kept_end, starts_at, final_ids_at + n_ids, multiplicity
