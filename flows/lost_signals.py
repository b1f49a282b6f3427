"""Make sure that SIGHUP, SIGTERM and Ctrl-C end a flow: postpone them where they would crash, repeat lost ones.

A handler raises wherever the main thread happens to be:

- Within Numba the exception becomes another error or crashes the process. Prefect's SIGTERM handler therefore waits
  (`pipeline.execution.signals.PatientHandler`).
- In a finaliser, a C callback, or an `isinstance` within pydantic the exception is dropped and the run continues. The
  signal is sent again.
- While Prefect creates a task run, it fails to record the crash and raises that failure instead. The exception of the
  signal is raised in its place.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

from prefect.exceptions import TerminationSignal
from prefect.utilities import engine

from mbe_stage.pipeline.execution.signals import PatientHandler

__all__ = ["lost_signals_come_again", "sighup_is_sigterm", "signals_are_heard_by_flow", "what_ends_comes_out"]

_ENDINGS = (signal.SIGINT, signal.SIGTERM)
# Seconds within which the main thread should handle a signal's exception.
_AGAIN = 0.5


def sighup_is_sigterm() -> None:
    """Turn the first SIGHUP into a SIGTERM from now on; an ignored one (`nohup`) stays ignored.

    Call it in the main thread.
    """
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _raise_sigterm)


def _raise_sigterm(_number: int, _frame: FrameType | None) -> None:
    # A closing terminal may send several: ignore them during clean-up. Not SIG_IGN, which children inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.raise_signal(signal.SIGTERM)


@contextmanager
def lost_signals_come_again() -> Iterator[None]:
    """Within the context, repeat SIGINT and SIGTERM until the main thread handles the exception they raise.

    Enter it in the main thread. Clean-up is not disturbed, however long it takes. A wakeup descriptor that is set
    already (by an event loop, or an outer context) stays in place.
    """
    in_place = signal.set_wakeup_fd(-1)
    if in_place != -1:
        signal.set_wakeup_fd(in_place)
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader,), name="lost-signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        os.close(writer)
        watcher.join()
        os.close(reader)


@contextmanager
def signals_are_heard_by_flow() -> Iterator[None]:
    """Within the context, make sure that SIGTERM and Ctrl-C end the body of a flow.

    In other threads than the main one, where no handler runs, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with what_ends_comes_out(), lost_signals_come_again(), _prefect_is_patient():
        yield


@contextmanager
def what_ends_comes_out() -> Iterator[None]:
    """If an error followed from a signal, raise the exception of the signal instead."""
    try:
        yield
    except Exception as error:
        ending = _ending_behind(error)
        if ending is None:
            raise
        raise ending from None


@contextmanager
def _prefect_is_patient() -> Iterator[None]:
    """Within the context, postpone Prefect's SIGTERM handler where its exception would be lost.

    Before Prefect accepts a cancellation from a runner, it checks by name that its own handler is in place. So the
    patient handler takes that name, under the lock that Prefect holds for the check.
    """
    own = engine._prefect_sigterm_handler
    if signal.getsignal(signal.SIGTERM) is not own:
        yield
        return
    patient = PatientHandler(own)
    try:
        _change_handler(own, patient)
        yield
        patient.wait_no_more()
    finally:
        patient.forget()
        _change_handler(patient, own)


def _change_handler(before: Any, after: Any) -> None:
    with engine._prefect_sigterm_bridge_lock:
        engine._prefect_sigterm_handler = after
        if signal.getsignal(signal.SIGTERM) is before:
            signal.signal(signal.SIGTERM, after)


def _watch(reader: int) -> None:
    """Read signal numbers, which Python writes for every signal with a handler, and repeat unhandled ones."""
    pending: int | None = None
    while True:
        if select.select([reader], [], [], None if pending is None else _AGAIN)[0]:
            numbers = os.read(reader, 64)
            if not numbers:
                return
            pending = next((number for number in numbers if number in _ENDINGS), pending)
        elif pending is not None:
            if not _is_dealt_with(pending):
                signal.pthread_kill(cast(int, threading.main_thread().ident), pending)
            pending = None


def _is_dealt_with(number: int) -> bool:
    """True if the main thread is handling the signal's exception, or a handler has postponed the signal.

    See `pipeline.execution.signals` for the second case.
    """
    handler = signal.getsignal(number)
    if isinstance(handler, PatientHandler) and handler.has_postponed(number):
        return True
    current: Any = sys._current_exceptions().get(cast(int, threading.main_thread().ident))
    # Python 3.11 returns a tuple like that of `sys.exc_info`.
    return _ending_behind(current[1] if isinstance(current, tuple) else current) is not None


def _ending_behind(error: BaseException | None) -> KeyboardInterrupt | TerminationSignal | None:
    """Return the exception of a signal that an error is, or follows from."""
    while error is not None and not isinstance(error, KeyboardInterrupt | TerminationSignal):
        error = error.__cause__ or error.__context__
    return error
