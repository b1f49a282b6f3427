"""Weights and times of the rows that became edges, for outputs that say something of them.

They are kept in host memory whatever the backend, 24 bytes a row, and only where an output asks for them
(`pipeline.problems.base.DerivedPublication.events`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques.keys import Fingerprint, biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.splitmix import finalised

__all__ = ["NO_TIME", "Events"]

NO_TIME = -(2**63)
"""In the place of a time that a row has not."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The rows behind the edges, several of one edge among them, in the order of the input.

    Attributes
    ----------
    left, right : (n,) int32
        The ends of each row's edge.
    weights : (n,) float64 or None
        NaN where a row has no finite one; None where the input names no column of them.
    times : (n,) int64 or None
        Microseconds since 1970, UTC; `NO_TIME` where a row has none; None where the input names no column of them, or
        its numbers are no seconds since 1970.
    """

    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None

    def fingerprint(self, left_hashes: np.ndarray, right_hashes: np.ndarray) -> str:
        """Names the rows by their ends' own keys, weights and times, whatever their order."""
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
