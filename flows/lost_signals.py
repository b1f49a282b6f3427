"""SIGHUP becomes SIGTERM, and that and Ctrl-C are heard: they wait while nobody could, and come again where nobody did.

Handlers raise, wherever the main thread happens to be. Within Numba that becomes another error or crashes the process:
a flow has Prefect's handler of SIGTERM wait (`pipeline.execution.signals.PatientHandler`). In a finaliser, a
callback that C code
calls, or an `isinstance` within pydantic it is dropped, with a word or without, and the run goes on as if nothing had
been said: the signal is sent again. While Prefect makes a task run, it fails at noting the crash, and raises that
failure instead: what was raised first comes out.
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
# Seconds in which what a signal raises is expected to come up.
_AGAIN = 0.5


def sighup_is_sigterm() -> None:
    """From now on the first SIGHUP is a SIGTERM, to whoever hears that then; an ignored one (`nohup`) stays ignored.

    To be called by the main thread.
    """
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _raise_sigterm)


def _raise_sigterm(_number: int, _frame: FrameType | None) -> None:
    # Whoever closes a terminal may send several, and who cleans up is left in peace. Not SIG_IGN: children inherit it.
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.raise_signal(signal.SIGTERM)


@contextmanager
def lost_signals_come_again() -> Iterator[None]:
    """While the context lasts, repeat SIGINT and SIGTERM until the main thread deals with what their handler raised.

    To be entered by the main thread. Whoever cleans up is not disturbed, however long it takes. Who is told of signals
    already, an event loop or this context entered before, stays the one who is.
    """
    told_already = signal.set_wakeup_fd(-1)
    if told_already != -1:
        signal.set_wakeup_fd(told_already)
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
    """What the body of a flow does while the context lasts hears SIGTERM, at once, later, or again, and Ctrl-C.

    In a thread other than the main one, in which no handler runs, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with what_ends_comes_out(), lost_signals_come_again(), _prefect_is_patient():
        yield


@contextmanager
def what_ends_comes_out() -> Iterator[None]:
    """Where an error arose in the wake of a signal, raise what the signal raised: nobody minds the rest."""
    try:
        yield
    except Exception as error:
        ending = _ending_behind(error)
        if ending is None:
            raise
        raise ending from None


@contextmanager
def _prefect_is_patient() -> Iterator[None]:
    """While the context lasts, Prefect's handler of SIGTERM waits where what it raises could not be heard.

    Before it takes a cancellation from a runner, Prefect asks whether its own handler is in place, and means the one by
    that name: what waits goes by it, and both change under the lock under which Prefect asks.
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
    """Python writes the number of every signal that it has a handler for."""
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
    """Whether the main thread is in a handler or a clean-up of what the signal raised, or of what came out of that.

    Or a handler has put the signal off (`pipeline.execution.sigterm_checkpoint`).
    """
    handler = signal.getsignal(number)
    if isinstance(handler, PatientHandler) and handler.has_postponed(number):
        return True
    current: Any = sys._current_exceptions().get(cast(int, threading.main_thread().ident))
    # Python 3.11 answers with what `sys.exc_info` does.
    return _ending_behind(current[1] if isinstance(current, tuple) else current) is not None


def _ending_behind(error: BaseException | None) -> KeyboardInterrupt | TerminationSignal | None:
    """What a signal raised and the error came out of, or is."""
    while error is not None and not isinstance(error, KeyboardInterrupt | TerminationSignal):
        error = error.__cause__ or error.__context__
    return error
