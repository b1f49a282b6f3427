"""The CUDA engine: the search tree walked by persistent warps of one GPU.

The order of work: reduce the graph and choose side and order (`cuda.prepare`), plan the memory (`cuda.plan`), work in
bounded slices (`cuda.session`, `cuda.kernels`), and turn what they write back into the user's vertices. Importing this
module needs neither numba-cuda nor a GPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mbe_stage.bicliques.cpu.expand import expand_blocks
from mbe_stage.bicliques.cuda import layout as at
from mbe_stage.bicliques.cuda.plan import GraphFacts, MemoryPlan, plan_memory
from mbe_stage.graph import BipartiteCSR
from mbe_stage.options import BicliqueQuery, Execution
from mbe_stage.results import BicliqueBlock, Detail

if TYPE_CHECKING:
    from mbe_stage.bicliques.cuda.prepare import DeviceGraph
    from mbe_stage.bicliques.cuda.session import Session
    from mbe_stage.reduction import Groups

__all__ = ["device", "run", "unavailable_reason"]

_OLDEST_CAPABILITY = (7, 0)
_INSTALL = "pip install 'mbe-stage[cuda]'"
_UNLIMITED = 2**62


def unavailable_reason() -> str | None:
    """None, or what is missing: numba-cuda, CuPy, a driver that works with them, a GPU that is new enough."""
    for module, package in (("numba_cuda", "numba-cuda"), ("cupy", "CuPy")):
        if importlib.util.find_spec(module) is None:
            return f"{package} is not installed: {_INSTALL}"
    from numba import cuda

    try:
        devices = len(cuda.gpus)
    except cuda.CudaSupportError as error:
        detail = " ".join(str(error).split())
        return f"the NVIDIA driver cannot be used ({detail}): install a driver, or one new enough for CUDA 13"
    if devices == 0:
        return "no NVIDIA GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"
    capability = cuda.get_current_device().compute_capability
    if tuple(capability) < _OLDEST_CAPABILITY:
        have, need = (".".join(map(str, version)) for version in (capability, _OLDEST_CAPABILITY))
        return f"the GPU has compute capability {have}: {need} or newer is needed"
    return None


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    """The GPU's name."""
    from numba import cuda

    name = cuda.get_current_device().name
    return f"cuda, {name.decode() if isinstance(name, bytes) else name}"


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    *,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, float] | None = None,
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

    Raises
    ------
    MemoryBudgetExceeded
        The graph does not fit the budget.
    """
    from mbe_stage.bicliques.cuda.prepare import prepare

    prepared = prepare(graph, query)
    if prepared is not None:
        if prepared.rows_are_left:
            query = query.swapped()
        yield from _enumerate(prepared, query, execution, detail, sizes or {}, statistics)
    yield _finished(detail)


def _enumerate(
    graph: DeviceGraph,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    sizes: dict[str, Any],
    statistics: dict[str, float] | None,
) -> Iterator[BicliqueBlock]:
    from mbe_stage.bicliques.cuda.device import device_budget, resident_blocks
    from mbe_stage.bicliques.cuda.session import Session

    limits = _limits(query)
    mode = at.SIZES if detail == Detail.COUNT and limits[at.ACTIVE] else int(detail)
    budget = device_budget(execution)
    plan = _overridden(plan_memory(graph.facts, resident_blocks(), mode, budget), graph.facts, sizes)
    session = Session(graph, limits, mode, plan, budget)
    groups = graph.groups() if detail == Detail.MEMBERS else None
    is_done = False
    while not is_done:
        is_done = session.run_slice()
        share = min(0.999, float(graph.work_before[session.roots_taken()]))
        yield from _blocks(session, groups, graph.rows_are_left, execution, detail, share)
        if session.status & at.OUTPUT_FULL:
            session.enlarge_output()
    if statistics is not None:
        statistics.update(session.statistics())


def _overridden(plan: MemoryPlan, facts: GraphFacts, sizes: dict[str, Any]) -> MemoryPlan:
    others = {name: value for name, value in sizes.items() if name != "pool_extra"}
    if "pool_extra" in sizes:
        others["pool"] = facts.pool_ints + sizes["pool_extra"]
    return replace(plan, **others)


def _blocks(
    session: Session,
    groups: tuple[Groups, Groups] | None,
    rows_are_left: bool,
    execution: Execution,
    detail: Detail,
    share: float,
) -> Iterator[BicliqueBlock]:
    """What the last slice found, as the user's vertices."""
    if detail == Detail.COUNT:
        yield BicliqueBlock(session.take_count(), work_done=share)
        return
    import cupy as cp

    found = session.take_found()
    left_sizes, right_sizes = cp.asnumpy(found.left_sizes), cp.asnumpy(found.right_sizes)
    if groups is None:
        if rows_are_left:
            left_sizes, right_sizes = right_sizes, left_sizes
        yield BicliqueBlock(left_sizes.size, left_sizes, right_sizes, work_done=share)
        return
    right_starts = found.starts + found.left_sizes
    left = (_gathered(found.members, found.starts, found.left_sizes), left_sizes, groups[1])
    right = (_gathered(found.members, right_starts, found.right_sizes), right_sizes, groups[0])
    if rows_are_left:
        left, right = right, left
    yield from expand_blocks(*left, *right, detail, execution.block_bytes, share)


def _gathered(members: Any, starts: Any, sizes: Any) -> np.ndarray:
    import cupy as cp

    ends = cp.cumsum(sizes.astype(cp.int64))
    if not ends.size:
        return np.empty(0, np.int32)
    total = int(ends[-1])
    of = cp.searchsorted(ends, cp.arange(total), side="right")
    return cp.asnumpy(members[starts[of] + cp.arange(total) - (ends - sizes)[of]])


def _limits(query: BicliqueQuery) -> np.ndarray:
    most_left = _UNLIMITED if query.max_left is None else query.max_left
    most_right = _UNLIMITED if query.max_right is None else query.max_right
    limits = (query.min_left, query.min_right, most_left, most_right, query.min_edges)
    active = limits != (1, 1, _UNLIMITED, _UNLIMITED, 1)
    return np.array([active, *limits], dtype=np.int64)


def _finished(detail: Detail) -> BicliqueBlock:
    none = np.empty(0, np.int32)
    sizes = none if detail >= Detail.SIZES else None
    members = none if detail >= Detail.MEMBERS else None
    return BicliqueBlock(0, sizes, sizes, members, members, work_done=1.0)
