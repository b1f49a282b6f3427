"""Separate sums for several threads, because all of them would wait for the lock of a single one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mbe_stage.bicliques.keys import Fingerprint

# A further sum takes time to fill and to merge. It pays off once the keys of all results take this share of its bytes.
_LEAST_SHARE = 0.5


class _Summary(Protocol):
    """A summary of all results so far."""

    @property
    def n_bytes(self) -> int:
        """Bytes of memory."""

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
        Fingerprint of the keys.
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

    Attributes
    ----------
    most_bytes : int
        Limit for all sums but the first; threads wait if there is no spare one.
    """

    def __init__(self, make: Callable[[], _S], most_bytes: int = 0) -> None:
        self.most_bytes = most_bytes
        self._make = make
        self._whole = make()
        self._n_more = self._key_bytes = 0
        self._adding = threading.Lock()
        self._spare: queue.SimpleQueue[_S] = queue.SimpleQueue()
        self._spare.put(self._whole)

    def add(self, block: Any, keys: np.ndarray) -> None:
        """Add one block and the keys of its results."""
        summary = self._taken(keys.nbytes)
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
        rest = [self._whole, *(each for each in spare if each is not self._whole)]
        if len(rest) > 1:
            # Merge in pairs, several pairs at once.
            with ThreadPoolExecutor(len(rest) // 2) as pool:
                while len(rest) > 1:
                    half = (len(rest) + 1) // 2
                    list(pool.map(lambda one, other: one.merge(other), rest, rest[half:]))
                    del rest[half:]
        self._n_more = self._key_bytes = 0
        self._spare.put(self._whole)
        return self._whole

    def _taken(self, key_bytes: int) -> _S:
        """Return a sum that no other thread uses."""
        with self._adding:
            self._key_bytes += key_bytes
        try:
            return self._spare.get_nowait()
        except queue.Empty:
            with self._adding:
                more = (self._n_more + 1) * self._whole.n_bytes
                is_new = more <= self.most_bytes and _LEAST_SHARE * more <= self._key_bytes
                self._n_more += is_new
            return self._make() if is_new else self._spare.get()
