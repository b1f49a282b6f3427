"""`enumerate_bicliques`: arrays in, every maximal biclique into a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mbe_stage import stream
from mbe_stage.bicliques.problem import PROBLEM
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import BicliqueTable, DeviceSink, Sink, TableSink
from mbe_stage.engines import AUTO
from mbe_stage.forecast import Outlook
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.given import as_bipartite
from mbe_stage.options import Execution
from mbe_stage.tasks import Task

__all__ = ["Progress", "RunFacts", "enumerate_bicliques", "enumerate_into"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a running enumeration stands.

    Attributes
    ----------
    n_bicliques : int
        Found so far.
    work_done : float
        Share of the work as the engine guesses it; 1 when the enumeration has ended, complete, and not before.
    seconds : float
        Since the enumeration began.
    engine : str
        Which one is at work; empty where whoever reports does not say.
    expected : Outlook or None
        How many bicliques there will be, `low` to `high` in 95 cases of 100; where `high` is None, nobody knows how
        many more. None where nobody samples.
    share : float or None
        Share of them that is found, below 1 before the end; None where `expected` is open or wide.
    seconds_left : float or None
        By that share and the time so far, and within the time limit; None where the share is.
    has_stopped : bool
        A limit has ended the enumeration: the last that is told of it, with its last share and no time left.
    search : str
        Which one it is, in words, where whoever asked enumerates more than one graph; empty for the first, or the only
        one.
    """

    n_bicliques: int
    work_done: float
    seconds: float
    engine: str = ""
    expected: Outlook | None = None
    share: float | None = None
    seconds_left: float | None = None
    has_stopped: bool = False
    search: str = ""

    @classmethod
    def of(cls, standing: stream.Progress) -> Progress:
        """What the stream of blocks tells, of bicliques."""
        return cls(
            n_bicliques=standing.n_found,
            work_done=standing.work_done,
            seconds=standing.seconds,
            engine=standing.engine,
            expected=standing.expected,
            share=standing.share,
            seconds_left=standing.seconds_left,
            has_stopped=standing.has_stopped,
        )

    @property
    def n_found(self) -> int:
        """As in `mbe_stage.stream.Progress`."""
        return self.n_bicliques


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What an enumeration did: `mbe_stage.stream.StreamFacts`, with the number of bicliques.

    Attributes
    ----------
    n_bicliques : int
        Handed to the sink.
    truncated, engine, device, seconds, sink_seconds, warnings, compile_seconds
        As there.
    """

    n_bicliques: int
    truncated: str | None
    engine: str
    device: str
    seconds: float
    sink_seconds: float
    warnings: tuple[str, ...] = ()
    compile_seconds: float = 0.0


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
        Takes the blocks; its `detail` decides how much the engine has to produce, and ``on_device`` whether they stay
        in device memory.
    graph : BipartiteCSR
        Its arrays may be CuPy's for the CUDA engine.
    query : BicliqueQuery, optional
        Every maximal biclique by default.
    execution : Execution, optional
        Threads, budgets, limits.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``; ``auto`` is ``cuda`` for a sink on the device. Where the engine
        that ``auto`` chose has too little memory for the graph, and says so before its first block, the next one does
        the work, and a warning says why; not for a sink or a graph on the device.
    on_progress : callable, optional
        Called after every block, when another engine takes over, and at the end, from the calling thread. Where its
        attribute `wants_outlook` is true (`mbe_stage.stream.Listener`), a thread samples how many bicliques there will
        be, beside the engine ``cpu``, from three seconds on and for at most 2 % of the cores' time; not for some tasks
        only.
    chosen_by_auto : bool
        `engine` is what ``auto`` chose earlier: another may take its place as for ``auto`` itself.
    tasks : iterable of Task, optional
        Which part of the work: what the engine's `tasks_of` gave for the same graph and query. By default all.

    Returns
    -------
    RunFacts

    Raises
    ------
    InvalidArgument
        An unknown engine, one that cannot feed the sink, a `containing` id outside the graph, or tasks of other work.
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
        query or BicliqueQuery(),
        execution or Execution(),
        engine,
        None if on_progress is None else stream.Listener(note, stream.wants_outlook(on_progress)),
        chosen_by_auto=chosen_by_auto,
        tasks=tasks,
    )
    return RunFacts(
        n_bicliques=facts.n_found,
        truncated=facts.truncated,
        engine=facts.engine,
        device=facts.device,
        seconds=facts.seconds,
        sink_seconds=facts.sink_seconds,
        warnings=facts.warnings,
        compile_seconds=facts.compile_seconds,
    )


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
    """Every maximal biclique of a bipartite graph, in memory.

    Parameters
    ----------
    graph : BipartiteCSR, or a pair of integer arrays
        Dense ids; a pair is ``(left_ids, right_ids)``, one edge a position.
    min_left, min_right, max_left, max_right, min_edges, containing_left, containing_right
        As in `BicliqueQuery`.
    engine : str
        ``auto``, ``cpu``, ``cuda`` or ``reference``.
    threads : int
        0 is every core.

    Returns
    -------
    BicliqueTable
        For results larger than memory use `enumerate_into` with a sink of your own.

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
