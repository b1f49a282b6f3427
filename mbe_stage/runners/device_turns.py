"""Turns on the device that collects results: its searches, or the consumer.

Both work on the default stream of that device, where a quantum of a search takes half a second. Whatever the consumer
waits for there would wait for one quantum each time; so it comes first, and alone, as where one device does all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Turns"]

# How long a search waits for its turn before it looks whether others want work from it.
_WAIT_SECONDS = 0.01


class Turns:
    """The turns of the searches on one device and of the consumer.

    Parameters
    ----------
    interrupt : callable
        Has the quanta of these searches end soon; from any thread.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._changed = threading.Condition()
        self._n_searches = 0
        self._is_wanted = False

    @contextmanager
    def of_search(self) -> Iterator[bool]:
        """Yields whether it is a search's turn, waiting for it a moment; several searches may have theirs at once."""
        with self._changed:
            if self._is_wanted:
                self._changed.wait(timeout=_WAIT_SECONDS)
            is_its_turn = not self._is_wanted
            self._n_searches += is_its_turn
        try:
            yield is_its_turn
        finally:
            # Who had no turn has changed nothing: to wake others for that would have them wake each other.
            if is_its_turn:
                with self._changed:
                    self._n_searches -= 1
                    self._changed.notify_all()

    @contextmanager
    def of_consumer(self) -> Iterator[None]:
        """Begins when no search is at work, which are told to end soon."""
        with self._changed:
            self._is_wanted = True
        try:
            while self._are_searches_at_work():
                # Again and again: a quantum that begins just then does not hear it.
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
