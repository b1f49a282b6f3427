"""A first look at a graph: its size and degrees, and the expected cost of a search.

Sizes and degrees give the graph's memory, the two-hop pairs at the start of any search, and the rest of the graph under
minimum sizes. They do not give the number of results. A trial estimates it: the problem's own (`Publication.forecast`),
or a short run of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.engines import AUTO, choose_engine
from mbe_stage.graphs import subgraphs, two_hop
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.graphs.undirected import UndirectedCSR
from mbe_stage.pipeline import run_state
from mbe_stage.pipeline.backends.arrow.block_writer import writers_bytes
from mbe_stage.pipeline.backends.arrow.edges import EdgeData
from mbe_stage.pipeline.backends.arrow.graph_facts import graph_facts_beside
from mbe_stage.pipeline.clean.facts import QUICK_TWO_HOP_EDGES, QUICK_TWO_HOP_STEPS, InputFacts
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.execution.forecast import CoreSize, Prospect, Trying, core_sizes
from mbe_stage.pipeline.problems.base import Publication
from mbe_stage.pipeline.problems.installed import publication_of
from mbe_stage.pipeline.problems.result_text import searched_graph
from mbe_stage.pipeline.problems.searched_graph import SearchedGraph
from mbe_stage.pipeline.publish.manifest import peak_memory_bytes
from mbe_stage.pipeline.wording import bytes_text, percent_text, plural, seconds_text
from mbe_stage.problem import problem_named
from mbe_stage.runtime.compile_ahead import CompileStep
from mbe_stage.sampling import SAMPLED_ENGINE, memory_bytes
from mbe_stage.stream import Progress, stream

_CORES = ((2, 2), (3, 3), (5, 5), (10, 10))
# If counting all two-hop degrees takes long, they are estimated from this many vertices.
_FEWEST_SAMPLED, _MOST_SAMPLED = 100, 1_000
_SHORT_TRIAL = ("estimate the time of an enumeration with a short trial: --trial 2",)


@dataclass(frozen=True, slots=True)
class SideFacts:
    """Degrees of one side; `two_hop` is the sum of squared degrees of the *other* side.

    `two_hop` counts, with multiplicity, the pairs of this side's vertices that share a neighbour, including each vertex
    with itself. A search from this side visits all of them. `two_hop_degrees` counts each pair once.
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
    """Two-hop degrees of a side: numbers of other vertices of the side that share a neighbour.

    `n_sampled` is the number of random vertices that these are estimates from; None if every vertex was counted. A
    sample does not give the largest.
    """

    mean: float
    median: float
    p90: float
    p99: float
    max: int | None
    n_sampled: int | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a short run of the engine, for any problem.

    Attributes
    ----------
    seconds : float
        Duration without compilation.
    n_found : int
        Results in that time; all results if `complete`.
    work_done : float
        Share of the work, as the engine estimates it.
    table_bytes : int or None
        Size of those results in their table, before compression; None if rows have no fixed size.
    """

    engine: str
    device: str
    seconds: float
    n_found: int
    work_done: float
    table_bytes: int | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """A graph and the expected cost of its search.

    Attributes
    ----------
    left, right : SideFacts
        If all vertices are of one kind, `left` has them and `right` is None.
    graph_bytes : int
        The graph in CSR form, both directions.
    read_memory_bytes : int
        Measured peak of this process after the graph was built.
    expected_memory_bytes : int
        Upper estimate for a run: `read_memory_bytes`, the engine's whole budget, that of the writers of data sets,
        `tables_bytes` and, on the CPU, the memory of sampling.
    tables_bytes : int
        Size of tables kept in memory until the search ends.
    cores : tuple of CoreSize
        The rest of the graph under some minimum sizes.
    trial
        Results of a short run of the engine: `pipeline.problems.bicliques.trial.Trial`, or `Tried`; None without a
        trial.
    suggestions : tuple of str
        Settings to try first.
    estimate
        Estimate of a full run: `pipeline.problems.bicliques.trial.Expectation`. None without a trial, or if the
        problem has no estimate.
    lines : tuple of (str, str)
        Trial and estimate in words: label and text.
    """

    problem: str
    input: InputFacts
    graph: SearchedGraph
    density: float
    left: SideFacts
    right: SideFacts | None
    graph_bytes: int
    read_memory_bytes: int
    expected_memory_bytes: int
    tables_bytes: int
    cores: tuple[CoreSize, ...]
    trial: Any
    suggestions: tuple[str, ...]
    estimate: Any = None
    lines: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        values = {**asdict(self), "input": self.input.as_json()}
        del values["lines"]
        return values


def compile_steps(config: Config, tries: bool = True) -> tuple[CompileStep, ...]:
    """Return the compile steps of `inspect_edges`, with a trial, whose engine must run here, or without."""
    looking = (*two_hop.compile_steps(), *subgraphs.compile_steps())
    if not tries:
        # Loading an engine takes a tenth of a second.
        return looking
    _, module = choose_engine(config.problem, _engine(config))
    trying = (*module.compile_steps(), *publication_of(config.problem).forecast_steps())
    return tuple({step.what: step for step in (*looking, *trying)}.values())


def inspect_edges(
    edges: EdgeData,
    config: Config | None = None,
    trial_seconds: float = 2.0,
    seed: int = 0,
    *,
    finds_cores: bool = True,
) -> Inspection:
    """Describe a graph and the expected cost of a configuration's search.

    Parameters
    ----------
    config : Config, optional
        Problem, query, engine, threads and budget. Of the output: `two_hop_steps`, and the settings that affect bytes.
    trial_seconds : float
        Length of the trial; 0 for no trial.
    seed : int
        Seed of the estimate.
    finds_cores : bool
        Look for cores. Without them, a trial has no minimum sizes to suggest.
    """
    config = config or Config()
    execution, publication = config.execution.to_execution(), publication_of(config.problem)
    query, graph = publication.query(config.problem_section, edges), publication.graph(config, edges)
    read_memory = peak_memory_bytes()
    has_sides = isinstance(graph, BipartiteCSR)
    with run_state.at_part("looking for dense parts"):
        cores = core_sizes(graph, _CORES) if has_sides and finds_cores else ()
    outlook, key_types = None, (edges.left_keys.type, edges.right_keys.type)
    if trial_seconds > 0:
        trying = Trying(graph, query, trial_seconds, _engine(config), execution, config, key_types, cores, seed)
        with run_state.at_part(f"trying for {trial_seconds:g} s"):
            forecast = publication.forecast
            outlook = _by_trying(publication, trying) if forecast is None else forecast(trying)
    unknown = f"unknown: it depends on the number of {publication.counted}, which the figures above do not give"
    table_memory = publication.table_memory(config, query, graph)
    lines = (("trial", unknown),) if outlook is None else tuple(outlook.lines)
    beside_engine = table_memory.n_bytes + _sampling_memory(config, graph)
    if any(not name.endswith(".parquet") for name in publication.schemas(config, key_types)):
        beside_engine += writers_bytes(config.execution.memory_budget)
    with run_state.at_part("counting shared neighbours"):
        density, left, right = _two_sides(graph, config) if has_sides else _one_set(graph)
    return Inspection(
        problem=config.problem,
        input=edges.facts,
        graph=searched_graph(config, edges.facts, graph),
        density=density,
        left=left,
        right=right,
        graph_bytes=graph.nbytes,
        read_memory_bytes=read_memory,
        expected_memory_bytes=read_memory + execution.memory_budget_bytes + beside_engine,
        tables_bytes=table_memory.n_bytes,
        cores=cores,
        trial=None if outlook is None else outlook.trial,
        suggestions=_SHORT_TRIAL if outlook is None else tuple(outlook.suggestions),
        estimate=None if outlook is None else outlook.estimate,
        lines=(*lines, *table_memory.lines),
    )


def _sampling_memory(config: Config, graph: Any) -> int:
    """Return the memory of progress sampling, if the engine may need it."""
    is_sampled = problem_named(config.problem).sampler is not None and _engine(config) in (AUTO, SAMPLED_ENGINE)
    return memory_bytes(graph, config.execution.to_execution()) if is_sampled else 0


def _engine(config: Config) -> str:
    """Return the engine of a trial; the tier for tables does not matter."""
    if (engine := config.execution.engine) != "rapids":
        return engine
    # This import also loads the steps and runners of a run, which takes a tenth of a second.
    from mbe_stage.pipeline.execution.tiers import tier_named

    return tier_named(engine, config.problem).engine


def _two_sides(graph: BipartiteCSR, config: Config) -> tuple[float, SideFacts, SideFacts]:
    """Return the density and the degrees of both sides."""
    # Inspecting should cost little compared with reading. Counting every vertex may take minutes.
    most_steps, limit = max(QUICK_TWO_HOP_STEPS, graph.n_edges), config.output.two_hop_steps
    most_steps = most_steps if limit is None else min(limit, most_steps)
    counts = np.bincount(graph.left_degrees), np.bincount(graph.right_degrees)
    sides = _side(*counts), _side(*counts[::-1])
    if graph.n_edges <= QUICK_TWO_HOP_EDGES or min(_n_sampled(side, most_steps) for side in sides) < _FEWEST_SAMPLED:
        with graph_facts_beside(graph, most_steps, config.execution.to_execution()) as counted:
            facts = counted()
            sides = _with_all(sides[0], facts.left_two_hop), _with_all(sides[1], facts.right_two_hop)
    return (
        graph.n_edges / max(1, graph.n_left * graph.n_right),
        _with_sample(sides[0], graph, most_steps),
        _with_sample(sides[1], graph.swapped(), most_steps),
    )


def _with_sample(side: SideFacts, graph: BipartiteCSR, most_steps: int) -> SideFacts:
    """Return the facts with estimates from random vertices within `most_steps`, unless all vertices are counted."""
    n = _n_sampled(side, most_steps)
    if side.two_hop_degrees is not None or n < _FEWEST_SAMPLED:
        return side
    found = _distribution(np.bincount(two_hop.sampled_two_hop_degrees(graph, min(n, _MOST_SAMPLED, side.n))))
    return replace(side, two_hop_degrees=replace(found, max=None, n_sampled=min(n, _MOST_SAMPLED, side.n)))


def _n_sampled(side: SideFacts, most_steps: int) -> int:
    """Return the number of random vertices that take about half of `most_steps`."""
    return most_steps * side.n // max(1, 2 * side.two_hop)


def _with_all(side: SideFacts, degrees: np.ndarray | None) -> SideFacts:
    return side if degrees is None else replace(side, two_hop_degrees=_distribution(np.bincount(degrees)))


def _one_set(graph: UndirectedCSR) -> tuple[float, SideFacts, None]:
    """Return the density and the degrees of a graph without sides."""
    counts = np.bincount(graph.degrees)
    return 2 * graph.n_edges / max(1, graph.n * (graph.n - 1)), _side(counts, counts), None


def _side(counts: np.ndarray, other_counts: np.ndarray) -> SideFacts:
    """Return the facts about a side, given how many vertices of each side have each degree."""
    facts = asdict(_distribution(counts))
    del facts["n_sampled"]
    two_hop = int(np.dot(other_counts, np.arange(other_counts.size) ** 2))
    return SideFacts(n=int(counts.sum()), n_degree_one=int(counts[1:2].sum()), two_hop=two_hop, **facts)


def _distribution(counts: np.ndarray) -> TwoHopFacts:
    if not counts.size:
        return TwoHopFacts(0.0, 0.0, 0.0, 0.0, 0)
    # There are many vertices but few distinct degrees, so this is faster than `np.quantile`.
    ends, degrees = np.cumsum(counts), np.arange(counts.size)
    at = np.array([0.5, 0.9, 0.99]) * (ends[-1] - 1)
    lower, upper = (np.searchsorted(ends, place, "right") for place in (np.floor(at), np.ceil(at)))
    median, p90, p99 = (lower + (upper - lower) * (at % 1)).tolist()
    return TwoHopFacts(float(np.dot(counts, degrees) / ends[-1]), median, p90, p99, counts.size - 1)


def _by_trying(publication: Publication, trying: Trying) -> Prospect:
    seen = [Progress(0, 0.0, 0.0, "")]
    limited = replace(trying.execution, time_limit_seconds=trying.seconds, max_bicliques=None, max_cliques=None)
    problem, sink = problem_named(publication.problem), publication.count_sink()
    facts = stream(problem, sink, trying.graph, trying.query, limited, trying.engine, seen.append)
    row = _row_bytes(publication, trying)
    tried = Tried(
        engine=facts.engine,
        device=facts.device,
        seconds=facts.seconds,
        n_found=facts.n_found,
        work_done=1.0 if facts.truncated is None else seen[-1].work_done,
        table_bytes=None if row is None else row * facts.n_found,
        complete=facts.truncated is None,
    )
    return Prospect(tried, None, _trial_lines(publication, tried), _after_trial(publication, tried))


def _row_bytes(publication: Publication, trying: Trying) -> int | None:
    """Return the bytes of a row in the table of results; None unless every column has a fixed width."""
    schemas = publication.schemas(trying.config, trying.key_types)
    schema = schemas.get(publication.counted, schemas.get(f"{publication.counted}.parquet"))
    kinds = pa.types.is_primitive, pa.types.is_fixed_size_binary
    if schema is None or not all(any(is_kind(column.type) for is_kind in kinds) for column in schema):
        return None
    return sum((column.type.bit_width + 7) // 8 for column in schema)


def _trial_lines(publication: Publication, tried: Tried) -> Sequence[tuple[str, str]]:
    of = f"a trial of {seconds_text(tried.seconds)} ({tried.engine}: {tried.device})"
    found = f"{of} found {plural(tried.n_found, *publication.unit)}"
    size = "" if tried.table_bytes is None else f", {bytes_text(tried.table_bytes)} before compression"
    if tried.complete:
        return [("trial", f"{found}: all results{size}")]
    share = f"{percent_text(tried.work_done, 1)} of the work"
    beyond = f"the problem {publication.problem} has no better estimate"
    return [("trial", f"{found}{size}, and did not finish: {share}, by the engine's estimate; {beyond}")]


def _after_trial(publication: Publication, tried: Tried) -> Sequence[str]:
    if tried.complete:
        return ["a full run is quick: the trial found all results"]
    command = problem_named(publication.problem).called
    return [f"count before you store: mbe {command} INPUT --count-only --time-limit 60"]
