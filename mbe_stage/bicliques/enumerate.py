"""`enumerate_bicliques`: enumerate every maximal biclique into a table or a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np

from mbe_stage import stream
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueTable, DeviceSink, Sink, TableSink
from mbe_stage.engines import AUTO
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.given import as_bipartite
from mbe_stage.options import Execution
from mbe_stage.tasks import Task


@dataclass(frozen=True, slots=True)
class Progress(stream.Progress):
    """Progress of a running enumeration: `mbe_stage.stream.Progress` with an attribute for the number of bicliques."""

    @classmethod
    def of(cls, progress: stream.Progress) -> Progress:
        """Return the progress of a stream of bicliques."""
        return cls(*(getattr(progress, each.name) for each in fields(progress)))

    @property
    def n_bicliques(self) -> int:
        """Bicliques found so far."""
        return self.n_found


@dataclass(frozen=True, slots=True)
class RunFacts(stream.StreamFacts):
    """Facts of an enumeration: `mbe_stage.stream.StreamFacts` with an attribute for the number of bicliques."""

    @property
    def n_bicliques(self) -> int:
        """Number of bicliques passed to the sink."""
        return self.n_found


_FACTS = attrgetter(*(each.name for each in fields(RunFacts)))
_EVERYTHING = BicliqueQuery()


def enumerate_into(
    sink: Sink | DeviceSink,
    graph: BipartiteCSR,
    query: BicliqueQuery | None = None,
    execution: Execution | None = None,
    engine: str = AUTO,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    chosen_by_auto: bool = False,
    tasks: Iterable[Task] | None = None,
) -> RunFacts:
    """Enumerate the maximal bicliques of `graph` that satisfy `query` into `sink`, block by block.

    Parameters
    ----------
    sink : Sink or DeviceSink
        Takes the blocks. Its `detail` sets the amount of detail per biclique, and ``on_device`` keeps blocks in device
        memory.
    graph : BipartiteCSR
        The arrays may be CuPy's for the CUDA engine.
    query : BicliqueQuery, optional
        By default every maximal biclique.
    execution : Execution, optional
        Threads, budgets, limits.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``; ``auto`` is ``cuda`` for a sink on the device. If ``auto`` chose
        the engine, and it runs out of memory before its first block, the next engine takes over, with a warning. This
        is not possible for a sink or a graph on the device.
    on_progress : callable, optional
        Called from the calling thread after every block, when another engine takes over, and at the end. If its
        attribute `wants_outlook` is true (`mbe_stage.stream.Listener`), a thread samples the number of bicliques beside
        the engine ``cpu``, after three seconds and for at most 2 % of the cores' time. Searches with `tasks` are not
        sampled.
    chosen_by_auto : bool
        True if ``auto`` chose `engine` earlier, so another engine may take over.
    tasks : iterable of Task, optional
        The part to search, made by the engine's `tasks_of` for the same graph and query; all by default.

    Returns
    -------
    RunFacts

    Raises
    ------
    InvalidArgument
        The engine is unknown or cannot feed the sink, a `containing` id is outside the graph, or the tasks belong to
        other work.
    EngineUnavailable
        The engine cannot run here.
    MemoryBudgetExceeded
        The graph cannot be enumerated within the budget, and no other engine may take over.
    """

    def note(progress: stream.Progress) -> None:
        assert on_progress is not None
        on_progress(Progress.of(progress))

    facts = stream.stream(
        PROBLEM,
        sink,
        graph,
        query or _EVERYTHING,
        execution or Execution(),
        engine,
        None if on_progress is None else stream.Listener(note, stream.wants_outlook(on_progress)),
        chosen_by_auto=chosen_by_auto,
        tasks=tasks,
    )
    return RunFacts(*_FACTS(facts))


def enumerate_bicliques(
    graph: BipartiteCSR | tuple[np.ndarray, np.ndarray],
    *,
    min_left: int = 1,
    min_right: int = 1,
    max_left: int | None = None,
    max_right: int | None = None,
    min_edges: int = 1,
    containing_left: tuple[int, ...] = (),
    containing_right: tuple[int, ...] = (),
    engine: str = AUTO,
    threads: int = 0,
) -> BicliqueTable:
    """Return every maximal biclique of a bipartite graph, in memory.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids. A pair is ``(left_ids, right_ids)``, the ends of each edge.
    min_left, min_right, max_left, max_right, min_edges, containing_left, containing_right
        As in `BicliqueQuery`.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 means every core.

    Returns
    -------
    BicliqueTable
        For results larger than memory, use `enumerate_into` with a sink of your own.

    Examples
    --------
    >>> table = enumerate_bicliques(([0, 0, 1], [0, 1, 1]))
    >>> sorted(table.as_set())
    [((0,), (0, 1)), ((0, 1), (1,))]
    """
    graph = as_bipartite(graph)
    sink = TableSink()
    query = BicliqueQuery(min_left, min_right, max_left, max_right, min_edges, containing_left, containing_right)
    enumerate_into(sink, graph, query, Execution(threads=threads), engine)
    return sink.table()
