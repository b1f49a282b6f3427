"""Fetch workers' results in the background, so that one slow worker does not delay the others."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

# A result may be as large as a worker's memory, so they are fetched one by one. If a fetch takes longer than this, the
# worker may hang, and another fetch starts.
_SLOW_SECONDS = 2.0
MOST_AT_ONCE = 4
"""Most concurrent fetches. Dask runs at most five; more would wait."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A result, or the error of fetching it."""

    result: Any = None
    error: BaseException | None = None


class Fetching:
    """Fetches the results of futures one by one, each in its own thread, after the one before was processed."""

    def __init__(self) -> None:
        self._here: queue.SimpleQueue[tuple[int, Fetched]] = queue.SimpleQueue()
        self._ordering = threading.Lock()
        self._waiting: deque[tuple[int, Any, float]] = deque()
        # Start times of fetches; infinity once the result has arrived.
        self._begun: dict[int, float] = {}
        self._handed: int | None = None
        self._is_over = False

    def ask(self, number: int, future: Any, seconds: float) -> None:
        """Queue a finished future to fetch its result, with a time limit in seconds."""
        with self._ordering:
            self._waiting.append((number, future, seconds))
        self._go_on()

    def next(self, seconds: float) -> tuple[int, Fetched] | None:
        """Return the next result or failure, with its number; None after `seconds`.

        A call means that the previous result has been processed.
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
        """Begin no more fetches."""
        with self._ordering:
            self._is_over = True

    def _go_on(self) -> None:
        """Begin the next fetch if no fetch is under way, or one is slow."""
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
            # No thread could be started: report it as a failed fetch.
            self._bring(number, Fetched(error=error))

    def _fetch(self, number: int, future: Any, seconds: float) -> None:
        try:
            fetched = Fetched(future.result(timeout=seconds))
        except BaseException as error:  # noqa: BLE001 - raised where it is taken
            fetched = Fetched(error=error)
        self._bring(number, fetched)

    def _bring(self, number: int, fetched: Fetched) -> None:
        with self._ordering:
            self._begun[number] = math.inf
        self._here.put((number, fetched))
