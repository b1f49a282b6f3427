"""The CUDA engine: maximal cliques found by persistent warps of one GPU.

The order of work: take what the vertices that must be members have in common (`cliques.reduction`), part the neighbours
of each vertex into later and earlier ones on the device (`cuda.prepare`), plan the memory (`cuda.memory_plan`), and
search in bounded quanta (`cuda.session`, `cuda.kernels`). Importing this module needs neither numba-cuda nor a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mbe_stage.cliques import reduction
from mbe_stage.cliques.cuda import layout as at
from mbe_stage.cliques.cuda.memory_plan import SearchSizes, plan_memory
from mbe_stage.cliques.cuda.techniques import Techniques
from mbe_stage.cliques.query import CliqueQuery
from mbe_stage.cliques.reduction import CommonPart, common_part
from mbe_stage.cliques.results import CliqueBlock, Detail
from mbe_stage.cliques.roots import roots_of
from mbe_stage.compile_ahead import CompileStep
from mbe_stage.device.available import unavailable_reason
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.options import Execution
from mbe_stage.ragged import offsets_of
from mbe_stage.tasks import Task, cut, positions, ranges_of

if TYPE_CHECKING:
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock
    from mbe_stage.cliques.cuda.session import Session

__all__ = ["compile_steps", "device", "device_blocks", "run", "tasks_of", "unavailable_reason"]

_EVERYTHING = Techniques()
_LARGEST_SIZE = 2**31 - 1
# Of what was found: one that is taken in while the next quantum's is made.
_BLOCKS_ON_DEVICE = 2
Block = TypeVar("Block")


def device(execution: Execution) -> str:  # noqa: ARG001 - the seam's signature
    """The GPU's name."""
    from numba import cuda

    name = cuda.get_current_device().name
    return f"cuda, {name.decode() if isinstance(name, bytes) else name}"


def compile_steps(query: CliqueQuery | None = None, detail: Detail | None = None) -> Sequence[CompileStep]:
    """The kernels that such a run launches; where some of them have to be compiled, all that the engine has."""
    from mbe_stage.cliques.cuda.kernels import kernel_for
    from mbe_stage.cliques.cuda.prepare import part_lists_warp_per_vertex
    from mbe_stage.device.copying import copy_pieces_block_per_piece
    from mbe_stage.device.jit import all_at_once, compile_steps_of, step_together

    others = (*compile_steps_of(part_lists_warp_per_vertex, copy_pieces_block_per_piece), *reduction.compile_steps())
    kernels = [kernel_for(mode, _EVERYTHING.kernel_mask) for mode in (at.COUNT, at.SIZES, at.MEMBERS)]
    everything = (step_together(*kernels), *others)
    if query is None or detail is None:
        return everything
    return all_at_once((*compile_steps_of(kernels[_mode(query, detail)]), *others), lambda: everything)


def run(
    graph: UndirectedCSR,
    query: CliqueQuery,
    execution: Execution,
    detail: Detail,
    tasks: Iterable[Task] | None = None,
    *,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, int] | None = None,
    techniques: Techniques = _EVERYTHING,
) -> Iterator[CliqueBlock]:
    """Every maximal clique of `graph` that satisfies `query`, in blocks.

    Parameters
    ----------
    graph : UndirectedCSR
        Its arrays may be CuPy's.
    query : CliqueQuery
    execution : Execution
        Its memory budget is the device's.
    detail : Detail
    tasks : iterable of Task, optional
        Which part of them: what `tasks_of` gave for the same graph and query. By default all.
    sizes : dict, optional
        Fields of the `MemoryPlan` to override. For tests.
    statistics : dict, optional
        Receives what the warps did, after each quantum.
    techniques : Techniques
        What to make use of. For the ablation benchmark; the cliques are the same.

    Raises
    ------
    InvalidArgument
        Tasks of another graph or query, or that overlap.
    MemoryBudgetExceeded
        The graph does not fit the budget.
    """
    part = _part(graph, query)

    def found(session: Session) -> Iterator[CliqueBlock]:
        return _found(session, part, detail, execution.block_bytes)

    wanted = None if tasks is None else _wanted(list(tasks), graph, query, part)
    is_something = part.is_possible and (wanted is None or wanted.size > 0)
    if part.graph.n > 0 and is_something:
        search = _Search(part, query, execution, detail, wanted, sizes or {}, techniques)
        yield from _searched(search, found, statistics)
    elif part.held and is_something and query.accepts(len(part.held)):
        yield from _blocks(np.zeros(1, np.int32), np.empty(0, np.int32), part, detail, execution.block_bytes, 1.0)
    yield CliqueBlock.empty(detail, work_done=1.0)


def device_blocks(
    graph: UndirectedCSR,
    query: CliqueQuery,
    execution: Execution,
    tasks: Iterable[Task] | None = None,
    *,
    sizes: dict[str, Any] | None = None,
    statistics: dict[str, int] | None = None,
) -> Iterator[DeviceCliqueBlock]:
    """Every maximal clique of `graph` that satisfies `query`, as CuPy arrays: nothing leaves the device.

    Parameters and errors are those of `run`. The last block is empty, with all work done. Where vertices must be
    members, the host puts them into the cliques.
    """
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    if query.containing:
        for block in run(graph, query, execution, Detail.MEMBERS, tasks, sizes=sizes, statistics=statistics):
            yield _uploaded(block)
        return
    part = _part(graph, query)
    wanted = None if tasks is None else _wanted(list(tasks), graph, query, part)
    if graph.n > 0 and (wanted is None or wanted.size > 0):
        search = _Search(part, query, execution, Detail.MEMBERS, wanted, sizes or {}, _EVERYTHING, _BLOCKS_ON_DEVICE)
        yield from _searched(search, _found_on_device, statistics)
    yield DeviceCliqueBlock.empty(work_done=1.0)


def _uploaded(block: CliqueBlock) -> DeviceCliqueBlock:
    import cupy as cp

    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    return DeviceCliqueBlock(cp.asarray(block.sizes), cp.asarray(block.members), block.work_done)


def _found_on_device(session: Session) -> Iterator[DeviceCliqueBlock]:
    """What a quantum found; the next one writes where it did, if there is one."""
    from mbe_stage.cliques.cuda.blocks import DeviceCliqueBlock

    sizes, members = session.written()
    if not session.is_output_kept:
        sizes, members = sizes.copy(), members.copy()
    yield DeviceCliqueBlock(sizes, members, 0.999 * session.share)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """What is searched for, and with what means.

    Attributes
    ----------
    part : CommonPart
        With one vertex at least.
    query, execution, detail, sizes, techniques
        As `run` has them.
    wanted : (n_roots,) int64 or None
        Vertices of the part; None for all.
    n_copies : int
        As `MemoryPlan.n_copies`.
    """

    part: CommonPart
    query: CliqueQuery
    execution: Execution
    detail: Detail
    wanted: np.ndarray | None
    sizes: dict[str, Any]
    techniques: Techniques
    n_copies: int = 0


def tasks_of(graph: UndirectedCSR, query: CliqueQuery, n: int) -> list[Task]:
    """All of the work in at most `n` tasks of similar cost.

    A clique belongs to its member of the smallest degree, of equal ones to that with the smallest id.

    Parameters
    ----------
    graph : UndirectedCSR
        Its arrays may be CuPy's; the work of cutting is the host's.
    query : CliqueQuery
    n : int
    """
    part = _part(graph, query)
    order = _order(part)
    host = _on_host(part.graph)
    later = np.zeros(part.graph.n)
    if host.members.size:
        ranks = np.empty(host.n, np.int64)
        ranks[order] = np.arange(host.n)
        sources, targets = host.edges()
        first = np.where(ranks[sources] < ranks[targets], sources, targets)
        later += np.bincount(first, minlength=host.n)
    costs = 1.0 + later[order] ** 2 if part.graph.n else np.ones(_root_vertices(part).size)
    return cut(roots_of(graph, query, _root_vertices(part)), costs, n)


def _mode(query: CliqueQuery, detail: Detail) -> int:
    """What the kernel is compiled for: sizes are looked after where they are wanted or limited."""
    if detail == Detail.COUNT and query.min_size <= 1 and query.max_size is None:
        return at.COUNT
    return at.MEMBERS if detail == Detail.MEMBERS else at.SIZES


def _part(graph: UndirectedCSR, query: CliqueQuery) -> CommonPart:
    """What the query is about; the graph stays where it is, unless vertices must be members."""
    if not query.containing:
        return CommonPart(graph, np.empty(0, np.int32), (), True)
    return common_part(_on_host(graph), query)


def _on_host(graph: UndirectedCSR) -> UndirectedCSR:
    if graph.is_on_host:
        return graph
    import cupy as cp

    return UndirectedCSR(graph.n, cp.asnumpy(graph.offsets), cp.asnumpy(graph.members))


def _order(part: CommonPart) -> np.ndarray:
    """The vertices of a part in the order of the search, int64."""
    degrees = part.graph.degrees
    if not part.graph.is_on_host:
        import cupy as cp

        degrees = cp.asnumpy(degrees)
    return np.argsort(degrees, kind="stable")


def _root_vertices(part: CommonPart) -> np.ndarray:
    """The user's vertices that the roots are; where nothing is left beside those that must be members, one of these."""
    if part.graph.n == 0:
        return np.array(part.held[:1] if part.is_possible else (), np.int64)
    order = _order(part)
    return part.vertices[order] if part.held else order


def _wanted(tasks: list[Task], graph: UndirectedCSR, query: CliqueQuery, part: CommonPart) -> np.ndarray:
    """The vertices of a part that are the roots of some tasks; where it has none, a zero for the root that is left."""
    found = positions(ranges_of(tasks, roots_of(graph, query, _root_vertices(part))))
    return found if part.graph.n == 0 else _order(part)[found]


def _searched(
    search: _Search, found: Callable[[Session], Iterator[Block]], statistics: dict[str, int] | None
) -> Iterator[Block]:
    """What each quantum finds; device memory is held from the first to the last."""
    from mbe_stage.cliques.cuda.kernels import searching_blocks
    from mbe_stage.cliques.cuda.prepare import prepare
    from mbe_stage.cliques.cuda.session import Session
    from mbe_stage.device.launch import resident_blocks
    from mbe_stage.device.memory_budget import device_budget, device_work

    part, query = search.part, search.query
    budget = device_budget(search.execution)
    mode = _mode(query, search.detail)
    most = _LARGEST_SIZE if query.max_size is None else min(_LARGEST_SIZE, query.max_size - len(part.held))
    limits = (min(_LARGEST_SIZE, max(0, query.min_size - len(part.held))), most)
    with device_work(budget):
        prepared = prepare(_on_device(part.graph), resident_blocks(), budget)
        if search.wanted is not None:
            prepared = prepared.with_roots(search.wanted)
        of_graph = (part.graph.n_edges, prepared.most_later, prepared.most_neighbours)
        facts = SearchSizes(*of_graph, mode, search.n_copies)
        plan = replace(plan_memory(facts, searching_blocks(), budget), **search.sizes)
        session = Session(prepared, mode, limits, plan, budget, search.techniques.kernel_mask)
    is_over = False
    while not is_over:
        with device_work(budget):
            is_over = session.quantum()
        if statistics is not None:
            statistics.update(session.statistics)
        yield from found(session)
        if not is_over:
            with device_work(budget):
                is_over = not session.make_room()


def _on_device(graph: UndirectedCSR) -> UndirectedCSR:
    import cupy as cp

    return UndirectedCSR(graph.n, cp.asarray(graph.offsets, cp.int64), cp.asarray(graph.members, cp.int32))


def _found(session: Session, part: CommonPart, detail: Detail, block_bytes: int) -> Iterator[CliqueBlock]:
    """What a quantum found, and how far the search is."""
    share = 0.999 * session.share
    if detail == Detail.COUNT:
        yield CliqueBlock(session.n_found, work_done=share)
    elif detail == Detail.SIZES:
        yield from _of_histogram(session.take_histogram(), len(part.held), block_bytes, share)
    else:
        import cupy as cp

        sizes, members = (cp.asnumpy(array) for array in session.written())
        yield from _blocks(sizes, members, part, detail, block_bytes, share)


def _of_histogram(histogram: np.ndarray, n_held: int, block_bytes: int, share: float) -> Iterator[CliqueBlock]:
    """A size for each clique, of cliques that were counted by size; an empty block first, for progress."""
    yield CliqueBlock.empty(Detail.SIZES, share)
    most = max(1, block_bytes // 4)
    for size in np.flatnonzero(histogram).tolist():
        n_left = int(histogram[size])
        while n_left:
            n = min(n_left, most)
            yield CliqueBlock(n, np.full(n, size + n_held, np.int32), work_done=share)
            n_left -= n


def _blocks(
    sizes: np.ndarray, members: np.ndarray, part: CommonPart, detail: Detail, block_bytes: int, share: float
) -> Iterator[CliqueBlock]:
    """Cliques of a part as those of the user's graph, at most `block_bytes` at a time, a larger clique alone.

    Parameters
    ----------
    sizes : (n_cliques,) int32
    members : int32
        Vertices of the part, ascending within a clique.
    part : CommonPart
    detail : Detail
    block_bytes : int
    share : float
    """
    if sizes.size == 0:
        yield CliqueBlock.empty(detail, share)
    ends = np.cumsum(sizes, dtype=np.int64)
    n_bytes = 4 * (ends + (len(part.held) + 1) * np.arange(1, sizes.size + 1))
    first = 0
    while first < sizes.size:
        before = int(n_bytes[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(n_bytes, before + block_bytes, side="right")))
        yield _block(sizes[first:stop], members[ends[first] - sizes[first] : ends[stop - 1]], part, detail, share)
        first = stop


def _block(sizes: np.ndarray, members: np.ndarray, part: CommonPart, detail: Detail, share: float) -> CliqueBlock:
    """A block of the user's vertices."""
    sizes, members = sizes.astype(np.int32), members.astype(np.int32)
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
