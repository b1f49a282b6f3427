"""Device memory of the walk, by scope.

The pool of subgraphs and the control block (all warps); a warp's state and arenas (one warp); its shared memory (one
warp, one launch); the output.

Right vertices are *rows*, left vertices are *columns*, as in the CPU engine. A node of the search tree is a *subgraph*
or a *bitset frame*. A subgraph is induced by the node's left set, in CSR with local numbers. A bitset frame has a word
for each row. A child of a subgraph whose left set fits a word is a *bitmap child*, another one a *list child*: its rows
are found by counting. This module needs no GPU library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mbe_stage.bicliques.constraints import ACTIVE
from mbe_stage.bicliques.results import Detail
from mbe_stage.device import LINE_WORDS


class Pool(NamedTuple):
    """Induced subgraphs in CSR, the whole graph being node 0.

    A node is written once, before its `END`, and never changes. Its segment of `ints` contains, in this order: offsets
    and ids of its columns' vertices, row ids, row offsets, column offsets, row members, column members, path, bitmaps
    of columns (`column_bitmaps`). Excluded rows come first; the cursor starts behind them. If only sizes are written,
    the offsets of the columns' vertices count the user's, and there are no ids but those of node 0.

    Attributes
    ----------
    ints : int32
    nodes : (max_nodes, NODE_FIELDS) int64
    cursors : (max_nodes,) int32
        Next child, taken with an atomic addition.
    order : (n_roots,) int32
        The children of node 0 that are taken, in this order; node 0 ends (`NODE_END`) behind the last.
    row_multiplicities, column_multiplicities : int32
        Number of the user's vertices that a row or column of the whole graph represents.
    constraints : 6 int64
        active, min_left, min_right, max_left, max_right, min_edges; columns are the left side. They are arguments of
        the kernel, so no warp loads them.
    prefixes : (PREFIX_ROWS + n_columns,) int64
        If the columns of node 0 are sorted (`column_order`): the user's left vertices in each of the last rows, and the
        word of each column, uint64. Otherwise a single entry, which means nothing.
    """

    ints: Any
    nodes: Any
    cursors: Any
    order: Any
    row_multiplicities: Any
    column_multiplicities: Any
    constraints: Any
    prefixes: Any


class Warps(NamedTuple):
    """One row per warp: the data to resume the last quantum, and scratch.

    Attributes
    ----------
    words : (n_warps, n) uint32
        Arena of the bitset frames: rows, excluded rows, rows of the superset. Scratch during the visit of a subgraph's
        child.
    ints : (n_warps, n) int32
        The header (see `HEADER_IDS`), then ids of the bitset frames' rows of the superset.
    frames : (n_warps, MAX_DEPTH, FRAME_FIELDS) int32
    state : (n_warps, STATE_FIELDS) int64
    own_nodes : (n_warps, MAX_OWN_NODES) int32
        The subgraphs that this warp made and has not seen exhausted.
    bits : (n_warps, n_rows) uint32
    counts : (n_warps, n_rows) int32
        Scratch, all zero between two children.
    nonzero : (n_warps, n_rows) int32
    columns : (n_warps, max_row_degree) int32
    idle_mask : (n_warps + 31) // 32 uint32
        Bit set: the warp may be given a task. The warp that clears the bit owns it.
    mailbox : (n_warps,) int32
        1: a task has been put into this (idle) warp's arena.
    """

    words: Any
    ints: Any
    frames: Any
    state: Any
    own_nodes: Any
    bits: Any
    counts: Any
    nonzero: Any
    columns: Any
    idle_mask: Any
    mailbox: Any


class Output(NamedTuple):
    """Found bicliques: a descriptor each, members in chunks. Unused descriptors have left size 0.

    Attributes
    ----------
    members : int32
        Left members and then right members, in ids of the reduced graph.
    starts : (n,) int64
    left_sizes, right_sizes : (n,) int32
    """

    members: Any
    starts: Any
    left_sizes: Any
    right_sizes: Any


WORD_BITS = 32
WALKING_WARPS_PER_BLOCK = 4
"""Warps per block of the walk: one on each of a multiprocessor's four partitions."""
MAX_DEPTH = 33
"""Most bitset frames on a stack: left sets shrink from 32 columns, by at least one per frame, and the first has one
child.
"""
MAX_OWN_NODES = 64
CLOSED_SET_WIDTH = 10
"""Most left vertices whose 1024 subsets fit the 32 lanes' words."""
TABLE_SIZE = 256
BITMAP_WORDS = 256
"""Two bitmaps of rows use the table's place at other times."""
ALIGNMENT = LINE_WORDS
"""Nodes begin on cache lines: no warp has a line cached before the node in it is complete."""
CHUNK_DESCRIPTORS = 64
MOST_KEY_ROWS = 64
"""Most candidates for merging columns: the candidates that hold a column are a key of two words."""
MOST_MERGED = 1 << 13
"""Most left vertices for merging columns: twice the number of groups plus a count fits an int32."""

MOST_BITMAP_WORDS = 256
"""Most words of a column's bitmap of rows: with more, lists of rows are read faster."""

PREFIX_ROWS = 64
"""Rows, the most frequent ones, that are bits of a column's word."""

NO_COLUMN = -1
"""Instead of a column of a left set that is not kept."""

# Fields of a node.
NODE_OFFSET, NODE_COLUMNS, NODE_ROWS, NODE_EDGES, NODE_PATH, NODE_END, NODE_IDS, NODE_SIZE, NODE_IS_OWNED = range(9)
NODE_ROOT = 9  # the row whose subtree it is in; node 0 has none
NODE_RIGHT = 10  # in `WITHIN`, fewest of the user's right vertices in its path
NODE_SHIFT = 11  # logarithm of the words of each column's bitmap of rows; 0 without bitmaps
NODE_FIELDS = 16

# Fields of a bitset frame.
CURSOR, END, N_ROWS, N_EXCLUDED, WORDS, WORDS_TOP = range(6)
SUPERSET, N_SUPERSET, SUPERSET_IDS, INTS_TOP, SINGLES, KIND = range(6, 12)
FRAME_FIELDS = 32
# Kinds of bitset frames: the first one of a bitmap child or of a list child, whose only child represents that child;
# and others.
OF_BITMAP, OF_LIST, BELOW = range(3)

# First entries of a warp's ints: for each column of its bitset frames, the first of its vertices among the header's
# ids, and the number of the user's vertices; then those ids. If only sizes are written, there are no ids.
HEADER_MULTIPLICITIES = WORD_BITS + 1
HEADER_IDS = HEADER_MULTIPLICITIES + WORD_BITS

# Fields of a warp's state.
DEPTH = 0  # deepest frame; -1 without one
PENDING_NODE = 1  # a child of a subgraph that is taken and not finished; -1 without one
PENDING_ROW = 2
EMITTED = 3  # bicliques of the unfinished child that are in the output already
ROOT = 4  # the row whose subtree a warp works in
N_OWN = 5
FOUND = 6
IDLE_NS = 7
BUSY_NS = 8
N_OPENED = 9
N_CLOSED_SETS = 10
N_LISTS = 11
N_DONATED = 12
BLOCK_IDLE_NS = 13  # idle time of its whole block, if this warp was the first to resume
IDLE_SINCE = 14
N_IDLE = 15  # of a block's first warp: how many of the block are idle
STATE_FIELDS = 16

# Control block, int32.
SIGNAL = 0  # number of idle warps, plus STOP_BIT once the quantum is to end
N_BUSY = 1
N_OPEN = 2  # subgraphs with children that are not taken
N_NODES = 3
LOW_NODE = 4  # all nodes before it are exhausted
STATUS = 5  # why the quantum ended, a mask of the bits below
CONTROL_FIELDS = 8
STOP_BIT = 1 << 30

# Control block, int64.
POOL_TOP = 0
MEMBERS_TOP = 1
DESCRIPTORS_TOP = 2
NEEDED_WORDS = 3
NEEDED_POOL = 4
NEEDED_MEMBERS = 5
QUANTUM_NS = 6
CHUNK_MEMBERS = 7
ALL_FOUND = 8  # bicliques counted so far by all warps; each adds its own at the end of a quantum
CONTROL_64_FIELDS = 9

# Status bits.
TIME_OVER = 1
OUTPUT_FULL = 2
WORDS_SHORT = 4
POOL_FULL = 8
NODES_FULL = 16

# Results of a visit.
DONE = 0
PAUSED = 1
PUSHED = 2

# Output modes of a kernel: only a count, a count within constraints, sizes, members, members within constraints.
# Columns of subgraphs have ids of vertices from `MEMBERS` on, and numbers of the user's vertices in the two before.
COUNT, WITHIN, SIZES, MEMBERS, CONSTRAINED = range(5)

# A warp's chunk of the output, in shared memory.
CHUNK_AT, CHUNK_END, DESCRIPTOR_AT, DESCRIPTOR_END = range(4)


def mode_of(detail: Detail, constraints: np.ndarray) -> int:
    """Output mode of the kernel (`COUNT` and so on) for a detail and size constraints.

    Parameters
    ----------
    constraints : (6,) int64
        As in `layout.Pool`.
    """
    if detail == Detail.SIZES:
        return SIZES
    if detail == Detail.COUNT:
        return WITHIN if constraints[ACTIVE] else COUNT
    return CONSTRAINED if constraints[ACTIVE] else MEMBERS
