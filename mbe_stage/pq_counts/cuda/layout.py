"""Layout of device memory: control words, settings, nodes, and each warp's own data.

Rows are the vertices of the roots' side, columns those of the other side. A *node* is a part of the search that any
warp can continue: a matrix of rows and columns, its held and optional vertices, and a pivot. Its children depend on it
alone, so they are handed out one by one with an atomic addition to its cursor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.search.cuda.control import *  # noqa: F403 - one layout, part of it of every search
from mbe_stage.search.cuda.control import CONTROL_LINE, NARROW, OWN_CONTROL, OWN_FIELDS, OWN_SETTINGS, OWN_STATUS

FRAME_WIDTH = 64
"""Most rows and columns of a frame: masks of one word."""

FRAME_COLUMNS = FRAME_WIDTH
STACK = 2 * FRAME_WIDTH
ENTRY_WORDS = 4
STACK_ENTRIES = 2 * FRAME_WIDTH - 4
"""Maximum depth: an open node has at least three rows and three columns, and each entry has fewer than the entry below
it."""
FRAME_WORDS = STACK + STACK_ENTRIES * ENTRY_WORDS
"""Words of 64 bits per warp in shared memory: rows, columns, and the stack."""
MATRIX_WORDS = 4 * FRAME_WIDTH
"""Words of 32 bits of a frame's rows and columns in the pool."""

# Control words besides the words of every search (`mbe_stage.search.cuda.control`).
RESERVED_SLOTS = OWN_CONTROL
CONTROL_WORDS = OWN_CONTROL + CONTROL_LINE

# A further reason to end a quantum.
SLOTS_SHORT = OWN_STATUS

# Settings, int64: read only.
FEWEST_ROWS, MOST_ROWS, FEWEST_COLUMNS, MOST_COLUMNS = range(OWN_SETTINGS, OWN_SETTINGS + 4)
OPTIONAL_ROWS_AT, HELD_COLUMNS_AT, OPTIONAL_COLUMNS_AT = range(OWN_SETTINGS + 4, OWN_SETTINGS + 7)
SLOT_LIMIT = OWN_SETTINGS + 7
N_SETTINGS = OWN_SETTINGS + 8
# Settings of searches by windows of ranks: number of rows with a rank; longest list that one lane walks alone.
N_RANKED, LANE_ENTRIES = MOST_ROWS, NARROW

# Fields of a node, int64.
N_ROWS, N_COLUMNS, KEY, PIVOT, KIND, ROW_MASK, COLUMN_MASK, MISSING = range(OWN_FIELDS, OWN_FIELDS + 8)

# Kinds of nodes, bits of `KIND`.
COLUMN_PIVOT, IS_FRAME, HAS_NO_PIVOT = 1, 2, 4
"""With a row as pivot, the missed columns are held; with a column as pivot, the missed rows. Without a pivot, all rows
are held in turn if `COLUMN_PIVOT` is set, otherwise all columns."""

SLOTS_AT_ONCE = 128
"""Slots for new signatures that a warp reserves at once (`count_leaves`)."""
VISIT_SLOTS = FRAME_WIDTH + 2
"""Largest number of signatures in one visit of a frame's node."""
KEY_BITS = 57
"""Bits of a leaf signature; a stack entry stores its pivot above them."""


class SizeBounds(NamedTuple):
    """Wanted sizes, and the first bit of each number in a key; int32."""

    fewest_rows: Any
    most_rows: Any
    fewest_columns: Any
    most_columns: Any
    optional_rows_at: Any
    held_columns_at: Any
    optional_columns_at: Any


class Chosen(NamedTuple):
    """Numbers of held vertices, in all bicliques below a node, and of optional ones, adjacent to all there; int32."""

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
        Position of the row in `column_members`, for each entry of `row_members`.
    column_offsets : (n_columns + 1,) int64
    column_members : (n_edges,) int32
        Rows of each column, ascending.
    order : (n_roots,) int32
        The wanted roots, in descending number of two-step paths.
    """

    row_offsets: Any
    row_members: Any
    positions: Any
    column_offsets: Any
    column_members: Any
    order: Any


class Warps(NamedTuple):
    """Memory with one row per warp.

    Attributes
    ----------
    counts : (n_warps, n_rows) int32
        Number of paths to each row; zeros between two roots.
    rows : (n_warps, n_rows) int32
    mask : (n_warps, n_words) uint32
    state : (n_warps, STATE_FIELDS) int64
    """

    counts: Any
    rows: Any
    mask: Any
    state: Any


class Own(NamedTuple):
    """This warp's rows of `Warps`. Its words in shared memory begin at `frame_at`."""

    counts: Any
    rows: Any
    mask: Any
    state: Any
    frame: Any
    frame_at: Any


class Device(NamedTuple):
    """Memory shared by all warps.

    Attributes
    ----------
    words : uint32
        Matrices of nodes, in pool segments taken with an atomic addition.
    nodes : (n_nodes, NODE_FIELDS) int64
        The nodes from `NODE_LIMIT` on, and the words from `POOL_LIMIT` on, belong to one warp each, for its unfinished
        work when a quantum ends.
    keys, times : (n_places,) int64
        Hash table of leaves: signatures (0 for a free slot), and the number of leaves with each. The number of slots is
        a power of two.
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
    """Data of a warp's work: `Own`, `Graph`, `Device` and `Launch`."""

    own: Any
    graph: Any
    device: Any
    launch: Any


class Launch(NamedTuple):
    """Settings of a launch, for all warps.

    Attributes
    ----------
    bounds : SizeBounds
    deadline : int64
        End of the quantum, by the device's clock.
    techniques : int
        Mask of `Techniques.kernel_mask`, a constant of the compiled kernel.
    """

    bounds: Any
    deadline: Any
    techniques: Any
