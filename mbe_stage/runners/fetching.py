"""Fetch workers' results in the background, so that one that hangs delays no other."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

__all__ = ["MOST_AT_ONCE", "Fetched", "Fetching"]

# A result may be as large as a worker's memory: another is fetched only where one takes longer than this, for its
# worker may hang.
_SLOW_SECONDS = 2.0
MOST_AT_ONCE = 4
"""Results that are on their way: Dask fetches five at once, and has the others wait."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A result, or the error that came in its place."""

    result: Any = None
    error: BaseException | None = None


class Fetching:
    """Fetches what futures have, each in a thread of its own, and each once the one before has been dealt with."""

    def __init__(self) -> None:
        self._here: queue.SimpleQueue[tuple[int, Fetched]] = queue.SimpleQueue()
        self._ordering = threading.Lock()
        self._waiting: deque[tuple[int, Any, float]] = deque()
        # Since when; those that are here are not slow.
        self._begun: dict[int, float] = {}
        self._handed: int | None = None
        self._is_over = False

    def ask(self, number: int, future: Any, seconds: float) -> None:
        """Have a future's result fetched that is done; a result has so many seconds to come."""
        with self._ordering:
            self._waiting.append((number, future, seconds))
        self._go_on()

    def next(self, seconds: float) -> tuple[int, Fetched] | None:
        """One that is here, or will not come: its number, and what came of it; None after so many seconds.

        The one before has been dealt with.
        """
        with self._ordering:
            if self._handed is not None:
                del self._begun[self._handed]
                self._handed = None
        self._go_on()
        try:
            here = self._here.get(timeout=seconds)
        except queue.Empty:
            return None
        self._handed = here[0]
        return here

    def close(self) -> None:
        """Begin with nothing any more: nobody is left to take it."""
        with self._ordering:
            self._is_over = True

    def _go_on(self) -> None:
        """Begin with the next where nothing is on its way, or what is there is slow."""
        with self._ordering:
            slow = time.perf_counter() - _SLOW_SECONDS
            is_busy = len(self._begun) >= MOST_AT_ONCE or any(since > slow for since in self._begun.values())
            if self._is_over or not self._waiting or is_busy:
                return
            number, future, seconds = self._waiting.popleft()
            self._begun[number] = time.perf_counter()
        thread = threading.Thread(target=self._fetch, args=(number, future, seconds), name="fetch", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # There can be no more threads: whoever takes it has to know.
            self._bring(number, Fetched(error=error))

    def _fetch(self, number: int, future: Any, seconds: float) -> None:
        try:
            fetched = Fetched(future.result(timeout=seconds))
        except BaseException as error:  # noqa: BLE001 - raised by whoever takes it
            fetched = Fetched(error=error)
        self._bring(number, fetched)

    def _bring(self, number: int, fetched: Fetched) -> None:
        with self._ordering:
            self._begun[number] = math.inf
        self._here.put((number, fetched))
