"""What the walk keeps in device memory, by scope: the pool of sparse nodes and the control block (all warps), a warp's
state and arenas (one warp), its shared memory (one warp, one launch), the output.

Right vertices are *rows*, left vertices are *columns*, as in the CPU engine. This module needs no GPU library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Output", "Pool", "Warps"]


class Pool(NamedTuple):
    """Sparse nodes, the whole graph being node 0. A node is written once, before its `END` is, and never changes.

    A node's piece of `ints` holds, one behind the other: column ids, row ids, row offsets, column offsets, row members,
    column members, path. Excluded rows come first; a row from `FIRST` on is a child.

    Attributes
    ----------
    ints : int32
    nodes : (max_nodes, NODE_FIELDS) int64
    cursors : (max_nodes,) int32
        Next child, taken with an atomic addition by whoever works on it.
    order : (n_rows,) int32
        In which order the children of node 0 are taken.
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


class Warps(NamedTuple):
    """One row per warp; what a warp needs to go on where the last slice stopped, and its scratch.

    Attributes
    ----------
    words : (n_warps, n) uint64
        Arena of the word frames: rows, excluded rows, base rows.
    ints : (n_warps, n) int32
        Column ids of the word frames' bits, then ids of their base rows.
    frames : (n_warps, MAX_DEPTH, FRAME_FIELDS) int64
    state : (n_warps, STATE_FIELDS) int64
    own_nodes : (n_warps, MAX_OWN_NODES) int32
        The sparse nodes this warp made and has not seen exhausted.
    bits : (n_warps, n_rows) uint64
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


WARP_SIZE = 32
WORD_BITS = 64
WARPS_PER_BLOCK = 8
MAX_DEPTH = 64
"""Word frames on a stack: left sets shrink from 64 columns, one at least a level."""
MAX_OWN_NODES = 64
FAMILY_WIDTH = 11
"""Most left vertices whose 2048 subsets fit the 32 lanes' 64-bit words."""
TABLE_SIZE = 256
ALIGNMENT = 32
"""Nodes begin on cache lines: no warp has a line cached before the node in it is complete."""
CHUNK_DESCRIPTORS = 64

# Fields of a node.
NODE_BASE, NODE_COLUMNS, NODE_ROWS, NODE_EDGES, NODE_PATH, NODE_END = range(6)
NODE_FIELDS = 16

# Fields of a word frame.
CURSOR, END, N_ROWS, N_EXCLUDED, WORDS, WORDS_TOP, BASE, N_BASE, BASE_IDS, INTS_TOP, SINGLES = range(11)
FRAME_FIELDS = 16

# Fields of a warp's state.
DEPTH = 0  # deepest frame; -1 without one
PENDING_NODE = 1  # a child of a sparse node that is taken and not finished; -1 without one
PENDING_ROW = 2
EMITTED = 3  # bicliques of the unfinished child that are in the output already
N_OWN = 4
FOUND = 5
IDLE_NS = 6
BUSY_NS = 7
N_OPENED = 8
N_FAMILIES = 9
N_WIDE = 10
N_GIVEN = 11
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
PUSHED = 1
PAUSED = 2

# Limits.
ACTIVE, MIN_LEFT, MIN_RIGHT, MAX_LEFT, MAX_RIGHT, MIN_EDGES = range(6)

# How much a kernel says.
COUNTS, SIZES, MEMBERS = range(3)

# A warp's chunk of the output, in shared memory.
CHUNK_AT, CHUNK_END, DESCRIPTOR_AT, DESCRIPTOR_END = range(4)
