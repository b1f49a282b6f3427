"""Metrics of scores and groups, with bootstrap intervals; seeds are fixed, so figures are reproducible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = [
    "N_BOOTSTRAPS",
    "Estimate",
    "Purity",
    "auroc",
    "average_precision",
    "best_f1",
    "bootstrap_scores",
    "interval",
    "majority_purity",
    "mean_estimate",
    "positive_purity",
]

N_BOOTSTRAPS = 1_000
_SEED = 20_261_123


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Purity:
    """Purity of groups.

    Attributes
    ----------
    mean : Estimate
        Mean of the shares of the groups with labelled members, resampled by group; NaN without any.
    n_groups : int
        Groups with labelled members.
    n_pure, n_labelled : int
        Members, pooled over the groups.
    """

    mean: Estimate
    n_groups: int
    n_pure: int
    n_labelled: int

    def __str__(self) -> str:
        return f"{self.mean} ({self.n_pure}/{self.n_labelled} in {self.n_groups})"


def average_precision(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the mean precision at each distinct score, weighted by its added recall; equal scores are one step.

    Parameters
    ----------
    labels : (n,) bool or 0/1
    scores : (n,) float64
        Higher is more suspicious.

    Returns
    -------
    float
        NaN without positives.
    """
    return float(_average_precisions(*_steps(labels, scores), np.ones((1, len(labels))))[0])


def auroc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the chance that a positive scores higher than a negative; ties count half. NaN without one of the two."""
    labels = np.asarray(labels, np.bool_)
    n_positive, n_negative = int(labels.sum()), int((~labels).sum())
    if not n_positive or not n_negative:
        return float("nan")
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
    return float((ranks[labels].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def bootstrap_scores(
    labels: np.ndarray, scores: Sequence[np.ndarray], n: int = N_BOOTSTRAPS, seed: int = _SEED
) -> np.ndarray:
    """Return average precisions on resamples of the labelled vertices, equal for every score.

    Parameters
    ----------
    labels : (n_labelled,) bool
    scores : sequence of (n_labelled,) float64
    n : int
        Resamples.
    seed : int

    Returns
    -------
    (len(scores), n) float64
    """
    dice = np.random.default_rng(seed)
    n_labelled = len(labels)
    steps = [_steps(labels, one) for one in scores]
    found = np.empty((len(scores), n))
    # In batches: a resample is a count for each vertex.
    for first in range(0, n, 100):
        size = min(100, n - first)
        counts = np.stack(
            [np.bincount(dice.integers(n_labelled, size=n_labelled), minlength=n_labelled) for _ in range(size)]
        ).astype(np.float64)
        for row, (positive, order, ends) in enumerate(steps):
            found[row, first : first + size] = _average_precisions(positive, order, ends, counts)
    return found


def interval(value: float, resampled: np.ndarray) -> Estimate:
    """Return the figure with the middle 95 % of its resamples, without those that have no positives."""
    resampled = resampled[~np.isnan(resampled)]
    if not resampled.size:
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def mean_estimate(values: Sequence[float], n: int = N_BOOTSTRAPS, seed: int = _SEED) -> Estimate:
    """Return the mean of the figures, resampled."""
    held = np.asarray(values, np.float64)
    if not held.size:
        return Estimate(float("nan"), float("nan"), float("nan"))
    chosen = np.random.default_rng(seed).integers(held.size, size=(n, held.size))
    return interval(float(held.mean()), held[chosen].mean(axis=1))


def positive_purity(groups: Sequence[np.ndarray], labels: np.ndarray) -> Purity:
    """Return the share of positives among each group's labelled members; pooled, each member counts once.

    Parameters
    ----------
    groups : sequence of integer arrays
        Left members of each.
    labels : (n_left,) int64
        1 is positive, 0 negative, anything else unknown.
    """
    counts = []
    for members in (*groups, np.unique(np.concatenate([np.empty(0, np.int64), *groups]))):
        classes = labels[members]
        counts.append((int((classes == 1).sum()), int(((classes == 0) | (classes == 1)).sum())))
    return _purity(counts[:-1], counts[-1])


def majority_purity(groups: Sequence[np.ndarray], labels: np.ndarray) -> Purity:
    """Return the share of the commonest class among each group's labelled members; pooled, over all groups."""
    counts = []
    for members in groups:
        classes = labels[members]
        classes = classes[classes >= 0]
        counts.append((int(np.bincount(classes, minlength=1).max()), classes.size))
    return _purity(counts, (sum(one for one, _ in counts), sum(n for _, n in counts)))


def _purity(counts: Sequence[tuple[int, int]], pooled: tuple[int, int]) -> Purity:
    shares = [one / n for one, n in counts if n]
    return Purity(mean_estimate(shares), len(shares), *pooled)


def best_f1(groups: Sequence[np.ndarray], wanted: np.ndarray) -> float:
    """Return the highest F1 of a group over the wanted left vertices; 0 without groups.

    Parameters
    ----------
    groups : sequence of integer arrays
        Left members, distinct within each.
    wanted : integer array
        Distinct.
    """
    return max(
        (2 * int(np.isin(members, wanted).sum()) / (members.size + wanted.size) for members in groups), default=0.0
    )


def _steps(labels: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels by descending score, that order, and the end of each distinct score."""
    scores = np.asarray(scores, np.float64)
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    return np.asarray(labels, np.bool_)[order], order, ends


def _average_precisions(positive: np.ndarray, order: np.ndarray, ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the average precision for each row of vertex counts, ``(n_rows, n)``."""
    ordered = counts[:, order]
    taken = np.cumsum(ordered, axis=1)[:, ends]
    hits = np.cumsum(ordered * positive, axis=1)[:, ends]
    with np.errstate(invalid="ignore", divide="ignore"):
        recall = hits / hits[:, -1:]
        # Before the first counting vertex nothing is taken and no recall is added.
        precision = np.where(taken > 0, hits / taken, 0.0)
    return (np.diff(recall, axis=1, prepend=0.0) * precision).sum(axis=1)
