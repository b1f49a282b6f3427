"""Weights and times of the rows that became edges, for outputs that use them.

They are in host memory for every backend, take 24 bytes per row, and are kept only if an output needs them
(`pipeline.problems.base.DerivedPublication.events`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques.keys import Fingerprint, biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.splitmix import finalised

NO_TIME = -(2**63)
"""Stands for a missing time."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The rows behind the edges in input order; an edge may have several.

    Attributes
    ----------
    left, right : (n,) int32
        The ends of each row's edge.
    weights : (n,) float64 or None
        NaN if a row has no finite weight; None if the input names no weight column.
    times : (n,) int64 or None
        Microseconds since 1970, UTC; `NO_TIME` if a row has no time; None if the input names no time column, or its
        numbers are not seconds since 1970.
    """

    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None

    def fingerprint(self, left_hashes: np.ndarray, right_hashes: np.ndarray) -> str:
        """Return a fingerprint of the rows' keys, weights and times that does not depend on their order."""
        found = Fingerprint()
        for start in range(0, self.left.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            left, right = self.left[part], self.right[part]
            ones = np.ones(left.size, np.int32)
            keys = biclique_keys(BicliqueBlock(left.size, ones, ones, left, right), left_hashes, right_hashes)
            words = keys.view(np.uint64)
            for column in (self.weights, self.times):
                if column is not None:
                    words = finalised(words + column[part].view(np.uint64))
            found.add(words.view(np.int64))
        return str(found)
