"""Vertices that both runs have, under one number: dense ids are numbered per run, the vertices' own keys are not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mbe_stage.pipeline.backends.arrow.hashes import key_hashes
from mbe_stage.pipeline.publish.reading import vertex_keys
from mbe_stage.pipeline.views.top import SideName


@dataclass(frozen=True, slots=True, eq=False)
class SharedVertices:
    """The vertices that both runs have, left ones first.

    Attributes
    ----------
    n_left, n : int
        Shared left vertices, and all shared ones: numbers ``0 .. n_left - 1`` and ``n_left .. n - 1``.
    hashes : (n,) uint64
        Of each shared vertex, salted by its side: `mbe_stage.bicliques.keys.vertex_hashes`.
    old, new : pair of (n_vertices,) int32
        For each run its left and its right dense ids to shared numbers; -1 where the other run has no such vertex.
    """

    n_left: int
    n: int
    hashes: np.ndarray
    old: tuple[np.ndarray, np.ndarray]
    new: tuple[np.ndarray, np.ndarray]


def shared_vertices(old: Path, new: Path) -> SharedVertices:
    """Join the vertex tables of two runs on their keys.

    Keys are joined by their hashes, as `biclique_key` joins groups: 5 and "5" are one, and two vertices of a run are
    taken for one where 64 bits collide.
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
