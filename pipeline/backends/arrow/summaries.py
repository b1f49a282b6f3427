"""Sums of several threads beside each other: a lock around one would be what all of them wait for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mbe_stage.bicliques.keys import Fingerprint

__all__ = ["LockedSums", "Summaries"]

_MOST_BYTES = 64 << 20


class _Summary(Protocol):
    """What is known of all results after they have streamed past."""

    @property
    def n_bytes(self) -> int:
        """What it takes of memory."""

    def add(self, block: Any, keys: np.ndarray) -> None:
        """Take in one block and the keys of its results."""

    def merge(self, other: Any) -> None:
        """Take in what other results sum up to."""


_S = TypeVar("_S", bound=_Summary)


class LockedSums:
    """What sums of every problem begin with: threads take blocks in one at a time, by `_lock`, which is never sent.

    Attributes
    ----------
    fingerprint : Fingerprint
        Of the keys.
    """

    def __init__(self) -> None:
        self.fingerprint = Fingerprint()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())


class Summaries(Generic[_S]):
    """Takes blocks in from several threads, each into a sum of its own as far as memory goes.

    Parameters
    ----------
    make : callable
        A sum of nothing yet, which several threads may call the methods of.
    most_bytes : int
        Of all sums but the first; threads that find no spare one wait for it.
    """

    def __init__(self, make: Callable[[], _S], most_bytes: int = _MOST_BYTES) -> None:
        self._make = make
        self._whole = make()
        self._n_more = most_bytes // max(1, self._whole.n_bytes)
        self._adding = threading.Lock()
        self._spare: queue.SimpleQueue[_S] = queue.SimpleQueue()
        self._spare.put(self._whole)

    def add(self, block: Any, keys: np.ndarray) -> None:
        """Take in one block and the keys of its results."""
        summary = self._taken()
        try:
            summary.add(block, keys)
        finally:
            self._spare.put(summary)

    def merge(self, other: _S) -> None:
        """Take in what another part of the results, disjoint from these, sums up to."""
        self._whole.merge(other)

    def whole(self) -> _S:
        """All that was added, as one sum; asked while no thread adds."""
        spare = [self._spare.get() for _ in range(self._spare.qsize())]
        for summary in spare:
            if summary is not self._whole:
                self._whole.merge(summary)
                self._n_more += 1
        self._spare.put(self._whole)
        return self._whole

    def _taken(self) -> _S:
        """One that nobody else adds to."""
        try:
            return self._spare.get_nowait()
        except queue.Empty:
            with self._adding:
                is_new = self._n_more > 0
                self._n_more -= is_new
            return self._make() if is_new else self._spare.get()
