"""Memory of the search for the best: the graph, the state of a search, and its output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64, njit, types

from mbe_stage.runtime.jit import INTS, LONGS, WORDS

# Statuses besides those of `quanta`: an arena is short, and `control[NEEDED]` entries would do.
WORDS_SHORT, INTS_SHORT, FLOATS_SHORT = 4, 5, 6

# Fields of a frame. Its words are the candidates' rows and then the excluded ones, its ints the candidates, the
# number of columns of each, and where its entries start. Its floats are the weights of each column over the path, of
# each candidate, and of the candidates' entries.
CURSOR, N_ROWS, N_EXCLUDED, N_COLUMNS, WIDTH, WORDS_AT, INTS_AT, FLOATS_AT, N_PATH, FRAME_FIELDS = range(10)
# Fields of the control array. ROOT is the next one.
DEPTH, ROOT, WORK, NEEDED, N_OUT, MEMBERS_USED, N_BEST, CONTROL_FIELDS = range(8)
# Fields of the bounds: those of the code, fewest and most columns, fewest and most rows.
KIND, MIN_COLUMNS, MAX_COLUMNS, MIN_ROWS, MAX_ROWS, BOUND_FIELDS = range(6)


class Graph(NamedTuple):
    """Rows with their columns, and columns with their rows, ascending."""

    row_offsets: np.ndarray
    row_members: np.ndarray
    column_offsets: np.ndarray
    column_members: np.ndarray


class State(NamedTuple):
    """All that a quantum needs to resume.

    Attributes
    ----------
    frames : (n_rows + 2, FRAME_FIELDS) int64
    words, ints, floats
        Arenas; frames own consecutive pieces.
    path : (n_rows,) int32
    counts, histogram, places : (larger side + 2,) int32
        Scratch, zeros between two roots.
    bounds, control : int64
    best : (k,) float64
        The best codes so far, ascending.
    threshold : (3,) float64
        The code to reach, a share below it that rounding may take, and the scale of codes.
    """

    frames: np.ndarray
    words: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    path: np.ndarray
    counts: np.ndarray
    histogram: np.ndarray
    places: np.ndarray
    bounds: np.ndarray
    control: np.ndarray
    best: np.ndarray
    threshold: np.ndarray


class Output(NamedTuple):
    """The bicliques that reach the threshold: codes, numbers of rows, and the rows themselves."""

    codes: np.ndarray
    sizes: np.ndarray
    members: np.ndarray


FLOATS = float64[::1]
STATE = types.NamedTuple(
    (int64[:, ::1], WORDS, INTS, FLOATS, INTS, INTS, INTS, INTS, LONGS, LONGS, FLOATS, FLOATS), State
)
OUTPUT = types.NamedTuple((FLOATS, INTS, INTS), Output)


@njit(inline="always")
def reaches(state, code):
    """True if a code, or a bound of codes, is not below the threshold by more than rounding."""
    return code >= state.threshold[0] * (1.0 - state.threshold[1])
