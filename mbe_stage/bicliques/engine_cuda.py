"""The CUDA engine: the search tree walked by persistent warps of one GPU.

The order of work: reduce the graph and choose side and order (`cuda.prepare`), plan the memory (`cuda.memory_plan`),
work in bounded quanta (`cuda.session`, `cuda.kernels`), and turn what they write back into the user's vertices.
Importing this module needs neither numba-cuda nor a GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mbe_stage.bicliques.constraints import size_constraints
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan, ReducedSizes, plan_memory
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.bicliques.roots import roots_of
from mbe_stage.compile_ahead import CompileStep
from mbe_stage.device.available import unavailable_reason
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.tasks import Task, positions, ranges_of

if TYPE_CHECKING:
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock
    from mbe_stage.bicliques.cuda.prepare import DeviceGraph
    from mbe_stage.bicliques.cuda.session import Session
    from mbe_stage.bicliques.cuda.twin_expansion import ListSizes

__all__ = ["compile_steps", "device", "device_blocks", "memory_plan", "run", "tasks_of", "unavailable_reason"]

log = logging.getLogger(__name__)

_EVERYTHING = Techniques()


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    """The GPU's name."""
    from numba import cuda

    name = cuda.get_current_device().name
    return f"cuda, {name.decode() if isinstance(name, bytes) else name}"


def compile_steps(query: BicliqueQuery | None = None, detail: Detail | None = None) -> Sequence[CompileStep]:
    """The kernels that such a run launches; where some of them have to be compiled, all that the engine has."""
    from mbe_stage.bicliques.cuda.compiling import all_steps, steps_of
    from mbe_stage.device.jit import all_at_once

    if query is None or detail is None:
        return all_steps()
    return all_at_once(steps_of(query, _mode(detail, size_constraints(query))), all_steps)


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
    *,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, float] | None = None,
    techniques: Techniques = _EVERYTHING,
) -> Iterator[BicliqueBlock]:
    """Every maximal biclique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    graph : BipartiteCSR
    query : BicliqueQuery
    execution : Execution
        Its memory budget is the device's.
    detail : Detail
    tasks : iterable of Task, optional
        Which part of them: what `tasks_of` gave for the same graph and query. By default all.
    sizes : dict, optional
        Fields of the `MemoryPlan` to override. For tests.
    statistics : dict, optional
        Receives what the warps did.
    techniques : Techniques
        What to make use of. For the ablation benchmark; the results are the same.

    Raises
    ------
    InvalidArgument
        Tasks of another graph or query, or that overlap.
    MemoryBudgetExceeded
        The graph does not fit the budget.
    """
    for found in _quanta(graph, query, execution, detail, tasks, sizes or {}, statistics, techniques):
        if detail == Detail.COUNT:
            yield BicliqueBlock(found.session.take_count(), work_done=found.share)
        elif detail == Detail.SIZES:
            yield from _sizes(found)
        else:
            for block in found.blocks():
                yield from _host_blocks(block, execution.block_bytes)
    yield BicliqueBlock.empty(detail, work_done=1.0)


def device_blocks(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    tasks: Iterable[Task] | None = None,
    *,
    sizes: dict[str, Any] | None = None,
) -> Iterator[DeviceBlock]:
    """Every maximal biclique of `graph` that satisfies `query`, as CuPy arrays: nothing leaves the device.

    Parameters and errors are those of `run`; the arrays of `graph` may be CuPy's. The last block is empty, with all
    work done.
    """
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock

    for found in _quanta(graph, query, execution, Detail.MEMBERS, tasks, sizes or {}, None):
        yield from found.blocks()
    yield DeviceBlock.empty(work_done=1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Quantum:
    """What one quantum found, still in ids of the reduced graph."""

    session: Session
    list_sizes: ListSizes | None
    rows_are_left: bool
    share: float
    budget_bytes: int

    def blocks(self) -> Iterator[DeviceBlock]:
        """The user's vertices, in pieces; one at least, so that run limits and progress are looked after."""
        from mbe_stage.bicliques.cuda.blocks import DeviceBlock
        from mbe_stage.bicliques.cuda.twin_expansion import expanded

        assert self.list_sizes is not None
        found, n_slots = self.session.found, self.session.n_slots
        is_empty = True
        for block in expanded(found, n_slots, self.list_sizes, self.session.plan.piece_members, self.budget_bytes):
            is_empty = False
            yield replace(block.swapped() if self.rows_are_left else block, work_done=self.share)
        if is_empty:
            yield DeviceBlock.empty(self.share)


def tasks_of(graph: BipartiteCSR, query: BicliqueQuery, n: int) -> list[Task]:
    """All of the work in at most `n` tasks of similar cost: those of the CPU engine, in whose order the rows are here.

    Parameters
    ----------
    graph : BipartiteCSR
        Its arrays may be CuPy's; the work of cutting is the host's.
    query : BicliqueQuery
    n : int
    """
    from mbe_stage.bicliques import engine_cpu

    if not graph.is_on_host:
        from mbe_stage.device.graph import on_host

        graph = on_host(graph)
    return engine_cpu.tasks_of(graph, query, n)


def memory_plan(graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail) -> MemoryPlan | None:
    """What a run would allocate on this device; None where nothing is left of the graph. `print(plan.describe())`.

    Parameters and errors are those of `run`; the graph is prepared for it.
    """
    from mbe_stage.bicliques.cuda.kernels import walking_blocks
    from mbe_stage.bicliques.cuda.prepare import prepare
    from mbe_stage.device.launch import resident_blocks
    from mbe_stage.device.memory_budget import device_budget, device_work

    budget = device_budget(execution)
    with device_work(budget):
        prepared = prepare(graph, query, resident_blocks(), budget)
    if prepared is None:
        return None
    mode = _mode(detail, size_constraints(query))
    return plan_memory(prepared.facts, walking_blocks(mode), mode, budget)


def _quanta(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None,
    sizes: dict[str, Any],
    statistics: dict[str, float] | None,
    techniques: Techniques = _EVERYTHING,
) -> Iterator[_Quantum]:
    """The work, quantum by quantum; device memory is held from the first to the last.

    Parameters
    ----------
    graph, query, execution
        As `run` has them.
    detail : Detail
        `Detail.MEMBERS` needs room for the lists, the others do not.
    tasks : iterable of Task, optional
        All roots where it is None.
    sizes : dict
        Fields of the memory plan that are set by hand, for tests; may be empty.
    statistics : dict, optional
        Is filled with `Session.statistics` at the end.
    techniques : Techniques
        What the kernel and the order of the rows make use of.
    """
    from mbe_stage.bicliques.cuda.kernels import walking_blocks
    from mbe_stage.bicliques.cuda.prepare import prepare
    from mbe_stage.bicliques.cuda.session import Session
    from mbe_stage.bicliques.cuda.twin_expansion import room_for_sizes, work_out_sizes
    from mbe_stage.device.launch import resident_blocks
    from mbe_stage.device.memory_budget import device_budget, device_work

    budget = device_budget(execution)
    with device_work(budget):
        prepared = prepare(graph, query, resident_blocks(), budget, by_degree=techniques.ordering)
        wanted = None if tasks is None else _rows_of(tasks, graph, query, prepared)
        if prepared is None or (wanted is not None and wanted.size == 0):
            return
        constraints = size_constraints(query.swapped() if prepared.rows_are_left else query)
        mode = _mode(detail, constraints)
        plan = _overridden(plan_memory(prepared.facts, walking_blocks(mode), mode, budget), prepared.facts, sizes)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("memory on the device:\n%s", plan.describe())
        session = Session(prepared, constraints, mode, plan, budget, techniques.kernel_mask, wanted)
    list_sizes: ListSizes | None = None
    is_done = False
    while not is_done:
        with device_work(budget):
            session.start_quantum()
            if detail == Detail.MEMBERS:
                # The host's part of this is over before the walk is.
                if list_sizes is None:
                    rows, columns = prepared.groups()
                    list_sizes = room_for_sizes(plan.descriptors, (columns, rows))
                work_out_sizes(list_sizes, session.found, session.taken)
            is_done = session.finish_quantum()
            share = 0.999 if is_done else min(0.999, session.work_done())
        yield _Quantum(session, list_sizes, prepared.rows_are_left, share, budget)
        if session.status & at.OUTPUT_FULL:
            session.enlarge_output()
    if statistics is not None:
        statistics.update(session.statistics())


def _rows_of(
    tasks: Iterable[Task], graph: BipartiteCSR, query: BicliqueQuery, prepared: DeviceGraph | None
) -> np.ndarray:
    """The roots of some tasks; rows are numbered here as they are by the CPU engine."""
    if prepared is None:
        roots = roots_of(graph, query, np.empty(0, np.int32), are_left=False)
    else:
        roots = roots_of(graph, query, prepared.first_vertices(), are_left=prepared.rows_are_left)
    return positions(ranges_of(tasks, roots))


def _mode(detail: Detail, constraints: np.ndarray) -> int:
    within = {Detail.COUNT: at.SIZES, Detail.SIZES: at.SIZES, Detail.MEMBERS: at.CONSTRAINED}
    return within[detail] if constraints[at.ACTIVE] else int(detail)


def _overridden(plan: MemoryPlan, facts: ReducedSizes, sizes: dict[str, Any]) -> MemoryPlan:
    if not sizes:
        return plan
    others = {name: value for name, value in sizes.items() if name != "pool_extra"}
    if "pool_extra" in sizes:
        others["pool"] = facts.pool_ints + sizes["pool_extra"]
    return replace(plan, **others)


def _sizes(found: _Quantum) -> Iterator[BicliqueBlock]:
    left_sizes, right_sizes = found.session.take_sizes()
    if found.rows_are_left:
        left_sizes, right_sizes = right_sizes, left_sizes
    yield BicliqueBlock(left_sizes.size, left_sizes, right_sizes, work_done=found.share)


def _host_blocks(block: DeviceBlock, block_bytes: int) -> Iterator[BicliqueBlock]:
    """Copies of a block's bicliques, at most `block_bytes` at a time, a larger biclique alone."""
    import cupy as cp

    if block.n_bicliques == 0:
        yield BicliqueBlock.empty(Detail.MEMBERS, block.work_done)
    left_offsets, right_offsets = cp.asnumpy(block.left_offsets), cp.asnumpy(block.right_offsets)
    ends = 4 * (left_offsets[1:] + right_offsets[1:] + 2 * np.arange(1, block.n_bicliques + 1))
    first = 0
    while first < block.n_bicliques:
        before = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + block_bytes, side="right")))
        yield BicliqueBlock(
            n_bicliques=stop - first,
            left_sizes=np.diff(left_offsets[first : stop + 1]).astype(np.int32),
            right_sizes=np.diff(right_offsets[first : stop + 1]).astype(np.int32),
            left_members=cp.asnumpy(block.left_members[left_offsets[first] : left_offsets[stop]]),
            right_members=cp.asnumpy(block.right_members[right_offsets[first] : right_offsets[stop]]),
            work_done=block.work_done,
        )
        first = stop
