"""Targets of the CPU engine, and whether a table meets them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measuring import Row
from benchmarks.peers import AT_MOST_SECONDS, best_single_thread

__all__ = ["Target", "geometric_mean", "ratio_to_best", "targets"]

_LONG_SECONDS = 1.0
_LEAST_SPEED_UP = 1.8
_LEAST_BUSY_RATIO = 0.95
_BUSY_GRAPHS = ("youtube", "EuAll")
_MOST_WRITE_RATIO = 2.0
_WRITE_RATIO_GRAPHS = ("youtube", "EuAll")
_MOST_MEMORY_BYTES = 2 * 10**9
_MEMORY_GRAPH = "bookcrossing"
_MOST_MEAN_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """One target: the measurement, its limit, its value."""

    what: str
    wanted: str
    found: str
    met: bool


def ratio_to_best(row: Row) -> float | None:
    """Return our time on one thread over that of the best known program on one thread; below 1 is faster."""
    best, ours = best_single_thread(row.name), row.count_seconds(1)
    return ours / best.seconds if best is not None and ours is not None else None


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, at least one."""
    return math.exp(sum(map(math.log, values)) / len(values))


def targets(rows: Sequence[Row]) -> list[Target]:
    found: list[Target] = []
    for row in rows:
        found += [*_count_time(row), *_speed_up(row), *_busy(row), *_write_ratio(row), *_memory(row)]
    ratios = [ratio for row in rows if row.name in AT_MOST_SECONDS and (ratio := ratio_to_best(row)) is not None]
    if ratios:
        mean, worst = geometric_mean(ratios), max(ratios)
        graphs = f"{len(ratios)} of {len(AT_MOST_SECONDS)} graphs"
        found.append(
            _most(f"time over the best program's, geometric mean of {graphs}", _MOST_MEAN_RATIO, mean, "{:.2f}")
        )
        found.append(_most(f"the same, worst of {graphs}", 1.0, worst, "{:.2f}"))
    return found


def _count_time(row: Row) -> list[Target]:
    seconds, most = row.count_seconds(1), AT_MOST_SECONDS.get(row.name)
    if seconds is None or most is None:
        return []
    return [_most(f"{row.name}: counted on one thread", most, seconds, "{:.3g} s")]


def _speed_up(row: Row) -> list[Target]:
    one, speed_up = row.count_seconds(1), row.speed_up(2)
    if one is None or speed_up is None or one <= _LONG_SECONDS:
        return []
    return [_least(f"{row.name}: speed-up by two threads", _LEAST_SPEED_UP, speed_up)]


def _busy(row: Row) -> list[Target]:
    busy = row.busy_ratio(2)
    if busy is None or row.name not in _BUSY_GRAPHS:
        return []
    return [_least(f"{row.name}: two threads busy, share of their time", _LEAST_BUSY_RATIO, busy)]


def _write_ratio(row: Row) -> list[Target]:
    if row.write_seconds is None or row.name not in _WRITE_RATIO_GRAPHS:
        return []
    ratio = row.write_seconds / row.first_count_seconds
    return [_most(f"{row.name}: written over counted", _MOST_WRITE_RATIO, ratio, "{:.2f}")]


def _memory(row: Row) -> list[Target]:
    if row.write is None or row.name != _MEMORY_GRAPH:
        return []
    peak = row.write.peak_memory_bytes / 1e9
    return [_most(f"{row.name}: written in full, resident", _MOST_MEMORY_BYTES / 1e9, peak, "{:.2f} GB")]


def _least(what: str, least: float, found: float) -> Target:
    return Target(what, f"at least {least}", f"{found:.2f}", found >= least)


def _most(what: str, most: float, found: float, form: str) -> Target:
    return Target(what, f"at most {form.format(most)}", form.format(found), found <= most)
