"""Common numbers for the vertices of both runs, because dense ids differ between runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.publish.reading import vertex_keys
from mbe_stage.pipeline.views.top import SideName


@dataclass(frozen=True, slots=True, eq=False)
class SharedVertices:
    """The vertices of both runs, left ones first.

    Attributes
    ----------
    n_left, n : int
        Numbers of shared left vertices and of all shared vertices. Left ones are ``0 .. n_left - 1``, right ones
        ``n_left .. n - 1``.
    hashes : (n,) uint64
        Hash of each shared vertex, salted by its side: `mbe_stage.bicliques.keys.vertex_hashes`.
    old, new : pair of (n_vertices,) int32
        Maps from each run's left and right dense ids to shared numbers; -1 if the other run does not have the vertex.
    """

    n_left: int
    n: int
    hashes: np.ndarray
    old: tuple[np.ndarray, np.ndarray]
    new: tuple[np.ndarray, np.ndarray]


def shared_vertices(old: Path, new: Path) -> SharedVertices:
    """Join the vertex tables of two runs on their keys.

    Keys are joined by their hashes, like groups by `biclique_key`: 5 and "5" are equal, and a collision of 64 bits
    merges two vertices.
    """
    hashes_left, old_left, new_left = _join(old, new, "left", 0)
    hashes_right, old_right, new_right = _join(old, new, "right", hashes_left.size)
    return SharedVertices(
        n_left=hashes_left.size,
        n=hashes_left.size + hashes_right.size,
        hashes=np.concatenate([hashes_left, hashes_right]),
        old=(old_left, old_right),
        new=(new_left, new_right),
    )


def _join(old: Path, new: Path, side: SideName, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    old_hashes, new_hashes = (key_hashes(vertex_keys(run, side), side) for run in (old, new))
    shared, old_ids, new_ids = np.intersect1d(old_hashes, new_hashes, return_indices=True)
    numbers = np.arange(first, first + shared.size, dtype=np.int32)
    translations = []
    for hashes, ids in ((old_hashes, old_ids), (new_hashes, new_ids)):
        translation = np.full(hashes.size, -1, np.int32)
        translation[ids] = numbers
        translations.append(translation)
    return shared, translations[0], translations[1]
