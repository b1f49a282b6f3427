"""Vertex hashes: a hash of a key's text, independent of its id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import hash_integers, hash_text, vertex_hashes
from mbe_stage.pipeline.backends.arrow.plain import decoded


def key_hashes(keys: pa.Array | pa.ChunkedArray, side: str) -> np.ndarray:
    """Return the vertex hash of each key.

    Parameters
    ----------
    keys : pa.Array or pa.ChunkedArray
        Integers within int64 or strings (also dictionary-encoded, sliced or chunked), none of them null.

    Returns
    -------
    (n,) uint64
        Depends on the key's text and the side only: 5 and "5" have the same.

    Examples
    --------
    >>> bool(key_hashes(pa.array([5]), "left")[0] == key_hashes(pa.array(["5"]), "left")[0])
    True
    """
    if isinstance(keys, pa.ChunkedArray):
        parts = [key_hashes(chunk, side) for chunk in keys.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint64)
    if pa.types.is_dictionary(keys.type):
        keys = decoded(keys)
    if len(keys) == 0:
        return np.zeros(0, np.uint64)
    if pa.types.is_integer(keys.type):
        return vertex_hashes(hash_integers(keys.cast(pa.int64()).to_numpy()), side)
    if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)):
        keys = keys.cast(pa.large_string())
    _, offsets, data = keys.buffers()
    width = np.int32 if pa.types.is_string(keys.type) else np.int64
    # A slice shares its parent's buffers and begins at `offset`; its offsets refer to all bytes.
    ends = np.frombuffer(offsets, width)[keys.offset : keys.offset + len(keys) + 1]
    characters = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return vertex_hashes(hash_text(ends, characters), side)
