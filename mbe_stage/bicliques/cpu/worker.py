"""One thread's work: walk subproblems in time quanta, and deliver blocks of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mbe_stage.bicliques.constraints import ACTIVE
from mbe_stage.bicliques.cpu import layout
from mbe_stage.bicliques.cpu.layout import Output, WorkerState
from mbe_stage.bicliques.cpu.tree import run_quantum
from mbe_stage.bicliques.cpu.twin_expansion import Found, Translation, expand_blocks
from mbe_stage.bicliques.cpu.worker_state import (
    FirstSizes,
    give_back,
    new_state,
    set_subproblem,
    share_left,
    short_of,
    split_subproblem,
)
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.search.cpu.arenas import Shortage
from mbe_stage.search.cpu.pool import WorkerPool
from mbe_stage.search.cpu.quanta import QuantumWorker


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Settings that all workers share.

    Attributes
    ----------
    graph : int32
        The whole graph in the layout of a subgraph.
    columns, rows : Translation
        The user's ids behind columns and rows.
    rows_are_left : bool
        True if the rows are the user's left side.
    constraints : (6,) int64
        As in `layout.Output`, columns being the left side.
    first_sizes : FirstSizes
        Entries that a worker's arenas start with.
    """

    graph: np.ndarray
    n_rows: int
    n_columns: int
    columns: Translation
    rows: Translation
    rows_are_left: bool
    constraints: np.ndarray
    detail: Detail
    block_bytes: int
    first_sizes: FirstSizes

    @property
    def collects(self) -> bool:
        """True if the walk has to collect members: for the sink, or to check sizes."""
        return self.detail > Detail.COUNT or bool(self.constraints[ACTIVE])

    def new_output(self, n_bytes: int) -> Output:
        """Room for found bicliques."""
        n_members, n_bicliques = max(64, n_bytes // 12), max(1, n_bytes // 24)
        return Output(
            left=np.empty(n_members, np.int32),
            right=np.empty(n_members, np.int32),
            left_sizes=np.empty(n_bicliques, np.int32),
            right_sizes=np.empty(n_bicliques, np.int32),
            left_multiplicities=self.columns.multiplicities,
            right_multiplicities=self.rows.multiplicities,
            constraints=self.constraints,
        )


class Worker(QuantumWorker):
    """Takes subproblems from its pool until there are none, and delivers what it finds."""

    def __init__(self, pool: WorkerPool, plan: Plan) -> None:
        super().__init__(pool)
        self._plan = plan
        self._output_bytes = plan.block_bytes
        self._output: Output | None = None
        self._n_found = 0
        self.n_visited = 0
        self._n_out = self._left_used = self._right_used = 0

    def work(self) -> None:
        """Work until the pool has no more subproblems."""
        if self._plan.collects:
            self._reserve(self._output_bytes)
            self._output = self._plan.new_output(self._output_bytes)
        super().work()

    def _new_state(self) -> WorkerState:
        return new_state(self._plan.n_rows, self._plan.first_sizes)

    def _set_subproblem(self, state: WorkerState, first: int, end: int) -> None:
        set_subproblem(state, first, end, self._plan.n_rows, self._plan.n_columns)

    def _share_left(self, state: WorkerState) -> float:
        return share_left(state)

    def _split(self, state: WorkerState, reserve: Callable[[int], int]) -> WorkerState | None:
        return split_subproblem(state, self._plan.collects, reserve)

    def _give_back(self, state: WorkerState) -> tuple[int, int, float] | None:
        return give_back(state)

    def _short_of(self, state: WorkerState, status: int) -> Shortage:
        return short_of(state, status)

    def _run_quantum(self, state: WorkerState, work_limit: int) -> int:
        """Continue a state's subproblem, with this worker's output."""
        control = state.control
        control[layout.N_OUT], control[layout.LEFT_USED], control[layout.RIGHT_USED] = (
            self._n_out,
            self._left_used,
            self._right_used,
        )
        control[layout.COUNT] = control[layout.VISITED] = 0
        status = run_quantum(self._plan.graph, state, self._output, work_limit)
        self._n_found += int(control[layout.COUNT])
        self.n_visited += int(control[layout.VISITED])
        self._n_out = int(control[layout.N_OUT])
        self._left_used, self._right_used = int(control[layout.LEFT_USED]), int(control[layout.RIGHT_USED])
        return status

    def _make_room(self) -> None:
        """Deliver the output; if it is empty, a single biclique needs a larger one."""
        if self._n_out:
            self._flush()
            return
        self._reserve(self._output_bytes)
        self._output_bytes *= 2
        self._output = self._plan.new_output(self._output_bytes)

    def _flush(self) -> None:
        """Deliver everything found so far."""
        plan, output = self._plan, self._output
        if plan.detail == Detail.COUNT:
            self._pool.deliver([BicliqueBlock(self._n_found, work_done=self._pool.work_done)])
        elif output is not None:
            blocks = self._blocks(output)
            if self._pool.consumer_waits:
                # The consumer's thread expands the blocks; the arrays they are made from go with them.
                self._pool.deliver(blocks)
                self._output = plan.new_output(self._output_bytes)
            else:
                for block in blocks:
                    self._pool.deliver([block])
        self._n_found = self._n_out = self._left_used = self._right_used = 0

    def _blocks(self, output: Output) -> Iterator[BicliqueBlock]:
        plan = self._plan
        left = Found(output.left[: self._left_used], output.left_sizes[: self._n_out], plan.columns)
        right = Found(output.right[: self._right_used], output.right_sizes[: self._n_out], plan.rows)
        if plan.rows_are_left:
            left, right = right, left
        return expand_blocks(left, right, plan.detail, plan.block_bytes, self._pool.work_done)
