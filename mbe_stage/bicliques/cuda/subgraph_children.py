"""Nodes with many left vertices, and the whole graph itself: a child is found by counting over its two-step paths.

Node generation and node check of GMBE+ (algorithm 1), with the traversed candidates Q that it leaves out and iMBEA
keeps (cuMBE, algorithm 3, lines 15 to 33): here they are the earlier rows.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from mbe_stage.bicliques.constraints import MIN_LEFT
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.bounds import allows, has_constraints, left_multiplicity, right_bounds
from mbe_stage.bicliques.cuda.emit_list import emit_list
from mbe_stage.bicliques.cuda.first_bitset_frame import count_small, open_bitset_frame
from mbe_stage.bicliques.cuda.kept_columns import MARK, walk_kept
from mbe_stage.bicliques.cuda.merged_columns import all_columns, keep_columns, no_columns
from mbe_stage.bicliques.cuda.sparse_accumulator import clear_accumulator, look_at_rows, no_rows
from mbe_stage.bicliques.cuda.subgraph_build import build_subgraph
from mbe_stage.bicliques.cuda.subgraph_parts import entry, node_at
from mbe_stage.bicliques.cuda.techniques import CLOSED_SETS, WORDS
from mbe_stage.bicliques.cuda.time_quantum import ask_to_stop
from mbe_stage.bicliques.cuda.two_pass_filter import mark_rows
from mbe_stage.bicliques.cuda.two_step_paths import count_paths
from mbe_stage.bicliques.cuda.walk_bundles import Child, Seen, Singles

_U = np.uint32


@cuda.jit(device=True, forceinline=True)
def visit_subgraph_child(number, row, own, pool, output, launch):
    """Visit a child of a subgraph; it may leave a bitset frame on the (empty) stack, or a new subgraph.

    Its rows are found, its sizes bounded; it is emitted, its columns are chosen, and it is opened.

    Parameters
    ----------
    number, row : int32
        Which subgraph, and which of its rows.

    Returns
    -------
    int
        `DONE`, or `PAUSED`: something was short, the child is to be visited again in the next quantum.
    """
    node = node_at(number, pool)
    child = _child_at(node, row, pool.ints)
    is_constrained = has_constraints(launch.mode, pool)
    left_most = left_multiplicity(node, child, pool) if is_constrained else np.int32(0)
    if is_constrained and left_most < pool.constraints[MIN_LEFT]:
        return at.DONE
    seen, n_pairs = _see_rows(node, child, own, pool.ints, launch)
    status = at.DONE
    columns = all_columns(child.n_left)
    rows = no_rows()
    is_hopeless = False
    if is_constrained:
        right_least, right_most = right_bounds(seen, node, child, own, pool)
        is_hopeless = not allows(left_most, right_least, right_most, pool)
    if is_hopeless:
        columns = no_columns()
    elif seen.is_list:
        rows = look_at_rows(child, seen.n_nonzero, n_pairs, own)
        status, columns = _visit_list_child(node, child, rows, own, pool, output, launch)
    else:
        if launch.mode > at.COUNTS and cuda.laneid < child.n_left:
            own.columns[_U(cuda.laneid)] = cuda.laneid
        cuda.syncwarp()
    if status == at.DONE:
        status = _open_child(node, child, columns, rows, seen, own, pool, launch)
    cuda.syncwarp()
    clear_accumulator(seen, own)
    if cuda.laneid == 0:
        # What is in the output already is not written again when a child that was short of something is visited again.
        if status == at.DONE:
            own.state[at.EMITTED] = 0
        if seen.is_list:
            own.state[at.N_LISTS] += 1
    cuda.syncwarp()
    return status


@cuda.jit(device=True, forceinline=True)
def _child_at(node, row, numbers):
    """The child of a row."""
    first = numbers[entry(node, node.row_offsets + row)]
    n_left = np.int32(numbers[entry(node, node.row_offsets + row + 1)] - first)
    return Child(row, _U(node.row_members + _U(first)), n_left)


@cuda.jit(device=True, forceinline=True)
def _see_rows(node, child, own, numbers, launch):
    """The rows that see a child, and of a list child how many paths lead to later ones."""
    is_list = child.n_left > (at.WORD_BITS if launch.techniques & WORDS != 0 else 0)
    singles = Singles(_U(0), _U(0))
    n_pairs = np.int32(0)
    if is_list:
        n_nonzero, n_pairs = count_paths(node, child, own, numbers, launch.mode)
    else:
        n_nonzero, singles = mark_rows(node, child, own, numbers, launch.mode)
    return Seen(is_list, n_nonzero, singles), n_pairs


@cuda.jit(device=True, forceinline=True)
def _open_child(node, child, columns, rows, seen, own, pool, launch):
    """Make a child a subgraph or a bitset frame; what is only counted, or is nothing, is finished at once.

    Parameters
    ----------
    columns : Columns
        Those that it keeps; none where nothing is below it.
    """
    if columns.n_columns > (at.WORD_BITS if launch.techniques & WORDS != 0 else 0):
        return build_subgraph(node, child, columns, rows, own, pool, launch)
    if columns.n_columns <= 0:
        return at.DONE
    if columns.n_columns <= (at.CLOSED_SET_WIDTH if launch.techniques & CLOSED_SETS != 0 else 0):
        n_below = count_small(child, columns.n_columns, seen, own)
        if launch.mode == at.COUNTS or n_below <= 0:
            if cuda.laneid == 0:
                own.state[at.FOUND] += n_below
                own.state[at.N_CLOSED_SETS] += 1
            return at.DONE
    return open_bitset_frame(node, child, columns.n_columns, seen, own, pool, launch)


@cuda.jit(device=True, forceinline=True)
def _visit_list_child(node, child, rows, own, pool, output, launch):
    """Write a list child unless an earlier row holds its whole left set, and find the columns below it.

    Where at most 32 are left, `bits` says which of them each row holds.
    """
    if rows.most_earlier == child.n_left:
        return at.DONE, no_columns()
    if own.state[at.EMITTED] == 0:
        if launch.mode == at.COUNTS:
            if cuda.laneid == 0:
                own.state[at.FOUND] += 1
        elif not emit_list(node, child, rows.n_nonzero, own, pool, output, launch):
            ask_to_stop(launch.control, at.OUTPUT_FULL)
            return at.PAUSED, no_columns()
        cuda.syncwarp()
        if cuda.laneid == 0:
            own.state[at.EMITTED] = 1
    columns = keep_columns(node, child, rows, own, pool.ints, launch.techniques)
    if launch.techniques & WORDS != 0 and 0 < columns.n_columns <= at.WORD_BITS:
        walk_kept(MARK, 1, node, columns, rows, node, child, own, pool.ints, launch.mode)
    return at.DONE, columns
