"""Check dense ids from the caller and convert them for graphs."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mbe_stage.errors import InvalidArgument
from mbe_stage.integers import as_integer

MAX_VERTICES = 2**31 - 1
"""Largest number of vertices on a side."""
# Without a stated number of vertices, ids with gaps are accepted up to this many vertices, or this many per edge: then
# arrays of that size are small, or proportional to the edges.
_FEW_VERTICES, _VERTICES_PER_EDGE = 1 << 22, 64


def as_ids(values: ArrayLike, name: str) -> np.ndarray:
    """Return the ids of one end of all edges, ``(n_edges,) int32``.

    Raises
    ------
    InvalidArgument
        The argument is not a flat array of integers from 0 to 2^31 - 2; the message names it.
    """
    ids = np.asarray(values)
    if ids.ndim != 1:
        raise InvalidArgument(f"{name} has {ids.ndim} dimensions: expected one id per edge, a flat array")
    if ids.size == 0:
        return ids.astype(np.int32)
    if not np.issubdtype(ids.dtype, np.integer):
        raise InvalidArgument(
            f"{name} has dtype {ids.dtype}: expected dense integer ids (mbe_stage.pipeline makes them from any keys)"
        )
    if int(ids.min()) < 0:
        raise InvalidArgument(f"{name} holds the negative id {int(ids.min())}: expected dense ids from 0")
    if int(ids.max()) >= MAX_VERTICES:
        raise InvalidArgument(f"{name} holds {int(ids.max())}: dense ids stay below {MAX_VERTICES}; renumber them")
    return ids.astype(np.int32, copy=False)


def vertex_count(ids: np.ndarray, n: int | None, name: str, of: str) -> int:
    """Return the number of vertices: the stated one, or else the largest id plus one.

    Parameters
    ----------
    n : int or None
        The stated number.
    name, of : str
        Names of the number and of the ids, for messages.

    Raises
    ------
    InvalidArgument
        The stated number is too small for the ids. Or none is stated, and the ids are far from dense: above 4,194,304
        and above 64 per edge.
    """
    needed = int(ids.max()) + 1 if ids.size else 0
    if n is None:
        if needed > max(_FEW_VERTICES, _VERTICES_PER_EDGE * ids.size):
            raise InvalidArgument(
                f"the {of} reach {needed - 1:,} with only {ids.size:,} edges, and each id up to that is a vertex: "
                f"expected dense ids, below {_FEW_VERTICES:,} or {_VERTICES_PER_EDGE} for each edge; number them with "
                f"np.unique(ids, return_inverse=True), or pass {name} where there are so many vertices"
            )
        return needed
    n = as_integer(n, name)
    if n < needed:
        raise InvalidArgument(f"{name} is {n}, but the {of} reach {needed - 1}: expected at least {needed}")
    return n


def checksum_of_edges(offsets: Any, members: Any) -> int:
    """Return the CRC-32 of a graph's edges; it guards against mixing up graphs by mistake, not against forgery.

    The offsets, int64, and the members, int32, are NumPy or CuPy arrays.
    """
    return zlib.crc32(_content(members, np.int32), zlib.crc32(_content(offsets, np.int64)))


def _content(array: Any, dtype: Any) -> bytes:
    on_host = array if isinstance(array, np.ndarray) else array.get()
    return np.ascontiguousarray(on_host, dtype).tobytes()
