"""SIGHUP acts as SIGTERM; a signal is repeated if its exception gets lost."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from prefect.exceptions import TerminationSignal
from prefect.utilities.engine import can_ack_control_intent, capture_sigterm

from mbe_stage.flows import lost_signals
from mbe_stage.flows.enumerate import completed, run_as_flow
from mbe_stage.flows.lost_signals import lost_signals_come_again, sighup_is_sigterm, signals_are_heard_by_flow
from mbe_stage.pipeline.execution import signals
from tests.patience import PATIENCE
from tests.patience import completed as process_completed

# Each case in a new process, because a crash is an exit code. Compiled code calls Numba's Python to box the resulting
# arrays, and crashes on anything else.
AT_EVERY_MOMENT_OF_A_FIRST_CALL = """
import os, signal, sys, time
import numba, numpy as np
from prefect.utilities.engine import capture_sigterm
from mbe_stage.flows.lost_signals import signals_are_heard_by_flow

signal.signal(signal.SIGTERM, signal.default_int_handler)

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
                signal.raise_signal(signal.SIGTERM)
        return trace

    try:
        with capture_sigterm(), signals_are_heard_by_flow():
            sys.settrace(trace)
            _, _, _ = arrays(2)
            sys.settrace(None)
            if seen < moment:
                return 2
            time.sleep(60)
    except KeyboardInterrupt:
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


def in_a_finaliser() -> None:
    class Finalised:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    Finalised()


def in_a_callback_of_c() -> None:
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))()


def where_it_is_dropped_silently() -> None:
    with suppress(TerminationSignal):
        signal.raise_signal(signal.SIGTERM)


@pytest.fixture(autouse=True)
def as_the_command_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lost_signals, "_AGAIN", 0.05)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    sighup_is_sigterm()
    yield
    for number, handler in zip((signal.SIGTERM, signal.SIGHUP), before, strict=True):
        signal.signal(number, handler)


def run_on() -> None:
    while True:
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lose", [in_a_finaliser, in_a_callback_of_c, where_it_is_dropped_silently])
def test_a_lost_signal_is_repeated(lose: Callable[[], None]) -> None:
    def run() -> None:
        with lost_signals_come_again(), capture_sigterm():
            lose()
            run_on()

    with pytest.raises(KeyboardInterrupt):
        run()


def test_a_signal_is_repeated_each_time_it_is_lost() -> None:
    n_lost = 0

    def lose_three() -> None:
        nonlocal n_lost
        with lost_signals_come_again(), capture_sigterm():
            where_it_is_dropped_silently()
            while n_lost < 3:
                with suppress(TerminationSignal):
                    run_on()
                n_lost += 1
            run_on()

    with pytest.raises(KeyboardInterrupt):
        lose_three()
    assert n_lost == 3


def test_clean_up_is_not_interrupted() -> None:
    n_signals = 0

    def handler(*_: object) -> None:
        nonlocal n_signals
        n_signals += 1
        raise TerminationSignal(signal.SIGTERM)

    def run() -> None:
        with lost_signals_come_again():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                time.sleep(0.5)
                # An error of the clean-up itself is handled too.
                try:
                    raise OSError("the disk is full")
                except OSError:
                    time.sleep(0.5)

    signal.signal(signal.SIGTERM, handler)
    with pytest.raises(TerminationSignal):
        run()
    assert n_signals == 1


def test_nothing_is_left_behind() -> None:
    with lost_signals_come_again():
        pass
    assert signal.set_wakeup_fd(-1) == -1


def test_sighup_ends_whatever_sigterm_would_end() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)


def test_sighup_ends_a_flow_of_prefect_as_sigterm_does() -> None:
    seen = []

    def run() -> None:
        with lost_signals_come_again(), capture_sigterm():
            try:
                signal.raise_signal(signal.SIGHUP)
            except TerminationSignal as error:
                seen.append(error.signal)
                raise

    with pytest.raises(KeyboardInterrupt):
        run()
    assert seen == [signal.SIGTERM]


def test_a_lost_sighup_is_repeated() -> None:
    def run() -> None:
        with lost_signals_come_again(), capture_sigterm():
            with suppress(TerminationSignal):
                signal.raise_signal(signal.SIGHUP)
            run_on()

    with pytest.raises(KeyboardInterrupt):
        run()


def test_clean_up_gets_no_second_sighup() -> None:
    is_clean = False

    def run() -> None:
        nonlocal is_clean
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            signal.raise_signal(signal.SIGHUP)
            is_clean = True

    with pytest.raises(KeyboardInterrupt):
        run()
    assert is_clean


def test_an_ignored_sighup_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sighup_is_sigterm()
    signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_flow_gets_a_signal_sent_during_compiled_code() -> None:
    """Under Prefect it became a SystemError or a crash, because a tuple without its arrays was unpacked."""
    checkout = str(Path(__file__).parents[2])
    done = process_completed(
        [sys.executable, "-c", AT_EVERY_MOMENT_OF_A_FIRST_CALL], check=True, env=os.environ | {"PYTHONPATH": checkout}
    )
    *heard, last = map(int, done.stdout.split())
    assert len(heard) > 10
    assert (set(heard), last) == ({0}, 2), (heard, done.stderr)


def flow_of(body: Callable[[], object]) -> None:
    """Return a flow as Prefect runs it; its configuration runs `body`."""
    with capture_sigterm():
        run_as_flow(body, False, completed)  # type: ignore[arg-type]  # it never gets as far as a configuration


def test_a_flow_s_handler_waits_within_numba() -> None:
    within_numba = {"__name__": "numba.of_this_test", "signal": signal, "is_over": False}
    exec("def call():\n    global is_over\n    signal.raise_signal(signal.SIGTERM)\n    is_over = True", within_numba)

    def body() -> None:
        within_numba["call"]()
        run_on()

    with pytest.raises(KeyboardInterrupt):
        flow_of(body)
    assert within_numba["is_over"]


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminationSignal)]
)
def test_a_flow_repeats_a_lost_signal(number: signal.Signals, raised: type[BaseException]) -> None:
    """One of Prefect's runners runs it without our command."""

    def body() -> None:
        with suppress(raised):
            signal.raise_signal(number)
        run_on()

    with pytest.raises(KeyboardInterrupt):
        flow_of(body)


def test_a_flow_delays_a_signal_once_for_a_last_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not repeated meanwhile as a lost signal, and Prefect finds its own handler installed."""
    monkeypatch.setattr(signals, "_SAME_SECONDS", 0.05)
    seen: list[bool] = []

    def body() -> None:
        with signals.sigterm_checkpoint(PATIENCE) as asked:
            signal.raise_signal(signal.SIGTERM)
            # Longer than the delay before a lost signal is repeated.
            time.sleep(10 * lost_signals._AGAIN)
            seen.append(asked.is_requested and can_ack_control_intent())
            signal.raise_signal(signal.SIGTERM)
            seen.append(False)

    with pytest.raises(KeyboardInterrupt):
        flow_of(body)
    assert seen == [True]


def test_a_complete_search_is_not_ended_by_a_delayed_signal() -> None:
    """A moment later the signal would be treated as lost."""
    is_over: list[bool] = []

    def body() -> None:
        with signals.sigterm_checkpoint(PATIENCE) as asked:
            signal.raise_signal(signal.SIGTERM)
            asked.is_requested = False
        time.sleep(10 * lost_signals._AGAIN)
        is_over.append(True)
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        flow_of(body)
    assert is_over


def test_after_the_last_checkpoint_prefect_ends_the_flow() -> None:
    seen: list[object] = []

    def body() -> None:
        try:
            with signals.sigterm_checkpoint(PATIENCE):
                signal.raise_signal(signal.SIGTERM)
        except BaseException as error:
            seen.append(type(error))
            raise

    with pytest.raises(KeyboardInterrupt):
        flow_of(body)
    assert seen == [TerminationSignal]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_prefect_s_error_for_a_signal_is_reported_as_the_signal(number: signal.Signals) -> None:
    """If interrupted while it starts a task run, Prefect's engine raises an error instead of reporting a crash."""

    def body() -> None:
        try:
            signal.raise_signal(number)
        finally:
            raise ValueError("Task run is not set")

    with pytest.raises(KeyboardInterrupt):
        flow_of(body)


def test_other_errors_are_unchanged() -> None:
    def body() -> None:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        flow_of(body)


def test_prefect_finds_its_own_handler_in_place() -> None:
    """Otherwise it would ignore a runner's cancellation and report a crash."""
    before = []
    with capture_sigterm():
        before.append(signal.getsignal(signal.SIGTERM))
        with signals_are_heard_by_flow():
            assert signal.getsignal(signal.SIGTERM) is not before[0]
            assert can_ack_control_intent()
            with capture_sigterm():
                assert can_ack_control_intent()
        assert signal.getsignal(signal.SIGTERM) is before[0]
        assert can_ack_control_intent()
    assert not can_ack_control_intent()


def test_a_handler_that_is_not_prefects_stays() -> None:
    with signals_are_heard_by_flow():
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    assert not can_ack_control_intent()


def test_beside_the_main_thread_nothing_changes() -> None:
    seen = []

    def look() -> None:
        with signals_are_heard_by_flow():
            seen.append(signal.getsignal(signal.SIGTERM))

    with capture_sigterm():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(PATIENCE)
        assert seen == [signal.getsignal(signal.SIGTERM)]


def test_an_existing_wakeup_descriptor_is_kept() -> None:
    with lost_signals_come_again():
        told = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(told)
        with signals_are_heard_by_flow():
            inner = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(inner)
        assert inner == told
