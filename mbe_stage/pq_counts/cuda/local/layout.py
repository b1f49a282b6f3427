"""Where the numbers of local counts stand in device memory, beside what `cuda.layout` has.

Lines are rows and columns of the graph: a row is its own number, a column the number of rows more. In a frame the lines
are 64 rows and 64 columns behind them. A line that is in all leaves below a node is on the node's *path*, held or
optional.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.pq_counts.cuda import layout as at

HELD, OPTIONAL = 0, 1
"""Kinds of a line of a leaf."""

FRAME_LINES = 2 * at.FRAME_WIDTH
FRAME_WORDS = at.MATRIX_WORDS + FRAME_LINES
"""Words of 32 bits of a frame in the pool, before its path: rows, columns, and which lines of the graph they are."""

PAIRS = at.FRAME_WIDTH * at.FRAME_WIDTH

# In a warp's words of shared memory, behind rows and columns: for each line of the frame how many bicliques it is in,
# then with how many of them an optional line of the other side is; the four numbers of all leaves; and which lines of
# the frame are on the path: held and optional rows, held and optional columns.
SUMS = at.STACK
TOTALS = SUMS + 2 * FRAME_LINES
FRAME_PATH = TOTALS + 4

# Fields of a level of the stack, int64: rows, columns and what its pivot misses; what is held and optional, and the
# pivot; and the lines of the frame that are on the path.
ROWS, COLUMNS, MISSING, KEY, PIVOT = range(5)
HELD_ROWS, OPTIONAL_ROWS, HELD_COLUMNS, OPTIONAL_COLUMNS = range(5, 9)
LEVEL_FIELDS = 9

# Parts of a warp's scratch.
LINES_AT = 0
STACK_AT = LINES_AT + FRAME_LINES
PAIRS_AT = STACK_AT + LEVEL_FIELDS * at.LEVELS
PATH_AT = PAIRS_AT + PAIRS

# Fields of a node beside those that every node has: those lines, and how many lines are on the path outside.
FIRST_OF_PATH = at.MISSING + 1
N_PATH = at.CURSOR + 1

# What a level's fields are called in a node.
LEVEL_FIELDS_OF_NODES = (at.ROW_MASK, at.COLUMN_MASK, at.MISSING, at.KEY, at.PIVOT, *range(FIRST_OF_PATH, at.CURSOR))

# Constants of a search.
MODULUS, N_ROWS, WEIGHTS_AT = range(3)
N_CONSTANTS = 3


class Sums(NamedTuple):
    """What all warps add to, and the binomials that they need.

    Attributes
    ----------
    lines : (n_rows + n_columns,) int64
        In how many bicliques each is.
    edges : (n_entries,) int64
        Of each entry of each row; one number where edges are not asked for.
    total : (1,) int64
        How many bicliques.
    row_ways, column_ways : (n,) int64
        C(n, k) at ``n * (size + 1) + k``, where `size` is how many rows (columns) a biclique has.
    constants : (N_CONSTANTS,) int64
        The modulus of all numbers, 0 where they fit; rows of the graph; where a warp's weights begin.
    """

    lines: Any
    edges: Any
    total: Any
    row_ways: Any
    column_ways: Any
    constants: Any


class Scratch(NamedTuple):
    """One row a warp, whose parts stand in one array: a pointer to each would take registers.

    Attributes
    ----------
    words : (n_warps, n) int64
        From `LINES_AT` on which lines of the graph those of the frame are; from `STACK_AT` on levels; from `PAIRS_AT`
        on the numbers of each row of the frame with each column, zeros between two frames; from `PATH_AT` on the lines
        of the graph that are on the path, with their kinds (`matrices.optional_line`); then weights: what the leaf of a
        row, or column, of a wide matrix amounts to for held lines of the other side, and for optional ones.
    """

    words: Any


class FramePath(NamedTuple):
    """The lines of a frame that are on the path: masks, uint64."""

    held_rows: Any
    optional_rows: Any
    held_columns: Any
    optional_columns: Any


class Values(NamedTuple):
    """What leaves amount to for a row of one kind with a column of another one, int64."""

    held_held: Any
    held_optional: Any
    optional_held: Any
    optional_optional: Any


class LocalLaunch(NamedTuple):
    """What a launch sets for all warps.

    Attributes
    ----------
    limits : Limits
    deadline : int64
    n_rows : int32
        Of the graph.
    techniques : int
        As `Launch` has it, and `with_edges`: known when the kernel is compiled.
    with_edges : bool
    """

    limits: Any
    deadline: Any
    n_rows: Any
    techniques: Any
    with_edges: Any


class Work(NamedTuple):
    """What a warp works with.

    Attributes
    ----------
    own : Own
    mine : (n,) int64
        This warp's row of `Scratch.words`.
    graph : Graph
    device : Device
    sums : Sums
    launch : LocalLaunch
    """

    own: Any
    mine: Any
    graph: Any
    device: Any
    sums: Any
    launch: Any
