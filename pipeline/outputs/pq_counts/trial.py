"""What counting will take: the paths that a search walks over, and a short trial of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mbe_stage.pq_counts.count import count_pq_into
from mbe_stage.pq_counts.results import Detail, PqSink
from mbe_stage.stream import Progress
from pipeline.outlook import Prospect, Trying
from pipeline.outputs.pq_counts.memory import local_bytes
from pipeline.outputs.pq_counts.query import detail_of
from pipeline.outputs.pq_counts.told import told
from pipeline.wording import bytes_text, plural, rough_number, seconds_text

__all__ = ["CountTrial", "outlook"]

# With less of the work done there is no pace.
_LEAST_DONE = 0.01


@dataclass(frozen=True, slots=True)
class CountTrial:
    """What a short run of the engine found.

    Attributes
    ----------
    engine, device : str
    seconds : float
        How long it ran, after compilation.
    work_done : float
        Share of the work, as the engine guesses it.
    complete : bool
    counts : sequence of dict
        As ``mbe count-pq --json`` has them; lower bounds unless `complete`.
    left_paths, right_paths : int
        Paths of two steps from the left vertices, and from the right ones: what a search from that side walks over.
    expected_seconds : float or None
        At the trial's pace; None where too little of the work was done for one.
    local_bytes : int
        Memory that the local counts take which are asked for.
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


def outlook(trying: Trying) -> Prospect:
    """What counting comes to, as `mbe inspect` shows it; the trial counts the whole, not what each vertex is in."""
    last = Progress(0, 0.0, 0.0, "")

    def note(progress: Progress) -> None:
        nonlocal last
        last = progress

    sink = PqSink(trying.query)
    limited = replace(trying.execution, time_limit_seconds=trying.seconds, max_bicliques=None)
    facts = count_pq_into(sink, trying.graph, limited, trying.engine, note)
    found = told(sink, trying.config, trying.graph, facts.truncated)
    degrees = trying.graph.left_degrees, trying.graph.right_degrees
    left_paths, right_paths = (int(np.square(of_side, dtype=np.float64).sum()) for of_side in reversed(degrees))
    is_complete = facts.truncated is None
    trial = CountTrial(
        engine=facts.engine,
        device=facts.device,
        seconds=facts.seconds,
        work_done=1.0 if is_complete else last.work_done,
        complete=is_complete,
        counts=found.values["counts"],
        left_paths=left_paths,
        right_paths=right_paths,
        expected_seconds=_expected(facts.seconds, 1.0 if is_complete else last.work_done),
        local_bytes=local_bytes(trying.query, detail_of(trying.config.asked), *degrees),
    )
    lines = [_paths(trial), _tried(trial, found.headline), *found.lines, *_local(trial, trying)]
    return Prospect(trial, None, lines, _suggestions(trial))


def _expected(seconds: float, work_done: float) -> float | None:
    return seconds / work_done if work_done >= _LEAST_DONE else None


def _paths(trial: CountTrial) -> tuple[str, str]:
    return "paths", (
        f"{rough_number(trial.left_paths)} of two steps from the left, {rough_number(trial.right_paths)} from the right"
    )


def _tried(trial: CountTrial, headline: str) -> tuple[str, str]:
    text = f"a trial of {seconds_text(trial.seconds)} ({trial.engine}: {trial.device}) found {headline.rstrip(',')}"
    if trial.complete:
        return "trial", f"{text}: all there are"
    done = f"{100 * trial.work_done:.1f} % of the work by a guess"
    if trial.expected_seconds is None:
        return "trial", f"{text}, and did not finish: {done}, too little to say how long the rest takes"
    return "trial", f"{text}, and did not finish: {done}; at this pace {seconds_text(trial.expected_seconds)} in all"


def _local(trial: CountTrial, trying: Trying) -> list[tuple[str, str]]:
    detail = detail_of(trying.config.asked)
    if detail < Detail.VERTICES:
        return []
    graph, n_cells = trying.graph, len(trying.query.cells)
    n_rows = n_cells * (graph.n_left + graph.n_right + (graph.n_edges if detail >= Detail.EDGES else 0))
    return [("local", f"{plural(n_rows, 'row')}, for which {bytes_text(trial.local_bytes)} of memory are set aside")]


def _suggestions(trial: CountTrial) -> list[str]:
    if trial.complete:
        return ["a full run is quick: the trial counted all there are"]
    return ["a lower bound comes in any time: mbe count-pq INPUT -p P -q Q --time-limit 60"]
