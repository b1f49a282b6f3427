"""Signals during Numba's work."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import pytest
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from mbe_stage.pipeline.execution.signals import ended_by, signals_are_heard
from tests.patience import completed

# Each moment in a process of its own, so a crash is an exit code. Compiled code calls Numba's Python to make arrays of
# the results, and cannot use anything else as an array.
AT_EVERY_MOMENT_OF_A_FIRST_CALL = """
import os, signal, sys, time
import numba, numpy as np
from mbe_stage.pipeline.execution.signals import EndedBySignal, signals_are_heard

@numba.njit
def arrays(n):
    return np.zeros(n), np.ones(n, np.int32), np.zeros(n, np.int64)

arrays.compile((numba.int64,))

def ended(moment):
    seen = 0

    def trace(frame, event, argument):
        nonlocal seen
        if frame.f_globals.get("__name__", "").startswith("numba.core.serialize"):
            seen += 1
            if seen == moment:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    try:
        with signals_are_heard():
            sys.settrace(trace)
            _, _, _ = arrays(2)
            sys.settrace(None)
            if seen < moment:
                return 2
            time.sleep(60)
    except EndedBySignal:
        return 0
    return 1

codes = []
while not any(codes):
    child = os.fork()
    if child == 0:
        os._exit(ended(len(codes) + 1))
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(*codes)
"""
BOTH = (signal.SIGINT, signal.SIGTERM)


def _end(*_: object) -> None:
    raise AssertionError("nobody asked for this")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Handle both signals like Ctrl-C in a plain program; restore the handlers at the end."""
    before = {number: signal.getsignal(number) for number in BOTH}
    for number in BOTH:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", BOTH)
@pytest.mark.parametrize("times", [1, 2])
def test_signal_while_llvm_calls_numba(number: signal.Signals, times: int) -> None:
    """ctypes prints and drops exceptions raised there, and compilation continues."""
    add_one = numba.njit(lambda x: x + 1)
    n_signals = 0

    def interrupted(_library: object, _code: object) -> None:
        nonlocal n_signals
        while n_signals < times:
            n_signals += 1
            signal.raise_signal(number)

    codegen = cpu_target.target_context.codegen()
    own_callbacks = codegen._library_class._object_compiled_hook, codegen._library_class._object_getbuffer_hook
    codegen._engine.set_object_cache(interrupted, None)
    try:
        with signals_are_heard(), pytest.raises(KeyboardInterrupt):
            add_one(1)
    finally:
        codegen._engine.set_object_cache(*own_callbacks)
    assert n_signals == times
    assert not global_compiler_lock.is_locked()
    # Nothing is left waiting.
    assert add_one(1) == 2


def test_signal_while_compiled_code_calls_numba() -> None:
    """Otherwise the signal is lost, becomes a SystemError, or crashes the process: a tuple lacks its arrays."""
    done = completed([sys.executable, "-c", AT_EVERY_MOMENT_OF_A_FIRST_CALL], check=True)
    *heard, last = map(int, done.stdout.split())
    assert len(heard) > 10
    assert (set(heard), last) == ({0}, 2), (heard, done.stderr)


def test_a_signal_that_waits_to_the_end_is_heard_then() -> None:
    """The earlier handlers are restored, and would never receive the signal."""
    within_numba: dict[str, Any] = {"__name__": "numba.of_this_test", "signal": signal, "is_over": False}
    exec("def call():\n    global is_over\n    signal.raise_signal(signal.SIGINT)\n    is_over = True", within_numba)

    def run() -> None:
        with signals_are_heard():
            within_numba["call"]()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert within_numba["is_over"]
    # It is raised only once.
    time.sleep(0.2)


def test_of_two_signals_one_is_heard() -> None:
    def ask_twice() -> None:
        with signals_are_heard(), global_compiler_lock:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        ask_twice()
    with global_compiler_lock:
        pass


def test_signal_while_numba_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba.core.compiler_lock", ModuleType("of which nothing has run yet"))
    with signals_are_heard(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("number", BOTH)
def test_signal_at_any_other_time_is_heard_at_once(number: signal.Signals) -> None:
    with signals_are_heard(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_handlers_are_as_before_afterwards() -> None:
    with signals_are_heard(), signals_are_heard():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with signals_are_heard():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN, _end])
def test_other_handlers_stay(handler: object) -> None:
    """Prefect checks whether its own handler is in place before it cancels a run."""
    signal.signal(signal.SIGTERM, handler)
    with signals_are_heard():
        assert signal.getsignal(signal.SIGTERM) is handler


def test_other_threads_change_nothing() -> None:
    found = []

    def look() -> None:
        with signals_are_heard():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_signal_in_a_finaliser_is_heard_afterwards() -> None:
    """Exceptions raised in a finaliser are printed and dropped."""

    class Finalised:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def lose_it() -> None:
        with signals_are_heard():
            Finalised()
            while True:
                time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        lose_it()


def test_signal_during_an_import_waits_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module may catch exceptions during its import as its own."""
    (tmp_path / "module_that_is_interrupted.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    lost = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def import_it() -> None:
        with signals_are_heard():
            import module_that_is_interrupted  # type: ignore[import-not-found]  # noqa: F401

            while True:
                time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        import_it()
    assert not hasattr(sys.modules.pop("module_that_is_interrupted"), "lost")


def test_cleanup_hears_no_second_sigterm() -> None:
    cleaned = False

    def run() -> None:
        nonlocal cleaned
        with signals_are_heard():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGTERM)
                cleaned = True

    with pytest.raises(KeyboardInterrupt):
        run()
    assert cleaned


def test_an_error_in_the_wake_of_a_signal_is_the_signal() -> None:
    def run() -> None:
        with signals_are_heard():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                raise OSError("the terminal has gone")

    with pytest.raises(OSError, match="gone") as raised:
        run()
    behind = ended_by(raised.value)
    assert behind is not None
    assert behind.number == signal.SIGTERM
    assert ended_by(OSError()) is None
