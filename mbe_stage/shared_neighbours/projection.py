"""Project a bipartite graph onto one side: vertices are joined if they share enough neighbours.

The pairs are found twice: first to count them, so that the memory is known in advance, then to write them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.options import Execution
from mbe_stage.ragged import long_offsets
from mbe_stage.runtime.compile_ahead import CompileStep, compile_ahead
from mbe_stage.runtime.jit import INTS, LONGS, compiled, steps_of
from mbe_stage.shared_neighbours import engine_cpu
from mbe_stage.shared_neighbours.problem import PROBLEM, SharedQuery
from mbe_stage.shared_neighbours.results import PairBlock

_BLOCK_BYTES = 4 << 20


def projected(
    graph: BipartiteCSR, min_shared: int = 1, memory_budget: int = 1 << 30, threads: int = 0
) -> UndirectedCSR:
    """Join the left vertices of a graph that share neighbours; use `swapped` for the right side.

    Parameters
    ----------
    min_shared : int
        Fewest shared neighbours of joined vertices.
    memory_budget : int
        Limit for the projection and its working memory, in bytes.
    threads : int
        0 means every core.

    Returns
    -------
    UndirectedCSR
        The graph on ``n_left`` vertices, including isolated ones.

    Raises
    ------
    InvalidArgument
        `min_shared` is below 1.
    MemoryBudgetExceeded
        The projection does not fit; the message names the bytes. It is raised before the projection is allocated.

    Examples
    --------
    >>> graph = BipartiteCSR.from_edges([0, 0, 1, 1, 2], [0, 1, 0, 1, 1])
    >>> projected(graph).n_edges, projected(graph, min_shared=2).n_edges
    (3, 1)
    """
    query, n = SharedQuery(min_shared), graph.n_left
    PROBLEM.check(graph, query)
    compile_ahead(compile_steps())
    block_bytes = max(1, min(_BLOCK_BYTES, memory_budget // 64))
    lists, each = engine_cpu.working_bytes(graph, block_bytes)
    # Degrees to earlier and to later vertices, offsets, and ends of the neighbour lists.
    own = lists + each + 48 * n

    def refuse_beyond(n_edges: int, *, at_least: bool) -> None:
        if own + 8 * n_edges > memory_budget:
            fewest = "at least " if at_least else ""
            raise MemoryBudgetExceeded(
                f"the projection has {fewest}{n_edges:,} edges between {n:,} vertices and needs "
                f"{fewest}{own + 8 * n_edges:,} bytes: expected at most {memory_budget:,}, the memory budget; give "
                "more, or ask for more shared neighbours"
            )

    def pairs(n_edges: int) -> Iterator[PairBlock]:
        budget = memory_budget - 48 * n - 8 * n_edges
        execution = Execution(threads=threads, memory_budget_bytes=budget, block_bytes=block_bytes)
        return engine_cpu.run(graph, query, execution, None)

    refuse_beyond(0, at_least=True)
    degrees, n_edges = np.zeros((2, n), np.int64), 0
    for block in pairs(0):
        n_edges += len(block)
        refuse_beyond(n_edges, at_least=block.work_done < 1)
        np.add.at(degrees[0], block.second, 1)
        np.add.at(degrees[1], block.first, 1)
    offsets = long_offsets(degrees.sum(axis=0))
    members, later = np.empty(2 * n_edges, np.int32), offsets[:-1] + degrees[0]
    earlier = offsets[:-1].copy()
    for block in pairs(n_edges):
        _write(block.first, block.second, earlier, later, members)
    return UndirectedCSR(n, offsets, members)


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the steps to compile the functions of this module and of the search."""
    return (*engine_cpu.compile_steps(), *steps_of(_write))


@compiled(INTS, INTS, LONGS, LONGS, INTS)
def _write(first, second, earlier, later, members):
    """Write both ends of ascending pairs at the current ends of each vertex's earlier and later neighbours."""
    for k in range(first.size):
        u, v = first[k], second[k]
        members[later[u]] = v
        later[u] += 1
        members[earlier[v]] = u
        earlier[v] += 1
