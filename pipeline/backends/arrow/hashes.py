"""Vertex hashes: a hash of a key's text, independent of its id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mbe_stage.bicliques.keys import hash_integers, hash_text, vertex_hashes
from mbe_stage.pipeline.backends.arrow.key_encoder import text_buffers
from mbe_stage.pipeline.backends.arrow.plain import decoded

# Keys that are hashed together. All at once would take three times the memory of their hashes.
_PART = 1 << 18


def key_hashes(keys: pa.Array | pa.ChunkedArray, side: str) -> np.ndarray:
    """Return the vertex hash of each key, ``(n,) uint64``: it depends on the key's text and the side only.

    Keys are integers within int64 or strings (also dictionary-encoded, sliced or chunked), none of them null.

    Examples
    --------
    >>> bool(key_hashes(pa.array([5]), "left")[0] == key_hashes(pa.array(["5"]), "left")[0])
    True
    """
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    parts = (chunk.slice(start, _PART) for chunk in chunks for start in range(0, len(chunk), _PART))
    return np.concatenate([np.zeros(0, np.uint64), *(vertex_hashes(_hashed(part), side) for part in parts)])


def _hashed(keys: pa.Array) -> np.ndarray:
    keys = decoded(keys) if pa.types.is_dictionary(keys.type) else keys
    if pa.types.is_integer(keys.type):
        return hash_integers(keys.cast(pa.int64()).to_numpy())
    return hash_text(*text_buffers(keys))
