"""What workers have found is fetched beside everything else, so that nobody waits for one that hangs meanwhile."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

__all__ = ["Fetched", "Fetching"]

# One result is fetched at a time, for each may be as large as a worker's memory, unless it takes longer than this.
_SLOW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A result, or the error that came in its place."""

    result: Any = None
    error: BaseException | None = None


class Fetching:
    """Fetches what futures have, each in a thread of its own."""

    def __init__(self) -> None:
        self._here: queue.SimpleQueue[tuple[int, Fetched]] = queue.SimpleQueue()
        self._ordering = threading.Lock()
        self._waiting: deque[tuple[int, Any, float]] = deque()
        self._begun: dict[int, float] = {}
        self._is_over = False

    def ask(self, number: int, future: Any, seconds: float) -> None:
        """Have a future's result fetched that is done; a result has so many seconds to come."""
        with self._ordering:
            self._waiting.append((number, future, seconds))
        self._go_on()

    def next(self, seconds: float) -> tuple[int, Fetched] | None:
        """One that is here, or will not come: its number, and what came of it; None after so many seconds."""
        self._go_on()
        try:
            return self._here.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Begin with nothing any more: nobody is left to take it."""
        with self._ordering:
            self._is_over = True

    def _go_on(self) -> None:
        """Begin with the next where nothing is on its way, or not since a moment ago."""
        with self._ordering:
            now = time.perf_counter()
            if self._is_over or not self._waiting or any(now - since < _SLOW_SECONDS for since in self._begun.values()):
                return
            number, future, seconds = self._waiting.popleft()
            self._begun[number] = now
        threading.Thread(target=self._fetch, args=(number, future, seconds), name="fetch", daemon=True).start()

    def _fetch(self, number: int, future: Any, seconds: float) -> None:
        try:
            fetched = Fetched(future.result(timeout=seconds))
        except BaseException as error:  # noqa: BLE001 - raised by whoever takes it
            fetched = Fetched(error=error)
        with self._ordering:
            del self._begun[number]
        self._here.put((number, fetched))
        self._go_on()
