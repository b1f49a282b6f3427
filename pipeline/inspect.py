"""A first look at a graph: what it is, and what enumerating it will take, as far as that can be known beforehand.

The number of maximal bicliques cannot be read off sizes and degrees. What can: the graph's own memory, the two-hop
pairs that any enumeration starts from, and how much of the graph is left when small bicliques do not matter. For the
rest there is a trial: the engine runs for a moment, and where that does not finish, samples of the search tree give an
interval (`mbe_stage.bicliques.estimation`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from mbe_stage.bicliques.enumerate import Progress, enumerate_into
from mbe_stage.bicliques.estimation import Effort, Estimate, Interval, estimate_bicliques
from mbe_stage.bicliques.estimation import compile_steps as estimation_steps
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import HistogramSink
from mbe_stage.compile_ahead import CompileStep, compile_ahead
from mbe_stage.engines import choose_engine
from mbe_stage.graphs import two_hop
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from pipeline.config import OutputConfig
from pipeline.edges import EdgeData, InputFacts
from pipeline.expectation import Expectation, Seconds, expect, table_bytes
from pipeline.manifest import peak_memory_bytes
from pipeline.two_hop import two_hop_beside

__all__ = [
    "CoreSize",
    "Inspection",
    "SideFacts",
    "Trial",
    "TwoHopFacts",
    "compile_steps",
    "core_size",
    "inspect_edges",
    "run_trial",
    "try_and_estimate",
]

_CORES = ((2, 2), (3, 3), (5, 5), (10, 10))
# Of the trial's seconds, for the engine; the estimate has the rest, and a little more.
_ENGINE_SHARE, _MORE_SECONDS, _LEAST_SECONDS = 0.45, 0.4, 0.2


@dataclass(frozen=True, slots=True)
class SideFacts:
    """Degrees of one side; `two_hop` is the sum of squared degrees of the *other* side.

    `two_hop` counts, with multiplicity, the pairs of this side's vertices that share a neighbour (each vertex with
    itself included): what a search that starts from this side has to walk over. `two_hop_degrees` counts each pair
    once, where that takes no more than `output.two_hop_steps`.
    """

    n: int
    mean: float
    median: float
    p90: float
    p99: float
    max: int
    n_degree_one: int
    two_hop: int
    two_hop_degrees: TwoHopFacts | None = None


@dataclass(frozen=True, slots=True)
class TwoHopFacts:
    """How many other vertices of their side the vertices of a side share a neighbour with."""

    mean: float
    median: float
    p90: float
    p99: float
    max: int


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
        The middle of the estimate; None where it has no upper end.
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
    estimate : Expectation or None
        Of a full run: bicliques, seconds, bytes; None without a trial.
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
    estimate: Expectation | None = None


def compile_steps(engine: str, tries: bool = True) -> tuple[CompileStep, ...]:
    """What `inspect_edges` needs compiled, with that engine, and with a trial or without.

    Raises
    ------
    EngineUnavailable
        The engine cannot run here.
    """
    _, module = choose_engine("bicliques", engine)
    trying = (*module.compile_steps(), *estimation_steps()) if tries else ()
    return tuple({step.what: step for step in (*two_hop.compile_steps(), *trying)}.values())


def inspect_edges(
    edges: EdgeData,
    trial_seconds: float = 2.0,
    engine: str = "auto",
    execution: Execution | None = None,
    query: BicliqueQuery | None = None,
    output: OutputConfig | None = None,
    seed: int = 0,
) -> Inspection:
    """Look at a graph, and at what a query asks of it.

    Parameters
    ----------
    edges : EdgeData
    trial_seconds : float
        How long the engine may try; 0 for no trial.
    engine : str
        Of the trial.
    execution : Execution, optional
        Threads and budget, of the trial and of the expected memory.
    query : BicliqueQuery, optional
        Every maximal biclique by default.
    output : OutputConfig, optional
        Its `two_hop_steps`, and whether the long form counts among the bytes.
    seed : int
        Of the estimate.
    """
    execution, query, output = execution or Execution(), query or BicliqueQuery(), output or OutputConfig()
    graph = edges.graph()
    read_memory = peak_memory_bytes()
    trial = estimate = None
    if trial_seconds > 0:
        trial, estimate = try_and_estimate(graph, query, trial_seconds, engine, execution, output.members, seed)
    with two_hop_beside(graph, output.two_hop_steps, execution) as two_hop:
        left_two_hop, right_two_hop = two_hop()
    cores = tuple(core_size(graph, *sizes) for sizes in _CORES)
    return Inspection(
        input=edges.facts,
        density=graph.n_edges / max(1, graph.n_left * graph.n_right),
        left=_side(graph.left_degrees, graph.right_degrees, left_two_hop),
        right=_side(graph.right_degrees, graph.left_degrees, right_two_hop),
        graph_bytes=graph.nbytes,
        read_memory_bytes=read_memory,
        expected_memory_bytes=read_memory + execution.memory_budget_bytes,
        cores=cores,
        trial=trial,
        suggestions=tuple(_suggestions(graph, query, cores, trial)),
        estimate=estimate,
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


def try_and_estimate(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    seconds: float,
    engine: str,
    execution: Execution,
    long_form: bool = False,
    seed: int = 0,
) -> tuple[Trial, Expectation]:
    """Enumerate for a moment; where that does not finish, estimate what a full run comes to.

    Both together take `seconds` and at most half a second more, compiling and one step of the walk aside.
    """
    # The first call compiles; that must not eat the trial's time.
    tiny = BipartiteCSR.from_edges(np.array([0, 0, 1]), np.array([0, 1, 1]))
    enumerate_into(HistogramSink(), tiny, engine=engine, execution=execution)
    begun = time.perf_counter()
    trial = run_trial(graph, query, _ENGINE_SHARE * seconds, engine, execution)
    if trial.complete:
        n_members = trial.member_bytes // 4
        counted = Estimate(Interval.exactly(trial.n_bicliques), Interval.exactly(n_members), 0, exact=True)
        n_bytes = Interval.exactly(table_bytes(trial.n_bicliques, n_members, long_form))
        took = Seconds(trial.seconds, trial.seconds, trial.seconds)
        found = Expectation(counted.bicliques, took, n_bytes, exact=True)
    else:
        compile_ahead(estimation_steps())
        left = max(_LEAST_SECONDS, seconds + _MORE_SECONDS - (time.perf_counter() - begun))
        estimate = estimate_bicliques(graph, query, Effort(seconds=left), seed)
        found = expect(estimate, trial.n_bicliques, trial.seconds, long_form)
    is_open = found.bicliques.is_open
    return replace(
        trial,
        expected_seconds=None if found.seconds is None else found.seconds.middle,
        expected_bicliques=None if is_open else found.bicliques.middle,
    ), found


def run_trial(graph: BipartiteCSR, query: BicliqueQuery, seconds: float, engine: str, execution: Execution) -> Trial:
    """Enumerate for a moment, storing nothing but sizes; what is to be expected is left open."""
    sink = HistogramSink()
    last = Progress(0, 0.0, 0.0)

    def note(progress: Progress) -> None:
        nonlocal last
        last = progress

    limited = replace(execution, time_limit_seconds=seconds, max_bicliques=None)
    facts = enumerate_into(sink, graph, query, limited, engine, note)
    complete = facts.truncated is None
    return Trial(
        engine=facts.engine,
        device=facts.device,
        seconds=facts.seconds,
        n_bicliques=facts.n_bicliques,
        work_done=1.0 if complete else last.work_done,
        member_bytes=4 * sum((n_left + n_right) * n for (n_left, n_right), n in sink.counts.items()),
        complete=complete,
        expected_seconds=None,
        expected_bicliques=None,
    )


def _side(degrees: np.ndarray, other_degrees: np.ndarray, two_hop_degrees: np.ndarray | None) -> SideFacts:
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
        two_hop_degrees=None if two_hop_degrees is None else _two_hop(two_hop_degrees),
    )


def _two_hop(degrees: np.ndarray) -> TwoHopFacts:
    median, p90, p99 = np.quantile(degrees, [0.5, 0.9, 0.99]) if degrees.size else (0.0, 0.0, 0.0)
    mean = float(degrees.mean()) if degrees.size else 0.0
    return TwoHopFacts(mean, float(median), float(p90), float(p99), int(degrees.max(initial=0)))


def _suggestions(
    graph: BipartiteCSR, query: BicliqueQuery, cores: tuple[CoreSize, ...], trial: Trial | None
) -> list[str]:
    if trial is None:
        return ["a short trial says how long an enumeration takes here: --trial 2"]
    if trial.complete:
        return ["a full run is quick: the trial found all there are"]
    suggestions = ["count before you store: mbe enumerate INPUT --count-only --time-limit 60"]
    suggestions += [
        f"--min-left {core.min_left} --min-right {core.min_right} leaves at most {core.n_edges:,} of "
        f"{graph.n_edges:,} edges ({core.n_edges / max(1, graph.n_edges):.0%}), and no group smaller than that"
        for core in cores
        if core.n_edges <= graph.n_edges // 2 and (core.min_left > query.min_left or core.min_right > query.min_right)
    ]
    if len(suggestions) == 1:
        suggestions.append("the graph is dense throughout: small minimum sizes change little, try --min-edges")
    return suggestions
