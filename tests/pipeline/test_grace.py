"""SIGTERM is postponed once while a run saves its results, for a limited time."""

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
    """Raised by the handler that was installed before."""


def ending(_number: int, _frame: FrameType | None) -> Any:
    raise Ended


@pytest.fixture
def before() -> Iterator[PatientHandler]:
    """Stands in for the command's own handler, or for Prefect's in a flow."""
    handler = PatientHandler(ending)
    usual = signal.signal(signal.SIGTERM, handler)
    yield handler
    signal.signal(signal.SIGTERM, usual)


def put_off(seconds: float, then: Callable[[SigtermCheckpoint], object]) -> None:
    with sigterm_checkpoint(seconds) as grace:
        assert (grace.ended(), grace.patience()) == (None, None)
        signal.raise_signal(signal.SIGTERM)
        then(grace)


def test_sigterm_is_postponed_to_the_end_of_the_context(before: Any) -> None:
    seen: list[Any] = []
    with pytest.raises(Ended):
        put_off(PATIENCE, lambda grace: seen.append((grace.ended(), grace.patience())))
    assert seen == [("stopped by SIGTERM", PATIENCE)]
    assert signal.getsignal(signal.SIGTERM) is before


def test_signals_in_quick_succession_count_as_one(before: Any) -> None:
    """systemd signals all processes of a service, and their parents may repeat the signal."""
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
def test_a_later_signal_is_not_postponed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAME_SECONDS", 0.02)
    went_on: list[bool] = []

    def once_more(_: SigtermCheckpoint) -> None:
        time.sleep(0.05)
        signal.raise_signal(signal.SIGTERM)
        went_on.append(True)

    with pytest.raises(Ended):
        put_off(PATIENCE, once_more)
    assert not went_on


def test_sigterm_is_postponed_only_for_the_grace_time(before: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_MORE", 0.02)
    with pytest.raises(Ended):
        put_off(0.02, lambda _: time.sleep(PATIENCE))
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("before")
def test_the_run_ends_even_if_the_handler_returns() -> None:
    noted: list[int] = []
    signal.signal(signal.SIGTERM, PatientHandler(lambda number, _frame: noted.append(number)))
    with pytest.raises(EndedBySignal):
        put_off(PATIENCE, lambda _: None)
    assert noted == [signal.SIGTERM]


def test_without_grace_time_nothing_is_postponed(before: Any) -> None:
    with pytest.raises(Ended), sigterm_checkpoint(0.0):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize("handler", [ending, signal.SIG_DFL, signal.SIG_IGN], ids=["a function", "default", "ignored"])
def test_foreign_handlers_stay(handler: Any) -> None:
    signal.signal(signal.SIGTERM, handler)
    with sigterm_checkpoint(PATIENCE) as grace:
        assert signal.getsignal(signal.SIGTERM) is handler
        if handler is ending:
            with pytest.raises(Ended):
                signal.raise_signal(signal.SIGTERM)
    assert not grace.is_requested


def test_a_completed_run_is_not_ended(before: Any) -> None:
    with sigterm_checkpoint(PATIENCE) as grace:
        signal.raise_signal(signal.SIGTERM)
        grace.is_requested = False
    # The same signal from another sender.
    signal.raise_signal(signal.SIGTERM)
    assert before.has_postponed(signal.SIGTERM)


@pytest.mark.usefixtures("before")
def test_cleanup_ignores_a_repeated_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAME_SECONDS", 0.3)
    with pytest.raises(Ended):
        put_off(PATIENCE, lambda _: None)
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0.4)
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)


def test_nothing_is_postponed_after_the_context(before: Any) -> None:
    with sigterm_checkpoint(PATIENCE) as grace:
        pass
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)
    assert not grace.is_requested
    assert not before.has_postponed(signal.SIGTERM)


def test_ctrl_c_is_not_postponed(before: Any) -> None:
    usual = signal.signal(signal.SIGINT, before)
    try:
        with pytest.raises(Ended):
            put_off(PATIENCE, lambda _: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, usual)


def test_the_command_postpones_sigterm() -> None:
    usual = signal.signal(signal.SIGTERM, leave)
    seen: list[bool] = []
    try:
        with signals_are_heard(), pytest.raises(EndedBySignal):
            put_off(PATIENCE, lambda grace: seen.append(grace.is_requested))
        assert seen == [True]
    finally:
        signal.signal(signal.SIGTERM, usual)


def test_other_threads_postpone_nothing(before: Any) -> None:
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
