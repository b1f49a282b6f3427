"""Turns on the device that collects results: its searches, or the consumer.

Both work on the default stream of that device, where a quantum of a search takes half a second. Each wait of the
consumer would take a quantum. So the consumer comes first, and alone, as with one device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Turns"]

# Time that a search waits for its turn before it checks for requests of others.
_WAIT_SECONDS = 0.01


class Turns:
    """The turns of the searches on one device and of the consumer.

    Parameters
    ----------
    interrupt : callable
        Makes the quanta of these searches end soon; from any thread.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._changed = threading.Condition()
        self._n_searches = 0
        self._is_wanted = False

    @contextmanager
    def of_search(self) -> Iterator[bool]:
        """Wait a moment for a search's turn; yields if it has come. Several searches may have theirs at once."""
        with self._changed:
            if self._is_wanted:
                self._changed.wait(timeout=_WAIT_SECONDS)
            is_its_turn = not self._is_wanted
            self._n_searches += is_its_turn
        try:
            yield is_its_turn
        finally:
            # Without a turn nothing changed: waking others would make them wake each other.
            if is_its_turn:
                with self._changed:
                    self._n_searches -= 1
                    self._changed.notify_all()

    @contextmanager
    def of_consumer(self) -> Iterator[None]:
        """Interrupt the searches, and begin when none is at work."""
        with self._changed:
            self._is_wanted = True
        try:
            while self._are_searches_at_work():
                # Repeated, since a quantum that just begins misses it.
                self._interrupt()
                with self._changed:
                    self._changed.wait_for(lambda: not self._n_searches, timeout=_WAIT_SECONDS)
            yield
        finally:
            with self._changed:
                self._is_wanted = False
                self._changed.notify_all()

    def _are_searches_at_work(self) -> bool:
        with self._changed:
            return self._n_searches > 0
