"""Arguments of a comparison's compiled loops: new rows, gone rows with their index, the best pairs so far.

`new` rows exist only in the new run, `gone` rows only in the old one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int8, int64, types

from mbe_stage.runtime.jit import BYTES, FLAGS, INTS, LONGS, WORDS

_FLOATS = float64[::1]


class Compared(NamedTuple):
    """Some consecutive rows of the run whose rows seek partners.

    Attributes
    ----------
    first : int
        Position of the first row among all that seek.
    offsets, members : (n + 1,) int64 and int32
        Shared vertices; by rank, rarest first, if prefixes are compared.
    keys : (n,) int64
    n_left, n_right : (n,) int32
        Number of members, shared or not.
    """

    first: int
    offsets: np.ndarray
    members: np.ndarray
    keys: np.ndarray
    n_left: np.ndarray
    n_right: np.ndarray


class Indexed(NamedTuple):
    """Some consecutive gone rows and their index, few enough that their counters stay in a core's cache.

    Attributes
    ----------
    first : int
        Position of the first row among all gone rows that seek.
    starts, postings : (n_vertices + 1,) int64 and int32
        For each shared vertex its rows, numbered from `first`.
    keys : (n,) int64
    n_left, n_right : (n,) int32
    offsets, members : (n + 1,) int64 and int32
    signatures : (n,) uint64
        Signatures of the rows; empty if members are counted.
    """

    first: int
    starts: np.ndarray
    postings: np.ndarray
    keys: np.ndarray
    n_left: np.ndarray
    n_right: np.ndarray
    offsets: np.ndarray
    members: np.ndarray
    signatures: np.ndarray


class Known(NamedTuple):
    """The keys of all seeking rows of one run: row `i` has ``keys[which[i]]``."""

    keys: np.ndarray
    which: np.ndarray


class Prefixes(NamedTuple):
    """The data that rules out pairs before their members are compared.

    Attributes
    ----------
    limits : (n,) int32
        Prefix length of each row: every partner shares at least one member of the prefix.
    signatures : (n,) uint64
    is_left : (n_vertices,) bool
        True for ranks of left vertices.
    least : float
        The minimum Jaccard index.
    """

    limits: np.ndarray
    signatures: np.ndarray
    is_left: np.ndarray
    least: float


class Best(NamedTuple):
    """The best partner of each row so far; `*_partner` is its position in the other run's `Rows`, or -1."""

    new_jaccard: np.ndarray
    new_partner: np.ndarray
    new_kind: np.ndarray
    gone_jaccard: np.ndarray
    gone_partner: np.ndarray

    @classmethod
    def none_yet(cls, n_new: int, n_gone: int) -> Best:
        """Return the state before any partner is found."""
        return cls(
            np.zeros(n_new),
            np.full(n_new, -1, np.int32),
            np.zeros(n_new, np.int8),
            np.zeros(n_gone),
            np.full(n_gone, -1, np.int32),
        )


class BestOfBlock(NamedTuple):
    """One thread's best new partner of each row of an `Indexed`, with that partner's key."""

    jaccard: np.ndarray
    partner: np.ndarray
    partner_key: np.ndarray

    @classmethod
    def none_yet(cls, n: int) -> BestOfBlock:
        """Return the state before any partner is found."""
        return cls(np.zeros(n), np.full(n, -1, np.int32), np.zeros(n, np.int64))


class Partners(NamedTuple):
    """The half of `Best` for the rows of one run."""

    jaccard: np.ndarray
    partner: np.ndarray


class SumTable(NamedTuple):
    """A hash table from sums of hashes to rows, and a bit per stored sum; see `prefixes.fill_table`.

    Attributes
    ----------
    slots : (2 ** bits,) int32
        Rows; -1 for an empty slot.
    flags : uint8
        Bits, eight per byte.
    """

    slots: np.ndarray
    flags: np.ndarray
    bits: int


class Others(NamedTuple):
    """The rows in a `SumTable`.

    Attributes
    ----------
    sums : (n,) uint64
        Sum of the hashes of each row's members.
    which : (n,) int32
        Position of each row in the next two arrays.
    n_left, n_right : int32
    """

    sums: np.ndarray
    which: np.ndarray
    n_left: np.ndarray
    n_right: np.ndarray


# The types of these tuples in compiled code.
COMPARED = types.NamedTuple((int64, LONGS, INTS, LONGS, INTS, INTS), Compared)
INDEXED = types.NamedTuple((int64, LONGS, INTS, LONGS, INTS, INTS, LONGS, INTS, WORDS), Indexed)
KNOWN = types.NamedTuple((LONGS, INTS), Known)
PREFIXES = types.NamedTuple((INTS, WORDS, FLAGS, float64), Prefixes)
BEST = types.NamedTuple((_FLOATS, INTS, int8[::1], _FLOATS, INTS), Best)
BEST_OF_BLOCK = types.NamedTuple((_FLOATS, INTS, LONGS), BestOfBlock)
PARTNERS = types.NamedTuple((_FLOATS, INTS), Partners)
SUM_TABLE = types.NamedTuple((INTS, BYTES, int64), SumTable)
OTHERS = types.NamedTuple((WORDS, INTS, INTS, INTS), Others)
