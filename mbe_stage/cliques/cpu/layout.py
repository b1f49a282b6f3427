"""Memory layout of the search for maximal cliques, by scope: the graph (shared, read-only), a worker, its output.

A node of the search tree has a clique (the *path*), *candidates* P and *excluded* vertices X. Candidates are adjacent
to the whole path and come later in the order. Excluded vertices are adjacent to it too, but their cliques are found
elsewhere. Candidates are the columns of a bit matrix. It has a row of adjacent candidates for each candidate and each
excluded vertex.

A node with more than 64 candidates is a frame with its own, newly packed matrix of several words per row
(`wide_nodes`). In nodes with at most 64 candidates, a row is one word. Such nodes below one frame share the rows of
their candidates; only their masks and excluded rows are on a stack (`word_walk`).

All code is compiled with ``_nrt=False``: no reference counts and no allocation; the caller keeps the arrays alive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, types, uint64

from mbe_stage.cliques.ordering import OrderedGraph
from mbe_stage.runtime.jit import INTS, LONGS, WORDS


class WorkerState(NamedTuple):
    """State of a thread: everything a quantum needs to resume the last one.

    Attributes
    ----------
    frames : (max_depth, FRAME_FIELDS) int64
        Open nodes with many candidates, after the range of roots.
    words : uint64
        Arena: matrices of frames, and excluded rows of nodes with few candidates.
    ints : int32
        Arena: column ids, paths and branches of frames.
    nodes : (NODE_DEPTH, NODE_FIELDS) uint64
        The stack of nodes with few candidates.
    rows : (64,) uint64
        Neighbours of these nodes' candidates.
    ids : (64,) int32
        The user's vertex of each column.
    marks : (n,) uint64
        Scratch space: the column of each vertex of the graph, as a bit; zero between roots.
    columns : (n,) int32
        Scratch space for more than 64 columns: the column of each vertex, as a number; -1 between roots.
    control : (CONTROL_FIELDS,) int64
    """

    frames: np.ndarray
    words: np.ndarray
    ints: np.ndarray
    nodes: np.ndarray
    rows: np.ndarray
    ids: np.ndarray
    marks: np.ndarray
    columns: np.ndarray
    control: np.ndarray


class Output(NamedTuple):
    """Output buffers for cliques, in the user's ids.

    Attributes
    ----------
    members : int32
        Empty if only sizes are wanted.
    sizes : int32
    """

    members: np.ndarray
    sizes: np.ndarray


class Path(NamedTuple):
    """The vertices of a node's clique, ascending: ``ints[start : start + n]``."""

    start: int | np.int64
    n: int | np.int64


class Excluded(NamedTuple):
    """The excluded rows of a node with few candidates: ``words[start:end]``, none of them empty."""

    start: int | np.int64
    end: int | np.int64


class Matrix(NamedTuple):
    """A node with many candidates under construction: positions in the arenas.

    Attributes
    ----------
    n, n_words : int | np.int64
        Number of columns, which are the candidates, and words per row.
    rows, excluded, top : int | np.int64
        Positions in the arena of words: rows of the columns, rows of excluded vertices, and their end.
    ids : int | np.int64
        Position of the columns' vertices in the arena of ints, ascending.
    """

    n: int | np.int64
    n_words: int | np.int64
    rows: int | np.int64
    excluded: int | np.int64
    top: int | np.int64
    ids: int | np.int64


# Types in compiled code.
GRAPH = types.NamedTuple((INTS, INTS, LONGS, INTS, LONGS, INTS), OrderedGraph)
WORKER_STATE = types.NamedTuple(
    (int64[:, ::1], WORDS, INTS, uint64[:, ::1], WORDS, INTS, WORDS, INTS, LONGS), WorkerState
)
OUTPUT = types.NamedUniTuple(INTS, 2, Output)

WORD_BITS = 64

# Fields of a frame.
KIND = 0
FIRST = 1  # first root or branch of this task
CURSOR = 2  # the next one
END = 3  # exclusive
N_COLUMNS = 4
N_WORDS = 5  # words per row
CANDIDATES = 6  # position of the mask of candidates in the arena of words
ROWS = 7  # position of the columns' rows
EXCLUDED = 8  # position of the excluded rows
N_EXCLUDED = 9
WORDS_TOP = 10  # one past its last word
IDS = 11  # position of the columns' vertices (the user's) in the arena of ints
PATH = 12  # position of the path, ascending
N_PATH = 13
BRANCHES = 14  # position of the columns to branch on
INTS_TOP = 15  # one past its last int
FRAME_FIELDS = 16

# Kinds of frames.
ROOTS = 0
WIDE = 1

# Fields of a node with few candidates.
P = 0  # candidates
R = 1  # columns that have joined below its frame
BRANCH = 2  # candidates to branch on
TODO = 3  # branches not visited yet
X = 4  # position of its excluded rows in the arena of words
X_END = 5
NODE_FIELDS = 6
# Each node has fewer candidates than its parent.
NODE_DEPTH = WORD_BITS + 2

# Fields of the control array.
DEPTH = 0  # index of the deepest frame, -1 when the task is done
NODE = 1  # index of the deepest node with few candidates, -1 if there is none
COUNT = 2  # cliques found since the host last read it
N_OUT = 3  # cliques in the output
MEMBERS_USED = 4
NEEDED = 5  # entries that an arena must have, if it is too small
WORK = 6  # elementary steps in this quantum
VISITED = 7  # children visited
MIN_SIZE = 8
MAX_SIZE = 9
OUTER = 10  # position in the arena of ints of the path above nodes with few candidates, if columns do not include it
N_OUTER = 11  # its length
FIRST_ROOT = 12  # earlier roots cannot be in a clique of the minimum size
LARGEST = 13  # upper bound on the members of a clique
CONTROL_FIELDS = 14

# Statuses at the end of a quantum, besides those of `mbe_stage.search.cpu.quanta`.
WORDS_SHORT = 4
INTS_SHORT = 5
FRAMES_SHORT = 6
