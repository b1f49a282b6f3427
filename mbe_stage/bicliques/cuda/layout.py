"""What the walk keeps in device memory, by scope: the pool of sparse nodes and the control block (all warps), a warp's
state and arenas (one warp), its shared memory (one warp, one launch), the output.

Right vertices are *rows*, left vertices are *columns*, as in the CPU engine. This module needs no GPU library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.bicliques.constraints import ACTIVE, MAX_LEFT, MAX_RIGHT, MIN_EDGES, MIN_LEFT, MIN_RIGHT
from mbe_stage.device import WARP_SIZE

__all__ = ["ACTIVE", "MAX_LEFT", "MAX_RIGHT", "MIN_EDGES", "MIN_LEFT", "MIN_RIGHT", "WARP_SIZE"]
__all__ += ["Child", "Columns", "Node", "Output", "Own", "Pool", "Rows", "Singles", "Warps"]


class Pool(NamedTuple):
    """Sparse nodes, the whole graph being node 0. A node is written once, before its `END` is, and never changes.

    A node's piece of `ints` holds, one behind the other: offsets and ids of the vertices behind its columns, row ids,
    row offsets, column offsets, row members, column members, path. Excluded rows come first, the cursor starts behind.

    Attributes
    ----------
    ints : int32
    nodes : (max_nodes, NODE_FIELDS) int64
    cursors : (max_nodes,) int32
        Next child, taken with an atomic addition by whoever works on it.
    order : (n_roots,) int32
        Which children of node 0 are taken, and in which order; node 0 ends (`NODE_END`) behind the last.
    row_weights, column_weights : int32
        How many of the user's vertices a row or column of the whole graph stands for.
    limits : (6,) int64
        active, min_left, min_right, max_left, max_right, min_edges; columns are the left side.
    """

    ints: Any
    nodes: Any
    cursors: Any
    order: Any
    row_weights: Any
    column_weights: Any
    limits: Any


class Node(NamedTuple):
    """A sparse node: where its piece of `Pool.ints` begins (int64), and the parts of the piece (uint32).

    The offsets of the ids come first; `n_path` is int32.
    """

    base: Any
    ids: Any
    row_ids: Any
    row_offsets: Any
    column_offsets: Any
    row_members: Any
    column_members: Any
    path: Any
    n_path: Any


class Child(NamedTuple):
    """A child of a sparse node: its row, and the list of its left set, columns of the node."""

    row: Any
    left_at: Any
    n_left: Any


class Singles(NamedTuple):
    """What is to be known of the rows that hold one column of a narrow child only, where they are not collected.

    Attributes
    ----------
    earlier : uint32
        Columns that some row before the child's holds, alone or with others: no left set by themselves.
    later : uint32
        The other columns, as far as a row behind the child's holds nothing but them.
    """

    earlier: Any
    later: Any


class Rows(NamedTuple):
    """The rows that see a wide child's left set.

    Attributes
    ----------
    n_touched : int32
        All of them, as they stand in `touched`.
    n_pairs : int32
        Paths to later ones, counted up to the size of the arena of words. Where all of them fit it, each stands there
        (`paths.pairs_from`), in two words: the row, and the column's place in the left set.
    n_candidates, n_full : int32
        Later ones that hold a part of the left set; those that hold all of it. Of up to `MOST_KEY_ROWS` candidates each
        stands in `families`, under its number.
    most_earlier : int32
        The most of the left set that an earlier one holds: it holds no larger group of columns as a whole.
    """

    n_touched: Any
    n_pairs: Any
    n_candidates: Any
    n_full: Any
    most_earlier: Any


class Columns(NamedTuple):
    """The columns that a wide child keeps, as groups that its candidates cannot tell apart.

    Attributes
    ----------
    n_columns, n_kept : int32
        New columns, and how many of the left set they stand for.
    is_merged : bool
        Whether a new column may stand for several. Then the arena of words holds the places of the kept ones in the
        left set, sorted by new column, from 0 on, and from `sizes` on how many each new column stands for.
    sizes : int32
    """

    n_columns: Any
    n_kept: Any
    is_merged: Any
    sizes: Any


class Own(NamedTuple):
    """One warp's rows of `Warps`, and its shared memory: a table, two families or a few candidates, its chunk of the
    output."""

    words: Any
    ints: Any
    frames: Any
    state: Any
    own_nodes: Any
    bits: Any
    counts: Any
    touched: Any
    columns: Any
    table: Any
    families: Any
    chunk: Any


class Warps(NamedTuple):
    """One row per warp; what a warp needs to go on where the last slice stopped, and its scratch.

    Attributes
    ----------
    words : (n_warps, n) uint32
        Arena of the word frames: rows, excluded rows, base rows. Scratch while a child of a sparse node is visited.
    ints : (n_warps, n) int32
        The header (see `HEADER_IDS`), then ids of the word frames' base rows.
    frames : (n_warps, MAX_DEPTH, FRAME_FIELDS) int32
    state : (n_warps, STATE_FIELDS) int64
    own_nodes : (n_warps, MAX_OWN_NODES) int32
        The sparse nodes this warp made and has not seen exhausted.
    bits : (n_warps, n_rows) uint32
    counts : (n_warps, n_rows) int32
        Scratch, all zero between two children.
    touched : (n_warps, n_rows) int32
    columns : (n_warps, max_row_degree) int32
    idle_mask : (n_warps + 31) // 32 uint32
        Bit set: that warp may be given a task. Who clears the bit owns the warp.
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
    touched: Any
    columns: Any
    idle_mask: Any
    mailbox: Any


class Output(NamedTuple):
    """Found bicliques: a descriptor each, members in chunks. Unused descriptors have left size 0.

    Attributes
    ----------
    members : int32
        Left members and behind them right members, in ids of the reduced graph.
    starts : (n,) int64
    left_sizes, right_sizes : (n,) int32
    """

    members: Any
    starts: Any
    left_sizes: Any
    right_sizes: Any


WORD_BITS = 32
WARPS_PER_BLOCK = 4
"""Of the walk: one on each of a multiprocessor's four partitions."""
MAX_DEPTH = 33
"""Word frames on a stack: left sets shrink from 32 columns, one at least a level, and the first frame has only one."""
MAX_OWN_NODES = 64
FAMILY_WIDTH = 10
"""Most left vertices whose 1024 subsets fit the 32 lanes' words."""
TABLE_SIZE = 256
BITMAP_WORDS = 256
"""Two bitmaps of rows stand where the table does, at other times."""
ALIGNMENT = 32
"""Nodes begin on cache lines: no warp has a line cached before the node in it is complete."""
CHUNK_DESCRIPTORS = 64
MOST_KEY_ROWS = 64
"""Candidates up to which columns are merged: the ones that hold a column are a key of two words."""
MOST_MERGED = 1 << 13
"""Left vertices up to which columns are merged: twice as many groups and a count fit an int32."""

# Fields of a node.
NODE_BASE, NODE_COLUMNS, NODE_ROWS, NODE_EDGES, NODE_PATH, NODE_END, NODE_IDS, NODE_SIZE, NODE_IS_OWNED = range(9)
NODE_ROOT = 9  # the row whose subtree it is in; node 0 has none
NODE_FIELDS = 16

# Fields of a word frame.
CURSOR, END, N_ROWS, N_EXCLUDED, WORDS, WORDS_TOP, BASE, N_BASE, BASE_IDS, INTS_TOP, SINGLES, KIND = range(12)
FRAME_FIELDS = 32
# Kinds of word frames: the first one of a narrow or a wide child, whose only child stands for the child itself; others.
NARROW, WIDE, BELOW = range(3)

# What a warp's ints begin with: for each column of its word frames where its vertices of the reduced graph begin among
# the header's ids, how many of the user's vertices they are, then those ids.
HEADER_WEIGHTS = WORD_BITS + 1
HEADER_IDS = HEADER_WEIGHTS + WORD_BITS

# Fields of a warp's state.
DEPTH = 0  # deepest frame; -1 without one
PENDING_NODE = 1  # a child of a sparse node that is taken and not finished; -1 without one
PENDING_ROW = 2
EMITTED = 3  # bicliques of the unfinished child that are in the output already
ROOT = 4  # the row whose subtree a warp works in
N_OWN = 5
FOUND = 6
IDLE_NS = 7
BUSY_NS = 8
N_OPENED = 9
N_FAMILIES = 10
N_WIDE = 11
N_GIVEN = 12
BLOCK_IDLE_NS = 13  # how long this warp's whole block was idle, as far as this warp was the first of it to go on
IDLE_SINCE = 14
N_IDLE = 15  # of a block's first warp: how many of the block are idle
STATE_FIELDS = 16

# Control block, int32.
SIGNAL = 0  # number of idle warps, plus STOP_BIT once the slice is to end
N_BUSY = 1
N_OPEN = 2  # sparse nodes with children nobody has taken
N_NODES = 3
LOW_NODE = 4  # all nodes before it are exhausted
STATUS = 5  # why the slice ended, a mask of the bits below
CONTROL_FIELDS = 8
STOP_BIT = 1 << 30

# Control block, int64.
POOL_TOP = 0
MEMBERS_TOP = 1
DESCRIPTORS_TOP = 2
NEEDED_WORDS = 3
NEEDED_POOL = 4
NEEDED_MEMBERS = 5
SLICE_NS = 6
CHUNK_MEMBERS = 7
WIDE_CONTROL_FIELDS = 8

# Status bits.
TIME_OVER = 1
OUTPUT_FULL = 2
WORDS_SHORT = 4
POOL_FULL = 8
NODES_FULL = 16

# What a visit answers.
DONE = 0
PAUSED = 1

# How much a kernel says: how many, which sizes, which members, which members within limits.
COUNTS, SIZES, MEMBERS, WITHIN = range(4)

# A warp's chunk of the output, in shared memory.
CHUNK_AT, CHUNK_END, DESCRIPTOR_AT, DESCRIPTOR_END = range(4)
