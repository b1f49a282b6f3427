"""The CUDA engine: the search tree walked by persistent warps of one GPU.

The order of work: reduce the graph and choose side and order (`cuda.prepare`), plan the memory (`cuda.plan`), work in
bounded slices (`cuda.session`, `cuda.kernels`), and turn what they write back into the user's vertices. Importing this
module needs neither numba-cuda nor a GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.available import unavailable_reason
from mbe_stage.bicliques.cuda.plan import GraphFacts, MemoryPlan, plan_memory
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.compile_ahead import CompileStep
from mbe_stage.graph import BipartiteCSR
from mbe_stage.options import BicliqueQuery, Execution
from mbe_stage.results import BicliqueBlock, Detail

if TYPE_CHECKING:
    from mbe_stage.bicliques.cuda.expand import ListSizes
    from mbe_stage.bicliques.cuda.session import Session
    from mbe_stage.device.blocks import DeviceBlock

__all__ = ["compile_steps", "device", "device_blocks", "memory_plan", "run", "unavailable_reason"]

log = logging.getLogger(__name__)

_UNLIMITED = 2**62
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
    return all_at_once(steps_of(query, _mode(detail, _limits(query))), all_steps)


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
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
    sizes : dict, optional
        Fields of the `MemoryPlan` to override. For tests.
    statistics : dict, optional
        Receives what the warps did.
    techniques : Techniques
        What to make use of. For the ablation benchmark; the results are the same.

    Raises
    ------
    MemoryBudgetExceeded
        The graph does not fit the budget.
    """
    for found in _slices(graph, query, execution, detail, sizes or {}, statistics, techniques):
        if detail == Detail.COUNT:
            yield BicliqueBlock(found.session.take_count(), work_done=found.share)
        elif detail == Detail.SIZES:
            yield from _sizes(found)
        else:
            for block in found.blocks():
                yield from _host_blocks(block, execution.block_bytes)
    yield _nothing(detail, work_done=1.0)


def device_blocks(
    graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, *, sizes: dict[str, Any] | None = None
) -> Iterator[DeviceBlock]:
    """Every maximal biclique of `graph` that satisfies `query`, as CuPy arrays: nothing leaves the device.

    Parameters and errors are those of `run`; the arrays of `graph` may be CuPy's. The last block is empty, with all
    work done.
    """
    from mbe_stage.device.blocks import DeviceBlock

    for found in _slices(graph, query, execution, Detail.MEMBERS, sizes or {}, None):
        yield from found.blocks()
    yield DeviceBlock.empty(work_done=1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    """What one slice found, still in ids of the reduced graph."""

    session: Session
    list_sizes: ListSizes | None
    rows_are_left: bool
    share: float
    budget_bytes: int

    def blocks(self) -> Iterator[DeviceBlock]:
        """The user's vertices, in pieces; one at least, so that limits and progress are looked after."""
        from mbe_stage.bicliques.cuda.expand import expanded
        from mbe_stage.device.blocks import DeviceBlock

        assert self.list_sizes is not None
        found, n_slots = self.session.found, self.session.n_slots
        is_empty = True
        for block in expanded(found, n_slots, self.list_sizes, self.session.plan.piece_members, self.budget_bytes):
            is_empty = False
            yield replace(block.swapped() if self.rows_are_left else block, work_done=self.share)
        if is_empty:
            yield DeviceBlock.empty(self.share)


def memory_plan(graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail) -> MemoryPlan | None:
    """What a run would allocate on this device; None where nothing is left of the graph. `print(plan.describe())`.

    Parameters and errors are those of `run`; the graph is prepared for it.
    """
    from mbe_stage.bicliques.cuda.device import device_budget, device_work, resident_blocks, walking_blocks
    from mbe_stage.bicliques.cuda.prepare import prepare

    budget = device_budget(execution)
    with device_work(budget):
        prepared = prepare(graph, query, resident_blocks(), budget)
    if prepared is None:
        return None
    mode = _mode(detail, _limits(query))
    return plan_memory(prepared.facts, walking_blocks(mode), mode, budget)


def _slices(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    sizes: dict[str, Any],
    statistics: dict[str, float] | None,
    techniques: Techniques = _EVERYTHING,
) -> Iterator[_Slice]:
    from mbe_stage.bicliques.cuda.device import device_budget, device_work, resident_blocks, walking_blocks
    from mbe_stage.bicliques.cuda.expand import room_for_sizes, work_out_sizes
    from mbe_stage.bicliques.cuda.prepare import prepare
    from mbe_stage.bicliques.cuda.session import Session

    budget = device_budget(execution)
    with device_work(budget):
        prepared = prepare(graph, query, resident_blocks(), budget, by_degree=techniques.ordering)
        if prepared is None:
            return
        limits = _limits(query.swapped() if prepared.rows_are_left else query)
        mode = _mode(detail, limits)
        plan = _overridden(plan_memory(prepared.facts, walking_blocks(mode), mode, budget), prepared.facts, sizes)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("memory on the device:\n%s", plan.describe())
        session = Session(prepared, limits, mode, plan, budget, techniques.kernel_mask)
    list_sizes: ListSizes | None = None
    is_done = False
    while not is_done:
        with device_work(budget):
            session.start_slice()
            if detail == Detail.MEMBERS:
                # The host's part of this is over before the walk is.
                if list_sizes is None:
                    rows, columns = prepared.groups()
                    list_sizes = room_for_sizes(plan.descriptors, (columns, rows))
                work_out_sizes(list_sizes, session.found, session.taken)
            is_done = session.finish_slice()
            share = 0.999 if is_done else min(0.999, session.work_done())
        yield _Slice(session, list_sizes, prepared.rows_are_left, share, budget)
        if session.status & at.OUTPUT_FULL:
            session.enlarge_output()
    if statistics is not None:
        statistics.update(session.statistics())


def _mode(detail: Detail, limits: np.ndarray) -> int:
    within = {Detail.COUNT: at.SIZES, Detail.SIZES: at.SIZES, Detail.MEMBERS: at.WITHIN}
    return within[detail] if limits[at.ACTIVE] else int(detail)


def _overridden(plan: MemoryPlan, facts: GraphFacts, sizes: dict[str, Any]) -> MemoryPlan:
    if not sizes:
        return plan
    others = {name: value for name, value in sizes.items() if name != "pool_extra"}
    if "pool_extra" in sizes:
        others["pool"] = facts.pool_ints + sizes["pool_extra"]
    return replace(plan, **others)


def _sizes(found: _Slice) -> Iterator[BicliqueBlock]:
    left_sizes, right_sizes = found.session.take_sizes()
    if found.rows_are_left:
        left_sizes, right_sizes = right_sizes, left_sizes
    yield BicliqueBlock(left_sizes.size, left_sizes, right_sizes, work_done=found.share)


def _host_blocks(block: DeviceBlock, block_bytes: int) -> Iterator[BicliqueBlock]:
    """Copies of a block's bicliques, at most `block_bytes` at a time, a larger biclique alone."""
    import cupy as cp

    if block.n_bicliques == 0:
        yield _nothing(Detail.MEMBERS, block.work_done)
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


def _limits(query: BicliqueQuery) -> np.ndarray:
    most_left = _UNLIMITED if query.max_left is None else query.max_left
    most_right = _UNLIMITED if query.max_right is None else query.max_right
    limits = (query.min_left, query.min_right, most_left, most_right, query.min_edges)
    active = limits != (1, 1, _UNLIMITED, _UNLIMITED, 1)
    return np.array([active, *limits], dtype=np.int64)


def _nothing(detail: Detail, work_done: float) -> BicliqueBlock:
    """Only progress."""
    none = np.empty(0, np.int32)
    sizes = none if detail >= Detail.SIZES else None
    members = none if detail >= Detail.MEMBERS else None
    return BicliqueBlock(0, sizes, sizes, members, members, work_done=work_done)
