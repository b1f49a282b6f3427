"""What the tree walk keeps in memory, by scope: the graph (shared, read only), a worker (one thread), its output.

Right vertices are *rows*, in enumeration order; left vertices are *columns*. The subtree of row ``i`` holds the maximal
bicliques whose first row is ``i``: later rows are its candidates, earlier ones are excluded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Graph", "Output", "Worker"]


class Graph(NamedTuple):
    """The reduced graph, rows in enumeration order.

    ``identity`` holds ``0, 1, 2, ...``: it lets the whole graph be read as a sparse node whose local numbers are the
    global ones, and single rows as groups of one.
    """

    row_offsets: np.ndarray
    row_members: np.ndarray
    column_offsets: np.ndarray
    column_members: np.ndarray
    identity: np.ndarray


class Worker(NamedTuple):
    """One thread's state; everything a slice needs to go on where the last one stopped.

    Attributes
    ----------
    frames : (max_depth, FRAME_FIELDS) int64
        The stack: one frame per open node.
    ints, words : int32, uint64
        Arenas; frames own consecutive pieces, the deepest one last.
    path : (n_rows,) int32
        The right members collected on the way down.
    bits : (n_rows + 1,) uint64
        Scratch, all zero between two children.
    touched : (n_rows + 1,) int32
        Scratch: which entries of `bits` or `counts` are in use.
    counts : (n_rows + 1,) int32
        Scratch, all zero between two children.
    control : (CONTROL_FIELDS,) int64
    """

    frames: np.ndarray
    ints: np.ndarray
    words: np.ndarray
    path: np.ndarray
    bits: np.ndarray
    touched: np.ndarray
    counts: np.ndarray
    control: np.ndarray


class Output(NamedTuple):
    """Where found bicliques go, in ids of the reduced graph, and the size conditions they must meet.

    ``limits`` is ``(active, min_left, min_right, max_left, max_right, min_edges)``; sizes count whole groups of twins.
    """

    left: np.ndarray
    right: np.ndarray
    left_sizes: np.ndarray
    right_sizes: np.ndarray
    left_weights: np.ndarray
    right_weights: np.ndarray
    limits: np.ndarray


# Fields of a frame.
KIND = 0
CURSOR = 1  # next child
END = 2  # one past the last child of this task
N_ROWS = 3  # sparse: all local rows; word: candidate groups
N_EXCLUDED = 4  # word: excluded rows behind the candidates
N_COLUMNS = 5  # sparse: local columns
INTS = 6  # first entry in the arena of ints
INTS_TOP = 7  # one past the last
WORDS = 8
WORDS_TOP = 9
N_PATH = 10  # right members on the path, this node's included
COLUMN_IDS = 11  # word: where the global ids of its (at most 64) columns stand in the arena of ints
FIRST = 12  # first child of this task
SINGLES = 13  # word: the columns that are an excluded row by themselves
FRAME_FIELDS = 14

# Kinds of nodes.
WHOLE_GRAPH = 0
SPARSE = 1
WORD = 2

# Fields of the control array.
DEPTH = 0  # index of the deepest frame; -1 when the task is done
COUNT = 1  # bicliques found since the host last looked
N_OUT = 2  # bicliques in the output
LEFT_USED = 3
RIGHT_USED = 4
NEEDED = 5  # how many entries the arena that is short must have
WORK = 6  # elementary steps in this slice
CONTROL_FIELDS = 7

# Limits.
ACTIVE, MIN_LEFT, MIN_RIGHT, MAX_LEFT, MAX_RIGHT, MIN_EDGES = range(6)

# What a slice ends with.
OK = 0
DONE = 1
SLICE_OVER = 2
OUTPUT_FULL = 3
INTS_SHORT = 4
WORDS_SHORT = 5
FRAMES_SHORT = 6
