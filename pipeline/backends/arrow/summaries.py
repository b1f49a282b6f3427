"""Separate sums for several threads, because all of them would wait for the lock of a single one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mbe_stage.bicliques.keys import Fingerprint

_MOST_BYTES = 64 << 20


class _Summary(Protocol):
    """A summary of all results that have passed."""

    @property
    def n_bytes(self) -> int:
        """Memory that it takes."""

    def add(self, block: Any, keys: np.ndarray) -> None:
        """Add one block and the keys of its results."""

    def merge(self, other: Any) -> None:
        """Add the summary of other results."""


_S = TypeVar("_S", bound=_Summary)


class LockedSums:
    """The base of every problem's sums: threads add blocks one at a time under `_lock`, which is never pickled.

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
    """Adds blocks from several threads, each to its own sum if memory allows.

    Parameters
    ----------
    make : callable
        Makes an empty, thread-safe sum.
    most_bytes : int
        Limit for all sums but the first; threads wait if there is no spare one.
    """

    def __init__(self, make: Callable[[], _S], most_bytes: int = _MOST_BYTES) -> None:
        self._make = make
        self._whole = make()
        self._n_more = most_bytes // max(1, self._whole.n_bytes)
        self._adding = threading.Lock()
        self._spare: queue.SimpleQueue[_S] = queue.SimpleQueue()
        self._spare.put(self._whole)

    def add(self, block: Any, keys: np.ndarray) -> None:
        """Add one block and the keys of its results."""
        summary = self._taken()
        try:
            summary.add(block, keys)
        finally:
            self._spare.put(summary)

    def merge(self, other: _S) -> None:
        """Add the summary of another, disjoint part of the results."""
        self._whole.merge(other)

    def whole(self) -> _S:
        """Return everything added as one sum; only call it while no thread adds."""
        spare = [self._spare.get() for _ in range(self._spare.qsize())]
        for summary in spare:
            if summary is not self._whole:
                self._whole.merge(summary)
                self._n_more += 1
        self._spare.put(self._whole)
        return self._whole

    def _taken(self) -> _S:
        """Return a sum that no other thread uses."""
        try:
            return self._spare.get_nowait()
        except queue.Empty:
            with self._adding:
                is_new = self._n_more > 0
                self._n_more -= is_new
            return self._make() if is_new else self._spare.get()
