"""Vertex hashes: a hash of a key's text, independent of its id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import hash_integers, hash_text, vertex_hashes
from mbe_stage.pipeline.backends.arrow.key_encoder import text_buffers
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
    return vertex_hashes(hash_text(*text_buffers(keys)), side)
