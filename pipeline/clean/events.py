"""Weights and times of the rows that became edges, for outputs that use them.

They are in host memory for every backend, take 24 bytes per row, and are kept only if an output needs them
(`pipeline.problems.base.DerivedPublication.events`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbe_stage.bicliques.keys import Fingerprint, biclique_keys
from mbe_stage.bicliques.results import BicliqueBlock
from mbe_stage.pipeline.backends.backend import Backend, Column
from mbe_stage.pipeline.clean.kept import KeptRows
from mbe_stage.pipeline.clean.time_units import unit_of, unit_words
from mbe_stage.splitmix import finalised

__all__ = ["NO_TIME", "Events", "events_of"]

NO_TIME = -(2**63)
"""Stands for a missing time."""

_SECOND = 1_000_000
# Years 1000 to 8999. Calendars end at 1 and 9999, which some use for "never", and parts of a time line reach beyond its
# ends.
_MOMENTS = (-30_610_224_000 * _SECOND, 221_845_392_000 * _SECOND)
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The rows behind the edges in input order; an edge may have several.

    Attributes
    ----------
    left, right : (n,) int32
        The ends of each row's edge.
    weights : (n,) float64 or None
        NaN if a row has no finite weight; None if the input names no weight column.
    times : (n,) int64 or None
        Microseconds since 1970, UTC; `NO_TIME` if a row has no time; None if the input names no time column, or its
        numbers are not seconds since 1970.
    """

    left: np.ndarray
    right: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None

    def fingerprint(self, left_hashes: np.ndarray, right_hashes: np.ndarray) -> str:
        """Return a fingerprint of the rows' keys, weights and times that does not depend on their order."""
        found = Fingerprint()
        for start in range(0, self.left.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            left, right = self.left[part], self.right[part]
            ones = np.ones(left.size, np.int32)
            keys = biclique_keys(BicliqueBlock(left.size, ones, ones, left, right), left_hashes, right_hashes)
            words = keys.view(np.uint64)
            for column in (self.weights, self.times):
                if column is not None:
                    words = finalised(words + column[part].view(np.uint64))
            found.add(words.view(np.int64))
        return str(found)


def events_of(
    columns: Mapping[str, Column], kept: KeptRows, ids: tuple[Any, Any], backend: Backend, are_seconds: bool = False
) -> tuple[Events | None, tuple[str, ...]]:
    """Return weights and times of the remaining rows, and a warning for each unusable column.

    Parameters
    ----------
    columns : mapping of str to Column
        By role, over all rows.
    ids : pair of (n,) int32
        The ends of the remaining rows.
    are_seconds : bool
        Numbers in the time column are known to be seconds since 1970.

    Returns
    -------
    events : Events or None
        None if the input names neither weights nor times.
    """
    if not columns.keys() & {"weight", "timestamp"}:
        return None, ()
    weights = times = None
    warnings = []
    if "weight" in columns:
        values, is_there = _still_in(columns["weight"], kept, backend)
        weights = values.astype(np.float64)
        # One bit pattern for all missing values, and one for zero.
        weights = np.where(is_there & np.isfinite(weights), weights, np.nan) + 0.0
    if "timestamp" in columns:
        values, is_there = _still_in(columns["timestamp"], kept, backend)
        largest = float(np.abs(values[is_there]).max(initial=0))
        unit = unit_of(values[is_there], largest)
        if columns["timestamp"].moments:
            times = _moments(values, is_there)
        elif are_seconds or unit == "seconds":
            # Wide enough for the checks: many columns of seconds have 32 bits.
            is_float = values.dtype.kind == "f"
            seconds = values.astype(np.float64 if is_float else np.int64) * _SECOND
            times = _moments(np.rint(seconds) if is_float else seconds, is_there)
        elif is_there.any():
            looks = f", which look like {unit_words(unit)}" if unit else ""
            warnings.append(
                f"times of edges are left out: the column of times has numbers up to {largest:,.0f}{looks}; expected "
                "seconds since 1970 (from 1973), or moments; convert the column"
            )
    left, right = (backend.on_host(side) for side in ids)
    return Events(left, right, weights, times), tuple(warnings)


def _still_in(column: Column, kept: KeptRows, backend: Backend) -> tuple[np.ndarray, np.ndarray]:
    """Return values of the remaining rows, 0 if missing; and a mask of those present."""
    values = backend.on_host(kept.of(column.values))
    if column.present is None:
        return values, np.ones(values.size, np.bool_)
    is_there = backend.on_host(kept.of(column.present))
    return np.where(is_there, values, values.dtype.type(0)), is_there


def _moments(microseconds: np.ndarray, is_there: np.ndarray) -> np.ndarray:
    is_there = is_there & (microseconds >= _MOMENTS[0]) & (microseconds < _MOMENTS[1])
    return np.where(is_there, microseconds, 0).astype(np.int64) + np.where(is_there, 0, NO_TIME)
