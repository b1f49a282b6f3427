"""Several GPUs of this machine do a search: one thread each, the graph on each, and work handed on where one runs dry.

How they share work, and what becomes of a device that is lost, is in `device_exchange`. What is found comes through the
memory of the host.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from mbe_stage.engines import get_engine
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.options import Execution
from mbe_stage.runners.device_exchange import DeviceSearch, Exchange, Terms
from mbe_stage.runners.ranks import RankFacts, busy_shares
from mbe_stage.tasks import Task
from mbe_stage.worker_pool import Barrier

__all__ = ["DeviceFacts", "DeviceRunner"]

log = logging.getLogger(__name__)

ENGINE = "cuda"
_EPOCH_SECONDS = 5.0
_MEMORY_SHARE = 0.75
_LIBRARIES = {"cupy", "cupy_backends", "numba", "numba_cuda", "cuda"}


@dataclass(slots=True)
class DeviceFacts(RankFacts):
    """What a device did for a search: what is said of all ranks, and what it handed over.

    A lease is what it was dealt, or took in at once.

    Attributes
    ----------
    n_given, n_received : int
        Roots, nodes and tasks that it handed over, or got from others.
    """

    n_given: int = 0
    n_received: int = 0


@dataclass(slots=True)
class _Beginning:
    """What becomes of the devices until all are ready, or have said why not."""

    ready: dict[int, DeviceSearch] = field(default_factory=dict)
    refused: dict[int, BaseException] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def say(self, k: int, answer: DeviceSearch | BaseException) -> None:
        with self.changed:
            if isinstance(answer, BaseException):
                self.refused[k] = answer
            else:
                self.ready[k] = answer
            self.changed.notify_all()

    def wait(self, n: int) -> None:
        with self.changed:
            while len(self.ready) + len(self.refused) < n:
                self.changed.wait(timeout=0.05)


class DeviceRunner:
    """Has several GPUs of this machine do a search: `mbe_stage.options.Runner`.

    Parameters
    ----------
    devices : "all" or sequence of int
        Which ones; one that is named twice gets two threads, and half of its memory for each.
    epoch_seconds : float
        How long what is found is held back at least, where it may have to be found again (`device_exchange`).
    options : mapping, optional
        What the engine's `device_search` takes beside the rest. For tests.

    Attributes
    ----------
    ranks : list of DeviceFacts
        What each device did in the last search.
    seconds : float
        How long that search took, from when all devices were ready.
    warnings : list of str
        Which devices were lost, or left out.
    """

    TAKES_BARRIER: ClassVar[bool] = True
    shares_machine = True

    def __init__(
        self,
        devices: Literal["all"] | Sequence[int] = "all",
        *,
        epoch_seconds: float = _EPOCH_SECONDS,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._devices = devices
        self._epoch_seconds = epoch_seconds
        self._options = dict(options or {})
        self.ranks: list[DeviceFacts] = []
        self.seconds = 0.0
        self.warnings: list[str] = []

    @property
    def busy(self) -> tuple[float, ...]:
        """Share of the last search that each device was at work."""
        return busy_shares(self.ranks, self.seconds)

    def device(self) -> str:
        """What the last search ran on."""
        kinds = Counter(rank.device for rank in self.ranks)
        return f"{ENGINE}, {', '.join(f'{n} x {kind}' if n > 1 else kind for kind, n in sorted(kinds.items()))}"

    def run(
        self,
        problem: str,
        engine: str,
        graph: Any,
        query: Any,
        execution: Execution,
        detail: Any,
        tasks: Iterable[Task] | None = None,
        barrier: Barrier | None = None,
    ) -> Iterator[Any]:
        """The blocks of some tasks, or of all, in any order; those of an epoch once all of it is found.

        Parameters
        ----------
        problem, engine : str
            Their names.
        graph, query, execution, detail
            As of an engine. The budget of device memory is that of each device.
        tasks : iterable of Task, optional
            What the engine's `tasks_of` gave for the same graph and query.
        barrier : Barrier, optional
            Asked, it is followed by an empty block with the tasks that remain.

        Raises
        ------
        InvalidArgument
            Another engine, a problem whose engine does not share its work, or a device that is not there.
        MemoryBudgetExceeded
            A device has too little memory for the graph, of all devices each; or runs out of it as the last one.
        DeviceLost
            A device failed when part of what it was at had been handed on.
        """
        worker: Any = get_engine(problem, engine)
        if not hasattr(worker, "device_search"):
            raise InvalidArgument(
                f"devices is {self._devices!r}, and the engine {engine} of {problem} does not share its work among "
                "several: leave devices out, or take the engine cuda for bicliques"
            )
        from mbe_stage.device.selection import device_numbers, free_bytes, name_of

        numbers = device_numbers(self._devices)
        self.ranks = [DeviceFacts(f"gpu:{number}", name_of(number)) for number in numbers]
        self.seconds, self.warnings = 0.0, []
        wanted = None if tasks is None else tuple(tasks)
        is_limited = execution.time_limit_seconds is not None or execution.max_bicliques is not None
        terms = Terms(execution.memory_budget_bytes // 2, self._epoch_seconds, holds=not is_limited)
        exchange, beginning = Exchange(terms, barrier), _Beginning()

        def search_on(k: int) -> DeviceSearch:
            shared_by = numbers.count(numbers[k])
            budget = execution.device_memory_bytes or int(_MEMORY_SHARE * free[numbers[k]])
            alone = replace(execution, runner=None, devices=None, device_memory_bytes=budget // shared_by)
            return worker.device_search(
                graph, query, alone, detail, wanted, is_asked=barrier is not None, **self._options
            )

        free = {number: free_bytes(number) for number in set(numbers)}
        threads = [
            threading.Thread(
                target=_worked,
                args=(k, number, search_on, exchange, beginning, execution.block_bytes),
                name=f"gpu-{number}-{k}",
                daemon=True,
            )
            for k, number in enumerate(numbers)
        ]
        try:
            for thread in threads:
                thread.start()
            beginning.wait(len(threads))
            lead = self._checked(beginning)
            begun = time.perf_counter()
            with closing(self._begun(exchange, beginning, lead)) as blocks:  # type: ignore[type-var]
                for block in blocks:
                    self.seconds = time.perf_counter() - begun
                    yield block
            self.seconds = time.perf_counter() - begun
            yield lead.empty(1.0)
        finally:
            exchange.stop()
            for thread in threads:
                thread.join()

    def _begun(self, exchange: Exchange, beginning: _Beginning, lead: DeviceSearch) -> Iterator[Any]:
        """What all devices find that are ready."""
        if lead.rows.size:
            exchange.warnings = self.warnings
            facts = dict(zip(sorted(beginning.ready), self.ranks, strict=True))
            named = {k: f"{each.address} ({each.device})" for k, each in facts.items()}
            exchange.start({k: (search, named[k], facts[k]) for k, search in sorted(beginning.ready.items())})
            yield from exchange.blocks()

    def _checked(self, beginning: _Beginning) -> DeviceSearch:
        """One of those that are ready; refuses where some are not that were named."""
        for k, error in sorted(beginning.refused.items()):
            rank = self.ranks[k]
            may_be_left_out = self._devices == "all" and beginning.ready and isinstance(error, MemoryBudgetExceeded)
            if not may_be_left_out:
                if isinstance(error, MemoryBudgetExceeded) and len(self.ranks) > 1:
                    raise MemoryBudgetExceeded(
                        f"{rank.address} ({rank.device}): {error}", needed_bytes=error.needed_bytes
                    ) from error
                raise error
            told = f"{rank.address} ({rank.device}) is left out: {error}"
            log.warning("%s", told)
            self.warnings.append(told)
        self.ranks = [rank for k, rank in enumerate(self.ranks) if k not in beginning.refused]
        return next(iter(beginning.ready.values()))


def _worked(
    k: int,
    number: int,
    search_on: Callable[[int], DeviceSearch],
    exchange: Exchange,
    beginning: _Beginning,
    block_bytes: int,
) -> None:
    """What the thread of a device does.

    Parameters
    ----------
    k : int
        Which of the threads it is.
    number : int
        Of the device.
    search_on : callable
        Makes the search, on the device that is selected.
    exchange : Exchange
    beginning : _Beginning
    block_bytes : int
        Of a block that is handed on.
    """
    from mbe_stage.device.selection import selected

    try:
        with selected(number):
            search = search_on(k)
            beginning.say(k, search)
            while (begun := exchange.next_round(k)) is not None:
                generation, rows = begun
                search.begin(rows)
                while exchange.goes_on(generation) and _went_on(k, search, exchange, generation, block_bytes):
                    pass
    except BaseException as error:  # noqa: BLE001 - the consumer's thread raises it
        if k in beginning.ready:
            exchange.lose(k, error, is_of_device=_is_of_a_device(error))
        else:
            beginning.say(k, error)


def _went_on(k: int, search: DeviceSearch, exchange: Exchange, generation: int, block_bytes: int) -> bool:
    """Work for a while, or wait for work; False where the round is over."""
    if search.is_done:
        parcel = exchange.wait(k, generation)
        if parcel is None:
            return False
        search.take_in(parcel)
        # Who gave it gets its memory back now, not behind the next quantum.
        del parcel
    if exchange.wants_roots_back(k, generation):
        exchange.give_back(k, generation, search.hold())
    start = time.perf_counter()
    blocks = search.work(block_bytes)
    seconds = time.perf_counter() - start
    exchange.report(k, generation, blocks, search.standing(), seconds)
    waiting = [] if search.is_done else exchange.requests(k, generation)
    if waiting:
        parcels = search.split([room for _, room in waiting])
        exchange.hand_over(k, generation, [(j, parcel) for (j, _), parcel in zip(waiting, parcels, strict=True)])
    return True


def _is_of_a_device(error: BaseException) -> bool:
    """Whether it is a device that has failed, or its memory, and not this program."""
    kinds = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, MemoryBudgetExceeded | MemoryError) or not kinds.isdisjoint(_LIBRARIES)
