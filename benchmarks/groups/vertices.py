"""Average precision of vertex scores on a labelled graph, ours and published methods', on the same resamples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.groups import baselines, metrics
from benchmarks.groups.labelled import Key, load
from benchmarks.groups.metrics import Estimate
from benchmarks.groups.ours import Search, scores_of, search
from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["BASELINES", "CASES", "DEFAULT", "PARTS", "Case", "Measured", "measure"]

DEFAULT = "score"
"""The score that is published first."""

PARTS = ("edge_share", "grown_surprise")
"""The two whose ranks it combines."""


@dataclass(frozen=True, slots=True)
class Case:
    """One graph with one key, and the minimum size of bicliques."""

    name: str
    key: Key
    min_left: int
    min_right: int

    def __str__(self) -> str:
        return f"{self.name}, {self.key}, {self.min_left} x {self.min_right}"


CASES = (
    Case("amazon_spammers", Key(), 2, 2),
    Case("amazon_spammers", Key(rating=True), 2, 2),
    Case("bitcoin_otc", Key(), 2, 2),
    Case("bitcoin_otc", Key(days=1), 2, 1),
    Case("bitcoin_otc", Key(days=7), 2, 1),
    Case("jodie_wikipedia", Key(), 2, 2),
    Case("cartel_america", Key(), 2, 2),
    Case("tuandromd", Key(), 3, 3),
)
"""Graphs with positive and negative vertices for tuning; the last is a check."""

BASELINES: dict[str, Callable[[BipartiteCSR], np.ndarray]] = {
    "FRAUDAR": baselines.fraudar_score,
    "HITS": baselines.hits,
    "pair": baselines.best_pair,
    "cosine": baselines.best_pair_cosine,
    "degree": baselines.degree,
    "-degree": baselines.opposite_degree,
    "core": baselines.core_number,
    "fBox": baselines.fbox,
}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A case, its searches and the figures of each score.

    Attributes
    ----------
    scores : dict
        Name to ``(n_left,) float64``.
    precision : dict
        Name to average precision.
    auroc : dict
    resampled : dict
        Name to average precisions of the same resamples.
    """

    case: Case
    searches: list[Search]
    labels: np.ndarray
    scores: dict[str, np.ndarray]
    precision: dict[str, Estimate]
    auroc: dict[str, float]
    resampled: dict[str, np.ndarray]

    def difference(self, one: str, other: str) -> Estimate:
        """Return how much higher the first score's average precision is, on the same resamples."""
        return metrics.interval(
            self.precision[one].value - self.precision[other].value, self.resampled[one] - self.resampled[other]
        )


def measure(case: Case, *, time_limit_seconds: float | None = None) -> Measured:
    """Measure every score of one case. On two offsets the better one counts, for baselines and ours.

    Parameters
    ----------
    case : Case
    time_limit_seconds : float, optional
        Limit of each search.
    """
    events = load(case.name)
    searches = [
        search(graph, case.min_left, case.min_right, time_limit_seconds=time_limit_seconds)
        for graph in events.graphs(case.key)
    ]
    scores = scores_of(searches)
    for name, baseline in BASELINES.items():
        scores[name] = np.max([baseline(one.graph) for one in searches], axis=0)
    known = (events.labels == 0) | (events.labels == 1)
    labels = events.labels[known] == 1
    held = {name: score[known] for name, score in scores.items()}
    resampled = dict(zip(held, metrics.bootstrap_scores(labels, list(held.values())), strict=True))
    precision = {
        name: metrics.interval(metrics.average_precision(labels, score), resampled[name])
        for name, score in held.items()
    }
    aurocs = {name: metrics.auroc(labels, score) for name, score in held.items()}
    return Measured(case, searches, events.labels, scores, precision, aurocs, resampled)
