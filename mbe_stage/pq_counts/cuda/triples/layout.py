"""What the kernels of triples share: sizes, and what they are given."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.jit import I32, I64, U32, bundle

MOST_PARTNERS = 46_340
"""Of a root: each two of them have a number of 30 bits."""
WINDOW, AREA = 4096, 7168
"""Ranks that are looked at at a time, and words of 32 bits for masks: with `SMALL` counters of leaves what a block may
have of shared memory."""
HEAD = 64
"""Rows of the highest ranks, most of which share columns with each other: a word of a lane has a bit for each, and the
area has room for a counter of each two of them and a part of their masks."""
LEAST_CHUNK, USUAL_CHUNK = 8, 32
"""Words of a mask that are made at a time where not all fit: in shared memory at least, and in the device's."""
WORDS_PER_COLUMN = 64
"""Words of masks that are compared in the time in which a column of a root is walked."""
PARTNER_WINDOW, SMALL = 11_264, 512
FLUSH_FROM = 1 << 30
NO_ROOM = 1 << 60
_L = np.int64


class Triples(NamedTuple):
    """What all blocks share.

    Attributes
    ----------
    times : (max_row_degree + 1,) int64
        How many triples of rows share so many columns.
    control, settings : int64
        As `wedges.Wedges` has them.
    ranks : (n_rows,) int32
        Of rows: a triple is counted from the one of lowest rank. -1 for those that are in no triple.
    partners : (n_rows,) int32
        Later rows that share enough columns with each row; of those of the highest ranks, all later ones.
    scratch : (n_blocks * n,) uint32
        An area for each block, in which roots find room that do not in shared memory.
    """

    times: Any
    control: Any
    settings: Any
    ranks: Any
    partners: Any
    scratch: Any


class Roots(NamedTuple):
    """What is below roots.

    Attributes
    ----------
    partners : (n_rows,) int32
        As `Triples` has them.
    costs : (n_rows,) int64
        Of roots that have two partners at least, what is expected below them; 0 for other rows.
    needs : (len(Needs),) int64
    """

    partners: Any
    costs: Any
    needs: Any


class Needs(IntEnum):
    """What is asked of all roots.

    How many have two partners at least; the most partners; the most words of masks that are compared below one, and of
    its area in device memory; words that are compared below all.
    """

    ROOTS = 0
    PARTNERS = 1
    WORDS = 2
    SCRATCH = 3
    WORDS_IN_ALL = 4


TRIPLES = bundle(Triples, I64, I64, I64, I32, I32, U32)
ROOTS = bundle(Roots, I32, I64, I64)


@cuda.jit(device=True, forceinline=True)
def scratch_words(n_partners, n_words, n_later):
    """Words that a root takes of device memory, int64; 0 where shared memory has room for it.

    Parameters
    ----------
    n_partners, n_words : int64
        Words of a mask.
    n_later : int64
        Rows of higher rank.
    """
    masks, in_chunks = _L(n_partners * n_words), _L(NO_ROOM)
    if n_later <= WINDOW:
        in_chunks = _L(n_partners * (n_partners - _L(1)) // _L(2) + LEAST_CHUNK * n_partners)
    if n_later <= HEAD or min(masks, in_chunks) <= AREA:
        return _L(0)
    return min(masks, _L(in_chunks + _L(USUAL_CHUNK - LEAST_CHUNK) * n_partners))
