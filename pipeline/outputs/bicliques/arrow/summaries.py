"""Sums of several threads beside each other: a lock around one would be what all of them wait for."""

from __future__ import annotations

import queue
import threading

import numpy as np

from mbe_stage.bicliques.results import BicliqueBlock
from pipeline.outputs.bicliques.arrow.summary import Summary

__all__ = ["Summaries"]

_MOST_BYTES = 64 << 20


class Summaries:
    """Takes blocks in from several threads, each into a sum of its own as far as memory goes.

    Parameters
    ----------
    n_left, n_right : int
        Vertices.
    n_shown : int
        As of `Summary`.
    most_bytes : int
        Of all sums but the first; threads that find no spare one wait for it.
    """

    def __init__(self, n_left: int, n_right: int, n_shown: int, most_bytes: int = _MOST_BYTES) -> None:
        self._of = n_left, n_right, n_shown
        self._whole = Summary(*self._of)
        self._n_more = most_bytes // self._whole.n_bytes
        self._adding = threading.Lock()
        self._spare: queue.SimpleQueue[Summary] = queue.SimpleQueue()
        self._spare.put(self._whole)

    def add(self, block: BicliqueBlock, keys: np.ndarray) -> None:
        """Take in one block and the keys of its bicliques."""
        summary = self._taken()
        try:
            summary.add(block, keys)
        finally:
            self._spare.put(summary)

    def merge(self, other: Summary) -> None:
        """Take in what another part of the bicliques, disjoint from these, sums up to."""
        self._whole.merge(other)

    def whole(self) -> Summary:
        """All that was added, as one sum; asked while no thread adds."""
        spare = [self._spare.get() for _ in range(self._spare.qsize())]
        for summary in spare:
            if summary is not self._whole:
                self._whole.merge(summary)
                self._n_more += 1
        self._spare.put(self._whole)
        return self._whole

    def _taken(self) -> Summary:
        """One that nobody else adds to."""
        try:
            return self._spare.get_nowait()
        except queue.Empty:
            with self._adding:
                is_new = self._n_more > 0
                self._n_more -= is_new
            return Summary(*self._of) if is_new else self._spare.get()
