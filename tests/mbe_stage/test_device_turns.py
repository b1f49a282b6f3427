"""Turns on the device that receives results."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from mbe_stage.runners import devices
from mbe_stage.runners.devices import Turns
from tests.patience import PATIENCE


def test_the_consumer_interrupts_a_search_and_goes_first() -> None:
    told, began = threading.Event(), threading.Event()
    turns, at_work = Turns(told.set), list[Any]()

    def search() -> None:
        with turns.of_search() as is_its_turn:
            at_work.append(is_its_turn)
            began.set()
            # A quantum, which ends on request.
            assert told.wait(PATIENCE)
            at_work.append("over")

    thread = threading.Thread(target=search)
    thread.start()
    assert began.wait(PATIENCE)
    with turns.of_consumer():
        assert at_work == [True, "over"]
        with turns.of_search() as is_its_turn:
            assert not is_its_turn
    thread.join()
    with turns.of_search() as is_its_turn:
        assert is_its_turn


def test_a_search_interrupted_too_early_is_interrupted_again() -> None:
    n_told, enough = 0, threading.Event()

    def tell() -> None:
        nonlocal n_told
        n_told += 1
        if n_told == 3:
            enough.set()

    turns, began = Turns(tell), threading.Event()

    def search() -> None:
        with turns.of_search():
            began.set()
            assert enough.wait(PATIENCE)

    thread = threading.Thread(target=search)
    thread.start()
    assert began.wait(PATIENCE)
    with turns.of_consumer():
        assert n_told >= 3
    thread.join()


def test_a_waiting_search_wakes_no_other() -> None:
    """Two waiting searches would wake each other repeatedly while the consumer works."""
    turns = devices.Turns(lambda: None)
    n_looks = [0, 0]

    def search(k: int) -> None:
        until = time.perf_counter() + 0.3
        while time.perf_counter() < until:
            with turns.of_search() as is_its_turn:
                assert not is_its_turn
                n_looks[k] += 1

    with turns.of_consumer():
        threads = [threading.Thread(target=search, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 0 < min(n_looks) <= max(n_looks) <= 0.3 / devices._WAIT_SECONDS + 2


def test_no_search_is_notified_without_a_search() -> None:
    told: list[int] = []
    turns = Turns(lambda: told.append(1))
    with turns.of_search() as first, turns.of_search() as second:
        assert first
        assert second
    with pytest.raises(KeyboardInterrupt), turns.of_consumer():
        raise KeyboardInterrupt
    with turns.of_search() as is_its_turn:
        assert is_its_turn
    assert told == []
