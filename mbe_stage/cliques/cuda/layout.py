"""Layout of device memory: control words, settings, nodes, frames, and each warp's own data.

A clique grows from a *base*: the root and the joined vertices. *Candidates* (P in the papers) are adjacent to the whole
base, and later in the order. *Excluded* vertices (X) are adjacent to the whole base too, but their cliques are found
elsewhere. Every part of the search is a bit matrix with a row for each candidate and each excluded vertex, and a column
for each candidate.

A *frame* has at most 64 candidates. Its block of words is in the pool, or in the warp's own place after the pool. It
has the rows of the candidates, their ids, the number of smaller base vertices for each (`EARLIER_AT`), the base
(`BASE_AT`), and the rows of excluded vertices; a row has 64 bits. A base vertex takes two words: its id and its
position. A *wide node* has more candidates. Its block has their ids, the base, a bit mask of the candidates to branch
on, the rows of the candidates and those of the excluded vertices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.search.cuda.control import *  # noqa: F403 - one layout, part of it of every search
from mbe_stage.search.cuda.control import CONTROL_LINE, OWN_CONTROL, OWN_FIELDS, OWN_SETTINGS, OWN_STATE, OWN_STATUS

COUNT, SIZES, MEMBERS = range(3)
"""Modes that the kernel is compiled for; `SIZES` also checks size limits."""

FRAME_WIDTH = 64
"""Most candidates of a frame, so that masks are one word."""

STACK = FRAME_WIDTH
ENTRY_WORDS = 3
STACK_ENTRIES = FRAME_WIDTH
"""Each entry has at least one more joined candidate than the entry below it."""
SMALL_ROOT, SMALL_DEGREE, ROOTS_AT_ONCE = 6, 64, 4
"""Most candidates and neighbours of a small root, and the number of small roots that a warp finishes at once."""
UNION_WIDTH = 32
UNION_AT = STACK + STACK_ENTRIES * ENTRY_WORDS
TABLE_BITS = 8
TABLE_SLOTS = 1 << TABLE_BITS
TABLE_AT = STACK
"""The table takes the place of stack and union before these are used."""
PAGE_AT = max(UNION_AT + UNION_WIDTH, TABLE_AT + TABLE_SLOTS)
N_WHOLE_AT = PAGE_AT + 1
FRAME_WORDS = N_WHOLE_AT + 1
"""Number of 64-bit words of shared memory per warp.

They are: rows of the candidates; the stack and a tile of the cliques' members, or the hash table of a root's
candidates; cliques and members on the page, in the form of `OUTPUT_TOP`; and the number of all excluded rows, for a
frame that uses listed rows.
"""

SMALL = -3
"""In place of a node, like `ROOT`: a group of small roots."""

# Offsets in a frame's block, in 32-bit words.
IDS_AT = 2 * FRAME_WIDTH
EARLIER_AT = IDS_AT + FRAME_WIDTH
BASE_AT = EARLIER_AT + FRAME_WIDTH

# Control words besides those of every search: cliques found; cliques and members written, in one word; start of the
# first page that did not fit; members of the largest request that did not fit; start of the first warp and end of the
# last one, by the device's clock.
FOUND, OUTPUT_TOP, OUTPUT_END, OUTPUT_NEEDED, BEGAN, ENDED = (OWN_CONTROL + CONTROL_LINE * k for k in range(6))
CONTROL_WORDS = OWN_CONTROL + 6 * CONTROL_LINE
CLIQUES_SHIFT = 34
"""`OUTPUT_TOP` has the members in the bits below the cliques. `MemoryPlan` refuses sizes that might not fit."""
MEMBERS_MASK = (1 << CLIQUES_SHIFT) - 1
NEVER = (1 << 63) - 1
"""Value of `OUTPUT_END` if everything fitted, and the initial value of `BEGAN`."""
MOST_AT_ONCE = 1 << 6
"""Most cliques of a node written together: each is a set of six candidates."""

# Another reason to end a quantum.
OUTPUT_FULL = OWN_STATUS

# Settings, int64, read-only.
MIN_SIZE, MAX_SIZE, N_LARGE = range(OWN_SETTINGS, OWN_SETTINGS + 3)
N_SETTINGS = OWN_SETTINGS + 3

# Fields of a node, int64; the masks are those of a stack entry.
KIND, N_CANDIDATES, N_EXCLUDED, N_BASE, JOINED, CANDIDATES, BRANCHES = range(OWN_FIELDS, OWN_FIELDS + 7)
WIDE, FRAME = range(2)
"""Kinds of nodes: a wide node, and an entry of a frame's stack."""

# State of a warp: contents of its page in the form of `OUTPUT_TOP`, and nanoseconds with work.
PAGE, BUSY_NS = range(OWN_STATE, OWN_STATE + 2)


class Graph(NamedTuple):
    """The graph, with the later neighbours first in each vertex's list.

    Attributes
    ----------
    offsets : (n + 1,) int64
    later_ends : (n,) int64
        End of each vertex's later neighbours; the earlier ones follow.
    members : (2 n_edges,) int32
        Neighbours, ascending in both parts of a list.
    order : (n_roots,) int32
        The roots to search, the heaviest first.
    """

    offsets: Any
    later_ends: Any
    members: Any
    order: Any


class Warps(NamedTuple):
    """Data of all warps, one row per warp.

    Attributes
    ----------
    columns : (n_warps, most_candidates) int32
    rows : (n_warps, most_neighbours) int32
    mask : (n_warps, n_words) uint32
        Remaining candidates.
    joined : (n_warps, n_words) uint32
    histogram : (n_warps, most_members + 1) int64
        Number of cliques by size.
    page : (n_warps, n_members) int32
        Members of cliques not yet in the output.
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
        Blocks of nodes, in pool segments taken by atomic additions. From `POOL_LIMIT` on, each warp has its own words
        for its current frame.
    nodes : (n_nodes, NODE_FIELDS) int64
        From `NODE_LIMIT` on, each warp has its own nodes for unfinished work at the end of a quantum.
    control : (CONTROL_WORDS,) int64
    settings : (N_SETTINGS,) int64
    """

    words: Any
    nodes: Any
    control: Any
    settings: Any


class Output(NamedTuple):
    """The output: cliques without gaps.

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
        Compile-time constants.
    """

    min_size: Any
    max_size: Any
    deadline: Any
    mode: Any
    techniques: Any


class Work(NamedTuple):
    """All data of a warp: `Own`, `Graph`, `Device`, `Output` and `Launch`."""

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
        Start of its block.
    n_base, n_excluded : int32
        Numbers of base vertices and of excluded rows.
    excluded_at : int64
        Start of the excluded rows.
    row, high_row : uint64
        Rows of the candidates ``lane`` and ``lane + 32``; 0 without such a candidate.
    """

    pool_offset: Any
    n_base: Any
    n_excluded: Any
    excluded_at: Any
    row: Any
    high_row: Any
