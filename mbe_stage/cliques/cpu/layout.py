"""Memory of the search for maximal cliques, by scope: the graph (shared, read only), a worker, its output.

A node of the search tree has a clique (the *path*), its *candidates* P and its *excluded* vertices X. Candidates are
adjacent to the whole path and come later in the order. Excluded vertices are adjacent to it, too, but their cliques
were found elsewhere. Candidates are columns of a bit matrix, with a row of adjacent candidates for each candidate and
each excluded vertex.

A node of more than 64 candidates is a frame of its own, with a newly packed matrix of several words a row
(`wide_nodes`). In nodes of at most 64 candidates a row is one word. Such nodes below one frame share the rows of their
candidates; only their masks and their excluded rows are on a stack (`word_walk`).

Everything is compiled with ``_nrt=False``: no reference counts, and no way to allocate; the caller's arrays stay alive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, types, uint64

from mbe_stage.cliques.ordering import OrderedGraph
from mbe_stage.runtime.jit import INTS, LONGS, WORDS


class WorkerState(NamedTuple):
    """One thread's state; everything a quantum needs to resume the last one.

    Attributes
    ----------
    frames : (max_depth, FRAME_FIELDS) int64
        Open nodes of many candidates, the range of roots first.
    words : uint64
        Arena: matrices of frames, and excluded rows of nodes of few candidates.
    ints : int32
        Arena: ids of columns, paths and branches of frames.
    nodes : (NODE_DEPTH, NODE_FIELDS) uint64
        The stack of nodes of few candidates.
    rows : (64,) uint64
        Neighbours of each of these nodes' candidates.
    ids : (64,) int32
        The user's vertex of each column.
    marks : (n,) uint64
        Scratch: the column of each vertex of the graph, as a bit; all zero between two roots.
    columns : (n,) int32
        Scratch: the column of each vertex as a number, for more than 64 columns; -1 between two roots.
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
    """Buffers for found cliques, in the user's ids.

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
    """The excluded rows of a node of few candidates: ``words[start:end]``, none of them empty."""

    start: int | np.int64
    end: int | np.int64


class Matrix(NamedTuple):
    """A node of many candidates while it is made: positions in the arenas.

    Attributes
    ----------
    n, n_words : int | np.int64
        Columns, which are its candidates, and words of a row.
    rows, excluded, top : int | np.int64
        Positions in the arena of words: rows of the columns, rows of excluded vertices, and the end of these.
    ids : int | np.int64
        Position of the columns' vertices in the arena of ints, ascending.
    """

    n: int | np.int64
    n_words: int | np.int64
    rows: int | np.int64
    excluded: int | np.int64
    top: int | np.int64
    ids: int | np.int64


# Their types in compiled code.
GRAPH = types.NamedTuple((INTS, INTS, LONGS, INTS, LONGS, INTS), OrderedGraph)
WORKER_STATE = types.NamedTuple(
    (int64[:, ::1], WORDS, INTS, uint64[:, ::1], WORDS, INTS, WORDS, INTS, LONGS), WorkerState
)
OUTPUT = types.NamedUniTuple(INTS, 2, Output)

WORD_BITS = 64

# Fields of a frame.
KIND = 0
FIRST = 1  # first root, or branch, of this task
CURSOR = 2  # the next one
END = 3  # one past the last
N_COLUMNS = 4
N_WORDS = 5  # words of a row
CANDIDATES = 6  # where the mask of its candidates stands in the arena of words
ROWS = 7  # where the rows of its columns stand
EXCLUDED = 8  # where its excluded rows stand
N_EXCLUDED = 9
WORDS_TOP = 10  # one past its last word
IDS = 11  # where the user's vertices of its columns stand in the arena of ints
PATH = 12  # where its path stands, ascending
N_PATH = 13
BRANCHES = 14  # where the columns it branches on stand
INTS_TOP = 15  # one past its last int
FRAME_FIELDS = 16

# Kinds of frames.
ROOTS = 0
WIDE = 1

# Fields of a node of few candidates.
P = 0  # its candidates
R = 1  # the columns that have joined below its frame
BRANCH = 2  # the candidates it branches on
TODO = 3  # those that are still ahead
X = 4  # where its excluded rows stand in the arena of words
X_END = 5
NODE_FIELDS = 6
# Each node has fewer candidates than the one above it.
NODE_DEPTH = WORD_BITS + 2

# Fields of the control array.
DEPTH = 0  # index of the deepest frame, -1 when the task is done
NODE = 1  # index of the deepest node of few candidates, -1 if there is none
COUNT = 2  # cliques found since the host last looked
N_OUT = 3  # cliques in the output
MEMBERS_USED = 4
NEEDED = 5  # how many entries the arena that is short must have
WORK = 6  # elementary steps in this quantum
VISITED = 7  # children visited
MIN_SIZE = 8
MAX_SIZE = 9
OUTER = 10  # path above the nodes of few candidates in the arena of ints, if it is in no columns
N_OUTER = 11  # how many there are
FIRST_ROOT = 12  # those before cannot be in a clique that is large enough
LARGEST = 13  # no clique has more members
CONTROL_FIELDS = 14

# Statuses at the end of a quantum, besides those of `mbe_stage.search.cpu.quanta`.
WORDS_SHORT = 4
INTS_SHORT = 5
FRAMES_SHORT = 6
