"""SIGTERM is put off while a run keeps what it finds, once, and no longer than that."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pipeline import grace as module
from pipeline.grace import Grace, grace_at_sigterm
from pipeline.leaving import leave
from pipeline.signals import EndedBySignal, is_of_the_command, signals_are_heard
from tests.patience import PATIENCE


class Ended(BaseException):
    """What the handler raises that was there before."""


def ending(_number: int, _frame: FrameType | None) -> Any:
    raise Ended


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """In the place of the command's own handler."""
    monkeypatch.setattr(module, "is_of_the_command", lambda handler: handler not in (signal.SIG_DFL, signal.SIG_IGN))
    usual = signal.signal(signal.SIGTERM, ending)
    yield ending
    signal.signal(signal.SIGTERM, usual)


def put_off(seconds: float, then: Callable[[Grace], object]) -> None:
    with grace_at_sigterm(seconds) as grace:
        assert (grace.ended(), grace.patience()) == (None, None)
        signal.raise_signal(signal.SIGTERM)
        then(grace)


def test_it_is_put_off_to_the_end_of_the_context(before: Any) -> None:
    seen: list[Any] = []
    with pytest.raises(Ended):
        put_off(PATIENCE, lambda grace: seen.append((grace.ended(), grace.patience())))
    assert seen == [("told to end (SIGTERM)", PATIENCE)]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_one_is_not(before: Any) -> None:
    went_on: list[bool] = []

    def once_more(_: Grace) -> None:
        signal.raise_signal(signal.SIGTERM)
        went_on.append(True)

    with pytest.raises(Ended):
        put_off(PATIENCE, once_more)
    assert not went_on
    assert signal.getsignal(signal.SIGTERM) is before


def test_no_longer_than_the_time_of_grace(before: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_MORE", 0.02)
    with pytest.raises(Ended):
        put_off(0.02, lambda _: time.sleep(PATIENCE))
    assert signal.getsignal(signal.SIGTERM) is before


def test_where_the_handler_only_takes_note_the_run_ends_all_the_same(before: Any) -> None:
    noted: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: noted.append(number))
    with pytest.raises(EndedBySignal):
        put_off(PATIENCE, lambda _: None)
    assert noted == [signal.SIGTERM]
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("handler", [ending, signal.SIG_DFL, signal.SIG_IGN], ids=["a function", "default", "ignored"])
def test_nothing_changes_where_nothing_is_put_off(before: Any, handler: Any) -> None:
    signal.signal(signal.SIGTERM, handler)
    with grace_at_sigterm(PATIENCE if handler is not before else 0.0) as grace:
        assert signal.getsignal(signal.SIGTERM) is handler
    assert not grace.is_asked


def test_what_is_complete_by_then_is_not_ended(before: Any) -> None:
    with grace_at_sigterm(PATIENCE) as grace:
        signal.raise_signal(signal.SIGTERM)
        grace.is_asked = False
    assert signal.getsignal(signal.SIGTERM) is before


def test_only_the_handler_of_the_command_is_put_off() -> None:
    """Prefect looks for its own."""
    usual = signal.signal(signal.SIGTERM, ending)
    try:
        with grace_at_sigterm(PATIENCE):
            assert signal.getsignal(signal.SIGTERM) is ending
        signal.signal(signal.SIGTERM, leave)
        with signals_are_heard():
            heard = signal.getsignal(signal.SIGTERM)
            assert is_of_the_command(heard)
            with grace_at_sigterm(PATIENCE):
                assert signal.getsignal(signal.SIGTERM) is not heard
            assert signal.getsignal(signal.SIGTERM) is heard
    finally:
        signal.signal(signal.SIGTERM, usual)


def test_another_thread_puts_nothing_off(before: Any) -> None:
    seen: list[Any] = []

    def in_context() -> None:
        with grace_at_sigterm(PATIENCE):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=in_context)
    thread.start()
    thread.join()
    assert seen == [before]
