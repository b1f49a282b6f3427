"""Memory of the search for maximal cliques, by scope: the graph (shared, read only), a worker, its output.

A node of the search tree is a clique (the *path*), its *candidates* P, which are adjacent to all of it and come later,
and its *excluded* vertices X, adjacent to all of it too, whose cliques were found elsewhere. Candidates are columns of
a bit matrix: a row for each candidate and each excluded vertex says which candidates it is adjacent to.

A node of more than 64 candidates is a frame of its own, with a matrix of several words a row, packed anew for each
(`wide_nodes`). Below nodes of at most 64 a row is one word; these nodes share the rows of their candidates, and only
their masks and their excluded rows stand on a stack (`word_walk`).

Everything is compiled with ``_nrt=False``: no reference counts, and no way to allocate; the caller's arrays stay alive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, types, uint64

from mbe_stage.cliques.ordering import OrderedGraph
from mbe_stage.runtime.jit import INTS, LONGS, WORDS


class WorkerState(NamedTuple):
    """One thread's state; everything a quantum needs to go on where the last one stopped.

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
        What the candidates of these nodes are adjacent to.
    ids : (64,) int32
        The user's vertex that each column is.
    marks : (n,) uint64
        Scratch: the column of each vertex of the graph, as a bit; all zero between two roots.
    columns : (n,) int32
        Scratch: the same as a number, where there are more than 64; -1 between two roots.
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
        Empty where only sizes are wanted.
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
        Where the rows of the columns stand in the arena of words, those of excluded vertices, and where these end.
    ids : int | np.int64
        Where the vertices of the columns stand in the arena of ints, ascending.
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
# A node has a candidate less than the one above it.
NODE_DEPTH = WORD_BITS + 2

# Fields of the control array.
DEPTH = 0  # index of the deepest frame, -1 when the task is done
NODE = 1  # index of the deepest node of few candidates, -1 where there is none
COUNT = 2  # cliques found since the host last looked
N_OUT = 3  # cliques in the output
MEMBERS_USED = 4
NEEDED = 5  # how many entries the arena that is short must have
WORK = 6  # elementary steps in this quantum
VISITED = 7  # children visited
MIN_SIZE = 8
MAX_SIZE = 9
OUTER = 10  # where the path above the nodes of few candidates stands in the arena of ints, where it is in no columns
N_OUTER = 11  # how many there are
FIRST_ROOT = 12  # those before cannot be in a clique that is large enough
LARGEST = 13  # no clique has more members
CONTROL_FIELDS = 14

# What a quantum ends with, beside what `mbe_stage.search.cpu.quanta` knows.
WORDS_SHORT = 4
INTS_SHORT = 5
FRAMES_SHORT = 6
