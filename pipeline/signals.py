"""Signals and Numba: a Ctrl-C reaches whoever waits for it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["signals_are_heard"]

_LOCK = "numba:compiler_lock"


@contextmanager
def signals_are_heard() -> Iterator[None]:
    """Undo both ways in which Numba loses the KeyboardInterrupt of a signal that comes in the midst of it.

    While it compiles, LLVM calls Python, and what is raised there is printed and dropped: the interrupt waits until the
    step under way is over. While it loads compiled code, it goes on, and Python makes a SystemError of its answer,
    "returned a result with an exception set": its cause is raised instead.

    Handlers other than Python's own for Ctrl-C stay as they are: Prefect looks whether its own is in place. Threads
    other than the main one have none.
    """
    waiting = _Waiting()
    replaced = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is signal.default_int_handler:
                signal.signal(number, waiting)
                replaced.append(number)
    try:
        yield
    except SystemError as error:
        raised = error.__cause__
        if raised is None or isinstance(raised, Exception):
            raise
        raise raised from None
    finally:
        waiting.forget()
        for number in replaced:
            if signal.getsignal(number) is waiting:
                signal.signal(number, signal.default_int_handler)


class _Waiting:
    """Python's handler for Ctrl-C, which raises KeyboardInterrupt; while Numba compiles, when the step is over."""

    def __init__(self) -> None:
        self._listener: Any = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # Whoever has not imported it does not compile: no command waits for an import.
        lock = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
        if lock is None or not lock.is_locked():
            signal.default_int_handler(number, frame)
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
                    signal.default_int_handler(number, None)

        # Every step takes the lock once more. Where it is given back, no LLVM is between the handler and its caller.
        self._listener = AfterStep()
        events.register(_LOCK, self._listener)

    def forget(self) -> None:
        """Wait no more."""
        if self._listener is not None:
            from numba.core import event as events

            events.unregister(_LOCK, self._listener)
            self._listener = None
