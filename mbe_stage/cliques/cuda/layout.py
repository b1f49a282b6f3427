"""Layout of device memory: control words, settings, nodes, frames, and each warp's own data.

A clique grows from a *base*: the root and the joined vertices. *Candidates* (P in the papers) are adjacent to all of
it, and later in the order. *Excluded* vertices (X) are adjacent to all of it, too, but their cliques are found
elsewhere. Every part of the search is a bit matrix: a row for each candidate and each excluded vertex, a column for
each candidate.

A *frame* has at most 64 candidates. Its block of words is in the pool, or in the warp's own place behind it. It holds
the rows of the candidates, their ids, their positions among the base (`EARLIER_AT`), the base (`BASE_AT`), and the rows
of the excluded vertices; 64 bits a row. A vertex of the base takes two words: its id, and its position. A *wide node*
has more candidates. Its block holds their ids, the base, the candidates to branch on as bits, the rows of the
candidates and those of the excluded vertices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.search.cuda.control import *  # noqa: F403 - one layout, part of it of every search
from mbe_stage.search.cuda.control import CONTROL_LINE, OWN_CONTROL, OWN_FIELDS, OWN_SETTINGS, OWN_STATE, OWN_STATUS

COUNT, SIZES, MEMBERS = range(3)
"""Modes that a kernel is compiled for; `SIZES` also checks size limits."""

FRAME_WIDTH = 64
"""Most candidates of a frame: masks of one word."""

STACK = FRAME_WIDTH
ENTRY_WORDS = 3
STACK_ENTRIES = FRAME_WIDTH
"""Each entry has joined a candidate more than the one below it."""
SMALL_ROOT, SMALL_DEGREE, ROOTS_AT_ONCE = 6, 64, 4
"""Most candidates and neighbours of a small root, and the number of small roots a warp finishes at once."""
UNION_WIDTH = 32
UNION_AT = STACK + STACK_ENTRIES * ENTRY_WORDS
TABLE_BITS = 8
TABLE_SLOTS = 1 << TABLE_BITS
TABLE_AT = STACK
"""Replaces stack and union before these are used."""
PAGE_AT = max(UNION_AT + UNION_WIDTH, TABLE_AT + TABLE_SLOTS)
N_WHOLE_AT = PAGE_AT + 1
FRAME_WORDS = N_WHOLE_AT + 1
"""Words of 64 bits per warp in shared memory: rows of the candidates; the stack and a tile of the cliques' members,
or the hash table of a root's candidates; cliques and members on the page, as in `OUTPUT_TOP`; and the number of all
excluded rows, for a frame that has listed ones."""

SMALL = -3
"""Instead of a node, like `ROOT`: some small roots."""

# A frame's block, in words of 32 bits.
IDS_AT = 2 * FRAME_WIDTH
EARLIER_AT = IDS_AT + FRAME_WIDTH
BASE_AT = EARLIER_AT + FRAME_WIDTH

# Control words besides those of every search: cliques found; cliques and members written, in one word; begin of the
# first that did not fit; members of the largest group of cliques that did not fit; start of the first warp and end of
# the last one, by the device's clock.
FOUND, OUTPUT_TOP, OUTPUT_END, OUTPUT_NEEDED, BEGAN, ENDED = (OWN_CONTROL + CONTROL_LINE * k for k in range(6))
CONTROL_WORDS = OWN_CONTROL + 6 * CONTROL_LINE
CLIQUES_SHIFT = 34
"""In `OUTPUT_TOP`, members are in the bits below the cliques. `MemoryPlan` refuses sizes that might not fit."""
MEMBERS_MASK = (1 << CLIQUES_SHIFT) - 1
NEVER = (1 << 63) - 1
"""In `OUTPUT_END` if everything fitted, and in `BEGAN` at first."""
MOST_AT_ONCE = 1 << 6
"""Most cliques of a node that are written together: each is a set of six candidates."""

# One more reason to end a quantum.
OUTPUT_FULL = OWN_STATUS

# Settings, int64: read only.
MIN_SIZE, MAX_SIZE, N_LARGE = range(OWN_SETTINGS, OWN_SETTINGS + 3)
N_SETTINGS = OWN_SETTINGS + 3

# Fields of a node, int64: masks are those of a stack entry.
KIND, N_CANDIDATES, N_EXCLUDED, N_BASE, JOINED, CANDIDATES, BRANCHES = range(OWN_FIELDS, OWN_FIELDS + 7)
WIDE, FRAME = range(2)
"""Kinds of nodes: a wide node, and an entry of a frame's stack."""

# State of a warp: contents of its page, as in `OUTPUT_TOP`, and nanoseconds with work.
PAGE, BUSY_NS = range(OWN_STATE, OWN_STATE + 2)


class Graph(NamedTuple):
    """The graph; each vertex has its later neighbours first.

    Attributes
    ----------
    offsets : (n + 1,) int64
    later_ends : (n,) int64
        End of each vertex's later neighbours; the earlier ones follow.
    members : (2 n_edges,) int32
        Ascending in both parts.
    order : (n_roots,) int32
        The wanted roots, the heaviest first.
    """

    offsets: Any
    later_ends: Any
    members: Any
    order: Any


class Warps(NamedTuple):
    """One row a warp.

    Attributes
    ----------
    columns : (n_warps, most_candidates) int32
    rows : (n_warps, most_neighbours) int32
    mask : (n_warps, n_words) uint32
        Candidates.
    joined : (n_warps, n_words) uint32
    histogram : (n_warps, most_members + 1) int64
        Cliques by size.
    page : (n_warps, n_members) int32
        Cliques that are not yet in the output.
    page_sizes : (n_warps, n_cliques) int32
    state : (n_warps, STATE_FIELDS) int64
    """

    columns: Any
    rows: Any
    mask: Any
    joined: Any
    histogram: Any
    page: Any
    page_sizes: Any
    state: Any


class Own(NamedTuple):
    """This warp's rows of `Warps`. Its words in shared memory begin at `frame_at`."""

    columns: Any
    rows: Any
    mask: Any
    joined: Any
    histogram: Any
    page: Any
    page_sizes: Any
    state: Any
    frame: Any
    frame_at: Any


class Device(NamedTuple):
    """Memory shared by all warps.

    Attributes
    ----------
    words : uint32
        Blocks of nodes, in pool segments taken with an atomic addition. Those from `POOL_LIMIT` on belong to one warp
        each, for its current frame.
    nodes : (n_nodes, NODE_FIELDS) int64
        Those from `NODE_LIMIT` on belong to one warp each, for its unfinished work when a quantum ends.
    control : (CONTROL_WORDS,) int64
    settings : (N_SETTINGS,) int64
    """

    words: Any
    nodes: Any
    control: Any
    settings: Any


class Output(NamedTuple):
    """The cliques, contiguous.

    Attributes
    ----------
    members : (n_members,) int32
        Ascending within a clique.
    sizes : (n_cliques,) int32
    """

    members: Any
    sizes: Any


class Launch(NamedTuple):
    """Settings of a launch, for all warps.

    Attributes
    ----------
    min_size, max_size : int32
    deadline : int64
        End of the quantum, by the device's clock.
    mode, techniques : int
        Known at compile time.
    """

    min_size: Any
    max_size: Any
    deadline: Any
    mode: Any
    techniques: Any


class Work(NamedTuple):
    """Everything a warp works with: `Own`, `Graph`, `Device`, `Output` and `Launch`."""

    own: Any
    graph: Any
    device: Any
    output: Any
    launch: Any


class Frame(NamedTuple):
    """The current frame of this warp.

    Attributes
    ----------
    pool_offset : int64
        Begin of its block.
    n_base, n_excluded : int32
        Vertices of the base, and rows of excluded ones.
    excluded_at : int64
        Begin of the excluded rows.
    row, high_row : uint64
        Rows of the candidates ``lane`` and ``lane + 32``; 0 if there is none.
    """

    pool_offset: Any
    n_base: Any
    n_excluded: Any
    excluded_at: Any
    row: Any
    high_row: Any
