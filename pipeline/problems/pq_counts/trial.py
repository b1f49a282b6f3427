"""A forecast for counts: the number of two-step paths, and a short trial of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mbe_stage.errors import MemoryBudgetExceeded
from mbe_stage.pipeline.execution.forecast import Prospect, Trying
from mbe_stage.pipeline.problems.pq_counts.memory import local_bytes, local_memory_error
from mbe_stage.pipeline.problems.pq_counts.query import detail_of
from mbe_stage.pipeline.problems.pq_counts.result_text import result_text
from mbe_stage.pipeline.wording import percent_text, rough_number, seconds_text
from mbe_stage.pq_counts.count import count_pq_into
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.stream import Progress, StreamFacts

# Minimum share of the work in the trial's second half for a meaningful pace.
_LEAST_DONE = 0.01


@dataclass(frozen=True, slots=True)
class CountTrial:
    """The result of a short run of the engine.

    Attributes
    ----------
    seconds : float
        Duration without compilation.
    work_done : float
        Estimated share of the work.
    counts : sequence of dict
        Counts in the form of ``mbe count-pq --json``; lower bounds unless `complete`.
    left_paths, right_paths : int
        Two-step paths from the left vertices and from the right ones; a search from that side walks all of them.
    expected_seconds : float or None
        Total at the pace of the trial's second half; None if it did too little of the work.
    local_bytes : int
        Memory of the requested local counts.
    local_left_out : bool
        True if local counts are requested but the trial skipped them, because they do not fit the memory budget. Then
        `complete` and the seconds refer to the plain counts.
    """

    engine: str
    device: str
    seconds: float
    work_done: float
    complete: bool
    counts: Sequence[dict[str, Any]]
    left_paths: int
    right_paths: int
    expected_seconds: float | None
    local_bytes: int
    local_left_out: bool


@dataclass(frozen=True, slots=True)
class _Counted:
    """A search as long as the trial: its sink, and pairs of seconds and share of work done."""

    sink: PqSink
    facts: StreamFacts
    samples: Sequence[tuple[float, float]]


def forecast(trying: Trying) -> Prospect:
    """Return the forecast of `mbe inspect`; local counts are tried too if they fit."""
    detail, degrees = detail_of(trying.config.problem_section), (trying.graph.left_degrees, trying.graph.right_degrees)
    counted, left_out = _tried_within_memory(trying, detail)
    found = result_text(
        counted.sink,
        trying.config,
        (trying.graph.left_degrees, trying.graph.right_degrees),
        counted.facts.truncated,
    )
    left_paths, right_paths = (int(np.square(of_side, dtype=np.float64).sum()) for of_side in reversed(degrees))
    is_complete = counted.facts.truncated is None
    trial = CountTrial(
        engine=counted.facts.engine,
        device=counted.facts.device,
        seconds=counted.facts.seconds,
        work_done=1.0 if is_complete else counted.samples[-1][1],
        complete=is_complete,
        counts=found.values["counts"],
        left_paths=left_paths,
        right_paths=right_paths,
        expected_seconds=counted.facts.seconds
        if is_complete
        else expected_seconds(counted.samples, _share_of_counts(counted.sink)),
        local_bytes=local_bytes(trying.query, detail, *degrees),
        local_left_out=left_out is not None,
    )
    lines = [_paths(trial), _tried(trial, found.headline), *found.lines]
    # The reason for refusing a run is reported separately (`memory`).
    if left_out:
        lines.append(("local", f"the trial left them out: {left_out}"))
    return Prospect(trial, None, lines, _suggestions(trial, detail))


def _tried_within_memory(trying: Trying, detail: Detail) -> tuple[_Counted, str | None]:
    """Run a trial; return also the engine's reason to skip local counts, or "" if a run would be refused anyway."""
    degrees = trying.graph.left_degrees, trying.graph.right_degrees
    if local_memory_error(trying.query, detail, degrees, trying.config.execution.memory_bytes) is not None:
        return _count(trying, Detail.COUNTS), ""
    try:
        return _count(trying, detail), None
    except MemoryBudgetExceeded as error:
        if detail == Detail.COUNTS:
            raise
        return _count(trying, Detail.COUNTS), str(error)


def _count(trying: Trying, detail: Detail) -> _Counted:
    sink, samples = PqSink(trying.query, detail), [(0.0, 0.0)]
    limited = replace(trying.execution, time_limit_seconds=trying.seconds, max_bicliques=None)

    def note(progress: Progress) -> None:
        samples.append((progress.seconds, progress.work_done))

    facts = count_pq_into(sink, trying.graph, limited, trying.engine, note)
    return _Counted(sink, facts, samples)


def _paths(trial: CountTrial) -> tuple[str, str]:
    return "paths", (
        f"{rough_number(trial.left_paths)} of two steps from the left, {rough_number(trial.right_paths)} from the right"
    )


def _tried(trial: CountTrial, headline: str) -> tuple[str, str]:
    kind = " without local counts" if trial.local_left_out else ""
    engine = f"{trial.engine}: {trial.device}"
    text = f"a trial of {seconds_text(trial.seconds)}{kind} ({engine}) found {headline.rstrip(',')}"
    if trial.complete:
        return "trial", f"{text}, which is all"
    done = f"{percent_text(trial.work_done, 1)} of the work by a guess"
    if trial.expected_seconds is None:
        return "trial", f"{text}, and did not finish: {done}, too little to say how long the rest takes"
    return "trial", f"{text}, and did not finish: {done}; at this pace {seconds_text(trial.expected_seconds)} in all"


def _suggestions(trial: CountTrial, detail: Detail) -> list[str]:
    if not trial.complete:
        return ["a lower bound comes in any time: mbe count-pq INPUT -p P -q Q --time-limit 60"]
    if trial.local_left_out:
        return ["the counts alone come at once: mbe count-pq INPUT -p P -q Q"]
    beside = "" if detail == Detail.COUNTS else ", and local counts"
    return [f"a full run is quick: the trial counted all of them{beside}"]


def _share_of_counts(sink: PqSink) -> float:
    """Return the share of work done when local counts begin; 0 without these."""
    if sink.detail == Detail.COUNTS:
        return 0.0
    held = len(set(sink.query.containing_left)), len(set(sink.query.containing_right))
    # The engines assume that each searched cell takes about as long as all plain counts.
    return 1.0 / (1 + sum(min(p - held[0], q - held[1]) >= 2 for p, q in sink.query.cells))


def expected_seconds(samples: Sequence[tuple[float, float]], begins: float = 0.0) -> float | None:
    """Return the total seconds at the pace of the trial's second half; None if too little was done.

    The largest pieces come first and take longer than their estimated share.

    Parameters
    ----------
    samples : sequence of (float, float)
        Seconds, and the share of the work done by then.
    begins : float
        Share of the work that is done first and differs in kind, so its pace does not count.
    """
    seconds, done = samples[-1]
    since = next(((then, share) for then, share in samples if then >= seconds / 2 and share >= begins), None)
    if since is None or done - since[1] < _LEAST_DONE:
        return None
    return seconds + (1.0 - done) * (seconds - since[0]) / (done - since[1])
