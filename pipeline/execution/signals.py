"""Signals that end a run: an exception at a safe moment, and a last checkpoint at SIGTERM.

The exception is not raised inside Numba, an import or a finaliser. SIGTERM takes effect after the checkpoint, or after
the grace period.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

from mbe_stage.pipeline.cli.early_exit import ENDINGS, leave

_LOCK = "numba:compiler_lock"
_COMPILERS = ("numba", "llvmlite")
# Seconds until a signal that came at a bad moment is sent again.
_AGAIN = 0.05
log = logging.getLogger(__name__)
# If no block comes for this long after the grace period, the search could not be asked to stop. The signal is sent
# again.
_SECONDS_MORE = 2.0
# systemd signals every process of a service, and a Prefect runner signals the process of a flow once more.
_SAME_SECONDS = 5.0


class EndedBySignal(KeyboardInterrupt):
    """A signal that ends the run. Like Ctrl-C it is not an `Exception`, so only cleanup code sees it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def signal_of(interrupt: KeyboardInterrupt) -> signal.Signals:
    """Return the signal behind an interrupt; Python's own is Ctrl-C."""
    return interrupt.number if isinstance(interrupt, EndedBySignal) else signal.SIGINT


def ended_by(error: BaseException) -> EndedBySignal | None:
    """Return the signal that led to an error, such as a failed cleanup of a closed terminal; or None."""
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, EndedBySignal):
        behind = behind.__cause__ or behind.__context__
    return behind


@contextmanager
def signals_are_heard() -> Iterator[None]:
    """Raise `EndedBySignal` at SIGINT and, if the command handles them, at SIGTERM and SIGHUP.

    `PatientHandler` lists moments at which the exception would be lost. If it is raised in a finaliser or callback,
    which no exception can leave, the signal is sent again some hundredths of a second later.

    Handlers other than Python's own for Ctrl-C and those of the command stay in place, because Prefect checks that its
    own is (`flows.lost_signals`). Threads other than the main one have no handlers.
    """
    hearing = _Hearing()
    replaced = {}
    if threading.current_thread() is threading.main_thread():
        for number in ENDINGS:
            before = signal.getsignal(number)
            if before is signal.default_int_handler or before is leave:
                signal.signal(number, hearing)
                replaced[number] = before
    unraisable = sys.unraisablehook
    if replaced:
        sys.unraisablehook = hearing.again_if_lost
    try:
        yield
        hearing.wait_no_more()
    except SystemError as error:
        raised = error.__cause__
        if raised is None or isinstance(raised, Exception):
            raise
        raise raised from None
    finally:
        hearing.forget()
        if sys.unraisablehook == hearing.again_if_lost:
            sys.unraisablehook = unraisable
        for number, before in replaced.items():
            if signal.getsignal(number) is hearing:
                signal.signal(number, before)


class PatientHandler:
    """A handler that calls another, raising one, at once or as soon as its exception would not be lost.

    At three moments the exception would be lost, become another error, or crash the process. While Numba compiles, LLVM
    calls Python, and an exception there is printed and dropped: the handler waits for the end of the step. At other
    times compiled code calls Numba's Python, for example to make arrays of results, and continues despite an exception:
    the handler waits until no function of Numba is running. During an import, the module may take the exception for its
    own: the handler waits for the end of the import, unless the signal comes twice. Imports that were running when the
    handler was made do not count.

    Parameters
    ----------
    handler : callable
        A handler for `signal.signal`.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self._handler = handler
        self._imports = _imports_under_way(sys._getframe())
        self._waiting: int | None = None
        self._listener: Any = None
        self._sender: threading.Thread | None = None
        self._to_postpone: dict[int, tuple[Callable[[], object], float]] = {}
        self._postponed: int | None = None
        self._same_until = 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; Python calls this."""
        note, seconds = self._to_postpone.pop(number, (None, 0.0))
        if note is not None:
            self._postponed, self._same_until = number, time.monotonic() + seconds
            note()
            return
        if self.has_postponed(number) and time.monotonic() < self._same_until:
            return
        self._postponed = None
        if _numba_compiles():
            if self._listener is None:
                self._call_after_step(number)
        elif _within_numba(frame) or (self._sender is None and _imports_under_way(frame) > self._imports):
            self.send_again(number)
        else:
            self._call(number, frame)

    def postpone(self, number: int, note: Callable[[], object], same_seconds: float) -> None:
        """Call only `note` at the next such signal, instead of the handler.

        Service managers may send a signal several times: repeats within `same_seconds` count as one.
        """
        self._to_postpone[number] = note, same_seconds

    def postpone_no_more(self, number: int) -> None:
        """Treat the next such signal as usual, unless it repeats a postponed one."""
        self._to_postpone.pop(number, None)

    def call_postponed(self, number: int) -> None:
        """Call the handler for a postponed signal."""
        self._call(number, None)

    def has_postponed(self, number: int) -> bool:
        """Return whether the last signal was postponed."""
        return self._postponed == number

    def send_again(self, number: int) -> None:
        """Send the signal once more, soon."""
        self._waiting = number
        self._sender = threading.Thread(target=self._send_soon, args=(number,), daemon=True)
        self._sender.start()

    def wait_no_more(self) -> None:
        """Call the handler now if a signal waits; for a safe moment just before the handler is removed."""
        if self._waiting is not None:
            self._call(self._waiting, None)

    def forget(self) -> None:
        """Drop a waiting signal."""
        self._waiting = None
        self._sender = None
        if self._listener is not None:
            from numba.core import event as events

            events.unregister(_LOCK, self._listener)
            self._listener = None

    def _call(self, number: int, frame: FrameType | None) -> None:
        self.forget()
        self._handler(number, frame)

    def _send_soon(self, number: int) -> None:
        time.sleep(_AGAIN)
        if self._sender is threading.current_thread():
            self._waiting = None
            self._sender = None
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _call_after_step(self, number: int) -> None:
        from numba.core import event as events

        handler = self

        class AfterStep(events.Listener):  # type: ignore[misc]  # Numba's, without types
            def on_start(self, event: Any) -> None:
                pass

            def on_end(self, event: Any) -> None:  # noqa: ARG002 - so it is called
                if threading.current_thread() is threading.main_thread():
                    handler._call(number, None)

        # Every step takes the lock. When it is released, LLVM is not between the handler and its caller.
        self._waiting = number
        self._listener = AfterStep()
        events.register(_LOCK, self._listener)


class _Hearing(PatientHandler):
    """A handler that raises `EndedBySignal`."""

    def __init__(self) -> None:
        super().__init__(self._end)
        self._unraisable = sys.unraisablehook
        self._is_ending = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_ending and number != signal.SIGINT:
            # Do not interrupt the cleanup: a closed terminal or a service manager may send several signals.
            return
        super().__call__(number, frame)

    def again_if_lost(self, lost: sys.UnraisableHookArgs) -> None:
        """Send the signal again if its exception was raised in a finaliser or callback, which cannot pass it on."""
        if isinstance(lost.exc_value, EndedBySignal):
            self._is_ending = False
            self.send_again(lost.exc_value.number)
        else:
            self._unraisable(lost)

    def _end(self, number: int, _frame: FrameType | None) -> NoReturn:
        self._is_ending = True
        raise EndedBySignal(number)


def _numba_compiles() -> bool:
    # Numba cannot be compiling if it is not imported.
    lock = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    return lock is not None and lock.is_locked()


def _within_numba(frame: FrameType | None) -> bool:
    """Return whether a function of Numba, or of its LLVM bindings, is on the stack of this frame."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _COMPILERS:
            return True
        frame = frame.f_back
    return False


def _imports_under_way(frame: FrameType | None) -> int:
    """Count the nested imports on the stack of this frame."""
    n_imports = 0
    while frame is not None:
        n_imports += frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        frame = frame.f_back
    return n_imports


@dataclass(slots=True)
class SigtermCheckpoint:
    """The state of a request to end the run, and the grace period."""

    seconds: float
    is_requested: bool = False
    _is_announced: bool = field(default=False, repr=False)

    def ended(self) -> str | None:
        """Return the reason to end; see `mbe_stage.run_limits.RunLimits`."""
        if not self.is_requested:
            return None
        # Not in the handler: it may have interrupted a logging call, and would deadlock.
        if not self._is_announced:
            self._is_announced = True
            log.warning("received SIGTERM: saving a last checkpoint, which may take up to %g s", self.seconds)
        return "stopped by SIGTERM"

    def patience(self) -> float | None:
        """Return the seconds to wait; see `mbe_stage.run_limits.RunLimits`."""
        return self.seconds if self.is_requested else None


@contextmanager
def sigterm_checkpoint(seconds: float) -> Iterator[SigtermCheckpoint]:
    """Postpone SIGTERM by the grace period within the context, but not a later SIGTERM or Ctrl-C.

    The context must end soon after `SigtermCheckpoint.ended` returns a reason. Then the installed handler is called,
    unless `SigtermCheckpoint.is_requested` was reset. Only the handlers of the command and of a flow can postpone. They
    stay installed, because Prefect checks that its own is. Other handlers act as usual, and threads other than the main
    one are not affected.

    Parameters
    ----------
    seconds : float
        The grace period; 0 postpones nothing.

    Raises
    ------
    BaseException
        After the context: the exception that the handler raises.
    """
    checkpoint, handler = SigtermCheckpoint(seconds), signal.getsignal(signal.SIGTERM)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or seconds == 0 or not isinstance(handler, PatientHandler):
        yield checkpoint
        return
    with _put_off(checkpoint, handler):
        yield checkpoint
    if checkpoint.is_requested:
        handler.call_postponed(signal.SIGTERM)
        # If the handler only records the signal, the run must not continue as if it were complete.
        raise EndedBySignal(signal.SIGTERM)


@contextmanager
def _put_off(checkpoint: SigtermCheckpoint, handler: PatientHandler) -> Iterator[None]:
    main = threading.main_thread().ident or 0
    again = threading.Timer(checkpoint.seconds + _SECONDS_MORE, lambda: signal.pthread_kill(main, signal.SIGTERM))
    again.daemon = True

    def note() -> None:
        checkpoint.is_requested = True
        again.start()

    handler.postpone(signal.SIGTERM, note, min(_SAME_SECONDS, checkpoint.seconds))
    try:
        yield
    finally:
        again.cancel()
        handler.postpone_no_more(signal.SIGTERM)
