"""Layout of local counts in device memory, besides that of `cuda.layout`.

A vertex is a row or a column: a row has its own number, a column its number plus the number of rows. The vertices of a
frame are 64 rows, then 64 columns. A vertex in all leaves below a node is on the node's *path*, as held or optional.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.pq_counts.cuda import layout

HELD, OPTIONAL = 0, 1
"""Kinds of a vertex in a leaf."""

FRAME_VERTICES = 2 * layout.FRAME_WIDTH
FRAME_WORDS = layout.MATRIX_WORDS + FRAME_VERTICES
"""Words of 32 bits of a frame in the pool, before its path: rows, columns, and their vertices in the graph."""

PAIRS = layout.FRAME_WIDTH * layout.FRAME_WIDTH

# A warp's words of shared memory, after rows and columns: for each vertex of the frame, the number of bicliques with
# held vertices of the other side, then with optional ones; the four totals over all leaves (`Values`); the frame's
# vertices on the path (`FramePath`).
SUMS = layout.STACK
TOTALS = SUMS + 2 * FRAME_VERTICES
FRAME_PATH = TOTALS + 4

# Fields of a stack entry, int64: rows, columns, and the missed vertices to hold next; key of the held and optional
# vertices, and pivot; the frame's vertices on the path.
ROWS, COLUMNS, MISSING, KEY, PIVOT = range(5)
HELD_ROWS, OPTIONAL_ROWS, HELD_COLUMNS, OPTIONAL_COLUMNS = range(5, 9)
ENTRY_FIELDS = 9

# Parts of a warp's scratch.
VERTICES_AT = 0
STACK_AT = VERTICES_AT + FRAME_VERTICES
PAIRS_AT = STACK_AT + ENTRY_FIELDS * layout.STACK_ENTRIES
PATH_AT = PAIRS_AT + PAIRS

# Fields of a node besides the fields of `cuda.layout`: the frame's vertices on the path, and the number of vertices on
# the path outside.
FIRST_OF_PATH = layout.MISSING + 1
N_PATH = layout.CURSOR + 1

# The node's fields that correspond to an entry's.
ENTRY_FIELDS_OF_NODES = (
    layout.ROW_MASK,
    layout.COLUMN_MASK,
    layout.MISSING,
    layout.KEY,
    layout.PIVOT,
    *range(FIRST_OF_PATH, layout.CURSOR),
)

# Constants of a search.
MODULUS, N_ROWS, WEIGHTS_AT = range(3)
N_CONSTANTS = 3


class Sums(NamedTuple):
    """Sums that all warps add to, and the binomials that they need.

    Attributes
    ----------
    vertices : (n_rows + n_columns,) int64
        Number of bicliques that contain each vertex.
    edges : (n_entries,) int64
        Number of bicliques that contain each edge, in the order of the rows' lists; one number if edges are not
        requested.
    total : (1,) int64
        Number of bicliques.
    row_ways, column_ways : (n,) int64
        C(n, k) at ``n * (size + 1) + k``, with `size` rows (columns) per biclique.
    constants : (N_CONSTANTS,) int64
        Modulus of all numbers, 0 if they fit 63 bits; number of rows; position of the weights in a warp's scratch.
    """

    vertices: Any
    edges: Any
    total: Any
    row_ways: Any
    column_ways: Any
    constants: Any


class Scratch(NamedTuple):
    """Scratch memory, one row per warp. Its parts are in one array, since a pointer to each would take registers.

    Attributes
    ----------
    words : (n_warps, n) int64
        From `VERTICES_AT` on: the graph's vertex of each vertex of the frame. From `STACK_AT` on: the stack. From
        `PAIRS_AT` on: the number for each row of the frame with each column, zeros between two frames. From `PATH_AT`
        on: the graph's vertices on the path, with their kinds (`matrices.optional_vertex`). Then weights: for each row,
        or column, of a wide matrix, the number of bicliques of its leaf, with held and with optional vertices of the
        other side.
    """

    words: Any


class FramePath(NamedTuple):
    """The frame's vertices on the path, as masks, uint64."""

    held_rows: Any
    optional_rows: Any
    held_columns: Any
    optional_columns: Any


class Values(NamedTuple):
    """Number of bicliques that contain one row and one column, by the kinds of row and column in the leaf; int64."""

    held_held: Any
    held_optional: Any
    optional_held: Any
    optional_optional: Any


class LocalLaunch(NamedTuple):
    """Settings of a launch, for all warps.

    Attributes
    ----------
    bounds : SizeBounds
    deadline : int64
    n_rows : int32
        Rows of the graph.
    techniques : int
        As in `Launch`; like `with_edges` a constant of the compiled kernel.
    with_edges : bool
    """

    bounds: Any
    deadline: Any
    n_rows: Any
    techniques: Any
    with_edges: Any


class Work(NamedTuple):
    """Data of a warp's work.

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
