"""SIGHUP becomes SIGTERM, and a SIGTERM that nobody could hear is sent again.

Prefect's handler raises, wherever the main thread happens to be: a finaliser, a callback that C code calls, an
`isinstance` within pydantic. What is raised there is dropped, with a word or without, and the run goes on as if nothing
had been said. Its handler cannot be wrapped, since Prefect looks whether its own is in place.
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

__all__ = ["sighup_is_sigterm", "sigterm_is_heard"]

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
def sigterm_is_heard() -> Iterator[None]:
    """While the context lasts, repeat a SIGTERM until the main thread deals with what its handler raised.

    To be entered by the main thread. Whoever cleans up is not disturbed, however long it takes.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader,), name="lost-signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _watch(reader: int) -> None:
    """Python writes the number of every signal that it has a handler for."""
    is_pending = False
    while True:
        if select.select([reader], [], [], _AGAIN if is_pending else None)[0]:
            numbers = os.read(reader, 64)
            if not numbers:
                return
            is_pending = is_pending or signal.SIGTERM in numbers
        else:
            is_pending = False
            if not _is_dealt_with():
                signal.pthread_kill(cast(int, threading.main_thread().ident), signal.SIGTERM)


def _is_dealt_with() -> bool:
    """Whether the main thread is in a handler or a clean-up of what the signal raised, or of what came out of that."""
    current: Any = sys._current_exceptions().get(cast(int, threading.main_thread().ident))
    # Python 3.11 answers with what `sys.exc_info` does.
    error = current[1] if isinstance(current, tuple) else current
    while error is not None and not isinstance(error, KeyboardInterrupt | TerminationSignal):
        error = error.__cause__ or error.__context__
    return error is not None
