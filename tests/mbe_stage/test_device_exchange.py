"""Fake devices share a search: they hand work over, reach barriers and get lost at random moments."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mbe_stage import Execution
from mbe_stage.engines import Engine
from mbe_stage.errors import DeviceLost, MemoryBudgetExceeded
from mbe_stage.runners import device_exchange, devices
from mbe_stage.search.cpu.pool import Barrier

GRAPH = types.SimpleNamespace(is_on_host=True)


@dataclass(frozen=True)
class Found:
    """A block of `n` results; an empty one takes memory too, as on a device."""

    n: int
    work_done: float = 0.0
    remaining: np.ndarray | None = None
    is_open: bool = False
    offsets: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int32))

    def __len__(self) -> int:
        return self.n


@dataclass
class WorkTransfer:
    rows: list[int]
    begun: list[int]

    @property
    def n_items(self) -> int:
        return len(self.rows) + len(self.begun)


@dataclass
class DeviceProgress:
    ahead: tuple[int, int]


class Search:
    """A search where each root has as many results as its number, found a few at a time; started work can be split.

    It may save its work, and sometimes has too much of it.
    """

    def __init__(self, rows: np.ndarray, seed: int, fails_after: float, *, can_save: bool = False) -> None:
        self.rows, self.works, self.can_save = rows, [], can_save
        self.dice = random.Random(seed)
        self.fails_after = fails_after
        self.ahead: list[int] = []
        self.begun: list[int] = []
        self.capacity = None

    @property
    def is_done(self) -> bool:
        return not self.ahead and not self.begun

    def begin(self, rows: np.ndarray, works: Sequence[Any]) -> None:
        self.ahead = rows.tolist() + [row for ahead, _ in works for row in ahead]
        self.begun = [left for _, begun in works for left in begun]

    def save(self) -> tuple[list[int], list[int]] | None:
        assert self.can_save
        return None if self.dice.random() < 0.1 else (self.ahead.copy(), self.begun.copy())

    def rows_in(self, works: Sequence[Any]) -> np.ndarray:
        return np.array([row for ahead, _ in works for row in ahead], np.int32)

    def work(self, _block_bytes: int) -> Iterator[list[Found]]:
        self.fails_after -= 1
        if self.fails_after < 0:
            raise MemoryError("the device is gone")
        n = 0
        time.sleep(0.0003)
        for _ in range(self.dice.randrange(4)):
            if self.begun:
                left = self.begun.pop()
                found = self.dice.randint(1, left)
                n += found
                self.begun += [left - found] * (found < left)
            elif self.ahead:
                self.begun.append(self.ahead.pop(0))
        first = self.dice.randint(0, n)
        yield [Found(first)]
        yield [Found(n - first)]

    def stop_soon(self) -> None:
        pass

    def hold(self) -> np.ndarray:
        rows, self.ahead = self.ahead, []
        return np.array(rows, np.int32)

    def split(self, capacities: Sequence[Any]) -> list[WorkTransfer]:
        n = len(capacities) + 1
        given = [WorkTransfer(self.ahead[k::n], self.begun[k::n]) for k in range(1, n)]
        self.ahead, self.begun = self.ahead[::n], self.begun[::n]
        for transfer in given:
            if self.begun and self.begun[0] > 1 and not transfer.n_items:
                half = self.begun[0] // 2
                self.begun[0] -= half
                transfer.begun.append(half)
        return given

    def take_in(self, transfer: WorkTransfer) -> None:
        assert self.is_done
        self.ahead, self.begun = list(transfer.rows), list(transfer.begun)

    def progress(self) -> DeviceProgress:
        return DeviceProgress((len(self.ahead), sum(self.begun)))

    def share(self, remaining: np.ndarray, _standings: Sequence[Any]) -> float:
        return min(0.999, 1.0 - remaining.sum() / self.rows.sum())

    def in_order(self, rows: np.ndarray) -> np.ndarray:
        return np.sort(rows)[::-1]

    def begun_all_the_same(self, rows: np.ndarray) -> np.ndarray:
        return rows % 3 == 0

    def empty(
        self, share: float, remaining: np.ndarray | None = None, works: Sequence[Any] = (), **_saving: float
    ) -> Found:
        if works:
            remaining = np.array([left for parts in works for part in parts for left in part], np.int64)
        return Found(0, share, remaining, is_open=bool(works))

    def brought_here(self, block: Found) -> Found:
        return block


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    selection = types.ModuleType("mbe_stage.device.selection")
    made_up: dict[str, Any] = {
        "current_number": lambda: 0,
        "device_numbers": tuple,
        "selected": lambda _number: contextlib.nullcontext(),
        "free_bytes": lambda _number: 1 << 30,
        "name_of": lambda _number: "made up",
    }
    vars(selection).update(made_up)
    monkeypatch.setitem(sys.modules, selection.__name__, selection)
    # Fake work takes no time.
    for name, seconds in (("_REST_SECONDS", 0.0), ("_LONG_REST_SECONDS", 0.001), ("_LOOK_SECONDS", 0.0005)):
        monkeypatch.setattr(device_exchange, name, seconds)
    made = types.SimpleNamespace()
    monkeypatch.setattr(devices, "get_engine", lambda _problem, _name: made)
    return made


def run(engine: Any, seed: int, fails: Sequence[float], epoch_seconds: float, execution: Execution) -> tuple[Any, int]:
    """Return all results, checked at every barrier; and the runner."""
    dice = random.Random(seed)
    rows = np.array(sorted(dice.sample(range(1, 60), 40), reverse=True), np.int32)
    can_save = seed % 4 > 1
    searches = iter([Search(rows, seed + k, after, can_save=can_save) for k, after in enumerate(fails)])
    engine.device_search = lambda *_given, **_others: next(searches)
    runner = devices.DeviceRunner(range(len(fails)), epoch_seconds=epoch_seconds)
    barrier = Barrier(takes_open_work=seed % 4 == 3)
    n, shares, total = 0, [0.0], int(rows.sum())
    for block in runner.run("p", "cuda", GRAPH, None, execution, None, barrier=barrier):
        n += len(block)
        shares.append(block.work_done)
        if block.remaining is not None:
            assert n + int(block.remaining.sum()) == total
            assert block.is_open or not (block.remaining % 3 == 0).any()
            assert not block.is_open or barrier.takes_open_work
        elif dice.random() < 0.3:
            barrier.ask()
    assert n == total
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert sum(rank.n_found for rank in runner.ranks) == total
    return runner, n


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_results_are_complete_and_distinct(engine: Engine, n: int) -> None:
    given = 0
    for seed in range(6):
        runner, _ = run(engine, seed, [float("inf")] * n, 0.02 * (seed % 2), Execution())
        given += sum(rank.n_given for rank in runner.ranks)
        assert sum(rank.n_received for rank in runner.ranks) <= sum(rank.n_given for rank in runner.ranks)
    assert (given > 0) == (n > 1)


def test_devices_lost_at_random_moments(engine: Engine) -> None:
    warned = 0
    for seed in range(12):
        dice = random.Random(seed)
        fails = [float("inf"), *(dice.choice([float("inf"), dice.randrange(1, 40)]) for _ in range(3))]
        runner, _ = run(engine, seed, fails, 0.01 * (seed % 3), Execution())
        warned += len(runner.warnings)
    assert warned > 3


def test_the_last_device_that_is_lost_ends_the_search(engine: Engine) -> None:
    with pytest.raises(MemoryError, match="the device is gone"):
        run(engine, 1, [3, 3], 1e9, Execution())


def test_passed_on_results_cannot_be_found_again(engine: Engine) -> None:
    with pytest.raises(DeviceLost, match=r"gpu:1 \(made up\) was lost \(the device is gone\)"):
        run(engine, 1, [float("inf"), 12], 1e9, Execution(time_limit_seconds=1e6))


def test_a_program_error_is_not_a_lost_device(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_self: Search, _block_bytes: int) -> list[Found]:
        raise TypeError("a mistake")

    monkeypatch.setattr(Search, "work", wrong)
    with pytest.raises(TypeError, match="a mistake"):
        run(engine, 1, [float("inf")] * 2, 1e9, Execution())


def test_a_device_that_cannot_start_is_named(engine: Any) -> None:
    def refused(*_given: Any, **_others: Any) -> Any:
        raise MemoryBudgetExceeded("needs 7 bytes", needed_bytes=7)

    engine.device_search = refused
    with pytest.raises(MemoryBudgetExceeded, match=r"gpu:0 \(made up\): needs 7 bytes") as error:
        list(devices.DeviceRunner([0, 1]).run("p", "cuda", GRAPH, None, Execution(), None))
    assert error.value.needed_bytes == 7


class Watched:
    """Searches with blocks in device memory; the one on the device of the tables rests while one is consumed."""

    def __init__(self, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.budgets: list[int] = []
        self.is_taking = False
        rows, work = np.array(range(40, 0, -1), np.int32), Search.work

        def device_search(_graph: Any, _query: Any, execution: Execution, *_given: Any, **asked: Any) -> Search:
            assert asked["on_device"]
            self.budgets.append(execution.device_memory_bytes or 0)
            return Search(rows, len(self.budgets), float("inf"))

        def watched(search: Search, block_bytes: int) -> Iterator[list[Found]]:
            assert not (threading.current_thread().name == "gpu-0-0" and self.is_taking)
            yield from work(search, block_bytes)

        engine.device_search = device_search
        monkeypatch.setattr(Search, "work", watched)


def test_no_search_runs_on_the_consumer_s_device(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(engine, monkeypatch)
    runner, n = devices.DeviceRunner([0, 1, 2], epoch_seconds=0.0), 0
    means = Execution(device_memory_bytes=1200)
    for block in runner.run("p", "cuda", GRAPH, None, means, None, on_device=True):
        watched.is_taking = len(block) > 0
        time.sleep(0.002)
        n += len(block)
        watched.is_taking = False
    assert n == 40 * 41 // 2
    # Three twelfths are for blocks.
    assert watched.budgets == [900] * 3


def test_a_device_lost_before_its_blocks_are_consumed(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Watched(engine, monkeypatch)
    kind = type("CudaError", (RuntimeError,), {"__module__": "cupy_backends"})

    def lost(_search: Search, _block: Found) -> Found:
        raise kind("the device has fallen off the bus")

    monkeypatch.setattr(Search, "brought_here", lost)
    with pytest.raises(DeviceLost, match=r"has fallen off the bus.*more device memory holds more back"):
        list(devices.DeviceRunner([0, 1]).run("p", "cuda", GRAPH, None, Execution(), None, on_device=True))
    assert not [each for each in threading.enumerate() if each.name.startswith("gpu-")]


def test_a_refused_device_names_a_sufficient_budget(engine: Any) -> None:
    def refused(*_given: Any, **_others: Any) -> Any:
        raise MemoryBudgetExceeded("needs 9 bytes", needed_bytes=9)

    engine.device_search = refused
    for numbers, on_device, enough in (([0], True, 12), ([0, 0], True, 24), ([0, 0], False, 18)):
        runner = devices.DeviceRunner(numbers)
        with pytest.raises(MemoryBudgetExceeded, match=r"gpu:0 \(made up\): needs 9 bytes") as error:
            list(runner.run("p", "cuda", GRAPH, None, Execution(), None, on_device=on_device))
        assert error.value.needed_bytes == enough


def test_budgets_of_shared_and_other_devices() -> None:
    budgets = devices._Budgets.of(Execution(device_memory_bytes=1200), (0, 0, 1), {0: 4000, 1: 800}, 0)
    # A requested budget is planned for the device of the tables; other devices use their free memory.
    assert [budgets.of_search(number) for number in (0, 1)] == [450, 450]
    assert budgets.most_of_blocks == 50
    assert budgets.for_search(0, 450) == 1200
    assert budgets.for_search(1, 451) == 602
    on_host = devices._Budgets.of(Execution(), (0, 1), {0: 4000, 1: 800}, None)
    assert [on_host.of_search(number) for number in (0, 1)] == [3000, 600]
    assert on_host.for_search(1, 600) == 600


def test_ends_of_full_epochs_take_little_of_the_time(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices idle at the end of an epoch: if each moment finds more than is held back, results are passed on."""
    ends = []
    end_round = device_exchange.Exchange._end_round

    def counted(self: device_exchange.Exchange) -> None:
        ends.append(time.perf_counter())
        end_round(self)

    monkeypatch.setattr(device_exchange.Exchange, "_end_round", counted)
    rows = np.arange(100, 0, -1, dtype=np.int32)
    searches = iter([Search(rows, seed, float("inf")) for seed in range(3)])
    engine.device_search = lambda *_given, **_others: next(searches)
    runner = devices.DeviceRunner(range(3), epoch_seconds=1e9)
    execution = Execution(memory_budget_bytes=64)
    assert sum(map(len, runner.run("p", "cuda", GRAPH, None, execution, None, barrier=Barrier()))) == rows.sum()
    assert len(ends) <= 5
