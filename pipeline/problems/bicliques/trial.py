"""A forecast for bicliques: a trial of the engine, and an estimate if the trial does not finish.

The sizes and degrees of a graph do not tell the number of its maximal bicliques. The engine runs for a moment. If it
does not finish, samples of the search tree give an interval (`mbe_stage.bicliques.estimation`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from mbe_stage.bicliques.enumerate import Progress, enumerate_into
from mbe_stage.bicliques.estimation import Effort, Estimate, Interval, estimate_bicliques
from mbe_stage.bicliques.estimation import compile_steps as estimation_steps
from mbe_stage.bicliques.query import BicliqueQuery
from mbe_stage.bicliques.results import HistogramSink
from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.options import Execution
from mbe_stage.pipeline.execution.forecast import CoreSize, Prospect, Trying
from mbe_stage.pipeline.wording import bytes_text, percent_text, plural, seconds_text
from mbe_stage.runtime.compile_ahead import compile_ahead

# Bytes of a row of `bicliques` (key, two list offsets, three sizes), of a member in it, and of a row of `members`.
_BICLIQUE_BYTES, _MEMBER_BYTES, _LONG_MEMBER_BYTES = 32, 4, 13
# Margin of the estimated time: parts of a run differ in pace from the trial.
_PACE_FACTOR = 1.5
# With fewer bicliques, the trial's pace is not meaningful.
_LEAST_FOUND = 1000

# The engine's share of the trial's seconds. The estimate has the rest plus 0.4 seconds, and at least 0.2.
_ENGINE_SHARE, _MORE_SECONDS, _LEAST_SECONDS = 0.45, 0.4, 0.2


@dataclass(frozen=True, slots=True)
class Seconds:
    """Expected seconds of a full run."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected size and duration of a full run.

    Attributes
    ----------
    bicliques : Interval
        A 95 % interval. `high` is None if descents of the search tree disagree: then there are at least `low`.
    seconds : Seconds or None
        None with an open interval, or if the trial found too little to measure its pace.
    bytes : Interval or None
        Bytes to write before compression, without the tables of vertices; None with an open interval.
    exact : bool
        Counted, not estimated.
    """

    bicliques: Interval
    seconds: Seconds | None
    bytes: Interval | None
    exact: bool


def expect(estimate: Estimate, n_found: int, seconds: float, long_form: bool) -> Expectation:
    """Return the expectation after a trial that found `n_found` bicliques in `seconds`.

    `long_form` says whether the table `members` is written too.
    """
    bicliques, members = estimate.bicliques.at_least(n_found), estimate.members
    if bicliques.high is None or members.high is None:
        return Expectation(Interval(bicliques.low, bicliques.middle, None), None, None, estimate.exact)
    middle = table_bytes(bicliques.middle, members.middle, long_form)
    low = min(middle, table_bytes(bicliques.low, members.low, long_form))
    high = max(middle, table_bytes(bicliques.high, members.high, long_form))
    return Expectation(bicliques, _seconds(bicliques, n_found, seconds), Interval(low, middle, high), estimate.exact)


def table_bytes(n_bicliques: int, n_members: int, long_form: bool) -> int:
    """Return the bytes of the tables `bicliques` and, in the long form, `members`, before compression."""
    return _BICLIQUE_BYTES * n_bicliques + (_MEMBER_BYTES + _LONG_MEMBER_BYTES * long_form) * n_members


def _seconds(bicliques: Interval, n_found: int, seconds: float) -> Seconds | None:
    if n_found < _LEAST_FOUND or bicliques.high is None:
        return None
    try:
        middle = seconds * (bicliques.middle / n_found)
        least, most = (seconds * (n / n_found) for n in (bicliques.low, bicliques.high))
    except OverflowError:
        return None
    most *= _PACE_FACTOR
    return Seconds(max(seconds, least / _PACE_FACTOR), max(seconds, middle), most) if isfinite(most) else None


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a short run of the engine.

    Attributes
    ----------
    seconds : float
        Duration without compilation.
    n_bicliques : int
        Bicliques found in that time; all of them if `complete`.
    work_done : float
        Share of the work, as the engine estimates it.
    member_bytes : int
        Bytes of the members found, as the tables hold them before compression.
    expected_seconds, expected_bicliques : float, int or None
        The middle of the estimate; None if it has no upper end.
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


def forecast(trying: Trying) -> Prospect:
    """Return the forecast of `mbe inspect`."""
    long_form = trying.config.output.members
    trial, estimate = try_and_estimate(
        *(trying.graph, trying.query, trying.seconds, trying.engine, trying.execution, long_form, trying.seed)
    )
    if not trying.config.output.bicliques:
        # Without the table, the bytes do not grow with the bicliques.
        estimate = replace(estimate, bytes=Interval.exactly(0))
    return Prospect(
        trial=trial,
        estimate=estimate,
        lines=(("trial", _trial(trial)), *_expected(estimate)),
        suggestions=tuple(_suggestions(trying.graph, trying.query, trying.cores, trial)),
    )


def try_and_estimate(
    graph: BipartiteCSR,
    query: BicliqueQuery,
    seconds: float,
    engine: str,
    execution: Execution,
    long_form: bool = False,
    seed: int = 0,
) -> tuple[Trial, Expectation]:
    """Enumerate for a moment; if that does not finish, estimate the size and time of a full run.

    Both together take at most `seconds` plus half a second, not counting compilation and one step of the walk.

    Parameters
    ----------
    long_form : bool
        Include the long form of members in the bytes.
    seed : int
        Seed of the estimate's descents.
    """
    # The first call compiles, which must not count as trial time.
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
    """Enumerate for a moment and count sizes only; the expected numbers stay None."""
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


def _trial(trial: Trial) -> str:
    tried = f"a trial of {seconds_text(trial.seconds)} ({trial.engine}: {trial.device}) found {trial.n_bicliques:,}"
    if trial.complete:
        return f"{tried}, which is all, with {bytes_text(trial.member_bytes)} of members before compression"
    return f"{tried}, and did not finish"


def _expected(found: Expectation) -> list[tuple[str, str]]:
    n = found.bicliques
    if n.high is None:
        unknown = "samples of the search tree are too few, or disagree about how many more"
        return [("expected", f"at least {_about(n.low)} bicliques: {unknown}")]
    if found.exact:
        lines = [("expected", f"{plural(n.middle, 'biclique')}: counted")]
    else:
        between = f"{_about(n.low)} to {_about(n.high)} bicliques (95 %), about {_about(n.middle)}"
        lines = [("expected", between)]
    if found.seconds is not None and not found.exact:
        took = found.seconds
        pace = f"{seconds_text(took.low)} to {seconds_text(took.high)} at the trial's pace, nothing written"
        lines.append(("time", pace))
    if found.bytes is not None:
        size = found.bytes
        between = "" if found.exact or size.high is None else f" ({bytes_text(size.low)} to {bytes_text(size.high)})"
        lines.append(("writes", f"{bytes_text(size.middle)}{between} before compression"))
    return lines


def _about(n: int) -> str:
    """Format an estimated number with three digits.

    Examples
    --------
    >>> _about(123456), _about(2**80)
    ('123,000', '1.21e+24')
    """
    if n < 1000:
        return str(n)
    rounded = round(n, 3 - len(str(n)))
    return f"{rounded:,}" if n < 10**15 else f"{str(rounded)[0]}.{str(rounded)[1:3]}e+{len(str(rounded)) - 1}"


def _suggestions(graph: BipartiteCSR, query: BicliqueQuery, cores: Sequence[CoreSize], trial: Trial) -> list[str]:
    if trial.complete:
        return ["a full run is quick: the trial found all of them"]
    suggestions = ["count before you store: mbe enumerate INPUT --count-only --time-limit 60"]
    suggestions += [
        f"--min-left {core.min_left} --min-right {core.min_right} leaves at most {core.n_edges:,} of "
        f"{graph.n_edges:,} edges ({percent_text(core.n_edges / max(1, graph.n_edges), 0, '%')}), and no group smaller "
        "than that"
        for core in cores
        if core.n_edges <= graph.n_edges // 2 and (core.min_left > query.min_left or core.min_right > query.min_right)
    ]
    if len(suggestions) == 1:
        suggestions.append("the graph is dense throughout: small minimum sizes change little, try --min-edges")
    return suggestions
