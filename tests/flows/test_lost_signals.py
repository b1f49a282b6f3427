"""SIGHUP is a SIGTERM, and one that comes where no exception can get out is heard all the same."""

import ctypes
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from prefect.exceptions import TerminationSignal
from prefect.utilities.engine import capture_sigterm

from flows import lost_signals
from flows.lost_signals import sighup_is_sigterm, sigterm_is_heard


def in_a_finaliser() -> None:
    class Finalised:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    Finalised()


def in_a_callback_of_c() -> None:
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))()


def where_it_is_dropped_without_a_word() -> None:
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
@pytest.mark.parametrize("lose", [in_a_finaliser, in_a_callback_of_c, where_it_is_dropped_without_a_word])
def test_a_lost_signal_is_sent_again(lose: Callable[[], None]) -> None:
    def run() -> None:
        with sigterm_is_heard(), capture_sigterm():
            lose()
            run_on()

    with pytest.raises(KeyboardInterrupt):
        run()


def test_it_is_sent_again_as_often_as_it_is_lost() -> None:
    n_lost = 0

    def lose_three() -> None:
        nonlocal n_lost
        with sigterm_is_heard(), capture_sigterm():
            where_it_is_dropped_without_a_word()
            while n_lost < 3:
                with suppress(TerminationSignal):
                    run_on()
                n_lost += 1
            run_on()

    with pytest.raises(KeyboardInterrupt):
        lose_three()
    assert n_lost == 3


def test_whoever_cleans_up_is_left_in_peace() -> None:
    n_signals = 0

    def handler(*_: object) -> None:
        nonlocal n_signals
        n_signals += 1
        raise TerminationSignal(signal.SIGTERM)

    def run() -> None:
        with sigterm_is_heard():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                time.sleep(0.5)
                # An error of the cleaning up itself is dealt with, too.
                try:
                    raise OSError("the disk is full")
                except OSError:
                    time.sleep(0.5)

    signal.signal(signal.SIGTERM, handler)
    with pytest.raises(TerminationSignal):
        run()
    assert n_signals == 1


def test_nothing_is_left_behind() -> None:
    with sigterm_is_heard():
        pass
    assert signal.set_wakeup_fd(-1) == -1


def test_sighup_ends_whatever_sigterm_would_end() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)


def test_sighup_ends_a_flow_of_prefect_as_sigterm_does() -> None:
    seen = []

    def run() -> None:
        with sigterm_is_heard(), capture_sigterm():
            try:
                signal.raise_signal(signal.SIGHUP)
            except TerminationSignal as error:
                seen.append(error.signal)
                raise

    with pytest.raises(KeyboardInterrupt):
        run()
    assert seen == [signal.SIGTERM]


def test_a_lost_sighup_is_sent_again() -> None:
    def run() -> None:
        with sigterm_is_heard(), capture_sigterm():
            with suppress(TerminationSignal):
                signal.raise_signal(signal.SIGHUP)
            run_on()

    with pytest.raises(KeyboardInterrupt):
        run()


def test_who_cleans_up_hears_no_second_sighup() -> None:
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
