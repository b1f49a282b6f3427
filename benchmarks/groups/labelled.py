"""The labelled graphs: events between two sides, some left vertices with a known class, and composite right keys.

They are in the directory ``labelled`` of `benchmarks.graphs.data_directory`, not in this repository.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.graphs import data_directory
from mbe_stage.graphs.bipartite import BipartiteCSR

__all__ = ["DEVELOPMENT", "Events", "Key", "available", "directory", "exit_without", "load"]

DEVELOPMENT = (
    "amazon_spammers",
    "bitcoin_otc",
    "jodie_wikipedia",
    "cartel_america",
    "comm_contact_high_school_classes",
    "comm_contact_primary_school_classes",
    "comm_senate_bills_SC",
)
"""Graphs for tuning; every other labelled graph is measured once, at the end."""

_DAY = {"medicare_provider_beneficiary": 1, "yelpchi": 1}
"""Units of time in a day, if not seconds."""
_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Key:
    """Columns of a right vertex.

    Attributes
    ----------
    rating : bool
        The item and its weight.
    days : int or None
        The item and a bucket of this many days: once with buckets from the epoch on, once with buckets half a bucket
        later, so that close events share a bucket in one of them.
    """

    rating: bool = False
    days: int | None = None

    def __str__(self) -> str:
        parts = ["item"]
        if self.rating:
            parts.append("rating")
        if self.days is not None:
            parts.append(f"{self.days} day{'s' if self.days > 1 else ''}")
        return " x ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The rows of one labelled graph; the labelled side is the left one.

    Attributes
    ----------
    left, right : (n_events,) int64
        Dense ids.
    weights : (n_events,) float64 or None
    times : (n_events,) int64 or None
    day : int
        Units of `times` in a day.
    labels : (n_left,) int64
        Class of each left vertex, -1 where unknown.
    """

    name: str
    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None
    day: int
    labels: np.ndarray

    def graphs(self, key: Key = Key()) -> list[BipartiteCSR]:
        """Return the graph with this key as right vertex: one, or one per offset of time buckets.

        Raises
        ------
        ValueError
            The graph has no weights or no times.
        """
        codes = self.right
        if key.rating:
            if self.weights is None:
                raise ValueError(f"{self.name} has no weights: no key of {key}")
            codes = _paired(codes, self.weights)
        if key.days is None:
            return [self._graph(codes)]
        if self.times is None:
            raise ValueError(f"{self.name} has no times: no key of {key}")
        width = key.days * self.day
        return [self._graph(_paired(codes, (self.times + offset) // width)) for offset in (0, width // 2)]

    def _graph(self, codes: np.ndarray) -> BipartiteCSR:
        _, dense = np.unique(codes, return_inverse=True)
        return BipartiteCSR.from_edges(self.left, dense, n_left=self.labels.size)

    def only(self, kept: np.ndarray) -> Events:
        """Return the events of a mask of left vertices, with dense ids on both sides."""
        rows = kept[self.left]
        new_left = np.cumsum(kept) - 1
        _, right = np.unique(self.right[rows], return_inverse=True)
        return Events(
            self.name,
            new_left[self.left[rows]],
            right,
            None if self.weights is None else self.weights[rows],
            None if self.times is None else self.times[rows],
            self.day,
            self.labels[kept],
        )


def directory() -> Path:
    return data_directory() / "labelled"


def available() -> list[str]:
    index = directory() / "INDEX.json"
    if not index.is_file():
        return []
    names = json.loads(index.read_text(encoding="utf-8"))
    return sorted(name for name in names if (directory() / f"{name}.npz").is_file())


def exit_without(names: Iterable[str]) -> None:
    """Exit with 2 if some of these graphs are missing."""
    missing = sorted(set(names) - set(available()))
    if missing:
        print(f"{directory()}: missing {', '.join(missing)}: set MBE_DATA", file=sys.stderr)
        sys.exit(2)


def load(name: str) -> Events:
    """Return a labelled graph; if only the right side has labels, the sides are exchanged.

    Raises
    ------
    FileNotFoundError
        The graph is missing.
    """
    path = directory() / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file: set MBE_DATA to the directory that holds labelled/{name}.npz")
    with np.load(path) as arrays:
        held = {key: arrays[key] for key in ("u", "v", "w", "t", "y_u", "y_v") if key in arrays}
    left, right, labels = held["u"], held["v"], held.get("y_u")
    if labels is None and "y_v" in held:
        left, right, labels = right, left, held["y_v"]
    if labels is None:
        labels = np.full(int(left.max()) + 1, -1)
    return Events(
        name=name,
        left=left.astype(np.int64),
        right=right.astype(np.int64),
        weights=held["w"].astype(np.float64) if "w" in held else None,
        times=held["t"].astype(np.int64) if "t" in held else None,
        day=_DAY.get(name, _SECONDS),
        labels=labels.astype(np.int64),
    )


def _paired(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return one integer for each distinct pair of a code and a value."""
    _, first = np.unique(codes, return_inverse=True)
    distinct, second = np.unique(values, return_inverse=True)
    return first.astype(np.int64) * distinct.size + second
