"""Weights and times of the rows that became edges, for outputs that use them.

They are in host memory for every backend, take 24 bytes per row, and are kept only if an output needs them
(`pipeline.problems.base.DerivedPublication.events`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.bicliques.keys import Fingerprint, biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.splitmix import finalised

NO_TIME = -(2**63)
"""Stands for a missing time."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A further column of few distinct values.

    Attributes
    ----------
    codes : (n,) uint8
        Position of each row's value.
    values : tuple of str
        Ascending by UTF-8 bytes; a missing value is empty.
    """

    name: str
    codes: np.ndarray
    values: tuple[str, ...]

    def hashes(self) -> np.ndarray:
        """Return a hash of the name with each value; ``(n_values,) uint64``."""
        digests = [hashlib.sha256(f"{self.name}\0{value}".encode()).digest() for value in self.values]
        return np.frombuffer(b"".join(digest[:8] for digest in digests), "<u8").astype(np.uint64)


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
    attributes : tuple of Attribute
        Further columns that may narrow the right key, if an output tries such keys.
    moments : (n,) int64 or None
        A time that was recognised among further columns, if the input names none; every row has one.
    rows : (n,) int64 or None
        The place of each row in the input, from 0, if it is kept (`InputConfig.keeps_rows`).
    """

    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None
    attributes: tuple[Attribute, ...] = ()
    moments: np.ndarray | None = None
    rows: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Events:
        """Return some of the rows, ``(m,)`` integers."""
        weights, times, moments = (
            None if column is None else column[rows] for column in (self.weights, self.times, self.moments)
        )
        attributes = tuple(replace(each, codes=each.codes[rows]) for each in self.attributes)
        return Events(self.left[rows], self.right[rows], weights, times, attributes, moments)

    @property
    def key_times(self) -> np.ndarray | None:
        """The times for buckets; None unless every row has one."""
        times = self.moments if self.times is None else self.times
        return None if times is None or not times.size or int(times.min()) == NO_TIME else times

    def fingerprint(self, left_hashes: np.ndarray, right_hashes: np.ndarray) -> str:
        """Return a fingerprint of the rows' keys, weights and times that does not depend on their order."""
        found = Fingerprint()
        self.add_to(found, left_hashes, right_hashes)
        return str(found)

    def add_to(self, found: Fingerprint, left_hashes: np.ndarray, right_hashes: np.ndarray) -> None:
        """Add these rows to a fingerprint."""
        columns = [each.view(np.uint64) for each in (self.weights, self.times, self.moments) if each is not None]
        columns += [each.hashes()[each.codes] for each in self.attributes]
        for start in range(0, self.left.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            left, right = self.left[part], self.right[part]
            ones = np.ones(left.size, np.int32)
            keys = biclique_keys(BicliqueBlock(left.size, ones, ones, left, right), left_hashes, right_hashes)
            words = keys.view(np.uint64)
            for column in columns:
                words = finalised(words + column[part])
            found.add(words.view(np.int64))
