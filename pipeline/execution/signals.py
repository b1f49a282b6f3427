"""Signals that end a run come up as an exception, where it is heard: not within Numba, an import or a finaliser."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from mbe_stage.pipeline.cli.early_exit import ENDINGS, leave

__all__ = ["EndedBySignal", "PatientHandler", "ended_by", "signal_of", "signals_are_heard"]

_LOCK = "numba:compiler_lock"
_COMPILERS = ("numba", "llvmlite")
# Seconds after which a signal that nobody could hear is sent again.
_AGAIN = 0.05


class EndedBySignal(KeyboardInterrupt):
    """A signal that ends the run; as Ctrl-C it is no `Exception`, and only what cleans up sees it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def signal_of(interrupt: KeyboardInterrupt) -> signal.Signals:
    """The signal behind it; Python's own is Ctrl-C."""
    return interrupt.number if isinstance(interrupt, EndedBySignal) else signal.SIGINT


def ended_by(error: BaseException) -> EndedBySignal | None:
    """The signal in whose wake the error arose, as where a closed terminal cannot be cleaned up; or None."""
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, EndedBySignal):
        behind = behind.__cause__ or behind.__context__
    return behind


@contextmanager
def signals_are_heard() -> Iterator[None]:
    """Raise `EndedBySignal` at SIGINT, and where the command hears them at SIGTERM and SIGHUP, so that it is heard.

    What `PatientHandler` says of places where it would be lost holds; and what comes up in a finaliser or callback,
    from where no exception can get out, is raised again some hundredths of a second later.

    Handlers other than Python's own for Ctrl-C and those of the command stay as they are: Prefect looks whether its own
    is in place (`flows.lost_signals`). Threads other than the main one have none.
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
    """A handler that calls another one, which raises, at once or as soon as what it raises can be heard.

    There are three places in which it would be lost, become another error, or crash the process. While Numba compiles,
    LLVM calls Python, and what is raised there is printed and dropped: it waits until the step under way is over. At
    other times compiled code calls Numba's Python, as when it first makes arrays of its results, and goes on with what
    it has not got: it waits until no function of Numba is under way. While a module is imported, it would come up in
    the module, which may take it for its own: it waits until the import is over, unless the signal comes twice. An
    import that is under way when the handler is made is none to wait for.

    Parameters
    ----------
    handler : callable
        As `signal.signal` takes it.
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
        """What Python calls at a signal."""
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
        """Have `note` called at the next such signal, and nothing else happen; any other is as it was.

        Whoever stops a service may send it several times: others of the same that come within `same_seconds` are that
        one.
        """
        self._to_postpone[number] = note, same_seconds

    def postpone_no_more(self, number: int) -> None:
        """Have the next such signal be as any, unless it is one that was put off."""
        self._to_postpone.pop(number, None)

    def call_postponed(self, number: int) -> None:
        """Call the handler for a signal that was put off."""
        self._call(number, None)

    def has_postponed(self, number: int) -> bool:
        """Whether the last signal was such a one, and was only taken note of."""
        return self._postponed == number

    def send_again(self, number: int) -> None:
        """Have the signal come once more, soon."""
        self._waiting = number
        self._sender = threading.Thread(target=self._send_soon, args=(number,), daemon=True)
        self._sender.start()

    def wait_no_more(self) -> None:
        """Call the handler now if a signal waits; for who is in no such place, and about to put the handler away."""
        if self._waiting is not None:
            self._call(self._waiting, None)

    def forget(self) -> None:
        """Let no signal wait any more."""
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

        # Every step takes the lock once more. Where it is given back, no LLVM is between the handler and its caller.
        self._waiting = number
        self._listener = AfterStep()
        events.register(_LOCK, self._listener)


class _Hearing(PatientHandler):
    """Raises `EndedBySignal`."""

    def __init__(self) -> None:
        super().__init__(self._end)
        self._unraisable = sys.unraisablehook
        self._is_ending = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._is_ending and number != signal.SIGINT:
            # What cleans up is left in peace: whoever closes a terminal or stops a service may send several.
            return
        super().__call__(number, frame)

    def again_if_lost(self, lost: sys.UnraisableHookArgs) -> None:
        """Hook of what no caller can be told: a finaliser or callback ran just when the signal came."""
        if isinstance(lost.exc_value, EndedBySignal):
            self._is_ending = False
            self.send_again(lost.exc_value.number)
        else:
            self._unraisable(lost)

    def _end(self, number: int, _frame: FrameType | None) -> NoReturn:
        self._is_ending = True
        raise EndedBySignal(number)


def _numba_compiles() -> bool:
    # Whoever has not imported it does not compile.
    lock = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    return lock is not None and lock.is_locked()


def _within_numba(frame: FrameType | None) -> bool:
    """Whether a function of Numba, or of its access to LLVM, is on the stack of this frame."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _COMPILERS:
            return True
        frame = frame.f_back
    return False


def _imports_under_way(frame: FrameType | None) -> int:
    """Imports within one another on the stack of this frame."""
    n_imports = 0
    while frame is not None:
        n_imports += frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        frame = frame.f_back
    return n_imports
