"""A first look at a graph: what it is, and what enumerating it will take, as far as that can be known beforehand.

The number of maximal bicliques cannot be read off sizes and degrees. What can: the graph's own memory, the two-hop
pairs that any enumeration starts from, and how much of the graph is left when small bicliques do not matter. For the
rest there is a trial: the engine runs for a moment and says how far it came.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.enumerate import Progress, enumerate_into
from mbe_stage.graph import BipartiteCSR
from mbe_stage.options import BicliqueQuery, Execution
from mbe_stage.results import HistogramSink
from pipeline.edges import EdgeData, InputFacts
from pipeline.manifest import peak_memory_bytes

__all__ = ["CoreSize", "Inspection", "SideFacts", "Trial", "core_size", "inspect_edges", "run_trial"]

_CORES = ((2, 2), (3, 3), (5, 5), (10, 10))
# With less of the work done, or fewer bicliques found, extrapolating would be guessing.
_LEAST_SHARE, _LEAST_FOUND = 0.01, 1000


@dataclass(frozen=True, slots=True)
class SideFacts:
    """Degrees of one side; `two_hop` is the sum of squared degrees of the *other* side.

    `two_hop` counts, with multiplicity, the pairs of this side's vertices that share a neighbour (each vertex with
    itself included): what a search that starts from this side has to walk over.
    """

    n: int
    mean: float
    median: float
    p90: float
    p99: float
    max: int
    n_degree_one: int
    two_hop: int


@dataclass(frozen=True, slots=True)
class CoreSize:
    """What is left when every left vertex needs `min_right` neighbours and every right vertex `min_left`."""

    min_left: int
    min_right: int
    n_left: int
    n_right: int
    n_edges: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What a short run of the engine found.

    Attributes
    ----------
    seconds : float
        How long it ran, after compilation.
    n_bicliques : int
        Found in that time: all of them where `complete`.
    work_done : float
        Share of the work, as the engine estimates it.
    member_bytes : int
        Bytes of the members found, as the tables hold them before compression.
    expected_seconds, expected_bicliques : float, int or None
        Extrapolated by `work_done`; None where too little was done to say.
    """

    engine: str
    device: str
    seconds: float
    n_bicliques: int
    work_done: float
    member_bytes: int
    complete: bool
    expected_seconds: float | None
    expected_bicliques: int | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """A graph and what to expect of it.

    Attributes
    ----------
    graph_bytes : int
        The graph in CSR form, both directions.
    read_memory_bytes : int
        Peak of this process, measured, once the graph was there.
    expected_memory_bytes : int
        That and the whole of the engine's budget: a run stays about there or below.
    cores : tuple of CoreSize
        What is left of the graph for some minimum sizes.
    suggestions : tuple of str
        What to try first.
    """

    input: InputFacts
    density: float
    left: SideFacts
    right: SideFacts
    graph_bytes: int
    read_memory_bytes: int
    expected_memory_bytes: int
    cores: tuple[CoreSize, ...]
    trial: Trial | None
    suggestions: tuple[str, ...]


def inspect_edges(
    edges: EdgeData, trial_seconds: float = 2.0, engine: str = "auto", execution: Execution | None = None
) -> Inspection:
    """Look at a graph.

    Parameters
    ----------
    edges : EdgeData
    trial_seconds : float
        How long the engine may try; 0 for no trial.
    engine : str
        Of the trial.
    execution : Execution, optional
        Threads and budget, of the trial and of the expected memory.
    """
    execution = execution or Execution()
    graph = edges.graph()
    read_memory = peak_memory_bytes()
    trial = run_trial(graph, trial_seconds, engine, execution) if trial_seconds > 0 else None
    cores = tuple(core_size(graph, *sizes) for sizes in _CORES)
    return Inspection(
        input=edges.facts,
        density=graph.n_edges / max(1, graph.n_left * graph.n_right),
        left=_side(graph.left_degrees, graph.right_degrees),
        right=_side(graph.right_degrees, graph.left_degrees),
        graph_bytes=graph.nbytes,
        read_memory_bytes=read_memory,
        expected_memory_bytes=read_memory + execution.memory_budget_bytes,
        cores=cores,
        trial=trial,
        suggestions=tuple(_suggestions(graph, cores, trial)),
    )


def core_size(graph: BipartiteCSR, min_left: int, min_right: int) -> CoreSize:
    """Size of the core in which all bicliques with at least `min_left` x `min_right` vertices lie.

    Vertices with too few neighbours leave until none does.
    """
    left, right = graph.edges()
    while True:
        left_degrees = np.bincount(left, minlength=graph.n_left)
        right_degrees = np.bincount(right, minlength=graph.n_right)
        stays = (left_degrees[left] >= min_right) & (right_degrees[right] >= min_left)
        if stays.all():
            n_left, n_right = int(np.count_nonzero(left_degrees)), int(np.count_nonzero(right_degrees))
            return CoreSize(min_left, min_right, n_left, n_right, int(left.size))
        left, right = left[stays], right[stays]


def run_trial(graph: BipartiteCSR, seconds: float, engine: str, execution: Execution) -> Trial:
    """Enumerate for a moment, storing nothing but sizes."""
    # The first call compiles; that must not eat the trial's time.
    tiny = BipartiteCSR.from_edges(np.array([0, 0, 1]), np.array([0, 1, 1]))
    enumerate_into(HistogramSink(), tiny, engine=engine, execution=execution)
    sink = HistogramSink()
    last = Progress(0, 0.0, 0.0)

    def note(progress: Progress) -> None:
        nonlocal last
        last = progress

    limited = replace(execution, time_limit_seconds=seconds, max_bicliques=None)
    facts = enumerate_into(sink, graph, BicliqueQuery(), limited, engine, note)
    complete = facts.truncated is None
    share = 1.0 if complete else last.work_done
    known = complete or (share >= _LEAST_SHARE and facts.n_bicliques >= _LEAST_FOUND)
    return Trial(
        engine=facts.engine,
        device=facts.device,
        seconds=facts.seconds,
        n_bicliques=facts.n_bicliques,
        work_done=share,
        member_bytes=4 * sum((n_left + n_right) * n for (n_left, n_right), n in sink.counts.items()),
        complete=complete,
        expected_seconds=facts.seconds / share if known else None,
        expected_bicliques=round(facts.n_bicliques / share) if known else None,
    )


def _side(degrees: np.ndarray, other_degrees: np.ndarray) -> SideFacts:
    median, p90, p99 = np.quantile(degrees, [0.5, 0.9, 0.99]) if degrees.size else (0.0, 0.0, 0.0)
    return SideFacts(
        n=int(degrees.size),
        mean=float(degrees.mean()) if degrees.size else 0.0,
        median=float(median),
        p90=float(p90),
        p99=float(p99),
        max=int(degrees.max(initial=0)),
        n_degree_one=int(np.count_nonzero(degrees == 1)),
        two_hop=int(np.square(other_degrees.astype(np.float64)).sum()),
    )


def _suggestions(graph: BipartiteCSR, cores: tuple[CoreSize, ...], trial: Trial | None) -> list[str]:
    if trial is None:
        return ["a short trial says how long an enumeration takes here: --trial 2"]
    if trial.complete:
        return [f"a full run is quick: the trial found all {trial.n_bicliques:,} maximal bicliques"]
    suggestions = ["count before you store: mbe enumerate INPUT --count-only --time-limit 60"]
    suggestions += [
        f"--min-left {core.min_left} --min-right {core.min_right} leaves at most {core.n_edges:,} of "
        f"{graph.n_edges:,} edges ({core.n_edges / max(1, graph.n_edges):.0%}), and no group smaller than that"
        for core in cores
        if core.n_edges <= graph.n_edges // 2
    ]
    if len(suggestions) == 1:
        suggestions.append("the graph is dense throughout: small minimum sizes change little, try --min-edges")
    return suggestions
