"""Signals and Numba: what a signal's handler raises, Ctrl-C above all, reaches whoever waits for it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["signals_are_heard"]

_HELD = (signal.SIGINT, signal.SIGTERM)
_LOCK = "numba:compiler_lock"


@contextmanager
def signals_are_heard() -> Iterator[None]:
    """Undo both ways in which Numba loses what a handler raises in the midst of it.

    While it compiles, LLVM calls Python, and what is raised there is printed and dropped: handlers wait until the
    step under way is over. While it loads compiled code, it goes on, and Python makes a SystemError of its answer,
    "returned a result with an exception set": its cause is raised instead.

    Threads other than the main one have no handlers, and nothing is changed there.
    """
    changed: dict[int, _Waiting] = {}
    if threading.current_thread() is threading.main_thread():
        for number in _HELD:
            before = signal.getsignal(number)
            if callable(before) and not isinstance(before, _Waiting):
                changed[number] = _Waiting(before)
                signal.signal(number, changed[number])
    try:
        yield
    except SystemError as error:
        raised = error.__cause__
        if raised is None or isinstance(raised, Exception):
            raise
        raise raised from None
    finally:
        for changed_number, waiting in changed.items():
            waiting.forget()
            is_still_there = signal.getsignal(changed_number) is waiting
            if is_still_there:
                signal.signal(changed_number, waiting.handler)


class _Waiting:
    """A handler that is called at once, or, while Numba compiles, when the step under way is over."""

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler
        self._listener: Any = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # Whoever has not imported it does not compile; `mbe show` does not wait for an import.
        lock = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
        if lock is None or not lock.is_locked():
            self.handler(number, frame)
        elif self._listener is None:
            self._call_after_step(number)

    def _call_after_step(self, number: int) -> None:
        from numba.core import event as events

        waiting = self

        class AfterStep(events.Listener):
            def on_start(self, event: Any) -> None:
                pass

            def on_end(self, event: Any) -> None:  # noqa: ARG002 - so it is called
                if threading.current_thread() is threading.main_thread():
                    waiting.forget()
                    waiting.handler(number, None)

        # Every step takes the lock once more. Where it is given back, no LLVM is between the handler and its caller.
        self._listener = AfterStep()
        events.register(_LOCK, self._listener)

    def forget(self) -> None:
        """Wait no more."""
        if self._listener is not None:
            from numba.core import event as events

            events.unregister(_LOCK, self._listener)
            self._listener = None
