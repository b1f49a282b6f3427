"""Memory of the tree walk, by scope: the graph (shared, read only), a worker (one thread), its output.

Right vertices are *rows*, in enumeration order; left vertices are *columns*. The subtree of row ``i`` holds the maximal
bicliques whose first row is ``i``: later rows are its candidates, earlier ones are excluded.

Pieces of the arenas are passed as an array and two positions. Everything is compiled with ``_nrt=False``: no reference
counts, whose atomic updates cost as much as the work on a small node, and no way to allocate; the caller's arrays stay
alive for the whole call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import boolean, int64, types

from mbe_stage.runtime.jit import INTS as _INTS
from mbe_stage.runtime.jit import LONGS as _LONGS
from mbe_stage.runtime.jit import WORDS as _WORDS
from mbe_stage.runtime.jit import compiled
from mbe_stage.search.cpu.quanta import OK


class WorkerState(NamedTuple):
    """One thread's state; everything a quantum needs to resume the last one.

    Attributes
    ----------
    frames : (max_depth, FRAME_FIELDS) int64
        The stack: one frame per open node.
    ints, words : int32, uint64
        Arenas; frames own consecutive pieces, the deepest one last.
    path : (n_rows + 1,) int32
        The right members collected on the way down.
    bits : (n_rows + 1,) uint64
        Scratch, all zero between two children.
    nonzero : (n_rows + 1,) int32
        Scratch: which entries of `bits` or `counts` are in use.
    counts : (n_rows + 1,) int32
        Scratch, all zero between two children.
    masks : (6,) uint64
        Scratch: groups of columns.
    control : (CONTROL_FIELDS,) int64
    """

    frames: np.ndarray
    ints: np.ndarray
    words: np.ndarray
    path: np.ndarray
    bits: np.ndarray
    nonzero: np.ndarray
    counts: np.ndarray
    masks: np.ndarray
    control: np.ndarray


class Sizes(NamedTuple):
    """Wanted sizes, and buffers for those of found bicliques. Wanted sizes count whole groups of twins.

    Attributes
    ----------
    left_multiplicities, right_multiplicities : int32
        The user's vertices behind each vertex of the reduced graph.
    constraints : (6,) int64
        ``(active, min_left, min_right, max_left, max_right, min_edges)``.
    left_sizes, right_sizes : int32
        Sizes in the reduced graph where members are written, too; otherwise the user's, or empty to count alone. A side
        whose members are not written has the user's.
    weighs_columns : bool
        True if the number of left vertices matters.
    least_in_words : int
        `min_left` where it takes a look at a row of several columns, else 1: single columns that are too few are taken
        for excluded rows.
    are_exact : bool
        True if minimum sizes of the two sides are not all: the size of each biclique has to be known.
    most_out : int
        Where only sizes are written, a child is visited if there are at most so many before.
    """

    left_multiplicities: np.ndarray
    right_multiplicities: np.ndarray
    constraints: np.ndarray
    left_sizes: np.ndarray
    right_sizes: np.ndarray
    weighs_columns: bool
    least_in_words: int
    are_exact: bool
    most_out: int


class Output(NamedTuple):
    """Buffers for the members of found bicliques, in ids of the reduced graph; an empty `left` takes no left ones."""

    left: np.ndarray
    right: np.ndarray


# Their types in compiled code.
WORKER_STATE = types.NamedTuple(
    (int64[:, ::1], _INTS, _WORDS, _INTS, _WORDS, _INTS, _INTS, _WORDS, _LONGS), WorkerState
)
SIZES = types.NamedTuple((_INTS, _INTS, _LONGS, _INTS, _INTS, boolean, int64, boolean, int64), Sizes)
# Numba types a tuple of equal types so: with another name, the walk would be compiled again at its first call.
OUTPUT = types.NamedUniTuple(_INTS, 2, Output)


class Child(NamedTuple):
    """A child of a subgraph while it is visited: positions in `node`, the array that holds the node.

    ``node[left_at:left_end]`` is its left set, in the node's columns; they stand for `n_left` of the user's vertices,
    and where members are wanted, `n_ids` left vertices stand behind them. The node's parts are those of
    `subgraph_parts`.
    """

    node: np.ndarray
    column_weights: int
    column_starts: int
    row_ids: int
    column_offsets: int
    column_members: int
    column_ids: int
    row: int
    left_at: int
    left_end: int
    n_left: int | np.int64
    n_ids: int | np.int64
    depth: int


class KeptColumns(NamedTuple):
    """The part of a child's left set that stays, ``columns[first : first + n]``, columns of the subgraph.

    The new column of the k-th, one of `n_new`, stands at ``ints[groups + k]``; where `groups` is negative it is k.
    """

    columns: np.ndarray
    first: int
    n: int | np.int64
    n_new: int | np.int64
    groups: int


class Collected(NamedTuple):
    """Columns that `merged_columns.collect_columns` leaves in the scratch of ints, from `scratch` to `end`.

    Attributes
    ----------
    n_columns, n_kept : int
        New columns, and for how many of the parent's they stand.
    twice, thrice : uint64
        Those that stand for two of the parent's at least, and for three, if they fit a word.
    """

    scratch: int
    end: int
    n_columns: int
    n_kept: int
    twice: np.uint64
    thrice: np.uint64


class Excluded(NamedTuple):
    """The excluded rows of a bitset frame's child: two pieces of the arena of words, and single columns in one word.

    The second piece holds the earlier siblings.
    """

    start: int
    end: int
    singles: np.uint64
    siblings: int
    siblings_end: int


class Columns(NamedTuple):
    """The columns of bitset frames, at ``ints[at]``: weights, and where members are wanted, starts and ids.

    In the word `heavy` are those that stand for several of the user's left vertices, in `wide` those that stand for
    `min_left` or more: both are 0 where sizes are not checked.
    """

    at: int
    heavy: np.uint64
    wide: np.uint64


class Weighed(NamedTuple):
    """Rows that say how many right vertices the bicliques below a node have, where only sizes are wanted.

    The biclique of a left set has `n_path` of them, and those behind each row of ``words[start:end]`` that holds it;
    these numbers are the weights, from ``ints[weights]`` on.
    """

    start: int
    end: int
    weights: int
    n_path: int


class Behind(NamedTuple):
    """The right vertices behind rows, as positions in the arena of ints.

    The payload of a row stands at ``ints[payload + k]``. If only sizes are wanted, it is a number of right vertices,
    which `Weighed` rows alone have. If members are, it is the right vertex itself where
    `groups` is `NO_GROUPS`; otherwise the number ``p`` of a group, whose ids stand, counted from `ids`, between
    ``ints[groups + p]`` and ``ints[groups + p + 1]``.
    """

    payload: int
    groups: int
    ids: int


# Fields of a frame.
KIND = 0
FIRST = 1  # first child of this task
CURSOR = 2  # next child
END = 3  # one past the last child of this task
N_ROWS = 4  # sparse: all local rows; word: candidate rows
N_EXCLUDED = 5  # sparse: the first rows; word: those behind the candidates
SINGLES = 6  # word: the columns that an excluded row or an earlier child holds
N_COLUMNS = 7  # sparse: local columns
INTS = 8  # first entry in the arena of ints
INTS_TOP = 9  # one past the last
WORDS = 10  # sparse: a word per column, which of the last 64 candidates hold it; of the whole graph once it is needed
WORDS_TOP = 11
N_PATH = 12  # right members on the path, this node's included: rows, or if none are collected, the user's vertices
COLUMNS = 13  # word: where its columns stand in the arena of ints, as `Columns` says
HEAVY = 14
WIDE = 15
WEIGHED = 16  # word: its `Weighed` rows, whose weights begin at INTS; its own if they begin at WORDS
WEIGHED_END = 17
WEIGHED_PATH = 18
FRAME_FIELDS = 19

# Kinds of nodes. The whole graph is a subgraph in an array of its own.
WHOLE_GRAPH = 0
SUBGRAPH = 1
BITSET = 2

# A subgraph is, one behind the other: column weights, column starts, row ids (excluded rows first), row offsets, column
# offsets, row members, column members, column ids. Starts and offsets count from 0. Column c stands for as many of the
# user's left vertices as its weight says, those behind ``column_ids[column_starts[c]:column_starts[c + 1]]``, which
# below the whole graph are there only if members are asked for.


def subgraph_parts(n_rows: int, n_columns: int, n_edges: int) -> tuple[int, int, int, int, int, int]:
    """Offsets of row ids, row offsets, column offsets, row members, column members and column ids of a subgraph.

    Column weights begin at 0, and column starts behind the last of them.
    """
    row_ids = 2 * n_columns + 1
    row_offsets = row_ids + n_rows
    column_offsets = row_offsets + n_rows + 1
    row_members = column_offsets + n_columns + 1
    column_members = row_members + n_edges
    return row_ids, row_offsets, column_offsets, row_members, column_members, column_members + n_edges


def without_ids(node: np.ndarray, n_columns: int) -> np.ndarray:
    """Return a copy of a subgraph whose columns have no ids."""
    node = node.copy()
    node[n_columns : 2 * n_columns + 1] = 0
    return node


# Fields of the control array.
DEPTH = 0  # index of the deepest frame; -1 when the task is done
COUNT = 1  # bicliques found since the host last looked
N_OUT = 2  # bicliques in the output
LEFT_USED = 3
RIGHT_USED = 4
NEEDED = 5  # how many entries the arena that is short must have
WORK = 6  # elementary steps in this quantum, the same in all walks; written members are some, too
VISITED = 7  # children visited, those finished without a frame included
CONTROL_FIELDS = 8

WORD_BITS = 64
# From the weights of a bitset frame's 64 columns to their 65 starts, and to the ids.
COLUMN_STARTS = WORD_BITS
COLUMN_IDS = COLUMN_STARTS + WORD_BITS + 1

# The payload of a row is the right vertex itself, not a group of them.
NO_GROUPS = -1

# Statuses at the end of a quantum, besides those of `mbe_stage.search.cpu.quanta`.
INTS_SHORT = 4
WORDS_SHORT = 5
FRAMES_SHORT = 6


@compiled(nrt=False, inlined=True)
def shortage(n_words, n_ints, worker):
    """The status of an arena with fewer entries than these, or ``OK``."""
    if n_words > worker.words.size:
        worker.control[NEEDED] = n_words
        return WORDS_SHORT
    if n_ints > worker.ints.size:
        worker.control[NEEDED] = n_ints
        return INTS_SHORT
    return OK
