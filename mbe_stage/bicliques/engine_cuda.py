"""The CUDA engine: the search tree walked by persistent warps of one GPU.

The steps (`cuda.search`): reduce the graph and choose side and order (`cuda.prepare`); plan the memory
(`cuda.memory_plan`); search in bounded quanta (`cuda.session`, `cuda.kernels`); convert the results to the user's
vertices (`cuda.twin_expansion`).
Importing this module needs neither numba-cuda nor a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mbe_stage.bicliques.constraints import size_constraints
from mbe_stage.bicliques.cuda.layout import mode_of
from mbe_stage.bicliques.cuda.memory_plan import MemoryPlan
from mbe_stage.bicliques.cuda.techniques import Techniques
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueBlock, Detail
from mbe_stage.device.available import device, unavailable_reason
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.tasks import OpenWork, Task

if TYPE_CHECKING:
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock
    from mbe_stage.bicliques.cuda.search import SharedSearch

__all__ = ["TAKES_BARRIER", "compile_steps", "device", "device_blocks", "device_search", "memory_plan", "run"]
__all__ += ["tasks_of", "unavailable_reason"]

TAKES_BARRIER = True
"""See `mbe_stage.engines`."""

_EVERYTHING = Techniques()


def compile_steps(query: BicliqueQuery | None = None, detail: Detail | None = None) -> Sequence[CompileStep]:
    """Return the kernels for such a run, or all kernels of the engine."""
    from mbe_stage.bicliques.cuda.compiling import all_steps, steps_of

    if query is None or detail is None:
        return all_steps()
    return steps_of(query, mode_of(detail, size_constraints(query)))


def run(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task | OpenWork] | None = None,
    *,
    barrier: Barrier | None = None,
    least_edges: Callable[[], int] | None = None,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, float] | None = None,
    techniques: Techniques = _EVERYTHING,
) -> Iterator[BicliqueBlock]:
    """Yield every maximal biclique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    execution : Execution
        The memory budget is the device's.
    tasks : iterable of Task or OpenWork, optional
        The part to search: tasks made by `tasks_of` for the same graph and query, or saved work of a search. All by
        default.
    barrier : Barrier, optional
        If a barrier is requested, an empty block with the remaining work is yielded (`BicliqueBlock.remaining`). If the
        barrier takes open work, the search is saved in the middle, unless that takes more than half of
        `memory_budget_bytes`. Otherwise the roots in progress are finished, and no others begin.
    least_edges : callable, optional
        As for the engine `cpu`; called after each quantum.
    sizes : dict, optional
        Fields of the `MemoryPlan` to override; for tests.
    statistics : dict, optional
        Receives statistics of the warps.
    techniques : Techniques
        For the ablation benchmark; the results stay the same.

    Raises
    ------
    InvalidArgument
        Tasks belong to another graph or query, or overlap.
    MemoryBudgetExceeded
        The graph does not fit the budget.
    """
    from mbe_stage.bicliques.cuda.search import Search
    from mbe_stage.search.cuda.barriers import with_barriers

    detail = min(detail, Detail.MEMBERS)
    at_once = detail == Detail.COUNT and tasks is None and barrier is None
    search = Search(graph, query, execution, detail, tasks, sizes or {}, techniques, at_once=at_once)
    has_work = not search.is_done
    for quantum in with_barriers(search, barrier, in_parts=detail == Detail.MEMBERS):
        yield from quantum.host_blocks(execution.block_bytes)
        if least_edges is not None and query.min_edges > 1:
            search.session.require_edges(least_edges())
    if statistics is not None and has_work:
        statistics.update(search.session.statistics())
    yield BicliqueBlock.empty(detail, work_done=1.0)


def device_blocks(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    tasks: Iterable[Task | OpenWork] | None = None,
    *,
    barrier: Barrier | None = None,
    sizes: dict[str, Any] | None = None,
) -> Iterator[DeviceBlock]:
    """Yield every maximal biclique of `graph` that satisfies `query` as CuPy arrays, without leaving the device.

    Parameters and errors are those of `run`; the arrays of `graph` may be CuPy's. The last block is empty, with all
    work done.
    """
    from mbe_stage.bicliques.cuda.blocks import DeviceBlock
    from mbe_stage.bicliques.cuda.search import Search
    from mbe_stage.search.cuda.barriers import with_barriers

    search = Search(graph, query, execution, Detail.MEMBERS, tasks, sizes or {}, _EVERYTHING)
    for quantum in with_barriers(search, barrier, in_parts=True):
        yield from quantum.device_blocks()
    yield DeviceBlock.empty(work_done=1.0)


def device_search(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task | OpenWork] | None,
    *,
    is_requested: bool,
    on_device: bool = False,
    sizes: dict[str, Any] | None = None,
) -> SharedSearch:
    """Return a search on the current device that shares its work with other devices (`mbe_stage.runners.devices`).

    Parameters and errors are those of `run`. With `is_requested`, the caller may request the remaining tasks. With
    `on_device`, results stay in device memory. A graph on another device is copied to this one.
    """
    from mbe_stage.bicliques.cuda.search import SharedSearch
    from mbe_stage.device.graph import on_this_device

    here = on_this_device(graph)
    detail = min(detail, Detail.MEMBERS)
    return SharedSearch(here, query, execution, detail, tasks, sizes or {}, is_requested, on_device)


def tasks_of(graph: BipartiteCSR, query: BicliqueQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks of similar cost, with the CPU engine's order of rows.

    Parameters
    ----------
    graph : BipartiteCSR
        The arrays may be CuPy's; the tasks are made on the host.
    """
    from mbe_stage.bicliques import engine_cpu

    if not graph.is_on_host:
        from mbe_stage.device.graph import on_host

        graph = on_host(graph)
    return engine_cpu.tasks_of(graph, query, n)


def memory_plan(graph: BipartiteCSR, query: BicliqueQuery, execution: Execution, detail: Detail) -> MemoryPlan | None:
    """Return the memory plan of a run on this device; None if the reduced graph is empty. `print(plan.describe())`.

    Parameters and errors are those of `run`.
    """
    from mbe_stage.bicliques.cuda.search import planned

    return planned(graph, query, execution, detail)
