"""One thread's work: tasks into slices, slices into blocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques.cpu import layout as at
from mbe_stage.bicliques.cpu.crew import Crew, Task
from mbe_stage.bicliques.cpu.expand import Found, Translation, expand_blocks
from mbe_stage.bicliques.cpu.layout import Output, Worker
from mbe_stage.bicliques.cpu.tree import run_slice
from mbe_stage.bicliques.cpu.worker import (
    FirstSizes,
    grown,
    growth_bytes,
    nbytes,
    new_worker,
    set_task,
    share_left,
    split_task,
)
from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.results import BicliqueBlock, Detail

__all__ = ["Hand", "Plan"]

_SLICE_SECONDS = 0.02
_FIRST_WORK_LIMIT = 1 << 20
_REPORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What every hand is given.

    Attributes
    ----------
    graph : int32
        The whole graph in the layout of a sparse node.
    n_rows, n_columns : int
    columns, rows : Translation
        The user's ids behind columns and rows.
    rows_are_left : bool
        Whether the rows are the user's left side.
    limits : (6,) int64
        As in `layout.Output`, columns being the left side.
    detail : Detail
    block_bytes : int
    first_sizes : FirstSizes
        Entries that a worker's arenas start with.
    """

    graph: np.ndarray
    n_rows: int
    n_columns: int
    columns: Translation
    rows: Translation
    rows_are_left: bool
    limits: np.ndarray
    detail: Detail
    block_bytes: int
    first_sizes: FirstSizes

    @property
    def collects(self) -> bool:
        """Whether the walk has to collect members: for the sink, or to check sizes."""
        return self.detail > Detail.COUNT or bool(self.limits[at.ACTIVE])

    def new_output(self, n_bytes: int) -> Output:
        """Room for found bicliques."""
        n_members, n_bicliques = max(64, n_bytes // 12), max(1, n_bytes // 24)
        return Output(
            left=np.empty(n_members, np.int32),
            right=np.empty(n_members, np.int32),
            left_sizes=np.empty(n_bicliques, np.int32),
            right_sizes=np.empty(n_bicliques, np.int32),
            left_weights=self.columns.weights,
            right_weights=self.rows.weights,
            limits=self.limits,
        )


class Hand:
    """Takes tasks from its crew until there are none, and delivers what it finds."""

    def __init__(self, crew: Crew, plan: Plan) -> None:
        self._crew = crew
        self._plan = plan
        self._output_bytes = plan.block_bytes
        self._output: Output | None = None
        self._n_found = 0
        self.n_visited = 0
        self._n_out = self._left_used = self._right_used = 0
        self._last_report = time.perf_counter()
        self._work_limit = _FIRST_WORK_LIMIT

    def work(self) -> None:
        """Everything until the crew has no more tasks."""
        if self._plan.collects:
            self._reserve(self._output_bytes)
            self._output = self._plan.new_output(self._output_bytes)
        own: Worker | None = None
        while (task := self._crew.next_task()) is not None:
            if task.worker is not None:
                worker = self._walk(task.worker, task.cost)
                self._reserve(-nbytes(worker))
                continue
            if own is None:
                own = new_worker(self._plan.n_rows, self._plan.first_sizes)
                self._reserve(nbytes(own))
            set_task(own, task.first_row, task.end_row, self._plan.n_rows, self._plan.n_columns)
            own = self._walk(own, task.cost)
        self._flush()

    def _walk(self, worker: Worker, cost: float) -> Worker:
        """Work a task off, slice by slice; returns the worker, whose arenas may have grown."""
        ahead = share_left(worker)
        while not self._crew.stopped:
            began = time.perf_counter()
            status = self._slice(worker)
            if status == at.OUTPUT_FULL:
                self._make_room()
            elif status == at.DONE:
                self._crew.finish(cost)
                self._report()
                break
            elif status == at.SLICE_OVER:
                self._adapt(time.perf_counter() - began)
                still_ahead = min(ahead, share_left(worker))
                finished = cost * (1.0 - still_ahead / ahead) if ahead > 0 else 0.0
                self._crew.finish(finished)
                cost -= finished
                if self._crew.wants_work and self._share(worker, cost / 2):
                    cost /= 2
                    still_ahead = share_left(worker)
                ahead = still_ahead
                self._report()
            else:
                self._reserve(growth_bytes(worker, status))
                worker = grown(worker, status)
        return worker

    def _slice(self, worker: Worker) -> int:
        """Run one slice with this hand's output."""
        control = worker.control
        control[at.N_OUT], control[at.LEFT_USED], control[at.RIGHT_USED] = (
            self._n_out,
            self._left_used,
            self._right_used,
        )
        control[at.COUNT] = control[at.VISITED] = 0
        status = run_slice(self._plan.graph, worker, self._output, self._work_limit)
        self._n_found += int(control[at.COUNT])
        self.n_visited += int(control[at.VISITED])
        self._n_out = int(control[at.N_OUT])
        self._left_used, self._right_used = int(control[at.LEFT_USED]), int(control[at.RIGHT_USED])
        return status

    def _share(self, worker: Worker, cost: float) -> bool:
        """Split the task and offer one half; False where it cannot be split, or not within the budget."""
        taker = split_task(worker, self._plan.collects, self._crew.reserve)
        if taker is None:
            return False
        self._crew.offer(Task(cost=cost, worker=taker))
        return True

    def _adapt(self, seconds: float) -> None:
        """Keep slices short enough for sharing, progress and Ctrl-C, and long enough to be worth a call."""
        if seconds < _SLICE_SECONDS / 2:
            self._work_limit *= 2
        elif seconds > _SLICE_SECONDS * 2:
            self._work_limit = max(_FIRST_WORK_LIMIT, self._work_limit // 2)

    def _make_room(self) -> None:
        """Deliver what the output holds; where it holds nothing, a single biclique needs a larger one."""
        if self._n_out:
            self._flush()
            return
        self._reserve(self._output_bytes)
        self._output_bytes *= 2
        self._output = self._plan.new_output(self._output_bytes)

    def _report(self) -> None:
        """Let the consumer know now and then how far the work is."""
        now = time.perf_counter()
        if now - self._last_report >= _REPORT_SECONDS:
            self._last_report = now
            self._flush()

    def _flush(self) -> None:
        """Deliver everything found so far."""
        plan, output = self._plan, self._output
        if plan.detail == Detail.COUNT:
            self._crew.deliver([BicliqueBlock(self._n_found, work_done=self._crew.work_done)])
        elif output is not None:
            blocks = self._blocks(output)
            if self._crew.consumer_waits:
                # Who asks for the blocks does the work of expanding them; the arrays they are made from go with them.
                self._crew.deliver(blocks)
                self._output = plan.new_output(self._output_bytes)
            else:
                for block in blocks:
                    self._crew.deliver([block])
        self._n_found = self._n_out = self._left_used = self._right_used = 0

    def _blocks(self, output: Output) -> Iterator[BicliqueBlock]:
        plan = self._plan
        left = Found(output.left[: self._left_used], output.left_sizes[: self._n_out], plan.columns)
        right = Found(output.right[: self._right_used], output.right_sizes[: self._n_out], plan.rows)
        if plan.rows_are_left:
            left, right = right, left
        return expand_blocks(left, right, plan.detail, plan.block_bytes, self._crew.work_done)

    def _reserve(self, n_bytes: int) -> None:
        needed = self._crew.reserve(n_bytes)
        if needed:
            raise MemoryBudgetExceeded(
                f"the CPU engine needs {needed:,} bytes of working memory, more than its budget: raise the memory "
                f"budget to at least {2 * needed:,} bytes, or use fewer threads or smaller blocks"
            )
