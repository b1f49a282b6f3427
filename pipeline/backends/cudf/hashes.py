"""Vertex hashes: a hash of a key's text, independent of its id."""

from __future__ import annotations

import cudf
import cupy as cp
import numpy as np
import pylibcudf as plc

from mbe_stage.bicliques.cuda.keys import hash_integers, hash_text, vertex_hashes
from mbe_stage.pipeline.backends.cudf.buffers import kind_of, text_buffers, values_of


def key_hashes(keys: cudf.Series, side: str) -> cp.ndarray:
    """Return the vertex hash of each key, ``(n,) uint64``, as `pipeline.backends.arrow.hashes.key_hashes` does.

    Parameters
    ----------
    keys : cudf.Series
        Integers or text, none of them null.
    """
    if kind_of(keys) == plc.TypeId.STRING:
        return vertex_hashes(hash_text(*text_buffers(keys)), side)
    return vertex_hashes(hash_integers(values_of(keys).astype(np.int64, copy=False)), side)
