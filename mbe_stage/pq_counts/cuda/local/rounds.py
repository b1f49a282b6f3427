"""Counts and local counts in rounds, if barriers may be requested: some roots are counted, then searched again.

Local counts of a root are known when all cells are searched below it. So a barrier can only follow all cells of some
roots. A round counts for a while, holds the other roots back, and searches each cell below the counted ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.results import Leaves, PqBlock, PqSink
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import Task, positions, without

ROUND_SECONDS = 1.0
"""Least seconds that a round counts before it finishes the begun roots: short compared with the time between
checkpoints."""
TIMES_ITS_BEGINNING = 20.0
"""A round counts this many times as long as the time to its first quantum, since each round prepares the graph."""
_BEFORE_THE_END = 0.999


class LocalBlocks(Protocol):
    """Searches all cells below some rows: `cells.DeviceLocalSearch`."""

    n_searched: int

    def blocks(
        self,
        pieces: np.ndarray | None,
        counts: dict[tuple[int, int], int],
        work_done: float,
        deadline: float,
        *,
        is_first: bool,
    ) -> Iterator[PqBlock]:
        """Yield the local counts of the rows."""

    def let_go(self) -> None:
        """Free the device memory kept between two calls."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Runs the counts, which show how large the numbers get, and then the local counts.

    Attributes
    ----------
    counted : callable
        Counts below some tasks, or all, with a barrier of its own; returns a generator.
    query : PqQuery
    local : LocalBlocks
    ranges : callable
        Returns the ranges of some tasks, or of all for None. The first root stands for the counts known from degrees.
    deadline : float
        By `time.perf_counter`.
    """

    counted: Callable[[tuple[Task, ...] | None, Barrier | None], Generator[PqBlock]]
    query: PqQuery
    local: LocalBlocks
    ranges: Callable[[tuple[Task, ...] | None], list[tuple[int, int]]]
    deadline: float

    def blocks(self, tasks: tuple[Task, ...] | None, barrier: Barrier | None) -> Iterator[PqBlock]:
        """Yield the results below some tasks, or all; in one round, unless barriers may be requested."""
        done = 0.0
        while True:
            remaining: tuple[Task, ...] | None = None
            for block in self._round(tasks, is_requested=barrier is not None):
                remaining = block.remaining
                if remaining is None:
                    yield replace(block, work_done=done + (1.0 - done) * block.work_done)
                else:
                    done += (1.0 - done) * block.work_done
            if remaining is None or barrier is None:
                return
            self.local.let_go()
            if time.perf_counter() > self.deadline:
                # Local counts may fall short of the counts. By this the caller knows that work was left.
                yield PqBlock(Leaves.none(), work_done=min(_BEFORE_THE_END, done))
                return
            if barrier.is_requested:
                barrier.reached()
                yield PqBlock(Leaves.none(), work_done=done, remaining=remaining)
            tasks = remaining

    def _round(self, tasks: tuple[Task, ...] | None, *, is_requested: bool) -> Iterator[PqBlock]:
        """Run one round; the last block has the remaining tasks, if there are any."""
        # Each cell takes longer than all counts together.
        share, found = 1.0 / (1 + self.local.n_searched), PqSink(self.query)
        own, last = Barrier() if is_requested else None, PqBlock(Leaves.none(), work_done=1.0)
        began, until = time.perf_counter(), math.inf
        with closing(self.counted(tasks, own)) as counted:
            for block in counted:
                if until == math.inf:
                    now = time.perf_counter()
                    until = now + max(ROUND_SECONDS, TIMES_ITS_BEGINNING * (now - began))
                if block.remaining is not None:
                    last = block
                    break
                found.accept(block)
                yield replace(block, work_done=share * block.work_done)
                if own is not None and time.perf_counter() > until:
                    own.ask()
        counted_ranges = self.ranges(tasks)
        if last.remaining is not None:
            counted_ranges = without(counted_ranges, self.ranges(last.remaining))
        is_first = bool(counted_ranges) and counted_ranges[0][0] == 0
        rows = positions(counted_ranges) - 1
        # If all remain, they are not listed.
        wanted = None if tasks is None and last.remaining is None else rows[rows >= 0]
        for block in self.local.blocks(wanted, found.counts(), share, self.deadline, is_first=is_first):
            yield replace(block, work_done=last.work_done * block.work_done)
        if last.remaining is not None:
            yield last
