"""The CUDA engine: persistent warps of one GPU count the leaves of a search tree with pivots.

The steps: count what follows from degrees; take the core and choose the roots' side on the device (`cuda.prepare`), or,
if that exceeds the budget, on the host and in parts (`cuda.searches`, `partition`); plan the memory
(`cuda.memory_plan`); count in bounded quanta (`cuda.session`, `cuda.kernels`). Importing this module needs neither
numba-cuda nor a GPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mbe_stage.device.available import device, unavailable_reason
from mbe_stage.errors import InvalidArgument, MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pq_counts import partition, reduction
from mbe_stage.pq_counts.cpu.search import PlannedSearch
from mbe_stage.pq_counts.cpu.tree import later_paths
from mbe_stage.pq_counts.cuda.techniques import Techniques
from mbe_stage.pq_counts.query import PqQuery
from mbe_stage.pq_counts.reduction import Reduced, is_possible, to_choose, without_search
from mbe_stage.pq_counts.results import Detail, Leaves, PqBlock
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.runtime.jit import steps_of
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.search.cuda.saved_work import SAVED_SHARE
from mbe_stage.tasks import OpenWork, Remaining, Roots, Task, open_work_of, positions, ranges_of, with_roots

if TYPE_CHECKING:
    from mbe_stage.pq_counts.cuda.local.session import DeviceLocalSearch
    from mbe_stage.pq_counts.cuda.searches import CoreInParts, Job, WholeCore
    from mbe_stage.pq_counts.cuda.session import Counted
    from mbe_stage.search.cuda.saved_work import Arrays
    from mbe_stage.search.cuda.session import Quantum
    from mbe_stage.search.cuda.shared import SharedSearch

__all__ = ["ENDS_ITSELF", "TAKES_BARRIER", "compile_steps", "device", "device_search", "run", "tasks_of"]
__all__ += ["unavailable_reason"]

ENDS_ITSELF = TAKES_BARRIER = True
"""See `mbe_stage.engines`."""

_EVERYTHING = Techniques()


def compile_steps(query: PqQuery | None = None, detail: Detail | None = None) -> Sequence[CompileStep]:  # noqa: ARG001
    """Return the kernels and host code for any run; without local counts if `detail` is `Detail.COUNTS`."""
    from mbe_stage.device.copying import copy_pieces_block_per_piece
    from mbe_stage.device.core import keep_alive_warp_per_tile, peel_warp_per_vertex
    from mbe_stage.device.jit import compile_steps_of
    from mbe_stage.pq_counts.cuda.kernels import kernel_for
    from mbe_stage.pq_counts.cuda.leaf_table import gather_leaves_thread_per_slot
    from mbe_stage.pq_counts.cuda.low_memory_prepare import number_members_warp_per_part, write_members_thread_per_code
    from mbe_stage.pq_counts.cuda.techniques import WINDOWS
    from mbe_stage.pq_counts.cuda.triples.kernels import count_partners_block_per_root, count_triples_block_per_root
    from mbe_stage.pq_counts.cuda.wedges import count_wedges_block_per_root

    usual = _EVERYTHING.kernel_mask
    on_the_device = (
        *compile_steps_of(
            kernel_for(usual),
            kernel_for(usual | WINDOWS),
            gather_leaves_thread_per_slot,
            count_wedges_block_per_root,
            count_partners_block_per_root,
            count_triples_block_per_root,
            number_members_warp_per_part,
            write_members_thread_per_code,
            peel_warp_per_vertex,
            keep_alive_warp_per_tile,
            copy_pieces_block_per_piece,
        ),
    )
    # The host code is for graphs larger than the budget.
    steps = (*on_the_device, *reduction.compile_steps(), *partition.compile_steps())
    if detail == Detail.COUNTS:
        return steps
    from mbe_stage.pq_counts.cuda.local.kernels import local_kernel_for

    kernels = (
        [local_kernel_for(detail == Detail.EDGES)] if detail else [local_kernel_for(edges) for edges in (False, True)]
    )
    return (*steps, *compile_steps_of(*kernels), *steps_of(later_paths))


def tasks_of(graph: BipartiteCSR, query: PqQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks of similar cost, with the CPU engine's order of rows.

    Parameters
    ----------
    graph : BipartiteCSR
        The arrays may be CuPy's; the tasks are made on the host.
    """
    from mbe_stage.pq_counts import engine_cpu

    return engine_cpu.tasks_of(_on_host(graph), query, n)


def run(
    graph: BipartiteCSR,
    query: PqQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task | OpenWork] | None = None,
    *,
    barrier: Barrier | None = None,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, int] | None = None,
    techniques: Techniques = _EVERYTHING,
) -> Iterator[PqBlock]:
    """Yield the leaves of all (p, q)-bicliques of `query`, in blocks.

    Parameters
    ----------
    graph : BipartiteCSR
        The arrays may be CuPy's.
    execution : Execution
        The memory budget is the device's.
    detail : Detail
        Above `Detail.COUNTS`, each cell has at least one block with the numbers of all vertices (and edges).
    tasks : iterable of Task or OpenWork, optional
        The part to search: tasks made by `tasks_of` for the same graph and query, or saved work of a search. All by
        default.
    barrier : Barrier, optional
        If a barrier is requested, an empty block with the remaining work is yielded (`PqBlock.remaining`). If the
        barrier takes open work, the search is saved in the middle, unless that takes more than half of
        `memory_budget_bytes`, the graph is searched in parts, or `detail` is above `Detail.COUNTS`. Otherwise the
        roots in progress are finished, and no others begin.
    sizes : dict, optional
        Fields of the `MemoryPlan` to override; for tests.
    statistics : dict, optional
        Receives statistics of the warps, the number of parts, and times.
    techniques : Techniques
        For the ablation benchmark; the counts stay the same.

    Raises
    ------
    InvalidArgument
        Tasks belong to another graph or query, or overlap.
    MemoryBudgetExceeded
        The subtree of one vertex exceeds the budget; above `Detail.COUNTS`, also if the tables or the whole graph do.
    """
    deadline = time.perf_counter() + (execution.time_limit_seconds or math.inf)
    wanted = None if tasks is None else tuple(tasks)
    counted = partial(_counted, graph, query, execution, sizes or {}, statistics, techniques)
    if detail == Detail.COUNTS:
        yield from counted(wanted, barrier)
    else:
        from mbe_stage.pq_counts.cuda.local.session import Rounds

        host, began = _on_host(graph), time.perf_counter()
        search = PlannedSearch(host, query)
        host_us = round(1e6 * (time.perf_counter() - began))

        def ranges(tasks: Remaining | None) -> list[tuple[int, int]]:
            return [(0, search.costs.size)] if tasks is None else ranges_of(tasks, search.roots(host, query))

        local = _local_search(host, query, search, execution, detail, sizes or {})
        yield from Rounds(counted, query, local, ranges, deadline).blocks(wanted, barrier)
        if statistics is not None:
            facts = local.facts | {"host_us": host_us}
            statistics.update({f"local_{name}": fact for name, fact in facts.items()})
    yield PqBlock(Leaves.none(), work_done=1.0)


def _local_search(
    graph: BipartiteCSR,
    query: PqQuery,
    search: PlannedSearch,
    execution: Execution,
    detail: Detail,
    sizes: dict[str, Any],
) -> DeviceLocalSearch:
    """Plan the second search, cell by cell; raise an error if it exceeds the budget.

    Parameters
    ----------
    graph, query, execution, detail
        As in `run`; the graph is on the host.
    """
    from mbe_stage.device.memory_budget import device_budget
    from mbe_stage.pq_counts.cuda.local.session import DeviceLocalSearch

    return DeviceLocalSearch(graph, query, search, execution, detail, device_budget(execution), sizes)


def _counted(
    graph: BipartiteCSR,
    query: PqQuery,
    execution: Execution,
    sizes: dict[str, Any],
    statistics: dict[str, int] | None,
    techniques: Techniques,
    tasks: Remaining | None,
    barrier: Barrier | None,
) -> Generator[PqBlock]:
    """Yield the counts known from degrees, then those of each quantum; device memory is held until the end.

    Parameters
    ----------
    graph, query, execution, techniques, barrier
        As in `run`.
    """
    from mbe_stage.device.memory_budget import device_budget
    from mbe_stage.pq_counts.cuda.as_given import as_given
    from mbe_stage.pq_counts.cuda.counting import Counting, RowTasks
    from mbe_stage.pq_counts.cuda.searches import Job
    from mbe_stage.search.cuda.barriers import with_barriers

    part, known = _part(graph, query)
    budget = device_budget(execution)
    job = Job(part, budget, sizes, techniques)
    # Tasks refer to the core's order of roots, so only a search without tasks can use the graph as given.
    given = as_given(job, in_brief=barrier is not None) if job.is_searched and tasks is None else None
    left: RowTasks | None = None
    core: WholeCore | CoreInParts | None = None
    works: list[Arrays] = []
    if given is None:
        core, known, roots, rows, works = _wanted(graph, query, job, known, tasks)
    if given is not None:
        # If the caller may request a barrier, only a search of seconds is done this way.
        begun, rows_are_left = given.searches(), given.rows_are_left
    elif core is not None:
        begun, rows_are_left = core.searches(rows), core.rows_are_left
        left = None if barrier is None else RowTasks(core, roots, rows)
    else:
        yield from map(PqBlock, known)
        return
    with closing(begun) as searches:
        search = next(searches, None)
        # Only after planning the memory: after the first block no other engine can take over.
        yield from map(PqBlock, known)
        while search is not None:
            counting = Counting(search, left, budget, execution.memory_budget_bytes // SAVED_SHARE, works)
            if works:
                counting.resume(works)
            for quantum in with_barriers(counting, barrier):
                yield _block(quantum, part, rows_are_left)
            job.add_session_facts(counting.session)
            # Free the memory for the next session.
            del search, counting
            search = next(searches, None)
    if statistics is not None:
        statistics.update(job.facts)


def device_search(
    graph: BipartiteCSR,
    query: PqQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task | OpenWork] | None,
    *,
    is_requested: bool,
    sizes: dict[str, Any] | None = None,
) -> SharedSearch:
    """Return a search on the current device that shares its work with other devices (`mbe_stage.runners.devices`).

    Parameters are those of `run`. With `is_requested`, the caller may request the remaining tasks. A graph on another
    device is copied to this one.

    Raises
    ------
    InvalidArgument
        Local counts, or bicliques with two vertices on a side, are requested; or tasks are wrong as in `run`.
    MemoryBudgetExceeded
        The graph exceeds the budget.
    """
    from mbe_stage.device.graph import on_this_device
    from mbe_stage.device.memory_budget import device_budget
    from mbe_stage.pq_counts.cuda.counting import Counting, RowTasks
    from mbe_stage.pq_counts.cuda.searches import CoreInParts, Job
    from mbe_stage.search.cuda.shared import Blocks, SharedSearch

    here = on_this_device(graph)
    part, known = _part(here, query)
    job = Job(part, device_budget(execution), sizes or {}, _EVERYTHING)
    _check_shared(part, detail, is_searched=job.is_searched)
    core, known, roots, rows, works = _wanted(here, query, job, known, None if tasks is None else tuple(tasks))
    search: Counting | None = None
    if isinstance(core, CoreInParts):
        raise MemoryBudgetExceeded(
            f"the graph does not fit {job.budget:,} bytes of device memory, and several devices share a graph that "
            "each of them holds: raise device_memory_bytes, or leave devices out, to count it in parts"
        )
    if core is not None:
        most_saved = execution.memory_budget_bytes // SAVED_SHARE
        search = Counting(next(core.searches(rows)), RowTasks(core, roots, rows), job.budget, most_saved, works)
    blocks = Blocks(
        of=lambda quantum: iter([_block(quantum, part, core is not None and core.rows_are_left)]),
        empty=lambda share, remaining: PqBlock(Leaves.none(), work_done=share, remaining=remaining),
        brought_here=lambda block: block,
        known=tuple(map(PqBlock, known)),
    )
    return SharedSearch(search, blocks, is_requested=is_requested)


def _check_shared(part: Reduced, detail: Detail, *, is_searched: bool) -> None:
    """Raise an error for counts that several devices cannot share."""
    what = None
    if detail != Detail.COUNTS:
        what = "counts of each vertex or edge (local counts)"
    elif is_searched and 2 in (part.max_p, part.max_q):
        what = "bicliques with two vertices on a side (wedges)"
    if what is not None:
        raise InvalidArgument(f"several devices do not share {what}: leave devices out, one device counts them")


def _wanted(
    graph: BipartiteCSR, query: PqQuery, job: Job, known: list[Leaves], tasks: Remaining | None
) -> tuple[WholeCore | CoreInParts | None, list[Leaves], Callable[[], Roots], np.ndarray | None, list[Arrays]]:
    """Return the core if it must be searched, the wanted known counts, the roots, the wanted rows or None, saved work.

    Saved work includes the wanted rows.
    """
    from mbe_stage.pq_counts.cuda.searches import CoreInParts, WholeCore, core_within

    core = core_within(job) if job.is_searched else None
    roots = partial(_roots, graph, query, job.part, core)
    if tasks is None:
        return core, known, roots, None, []
    if isinstance(core, CoreInParts) and any(isinstance(each, OpenWork) for each in tasks):
        raise MemoryBudgetExceeded(
            f"the saved work of the run continues on a whole graph, which does not fit {job.budget:,} bytes: raise "
            "device_memory_bytes, resume on a GPU like the one that saved it, or start over without --resume"
        )
    work = open_work_of(tasks, roots(), core.form if isinstance(core, WholeCore) else "")
    rows = positions(ranges_of([each for each in tasks if each is not work], roots())) - 1
    is_known = rows.size > 0 and rows[0] < 0
    known, rows = known if is_known else [], rows[rows >= 0]
    if work is None or not isinstance(core, WholeCore):
        return core if rows.size else None, known, roots, rows, []
    core.check(work.arrays)
    return core, known, roots, None, [with_roots(work.arrays, rows[:0], rows)]


def _block(quantum: Quantum[Counted], part: Reduced, rows_are_left: bool) -> PqBlock:
    leaves = Leaves.none() if quantum.found is None else _leaves(quantum.found, part, rows_are_left)
    return PqBlock(leaves, work_done=quantum.share, remaining=quantum.remaining)


def _part(graph: BipartiteCSR, query: PqQuery) -> tuple[Reduced, list[Leaves]]:
    """Return the part of the graph to choose vertices from, and the counts known from degrees.

    Required vertices are removed on the host, since few queries have any.
    """
    if query.containing_left or query.containing_right:
        host = _on_host(graph)
        part = to_choose(host, query)
        if not is_possible(host, query):
            return replace(part, max_p=0, max_q=0), []
        return part, without_search(part)
    nothing = np.empty(0, np.int64)
    part = Reduced(graph, nothing, nothing, 0, 0, query.min_p, query.max_p, query.min_q, query.max_q)
    known: list[Leaves] = []
    if query.min_p <= 1 or query.min_q <= 1:
        known = without_search(replace(part, graph=_degrees_of(graph)))
    return part, known


def _on_host(graph: BipartiteCSR) -> BipartiteCSR:
    if graph.is_on_host:
        return graph
    from mbe_stage.device.graph import on_host

    return on_host(graph)


def _degrees_of(graph: BipartiteCSR) -> BipartiteCSR:
    """Return a host graph with the degrees of another graph, without members."""
    if graph.is_on_host:
        return graph
    import cupy as cp

    nothing = np.empty(0, np.int32)
    left, right = cp.asnumpy(graph.left_offsets), cp.asnumpy(graph.right_offsets)
    return BipartiteCSR(graph.n_left, graph.n_right, left, nothing, right, nothing)


def _roots(graph: BipartiteCSR, query: PqQuery, part: Reduced, core: WholeCore | CoreInParts | None) -> Roots:
    """Return the identity of the roots: the counts known from degrees, then the user's vertices of the rows."""
    vertices, are_left = np.empty(0, np.int64), False
    if core is not None:
        are_left, vertices = core.rows_are_left, core.vertices
        if part.left_ids.size + part.right_ids.size:
            vertices = (part.left_ids if are_left else part.right_ids)[vertices]
    vertices = np.concatenate([[-1], vertices])
    return Roots.of("pq_counts", vertices, are_left, *query.identity, graph.n_right, graph.edges_checksum)


def _leaves(counted: Counted, part: Reduced, rows_are_left: bool) -> Leaves:
    """Convert signatures of rows and columns to those of the user's sides."""
    held = (part.held_left, part.held_right) if rows_are_left else (part.held_right, part.held_left)
    leaves = Leaves(
        counted.held_rows + held[0],
        counted.optional_rows,
        counted.held_columns + held[1],
        counted.optional_columns,
        counted.times,
        min_p=held[0] + 2,
        min_q=held[1] + 2,
    )
    return leaves if rows_are_left else leaves.swapped()
