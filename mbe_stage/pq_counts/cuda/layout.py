"""Where things stand in device memory: control words, settings, nodes, and what belongs to one warp.

Rows are the vertices of the roots' side, columns those of the other one. A *node* is a part of the search that anybody
may go on with: a matrix of rows and columns, what is held and what is optional there, and a pivot. Its children depend
on it alone, so they are handed out one by one with an atomic addition to its cursor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.search.cuda.control import *  # noqa: F403 - one layout, part of it of every search
from mbe_stage.search.cuda.control import CONTROL_LINE, OWN_CONTROL, OWN_FIELDS, OWN_SETTINGS, OWN_STATUS

FRAME_WIDTH = 64
"""Rows and columns of a frame at most: masks of one word."""

FRAME_COLUMNS = FRAME_WIDTH
STACK = 2 * FRAME_WIDTH
LEVEL_WORDS = 4
LEVELS = 2 * FRAME_WIDTH - 4
"""A node that is opened has three rows and three columns at least, and each level has fewer than the one before."""
FRAME_WORDS = STACK + LEVELS * LEVEL_WORDS
"""Words of 64 bits that a warp has in shared memory: rows, columns, and its stack."""
MATRIX_WORDS = 4 * FRAME_WIDTH
"""Words of 32 bits of a frame's rows and columns in the pool."""

# Behind the words that every search has (`mbe_stage.search.cuda.control`).
CREDITS = OWN_CONTROL
CONTROL_WORDS = OWN_CONTROL + CONTROL_LINE

# One more reason to end a quantum.
KINDS_SHORT = OWN_STATUS

# Settings, int64: read only.
FEWEST_ROWS, MOST_ROWS, FEWEST_COLUMNS, MOST_COLUMNS = range(OWN_SETTINGS, OWN_SETTINGS + 4)
OPTIONAL_ROWS_AT, HELD_COLUMNS_AT, OPTIONAL_COLUMNS_AT = range(OWN_SETTINGS + 4, OWN_SETTINGS + 7)
CREDIT_LIMIT = OWN_SETTINGS + 7
N_SETTINGS = OWN_SETTINGS + 8

# Fields of a node, int64.
N_ROWS, N_COLUMNS, KEY, PIVOT, KIND, ROW_MASK, COLUMN_MASK, MISSING = range(OWN_FIELDS, OWN_FIELDS + 8)

# Kinds of nodes, bits of `KIND`.
COLUMN_PIVOT, IS_FRAME, HAS_NO_PIVOT = 1, 2, 4
"""A row as pivot: columns that it misses are held; a column as pivot: rows that it misses are. Without a pivot all of
them are held in turn: rows where it is a `COLUMN_PIVOT` that is not there, else columns."""

CREDIT = 128
"""New kinds of leaves that a warp asks for at once (`tally`)."""
VISIT_CREDIT = FRAME_WIDTH + 2
"""Kinds that a visit of a node of a frame brings at most."""
KEY_BITS = 57
"""Of a kind of leaves; a level keeps its pivot above them."""


class Limits(NamedTuple):
    """Sizes that are asked for, and where in a key each number begins; int32, in registers."""

    fewest_rows: Any
    most_rows: Any
    fewest_columns: Any
    most_columns: Any
    optional_rows_at: Any
    held_columns_at: Any
    optional_columns_at: Any


class Chosen(NamedTuple):
    """Vertices that are in all bicliques below a node, and those that are adjacent to everything there; int32."""

    held_rows: Any
    optional_rows: Any
    held_columns: Any
    optional_columns: Any


class Graph(NamedTuple):
    """The core, rows and columns in ascending degree.

    Attributes
    ----------
    row_offsets : (n_rows + 1,) int64
    row_members : (n_edges,) int32
        Columns of each row, ascending.
    positions : (n_edges,) int64
        Where the row stands in `column_members`, for each entry of `row_members`.
    column_offsets : (n_columns + 1,) int64
    column_members : (n_edges,) int32
        Rows of each column, ascending.
    order : (n_roots,) int32
        The roots that are wanted, those with the most two-step paths first.
    """

    row_offsets: Any
    row_members: Any
    positions: Any
    column_offsets: Any
    column_members: Any
    order: Any


class Warps(NamedTuple):
    """One row a warp.

    Attributes
    ----------
    counts : (n_warps, n_rows) int32
        Zeros between two roots.
    rows : (n_warps, n_rows) int32
    mask : (n_warps, n_words) uint32
    state : (n_warps, STATE_FIELDS) int64
    """

    counts: Any
    rows: Any
    mask: Any
    state: Any


class Own(NamedTuple):
    """What belongs to this warp: its rows of `Warps`; its words in shared memory begin at `frame_at`."""

    counts: Any
    rows: Any
    mask: Any
    state: Any
    frame: Any
    frame_at: Any


class Device(NamedTuple):
    """What all warps share.

    Attributes
    ----------
    words : uint32
        Matrices of nodes, in stretches taken with an atomic addition.
    nodes : (n_nodes, NODE_FIELDS) int64
        Those from `NODE_LIMIT` on belong to one warp each, for what it has in hand when a quantum ends; so do the
        words from `POOL_LIMIT` on.
    keys, times : (n_places,) int64
        A hash table of leaves: their kinds, 0 where a place is free, and how many there are of each. The number of
        places is a power of two.
    control : (CONTROL_WORDS,) int64
    settings : (N_SETTINGS,) int64
    """

    words: Any
    nodes: Any
    keys: Any
    times: Any
    control: Any
    settings: Any


class Work(NamedTuple):
    """What a warp works with: `Own`, `Graph`, `Device` and `Launch`."""

    own: Any
    graph: Any
    device: Any
    launch: Any


class Launch(NamedTuple):
    """What a launch sets for all warps.

    Attributes
    ----------
    limits : Limits
    deadline : int64
        When the quantum ends, by the device's clock.
    techniques : int
        `Techniques.kernel_mask`, known when the kernel is compiled.
    """

    limits: Any
    deadline: Any
    techniques: Any
