"""SIGTERM is put off while a run keeps what it finds, once, and no longer than that."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from mbe_stage.pipeline.cli.early_exit import leave
from mbe_stage.pipeline.execution import signals as module
from mbe_stage.pipeline.execution.signals import (
    EndedBySignal,
    PatientHandler,
    SigtermCheckpoint,
    signals_are_heard,
    sigterm_checkpoint,
)
from tests.patience import PATIENCE


class Ended(BaseException):
    """What the handler raises that was there before."""


def ending(_number: int, _frame: FrameType | None) -> Any:
    raise Ended


@pytest.fixture
def before() -> Iterator[PatientHandler]:
    """In the place of the command's own handler, or of Prefect's in a flow."""
    handler = PatientHandler(ending)
    usual = signal.signal(signal.SIGTERM, handler)
    yield handler
    signal.signal(signal.SIGTERM, usual)


def put_off(seconds: float, then: Callable[[SigtermCheckpoint], object]) -> None:
    with sigterm_checkpoint(seconds) as grace:
        assert (grace.ended(), grace.patience()) == (None, None)
        signal.raise_signal(signal.SIGTERM)
        then(grace)


def test_it_is_put_off_to_the_end_of_the_context(before: Any) -> None:
    seen: list[Any] = []
    with pytest.raises(Ended):
        put_off(PATIENCE, lambda grace: seen.append((grace.ended(), grace.patience())))
    assert seen == [("stopped by SIGTERM", PATIENCE)]
    assert signal.getsignal(signal.SIGTERM) is before


def test_others_that_come_soon_are_the_same_one(before: Any) -> None:
    """systemd tells all processes of a service, and whoever started one of them tells it once more."""
    went_on: list[bool] = []

    def again(_: SigtermCheckpoint) -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        went_on.append(True)

    with pytest.raises(Ended):
        put_off(PATIENCE, again)
    assert went_on
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("before")
def test_one_that_comes_later_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAME_SECONDS", 0.02)
    went_on: list[bool] = []

    def once_more(_: SigtermCheckpoint) -> None:
        time.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)
        went_on.append(True)

    with pytest.raises(Ended):
        put_off(PATIENCE, once_more)
    assert not went_on


def test_no_longer_than_the_time_of_grace(before: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_MORE", 0.02)
    with pytest.raises(Ended):
        put_off(0.02, lambda _: time.sleep(PATIENCE))
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("before")
def test_where_the_handler_only_takes_note_the_run_ends_all_the_same() -> None:
    noted: list[int] = []
    signal.signal(signal.SIGTERM, PatientHandler(lambda number, _frame: noted.append(number)))
    with pytest.raises(EndedBySignal):
        put_off(PATIENCE, lambda _: None)
    assert noted == [signal.SIGTERM]


def test_of_no_time_nothing_is_put_off(before: Any) -> None:
    with pytest.raises(Ended), sigterm_checkpoint(0.0):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize("handler", [ending, signal.SIG_DFL, signal.SIG_IGN], ids=["a function", "default", "ignored"])
def test_a_handler_of_somebody_else_stays(handler: Any) -> None:
    signal.signal(signal.SIGTERM, handler)
    with sigterm_checkpoint(PATIENCE) as grace:
        assert signal.getsignal(signal.SIGTERM) is handler
        if handler is ending:
            with pytest.raises(Ended):
                signal.raise_signal(signal.SIGTERM)
    assert not grace.is_requested


def test_what_is_complete_by_then_is_not_ended(before: Any) -> None:
    with sigterm_checkpoint(PATIENCE) as grace:
        signal.raise_signal(signal.SIGTERM)
        grace.is_requested = False
    # The same one, from somebody else.
    signal.raise_signal(signal.SIGTERM)
    assert before.has_postponed(signal.SIGTERM)


@pytest.mark.usefixtures("before")
def test_whoever_cleans_up_is_left_in_peace_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAME_SECONDS", 0.3)
    with pytest.raises(Ended):
        put_off(PATIENCE, lambda _: None)
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0.4)
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)


def test_once_the_context_is_left_nothing_is_put_off(before: Any) -> None:
    with sigterm_checkpoint(PATIENCE) as grace:
        pass
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)
    assert not grace.is_requested
    assert not before.has_postponed(signal.SIGTERM)


def test_ctrl_c_is_not_put_off(before: Any) -> None:
    usual = signal.signal(signal.SIGINT, before)
    try:
        with pytest.raises(Ended):
            put_off(PATIENCE, lambda _: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, usual)


def test_the_command_puts_it_off() -> None:
    usual = signal.signal(signal.SIGTERM, leave)
    seen: list[bool] = []
    try:
        with signals_are_heard(), pytest.raises(EndedBySignal):
            put_off(PATIENCE, lambda grace: seen.append(grace.is_requested))
        assert seen == [True]
    finally:
        signal.signal(signal.SIGTERM, usual)


def test_another_thread_puts_nothing_off(before: Any) -> None:
    seen: list[Any] = []

    def in_context() -> None:
        with sigterm_checkpoint(PATIENCE):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=in_context)
    thread.start()
    thread.join()
    assert seen == [before]
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)
