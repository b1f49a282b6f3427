"""Execution settings of an engine, for any problem."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mbe_stage.errors import InvalidArgument

LARGEST_BLOCK = 1 << 30
"""Largest allowed block, in bytes: its members stay far below 2^31, the limit of list columns."""

MOST_THREADS = 1024
"""Most threads: no machine has more cores that share memory, so a larger number is a slip."""

NO_LIMIT = 2**62
"""Stands for no maximum if a number is needed: above any size, and products with it do not overflow."""


class Runner(Protocol):
    """Runs the tasks of a problem in place of this process (`mbe_stage.runners.dask_runner.DaskRunner`).

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
        """Yield the blocks of some tasks, or of all, each result once, in any order; closing the iterator ends it.

        Parameters
        ----------
        graph, query, execution, detail
            As an engine takes them.
        tasks : iterable of Task, optional
            Tasks of the same graph and query; by default all.
        barrier : Barrier, optional
            A request is answered by an empty block with the remaining tasks.
        """

    def device(self) -> str:
        """Name of the device that it ran on."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Execution settings of an engine. They never change the results.

    Attributes
    ----------
    threads : int
        Worker threads of a CPU engine; 0 means every core this process may use.
    memory_budget_bytes : int
        Bytes the engine may take for working memory and output blocks, beside the graph itself.
    device_memory_bytes : int or None
        The same for the memory of a GPU; None is three quarters of the free memory. An engine takes what its plan
        needs, which grows with the graph, not all of it.
    block_bytes : int
        Size of one output block, at most `LARGEST_BLOCK`. A single larger biclique comes in a block of its own.
    max_bicliques, max_cliques : int or None
        Stop, truncated, after this many results of the problem (`Problem.limit`).
    time_limit_seconds : float or None
        Stop, truncated, after this long.
    stated_seconds : float or None
        The time limit that messages state, where steps beside the search have a part of it; None is
        `time_limit_seconds`.
    devices : "all", sequence of int, or None
        GPUs of this machine that share the search (`mbe_stage.runners.devices`): all, or some by number; None is the
        current one. The budget of device memory applies to each.
    runner : Runner or None
        Does the work; None is this process. Budgets and threads then apply to each of its workers; 0 threads means all
        that a worker has.
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
        """Number of threads to start: as requested, or the cores this process may run on."""
        if self.threads:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
