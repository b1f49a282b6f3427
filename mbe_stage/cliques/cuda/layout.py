"""Where things stand in device memory: control words, settings, nodes, frames, and what belongs to one warp.

A clique is grown from a *base*: the root, and what has joined it. *Candidates* (P in the papers) are adjacent to all
of it, and later in the order; *excluded* vertices (X) are adjacent to all of it as well, and their cliques are found
elsewhere. Every part of the search is a bit matrix: a row for each candidate and each excluded vertex, a column for
each candidate.

A *frame* has at most 64 candidates. Its block of words, in the pool or in the warp's own place behind it, holds the
rows of the candidates, their ids, where they stand among the base (`EARLIER_AT`), the base (`BASE_AT`; two words a
vertex: the id, and where it stands), and behind it the rows of the excluded vertices; 64 bits a row. A *wide node* has
more candidates. Its block holds their ids, the base, the candidates to branch on as bits, the rows of the candidates
and those of the excluded vertices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mbe_stage.search.cuda.control import *  # noqa: F403 - one layout, part of it of every search
from mbe_stage.search.cuda.control import CONTROL_LINE, OWN_CONTROL, OWN_FIELDS, OWN_SETTINGS, OWN_STATE, OWN_STATUS

COUNT, SIZES, MEMBERS = range(3)
"""What a kernel is compiled for; `SIZES` looks after size limits too."""

FRAME_WIDTH = 64
"""Candidates of a frame at most: masks of one word."""

STACK = FRAME_WIDTH
LEVEL_WORDS = 3
LEVELS = FRAME_WIDTH
"""Each level has joined a candidate that the one before had not."""
SMALL_ROOT, SMALL_DEGREE, ROOTS_AT_ONCE = 6, 64, 4
"""Candidates and neighbours of a small root at most, and how many of them a warp ends at once."""
UNION_WIDTH = 32
UNION_AT = STACK + LEVELS * LEVEL_WORDS
TABLE_BITS = 8
TABLE_SLOTS = 1 << TABLE_BITS
TABLE_AT = STACK
"""In the place of stack and union, before there are any."""
PAGE_AT = max(UNION_AT + UNION_WIDTH, TABLE_AT + TABLE_SLOTS)
N_WHOLE_AT = PAGE_AT + 1
FRAME_WORDS = N_WHOLE_AT + 1
"""Words of 64 bits that a warp has in shared memory: the candidates' rows; its stack, and a tile of what cliques of a
node have, or the hash table of a root's candidates; how many cliques and members are on its page, as in `OUTPUT_TOP`;
rows of excluded vertices in all, where the frame has those of a list."""

SMALL = -3
"""In the place of a node, beside `ROOT`: some small roots."""

# A frame's block, in words of 32 bits.
IDS_AT = 2 * FRAME_WIDTH
EARLIER_AT = IDS_AT + FRAME_WIDTH
BASE_AT = EARLIER_AT + FRAME_WIDTH

# Control words behind those of every search: cliques found; how many cliques and members were written, in one word;
# where the first that did not fit would have begun; members of the largest group of cliques that did not fit; when the
# first warp began and the last one ended, by the device's clock.
FOUND, OUTPUT_TOP, OUTPUT_END, OUTPUT_NEEDED, BEGAN, ENDED = (OWN_CONTROL + CONTROL_LINE * k for k in range(6))
CONTROL_WORDS = OWN_CONTROL + 6 * CONTROL_LINE
CLIQUES_SHIFT = 34
"""In `OUTPUT_TOP`, members stand below the cliques. Both have to fit: `MemoryPlan` refuses what might not."""
MEMBERS_MASK = (1 << CLIQUES_SHIFT) - 1
NEVER = (1 << 63) - 1
"""In `OUTPUT_END` where everything fitted, and in `BEGAN` before."""
MOST_AT_ONCE = 1 << 6
"""Cliques of a node that are written together: a set of six candidates each."""

# One more reason to end a quantum.
OUTPUT_FULL = OWN_STATUS

# Settings, int64: read only.
MIN_SIZE, MAX_SIZE, N_LARGE = range(OWN_SETTINGS, OWN_SETTINGS + 3)
N_SETTINGS = OWN_SETTINGS + 3

# Fields of a node, int64: masks are those of a frame's level.
KIND, N_CANDIDATES, N_EXCLUDED, N_BASE, JOINED, CANDIDATES, BRANCHES = range(OWN_FIELDS, OWN_FIELDS + 7)
WIDE, FRAME = range(2)
"""Kinds of nodes: more candidates than a frame has, and a level of a frame's stack."""

# State of a warp: what is on its page, as in `OUTPUT_TOP`, and nanoseconds with work.
PAGE, BUSY_NS = range(OWN_STATE, OWN_STATE + 2)


class Graph(NamedTuple):
    """The graph; each vertex has its later neighbours first.

    Attributes
    ----------
    offsets : (n + 1,) int64
    later_ends : (n,) int64
        Where the later neighbours of each vertex end, and the earlier ones begin.
    members : (2 n_edges,) int32
        Ascending in both parts.
    order : (n_roots,) int32
        The roots that are wanted, the heaviest first.
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
        Cliques that are on their way to the output.
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
    """What belongs to this warp: its rows of `Warps`; its words in shared memory begin at `frame_at`."""

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
    """What all warps share.

    Attributes
    ----------
    words : uint32
        Blocks of nodes, in stretches taken with an atomic addition. Those from `POOL_LIMIT` on belong to one warp
        each, for the frame that it works on.
    nodes : (n_nodes, NODE_FIELDS) int64
        Those from `NODE_LIMIT` on belong to one warp each, for what it has in hand when a quantum ends.
    control : (CONTROL_WORDS,) int64
    settings : (N_SETTINGS,) int64
    """

    words: Any
    nodes: Any
    control: Any
    settings: Any


class Output(NamedTuple):
    """Cliques, one behind the other.

    Attributes
    ----------
    members : (n_members,) int32
        Ascending within a clique.
    sizes : (n_cliques,) int32
    """

    members: Any
    sizes: Any


class Launch(NamedTuple):
    """What a launch sets for all warps.

    Attributes
    ----------
    min_size, max_size : int32
    deadline : int64
        When the quantum ends, by the device's clock.
    mode, techniques : int
        Known when the kernel is compiled.
    """

    min_size: Any
    max_size: Any
    deadline: Any
    mode: Any
    techniques: Any


class Work(NamedTuple):
    """What a warp works with: `Own`, `Graph`, `Device`, `Output` and `Launch`."""

    own: Any
    graph: Any
    device: Any
    output: Any
    launch: Any


class Frame(NamedTuple):
    """The frame that this warp works on.

    Attributes
    ----------
    home : int64
        Where its block begins.
    n_base, n_excluded : int32
        Vertices of the base, and rows of excluded ones.
    excluded_at : int64
        Where these begin.
    row, high_row : uint64
        Those of the candidates ``lane`` and ``lane + 32``; 0 where there is none.
    """

    home: Any
    n_base: Any
    n_excluded: Any
    excluded_at: Any
    row: Any
    high_row: Any
