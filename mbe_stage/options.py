"""Execution settings of an engine, for any problem."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mbe_stage.errors import InvalidArgument

LARGEST_BLOCK = 1 << 30
"""Largest allowed block, in bytes. It keeps the number of members far below 2^31, the limit of list columns."""

MOST_THREADS = 1024
"""Largest number of threads: no machine has that many cores, so a larger number is a typing error."""

NO_LIMIT = 2**62
"""The number for "no maximum": larger than any size, and products with it do not overflow."""


class Runner(Protocol):
    """Executes the tasks of a problem in place of this process (`mbe_stage.runners.dask_runner.DaskRunner`).

    Attributes
    ----------
    shares_machine : bool
        True if the workers share the compile cache of this process.
    """

    shares_machine: bool

    def run(
        self,
        problem: str,
        engine: str,
        graph: Any,
        query: Any,
        execution: Execution,
        detail: Any,
        tasks: Iterable[Any] | None = None,
        barrier: Any = None,
    ) -> Iterator[Any]:
        """Yield the blocks of all tasks, or of the given ones, in any order; closing the iterator ends the search.

        Parameters
        ----------
        graph, query, execution, detail
            As an engine takes them.
        tasks : iterable of Task, optional
            Tasks for the same graph and query; all by default.
        barrier : Barrier, optional
            If a barrier is requested, an empty block with the remaining tasks is yielded.
        """

    def device(self) -> str:
        """Return the name of the device that it ran on."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Execution settings of an engine. They never change the results.

    Attributes
    ----------
    threads : int
        Worker threads of a CPU engine; 0 means every core this process may use.
    memory_budget_bytes : int
        Budget for working memory and output blocks, in bytes; the graph itself is not counted.
    device_memory_bytes : int or None
        The same for the memory of a GPU; None is three quarters of the free memory. An engine allocates what the graph
        needs.
    block_bytes : int
        Size of one output block, at most `LARGEST_BLOCK`. A single larger biclique comes in a block of its own.
    max_bicliques, max_cliques : int or None
        Stop, truncated, after this many results of the problem (`Problem.limit`).
    time_limit_seconds : float or None
        Stop, truncated, after this long.
    stated_seconds : float or None
        The time limit to name in messages, if it also covers steps beside the search; None is `time_limit_seconds`.
    devices : "all", sequence of int, or None
        GPUs of this machine that share the search (`mbe_stage.runners.devices`): all, or some by number; None is the
        current one. `device_memory_bytes` applies to each.
    runner : Runner or None
        Executes the tasks; None is this process. Budgets and threads then apply to each worker; 0 threads means all.
    """

    threads: int = 0
    memory_budget_bytes: int = 1 << 30
    block_bytes: int = 16 << 20
    max_bicliques: int | None = None
    time_limit_seconds: float | None = None
    device_memory_bytes: int | None = None
    max_cliques: int | None = None
    runner: Runner | None = None
    devices: Literal["all"] | Sequence[int] | None = None
    stated_seconds: float | None = None

    def __post_init__(self) -> None:
        self._check_devices()
        if not 0 <= self.threads <= MOST_THREADS:
            raise InvalidArgument(f"threads is {self.threads}: expected 0 (every core) to {MOST_THREADS}")
        for name in ("memory_budget_bytes", "block_bytes"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} is {getattr(self, name)}: expected a positive number of bytes")
        if self.block_bytes > LARGEST_BLOCK:
            raise InvalidArgument(
                f"block_bytes is {self.block_bytes}: expected at most {LARGEST_BLOCK} (1 GiB); a smaller block is "
                "handed on sooner, and a biclique that is larger comes whole"
            )
        if self.device_memory_bytes is not None and self.device_memory_bytes < 1:
            raise InvalidArgument(
                f"device_memory_bytes is {self.device_memory_bytes}: expected a positive number or None"
            )
        for name in ("max_bicliques", "max_cliques"):
            most = getattr(self, name)
            if most is not None and most < 1:
                raise InvalidArgument(f"{name} is {most}: expected 1 or more, or None for no limit")
        seconds = self.time_limit_seconds
        if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
            raise InvalidArgument(f"time_limit_seconds is {seconds}: expected a finite number above 0, or None")

    def _check_devices(self) -> None:
        devices = self.devices
        if devices is None:
            return
        if devices != "all":
            numbers = () if isinstance(devices, str) else tuple(devices)
            if not numbers or not all(isinstance(number, int) and number >= 0 for number in numbers):
                raise InvalidArgument(f'devices is {devices!r}: expected "all", or numbers of GPUs such as [0, 1]')
            object.__setattr__(self, "devices", numbers)
        if self.runner is not None:
            raise InvalidArgument(
                f"devices is {devices!r}, and a runner does the work: expected one of the two; workers of a cluster "
                "have the devices that they see"
            )

    @property
    def worker_count(self) -> int:
        """Number of threads to start: `threads`, or the number of cores this process may use."""
        if self.threads:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
