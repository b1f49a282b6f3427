"""Search on several GPUs of this machine: one thread and one copy of the graph per GPU, with work sharing.

`device_exchange` shares the work, and handles lost devices. Results pass through host memory. If the sink is in device
memory, they are held back on the device that found them, then copied to the sink's device: the one that was current
when the search began. So every device reserves a part of its budget for blocks.

On the sink's device, searches and the consumer take turns (`Turns`). Both use its default stream, where a quantum of a
search takes half a second, and each wait of the consumer would take a quantum. So the consumer comes first, and alone,
as with one device.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from mbe_stage.engines import get_engine
from mbe_stage.errors import DeviceLost, InvalidArgument, MemoryBudgetExceeded
from mbe_stage.options import Execution
from mbe_stage.runners.device_exchange import DeviceSearch, Exchange, Terms
from mbe_stage.runners.worker_stats import RankFacts, busy_shares
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork, Task

# Longest wait of a search for its turn before it checks for requests of other devices.
_WAIT_SECONDS = 0.01
log = logging.getLogger(__name__)
ENGINE = "cuda"
_EPOCH_SECONDS = 2.0
_MEMORY_SHARE = 0.75
# Twelfths of a device's budget for blocks in device memory: blocks held back, blocks that wait for the consumer, and
# the block it takes in. The rest is for the search.
_OF_BLOCKS, _TWELFTHS = 3, 12
_REMEDY = "start over, or resume from the last checkpoint (--resume); a larger memory budget holds more back"
_REMEDY_ON_DEVICE = "start over, or resume from the last checkpoint (--resume); more device memory holds more back"
_LIBRARIES = {"cupy", "cupy_backends", "numba", "numba_cuda", "cuda"}


class Turns:
    """Turns of the consumer and the searches on one device.

    Parameters
    ----------
    interrupt : callable
        Makes the quanta of these searches end soon; callable from any thread.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._changed = threading.Condition()
        self._n_searches = 0
        self._is_wanted = False

    @contextmanager
    def of_search(self) -> Iterator[bool]:
        """Wait briefly for a search's turn; yield whether it has come. Several searches may have it at once."""
        with self._changed:
            if self._is_wanted:
                self._changed.wait(timeout=_WAIT_SECONDS)
            is_its_turn = not self._is_wanted
            self._n_searches += is_its_turn
        try:
            yield is_its_turn
        finally:
            # Without a turn nothing changed: notifying would make waiting searches wake each other.
            if is_its_turn:
                with self._changed:
                    self._n_searches -= 1
                    self._changed.notify_all()

    @contextmanager
    def of_consumer(self) -> Iterator[None]:
        """Interrupt the searches, and yield when none is at work."""
        with self._changed:
            self._is_wanted = True
        try:
            while self._are_searches_at_work():
                # Repeated, because a quantum that is about to begin misses it.
                self._interrupt()
                with self._changed:
                    self._changed.wait_for(lambda: not self._n_searches, timeout=_WAIT_SECONDS)
            yield
        finally:
            with self._changed:
                self._is_wanted = False
                self._changed.notify_all()

    def _are_searches_at_work(self) -> bool:
        with self._changed:
            return self._n_searches > 0


@dataclass(slots=True)
class DeviceFacts(RankFacts):
    """Facts of a device's share of a search: `RankFacts` and its transferred work.

    A lease is a portion of work that the device was dealt or took in.

    Attributes
    ----------
    n_given, n_received : int
        Roots, nodes and tasks handed over to other devices, or received from them.
    """

    n_given: int = 0
    n_received: int = 0


@dataclass(slots=True)
class _Beginning:
    """Waits for the start of all devices: each becomes ready or reports its error."""

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


@dataclass(frozen=True, slots=True)
class _Budgets:
    """Memory budgets of some devices.

    Attributes
    ----------
    of_device : mapping of int to int
        Budget in bytes, by device number.
    n_sharing : mapping of int to int
        Number of threads that share a device.
    keeps_blocks : bool
        True if results are held back in device memory.
    """

    of_device: Mapping[int, int]
    n_sharing: Mapping[int, int]
    keeps_blocks: bool

    @classmethod
    def of(cls, execution: Execution, numbers: Sequence[int], free: Mapping[int, int], here: int | None) -> _Budgets:
        """Return the budgets for `execution`.

        Blocks come to device `here`; the budget was planned for that one only.
        """
        of_device = {}
        for number in free:
            most = int(_MEMORY_SHARE * free[number])
            asked = execution.device_memory_bytes or most
            of_device[number] = asked if here is None or number == here else min(asked, most)
        return cls(of_device, Counter(numbers), here is not None)

    @property
    def _of_search(self) -> int:
        return _TWELFTHS - _OF_BLOCKS * self.keeps_blocks

    def of_search(self, number: int) -> int:
        """Return the budget of one thread's search on a device."""
        return self.of_device[number] * self._of_search // (_TWELFTHS * self.n_sharing[number])

    def for_search(self, number: int, needed_bytes: int) -> int:
        """Return the device budget that gives one thread's search `needed_bytes`."""
        return -(-needed_bytes * _TWELFTHS * self.n_sharing[number] // self._of_search)

    @property
    def most_of_blocks(self) -> int:
        """Most bytes that all devices together may hold back, since all may be on one device."""
        return min(self.of_device.values()) // _TWELFTHS


class DeviceRunner:
    """Runs a search on several GPUs of this machine: `mbe_stage.options.Runner`.

    Parameters
    ----------
    devices : "all" or sequence of int
        The GPUs. A GPU that is named twice gets two threads, each with half of its memory.
    epoch_seconds : float
        Shortest duration of an epoch: results are held back until its end, if they may have to be found again
        (`device_exchange`).
    options : mapping, optional
        Further arguments of the engine's `device_search`, for tests.

    Attributes
    ----------
    ranks : list of DeviceFacts
        Statistics of each device in the last search.
    seconds : float
        Duration of that search, since all devices were ready.
    warnings : list of str
        One line for each device that was lost or left out.
    """

    TAKES_BARRIER: ClassVar[bool] = True
    FEEDS_DEVICES: ClassVar[bool] = True
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
        """Share of time that each device was at work in the last search."""
        return busy_shares(self.ranks, self.seconds)

    def device(self) -> str:
        """Return the names of the devices of the last search."""
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
        tasks: Iterable[Task | OpenWork] | None = None,
        barrier: Barrier | None = None,
        *,
        on_device: bool = False,
    ) -> Iterator[Any]:
        """Yield the blocks of all tasks, or of the given ones, in any order, each epoch once it is complete.

        Parameters
        ----------
        graph, query, execution, detail
            As an engine takes them. The budget of device memory applies to each device.
        tasks : iterable of Task or OpenWork, optional
            Tasks from the engine's `tasks_of` for the same graph and query; all by default.
        barrier : Barrier, optional
            If a barrier is requested, an empty block with the remaining tasks or saved work is yielded.
        on_device : bool
            True to yield blocks in the memory of the current device, where no search runs while the caller has one.

        Raises
        ------
        InvalidArgument
            The engine cannot share its work among devices, or a device does not exist.
        MemoryBudgetExceeded
            All devices have too little memory for the graph, or the last device runs out of memory.
        DeviceLost
            A device failed after part of its work was delivered.
        """
        worker: Any = get_engine(problem, engine)
        if not hasattr(worker, "device_search"):
            raise InvalidArgument(
                f"devices is {self._devices!r}, and the engine {engine} of {problem} does not share its work among "
                "several: leave devices out"
            )
        from mbe_stage.device.selection import current_number, device_numbers, free_bytes, name_of

        numbers = device_numbers(self._devices)
        self.ranks = [DeviceFacts(f"gpu:{number}", name_of(number)) for number in numbers]
        self.seconds, self.warnings = 0.0, []
        wanted = None if tasks is None else tuple(tasks)
        here = current_number() if on_device else None
        free = {number: free_bytes(number) for number in set(numbers)}
        budgets = _Budgets.of(execution, numbers, free, here)
        exchange, beginning = Exchange(self._terms(execution, budgets), barrier), _Beginning()

        def search_on(k: int) -> DeviceSearch:
            memory = budgets.of_search(numbers[k])
            # The host holds each device's saved work twice: of the last epoch's end, and of this one's.
            host_memory = max(1, execution.memory_budget_bytes // (2 * len(numbers)))
            alone = replace(
                execution, runner=None, devices=None, device_memory_bytes=memory, memory_budget_bytes=host_memory
            )
            asked = {"is_requested": barrier is not None} | ({"on_device": True} if on_device else {})
            return worker.device_search(graph, query, alone, detail, wanted, **asked, **self._options)

        on_it = [k for k, number in enumerate(numbers) if number == here]
        turns = Turns(lambda: exchange.interrupt(on_it)) if on_device else None
        work = _Work(search_on, exchange, beginning, execution.block_bytes)
        threads = [
            threading.Thread(
                target=_worked,
                args=(k, number, work, turns if number == here else None),
                name=f"gpu-{number}-{k}",
                daemon=True,
            )
            for k, number in enumerate(numbers)
        ]
        if not graph.is_on_host:
            _wait_for_the_graph()
        try:
            for thread in threads:
                thread.start()
            beginning.wait(len(threads))
            lead = self._checked(beginning, numbers, budgets)
            yield from self._found(exchange, beginning, lead, turns)
        finally:
            exchange.stop()
            for thread in threads:
                thread.join()

    def _terms(self, execution: Execution, budgets: _Budgets) -> Terms:
        """Return the conditions for delivering results."""
        limits = execution.time_limit_seconds, execution.max_bicliques, execution.max_cliques
        is_limited = any(limit is not None for limit in limits)
        most_bytes = budgets.most_of_blocks if budgets.keeps_blocks else execution.memory_budget_bytes // 2
        remedy = _REMEDY_ON_DEVICE if budgets.keeps_blocks else _REMEDY
        return Terms(most_bytes, self._epoch_seconds, holds=not is_limited, remedy=remedy)

    def _found(
        self, exchange: Exchange, beginning: _Beginning, lead: DeviceSearch, turns: Turns | None
    ) -> Iterator[Any]:
        """Yield the results of all devices, then an empty block; with `turns`, in the memory of this device."""
        begun = time.perf_counter()
        with closing(self._begun(exchange, beginning, lead)) as blocks:  # type: ignore[type-var]
            for block in blocks:
                self.seconds = time.perf_counter() - begun
                with _turn_for(block, turns):
                    if turns is not None:
                        block = _brought(lead, block)
                    yield block
                    # Release it before a search gets its turn and allocates memory.
                    del block
        self.seconds = time.perf_counter() - begun
        last = lead.empty(1.0)
        yield last if turns is None else lead.brought_here(last)

    def _begun(self, exchange: Exchange, beginning: _Beginning, lead: DeviceSearch) -> Iterator[Any]:
        """Yield the results of all devices that are ready."""
        if lead.rows.size or lead.works:
            exchange.warnings = self.warnings
            facts = dict(zip(sorted(beginning.ready), self.ranks, strict=True))
            named = {k: f"{each.address} ({each.device})" for k, each in facts.items()}
            exchange.start({k: (search, named[k], facts[k]) for k, search in sorted(beginning.ready.items())})
            yield from exchange.blocks()

    def _checked(self, beginning: _Beginning, numbers: Sequence[int], budgets: _Budgets) -> DeviceSearch:
        """Return one of the ready devices. Raise the error of a device that is not ready and may not be left out."""
        for k, error in sorted(beginning.refused.items()):
            rank = self.ranks[k]
            may_be_left_out = self._devices == "all" and beginning.ready and isinstance(error, MemoryBudgetExceeded)
            if not may_be_left_out:
                if isinstance(error, MemoryBudgetExceeded) and (len(self.ranks) > 1 or budgets.keeps_blocks):
                    needed = error.needed_bytes
                    raise MemoryBudgetExceeded(
                        f"{rank.address} ({rank.device}): {error}",
                        needed_bytes=None if needed is None else budgets.for_search(numbers[k], needed),
                    ) from error
                raise error
            message = f"{rank.address} ({rank.device}) is left out: {error}"
            log.warning("%s", message)
            self.warnings.append(message)
        self.ranks = [rank for k, rank in enumerate(self.ranks) if k not in beginning.refused]
        return next(iter(beginning.ready.values()))


@dataclass(frozen=True, slots=True)
class _Work:
    """State shared by the threads of all devices.

    Attributes
    ----------
    search_on : callable
        Makes the search of a thread, by its index, on the selected device.
    block_bytes : int
        Size of a delivered block.
    """

    search_on: Callable[[int], DeviceSearch]
    exchange: Exchange
    beginning: _Beginning
    block_bytes: int


def _worked(k: int, number: int, work: _Work, turns: Turns | None) -> None:
    """Run the thread of a device.

    Parameters
    ----------
    turns : Turns or None
        Turns with the consumer; None if this is not the sink's device.
    """
    from mbe_stage.device.selection import selected

    exchange, beginning = work.exchange, work.beginning
    try:
        with selected(number):
            search = work.search_on(k)
            beginning.say(k, search)
            while (begun := exchange.next_round(k)) is not None:
                generation, rows, works = begun
                search.begin(rows, works)
                del works
                while exchange.goes_on(generation) and _went_on(k, search, work, generation, turns):
                    pass
    except BaseException as error:  # noqa: BLE001 - the consumer's thread raises it
        if k in beginning.ready:
            exchange.lose(k, error, is_of_device=_is_of_a_device(error))
        else:
            beginning.say(k, error)


def _went_on(k: int, search: DeviceSearch, work: _Work, generation: int, turns: Turns | None) -> bool:
    """Search for a quantum, or wait for work or a turn; return False if the round is over."""
    exchange = work.exchange
    if search.is_done:
        transfer = exchange.wait(k, generation)
        if transfer is None:
            return False
        search.take_in(transfer)
        # Free the giver's memory now, not after the next quantum.
        del transfer
    if exchange.wants_saved(k, generation):
        start = time.perf_counter()
        exchange.save(k, generation, search.save(), time.perf_counter() - start)
    if exchange.wants_roots_back(k, generation):
        exchange.give_back(k, generation, search.hold())
    with turns.of_search() if turns is not None else nullcontext(True) as is_its_turn:
        start = time.perf_counter()
        # The first part arrives once the quantum ends.
        parts = search.work(work.block_bytes) if is_its_turn else iter(())
        blocks = next(parts, None)
    if blocks is not None:
        exchange.stands(k, generation, search.progress())
    while blocks is not None and exchange.goes_on(generation):
        exchange.report(k, generation, blocks, time.perf_counter() - start)
        start = time.perf_counter()
        blocks = next(parts, None)
    waiting = [] if search.is_done else exchange.requests(k, generation)
    if waiting:
        transfers = search.split([capacity for _, capacity in waiting])
        exchange.hand_over(k, generation, [(j, transfer) for (j, _), transfer in zip(waiting, transfers, strict=True)])
    return True


def _wait_for_the_graph() -> None:
    """Synchronize, because other devices copy the graph without waiting for this device's stream."""
    from mbe_stage.device.arrays import wait_for_device

    wait_for_device()


def _turn_for(block: Any, turns: Turns | None) -> AbstractContextManager[None]:
    """Return the consumer's turn if the block makes it work on its device."""
    has_work = len(block) > 0 or getattr(block, "remaining", None) is not None
    return turns.of_consumer() if turns is not None and has_work else nullcontext()


def _brought(lead: DeviceSearch, block: Any) -> Any:
    """Return the block in the memory of the current device.

    Raises
    ------
    DeviceLost
        The device that found it has failed meanwhile.
    """
    try:
        return lead.brought_here(block)
    except Exception as error:
        if isinstance(error, MemoryBudgetExceeded | MemoryError) or not _is_of_a_device(error):
            raise
        raise DeviceLost(
            f"a device was lost ({' '.join(str(error).split())}) before all that it had found was taken in: "
            f"{_REMEDY_ON_DEVICE}"
        ) from error


def _is_of_a_device(error: BaseException) -> bool:
    """True if a device or its memory has failed, and not this program."""
    kinds = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, MemoryBudgetExceeded | MemoryError) or not kinds.isdisjoint(_LIBRARIES)
