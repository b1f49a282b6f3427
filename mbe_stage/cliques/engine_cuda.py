"""The CUDA engine: persistent warps of one GPU find maximal cliques.

The steps: take the common neighbourhood of the required vertices (`cliques.reduction`); split the neighbours of each
vertex into later and earlier ones on the device (`cuda.prepare`); plan the memory (`cuda.memory_plan`); search in
bounded quanta (`cuda.session`, `cuda.kernels`). Importing this module needs neither numba-cuda nor a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mbe_stage.cliques import reduction
from mbe_stage.cliques.cuda import layout
from mbe_stage.cliques.cuda.root_order import RootOrder, task_costs
from mbe_stage.cliques.cuda.techniques import Techniques
from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.cliques.reduction import CommonPart, common_part
from mbe_stage.cliques.results import CliqueBlock, Detail
from mbe_stage.device.available import device, unavailable_reason
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.options import Execution
from mbe_stage.ragged import offsets_of
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.search.cpu.pool import Barrier
from mbe_stage.search.cuda.saved_work import SAVED_SHARE
from mbe_stage.tasks import OpenWork, Task, cut, open_work_of

if TYPE_CHECKING:
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock
    from mbe_stage.cliques.cuda.session import SearchRequest, Session
    from mbe_stage.search.cuda.session import Quantum
    from mbe_stage.search.cuda.shared import SharedSearch

__all__ = ["TAKES_BARRIER", "compile_steps", "device", "device_blocks", "device_search", "run", "tasks_of"]
__all__ += ["unavailable_reason"]

TAKES_BARRIER = True
"""See `mbe_stage.engines`."""

_EVERYTHING = Techniques()
_LARGEST_SIZE = 2**31 - 1
# Copies of the results: the sink has one while the next quantum makes another.
_BLOCKS_ON_DEVICE = 2
# Number of sizes copied to the host at a time, before their members.
_CLIQUES_AT_ONCE = 1 << 20
_STRIDE = 256
Block = TypeVar("Block")


def compile_steps(query: CliqueQuery | None = None, detail: Detail | None = None) -> Sequence[CompileStep]:
    """Return the kernels for such a run, or all kernels of the engine."""
    from mbe_stage.cliques.cuda.kernels import kernel_for
    from mbe_stage.cliques.cuda.prepare import part_lists_warp_per_vertex
    from mbe_stage.device.copying import copy_pieces_block_per_piece
    from mbe_stage.device.jit import compile_steps_of, step_together

    others = (*compile_steps_of(part_lists_warp_per_vertex, copy_pieces_block_per_piece), *reduction.compile_steps())
    kernels = [kernel_for(mode, _EVERYTHING.kernel_mask) for mode in (layout.COUNT, layout.SIZES, layout.MEMBERS)]
    needed = kernels if query is None or detail is None else kernels[_mode(query, detail) :][:1]
    return step_together(*needed), *others


def run(
    graph: UndirectedCSR,
    query: CliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task | OpenWork] | None = None,
    *,
    barrier: Barrier | None = None,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, int] | None = None,
    techniques: Techniques = _EVERYTHING,
) -> Iterator[CliqueBlock]:
    """Yield every maximal clique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    graph : UndirectedCSR
        The arrays may be CuPy's.
    execution : Execution
        The memory budget is the device's.
    tasks : iterable of Task or OpenWork, optional
        The part to search: tasks made by `tasks_of` for the same graph and query, or saved work of a search. All by
        default.
    barrier : Barrier, optional
        If a barrier is requested, an empty block with the remaining work is yielded (`CliqueBlock.remaining`). If the
        barrier takes open work, the search is saved in the middle, unless that takes more than half of
        `memory_budget_bytes`. Otherwise the roots in progress are finished, and no others begin.
    sizes : dict, optional
        Fields of the `MemoryPlan` to override; for tests.
    statistics : dict, optional
        Receives statistics of the warps, after each quantum.
    techniques : Techniques
        For the ablation benchmark; the cliques stay the same.

    Raises
    ------
    InvalidArgument
        Tasks belong to another graph or query, or overlap.
    MemoryBudgetExceeded
        The graph does not fit the budget.
    """
    part = _part(graph, query)
    found = partial(_found, part=part, detail=detail, block_bytes=execution.block_bytes)
    request, known = _asked(graph, part, query, execution, detail, tasks, sizes, techniques)
    yield from known
    if request is not None:
        yield from _searched(request, found, barrier, statistics)
    yield CliqueBlock.empty(detail, work_done=1.0)


def device_blocks(
    graph: UndirectedCSR,
    query: CliqueQuery,
    execution: Execution,
    tasks: Iterable[Task | OpenWork] | None = None,
    *,
    barrier: Barrier | None = None,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, int] | None = None,
) -> Iterator[DeviceCliqueBlock]:
    """Yield every maximal clique of `graph` that satisfies `query`, as CuPy arrays that stay on the device.

    Parameters and errors are those of `run`. The last block is empty, with all work done. If the query requires
    vertices, the host adds them to the cliques.
    """
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    if query.containing:
        options: dict[str, Any] = {"barrier": barrier, "sizes": sizes, "statistics": statistics}
        for block in run(graph, query, execution, Detail.MEMBERS, tasks, **options):
            yield DeviceCliqueBlock.from_host(block)
        return
    request, _ = _asked(graph, _part(graph, query), query, execution, Detail.MEMBERS, tasks, sizes)
    if request is not None:
        request = replace(request, n_copies=_BLOCKS_ON_DEVICE)
        yield from _searched(request, _found_on_device, barrier, statistics)
    yield DeviceCliqueBlock.empty(work_done=1.0)


def device_search(
    graph: UndirectedCSR,
    query: CliqueQuery,
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
    from mbe_stage.cliques.cuda.session import Search
    from mbe_stage.device.graph import on_this_device
    from mbe_stage.search.cuda.shared import Blocks, SharedSearch

    here = on_this_device(graph)
    part = _part(here, query)
    request, known = _asked(here, part, query, execution, detail, tasks, sizes)
    stays = on_device and not query.containing
    if request is not None and stays:
        request = replace(request, n_copies=_BLOCKS_ON_DEVICE)
    found = partial(_found, part=part, detail=detail, block_bytes=execution.block_bytes)
    blocks = Blocks(
        of=_found_on_device if stays else found,
        empty=partial(CliqueBlock.empty, detail),
        brought_here=_brought_here,
        known=known,
        on_device=stays,
    )
    return SharedSearch(None if request is None else Search(request), blocks, is_requested=is_requested)


def _brought_here(block: CliqueBlock | DeviceCliqueBlock) -> DeviceCliqueBlock:
    """Return a block in the memory of the current device."""
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    return DeviceCliqueBlock.from_host(block) if isinstance(block, CliqueBlock) else block.brought_here()


def _found_on_device(quantum: Quantum[Session]) -> Iterator[DeviceCliqueBlock]:
    """Yield the results of a quantum."""
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    if quantum.remaining is not None:
        yield DeviceCliqueBlock.empty(quantum.share, quantum.remaining)
        return
    yield DeviceCliqueBlock(*quantum.found.take_written(), quantum.share)


def tasks_of(graph: UndirectedCSR, query: CliqueQuery, n: int) -> list[Task]:
    """Divide the whole work into at most `n` tasks of similar cost.

    A clique belongs to its member of lowest degree, the one with the smallest id in a tie.

    Parameters
    ----------
    graph : UndirectedCSR
        The arrays may be CuPy's; the tasks are made on the host.
    """
    part = _part(graph, query)
    roots = RootOrder(graph, query, part)
    if part.graph.n == 0:
        return cut(roots.identity, np.ones(roots.identity.n), n)
    host, ranks = part.graph.on_host(), roots.ranks
    later = np.zeros(host.n, np.int64)
    if host.members.size:
        sources, targets = host.edges()
        first = np.where(ranks[sources] < ranks[targets], sources, targets)
        later += np.bincount(first, minlength=host.n)
    return cut(roots.identity, task_costs(later[roots.order]), n)


def _mode(query: CliqueQuery, detail: Detail) -> int:
    """Return the mode of the kernel: sizes are tracked if they are wanted or limited."""
    if detail == Detail.COUNT and query.min_size <= 1 and query.max_size is None:
        return layout.COUNT
    return layout.MEMBERS if detail == Detail.MEMBERS else layout.SIZES


def _part(graph: UndirectedCSR, query: CliqueQuery) -> CommonPart:
    """Return the part of the graph for the query; without required vertices, the graph stays in place."""
    if not query.containing:
        return CommonPart(graph, np.empty(0, np.int32), (), True)
    return common_part(graph.on_host(), query)


def _asked(
    graph: UndirectedCSR,
    part: CommonPart,
    query: CliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task | OpenWork] | None,
    sizes: dict[str, Any] | None,
    techniques: Techniques = _EVERYTHING,
) -> tuple[SearchRequest | None, tuple[CliqueBlock, ...]]:
    """Return the request for the search, or None if there is nothing to search; also return known cliques.

    Parameters
    ----------
    graph, query, execution, detail, tasks, sizes, techniques
        As in `run`.
    """
    from mbe_stage.cliques.cuda.session import SearchRequest, form_of
    from mbe_stage.device.memory_budget import device_budget

    roots = RootOrder(graph, query, part)
    mode, budget = _mode(query, detail), device_budget(execution)
    work, wanted = None, None
    if tasks is not None:
        tasks = tuple(tasks)
        work = open_work_of(tasks, roots.identity, form_of(mode))
        wanted = roots.of_tasks([each for each in tasks if each is not work])
    if not part.is_possible or (work is None and wanted is not None and wanted.size == 0):
        return None, ()
    if part.graph.n == 0:
        alone = np.zeros(1, np.int32), np.empty(0, np.int32)
        is_known = part.held and query.accepts(len(part.held))
        return None, (_block(*alone, part, detail, 1.0),) if is_known else ()
    most = _LARGEST_SIZE if query.max_size is None else min(_LARGEST_SIZE, query.max_size - len(part.held))
    limits = (min(_LARGEST_SIZE, max(0, query.min_size - len(part.held))), most)
    return SearchRequest(
        graph=part.graph,
        roots=roots,
        mode=mode,
        size_limits=limits,
        budget=budget,
        wanted=wanted,
        sizes=sizes or {},
        techniques=techniques.kernel_mask,
        most_saved=execution.memory_budget_bytes // SAVED_SHARE,
        work=None if work is None else work.arrays,
    ), ()


def _searched(
    request: SearchRequest,
    found: Callable[[Quantum[Session]], Iterator[Block]],
    barrier: Barrier | None,
    statistics: dict[str, int] | None,
) -> Iterator[Block]:
    """Yield the results of each quantum; device memory is held until the end."""
    from mbe_stage.cliques.cuda.session import Search
    from mbe_stage.search.cuda.barriers import with_barriers

    search = Search(request)
    if search.works:
        search.resume(search.works)
    for quantum in with_barriers(search, barrier, in_parts=request.mode == layout.MEMBERS):
        if statistics is not None and quantum.found is not None:
            statistics.update(quantum.found.statistics)
        yield from found(quantum)


def _found(quantum: Quantum[Session], part: CommonPart, detail: Detail, block_bytes: int) -> Iterator[CliqueBlock]:
    """Yield the results of a quantum, with the progress of the search."""
    session, share = quantum.found, quantum.share
    if quantum.remaining is not None:
        yield CliqueBlock.empty(detail, share, quantum.remaining)
    elif detail == Detail.COUNT:
        yield CliqueBlock(session.n_found, work_done=share)
    elif detail == Detail.SIZES:
        yield from _of_histogram(session.take_histogram(), len(part.held), block_bytes, share)
    else:
        yield from _written(*session.written(), part, detail, block_bytes, share)


def _written(
    sizes: Any, members: Any, part: CommonPart, detail: Detail, block_bytes: int, share: float
) -> Iterator[CliqueBlock]:
    """Copy cliques of a part to the host, in blocks; yield at least one block."""
    from mbe_stage.device.to_host import to_host

    if sizes.size == 0:
        yield CliqueBlock.empty(detail, share)
    at, n_entries = 0, members.size + (len(part.held) + 1) * sizes.size
    if 0 < sizes.size <= _CLIQUES_AT_ONCE and 4 * n_entries <= block_bytes:
        some, theirs = to_host(sizes, members)
        yield _block(some, theirs, part, detail, share)
        return
    for start in range(0, sizes.size, _CLIQUES_AT_ONCE):
        (some,) = to_host(sizes[start : start + _CLIQUES_AT_ONCE])
        for cliques, n_members in _cuts(some, len(part.held), block_bytes):
            (theirs,) = to_host(members[at : at + n_members])
            yield _block(some[cliques], theirs, part, detail, share)
            at += n_members


def _of_histogram(histogram: np.ndarray, n_held: int, block_bytes: int, share: float) -> Iterator[CliqueBlock]:
    """Yield the sizes of cliques counted by size, after an empty block for progress."""
    yield CliqueBlock.empty(Detail.SIZES, share)
    most = max(1, block_bytes // 4)
    for size in np.flatnonzero(histogram).tolist():
        n_left = int(histogram[size])
        while n_left:
            n = min(n_left, most)
            yield CliqueBlock(n, np.full(n, size + n_held, np.int32), work_done=share)
            n_left -= n


def _cuts(sizes: np.ndarray, n_held: int, block_bytes: int) -> Iterator[tuple[slice, int]]:
    """Cut cliques into blocks of at most `block_bytes`, or of one larger clique, by their sizes in the part.

    Yield the slice of the cliques and their number of members in the part; each clique gets `n_held` more. Block ends
    are looked up among every `_STRIDE`-th clique, and exactly only if that many cliques exceed a block.
    """
    starts = np.arange(0, sizes.size, _STRIDE)
    places = np.append(starts, sizes.size)
    ends = np.append(0, np.cumsum(np.add.reduceat(sizes, starts, dtype=np.int64)))
    n_bytes = 4 * (ends + (n_held + 1) * places)
    first = begin = 0
    while first < sizes.size:
        most = 4 * (begin + (n_held + 1) * first) + block_bytes
        at = int(np.searchsorted(n_bytes, most, side="right")) - 1
        stop, end = int(places[at]), int(ends[at])
        if stop <= first:
            each = np.arange(first + 1, 1 + places[at + 1])
            ends_of_each = begin + np.cumsum(sizes[first : places[at + 1]], dtype=np.int64)
            n = max(1, int(np.searchsorted(4 * (ends_of_each + (n_held + 1) * each), most, side="right")))
            stop, end = first + n, int(ends_of_each[n - 1])
        yield slice(first, stop), end - begin
        first, begin = stop, end


def _block(sizes: np.ndarray, members: np.ndarray, part: CommonPart, detail: Detail, share: float) -> CliqueBlock:
    """Make a block of the user's vertices from cliques of a part, with ascending members."""
    if part.held:
        held = np.array(part.held, np.int32)
        places = np.repeat(offsets_of(sizes)[:-1], held.size)
        members = np.insert(part.vertices[members], places, np.tile(held, sizes.size))
        sizes = sizes + np.int32(held.size)
        members = members[np.lexsort((members, np.repeat(np.arange(sizes.size), sizes)))]
    return CliqueBlock(
        sizes.size,
        sizes if detail >= Detail.SIZES else None,
        members if detail >= Detail.MEMBERS else None,
        work_done=share,
    )
