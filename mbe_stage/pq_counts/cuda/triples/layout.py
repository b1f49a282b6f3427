"""Sizes and arguments that the kernels of triples share."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from mbe_stage.device.jit import I32, I64, U32, bundle

MOST_PARTNERS = 46_340
"""Most partners of a root, so that the numbers of their pairs fit 30 bits."""
WINDOW, AREA = 4096, 7168
"""Ranks of a window, and 32-bit words of the area for masks: with `SMALL` counters of leaves, they fill a block's
shared memory."""
HEAD = 64
"""Number of rows of the highest ranks. Most of them share columns with each other. A lane's word has a bit for each,
and the area has room for a counter of each pair and some words of their masks."""
LEAST_CHUNK, USUAL_CHUNK = 8, 32
"""Words of a mask that are made at a time if not all fit: the least number in shared memory, and the number in device
memory."""
WORDS_PER_COLUMN = 64
"""Number of words of masks that can be compared in the time of walking a column of a root."""
PARTNER_WINDOW, SMALL = 11_264, 512
FLUSH_FROM = 1 << 30
NO_ROOM = 1 << 60
_L = np.int64


class Triples(NamedTuple):
    """Memory shared by all blocks.

    Attributes
    ----------
    times : (max_row_degree + 1,) int64
        Number of triples of rows with each number of common columns.
    control, settings : int64
        As in `wedges.Wedges`.
    ranks : (n_rows,) int32
        Rank of each row, -1 for rows in no triple. A triple is counted from its row of lowest rank.
    partners : (n_rows,) int32
        Number of later rows that share enough columns with each row; for rows of the highest ranks, of all later rows.
    scratch : (n_blocks * n,) uint32
        An area for each block, for roots that do not fit shared memory.
    """

    times: Any
    control: Any
    settings: Any
    ranks: Any
    partners: Any
    scratch: Any


class RootNeeds(NamedTuple):
    """Work and memory below roots.

    Attributes
    ----------
    partners : (n_rows,) int32
        As in `Triples`.
    costs : (n_rows,) int64
        Expected work below roots with at least two partners; 0 for other rows.
    needs : (len(Needs),) int64
    """

    partners: Any
    costs: Any
    needs: Any


class Needs(IntEnum):
    """Needs of all roots.

    Number of roots with at least two partners; largest number of partners of a root; largest number of words of masks
    compared below a root, and of words of its area in device memory; number of words compared below all roots.
    """

    ROOTS = 0
    PARTNERS = 1
    WORDS = 2
    SCRATCH = 3
    WORDS_IN_ALL = 4


TRIPLES = bundle(Triples, I64, I64, I64, I32, I32, U32)
ROOTS = bundle(RootNeeds, I32, I64, I64)


@cuda.jit(device=True, forceinline=True)
def scratch_words(n_partners, n_words, n_later):
    """Return the words of device memory that a root needs, int64; 0 if shared memory has room for it.

    Parameters
    ----------
    n_partners, n_words : int64
        Number of partners, and words of a mask.
    n_later : int64
        Number of rows of higher rank.
    """
    masks, in_chunks = _L(n_partners * n_words), _L(NO_ROOM)
    if n_later <= WINDOW:
        in_chunks = _L(n_partners * (n_partners - _L(1)) // _L(2) + LEAST_CHUNK * n_partners)
    if n_later <= HEAD or min(masks, in_chunks) <= AREA:
        return _L(0)
    return min(masks, _L(in_chunks + _L(USUAL_CHUNK - LEAST_CHUNK) * n_partners))
