"""Check weights and times of groups against the rows of the input, or the tables against each other.

The weight of an edge is the sum of its rows' weights. `weight_total` is the sum over edges, `weight_median` the median.
Every row is an event. `busiest_window` is the first width of 1h, 1d, 3d and 7d with a window that holds four fifths of
the group's events, or 7d. `busiest_share` is the largest share of the events in such a window, ``start <= time < start
+ width``, `busiest_start` the first event that begins one, and `busiest_item_share` that share of all events of the
group's items. `group_times` counts events in parts of equal width, at whole multiples of it since 1970: the narrowest
of `_PARTS` that needs fewer than 121 parts.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.clean.events import NO_TIME, Events
from mbe_stage.pipeline.errors import VerificationError
from mbe_stage.pipeline.verify.group_tables import Groups, compare_nullable, refuse_first, rows_of, without_nulls
from mbe_stage.pipeline.verify.job import Job

WEIGHTS = ("weight_total", "weight_median")
TIMES = ("first_time", "last_time", "busiest_share", "busiest_window", "busiest_start", "busiest_item_share")
_HOURS = {"1h": 1, "1d": 24, "3d": 72, "7d": 168}
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_PARTS = (
    *(_MINUTE, 3 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 3 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY),
    *(7 * _DAY, 28 * _DAY, 91 * _DAY, 364 * _DAY, 3640 * _DAY, 36_400 * _DAY),
)


def check_times(job: Job, groups: Groups, by_item: Groups) -> None:
    """Check the columns of weights and times, and `group_times`, against the rows of the input.

    Parameters
    ----------
    by_item : Groups
        The groups with items as right members.

    Raises
    ------
    VerificationError
        The first error found.
    """
    _check_nulls(groups)
    lines = _read_lines(job, groups)
    named = job.manifest.config.input.weight is not None or job.manifest.config.input.timestamp is not None
    events = None if job.edges is None else job.edges.events
    if events is None and named:
        job.not_checked("weights and times of groups: the input is not given with them")
        return
    expected: dict[str, list[Any]] = {name: [] for name in (*WEIGHTS, *TIMES)}
    of_items = _of_items(by_item, events)
    for row, (weights, times) in enumerate(_of_groups(groups, events)):
        figures = (*_weight(weights), *_time(times, next(of_items)))
        for name, value in zip(expected, figures, strict=True):
            expected[name].append(value)
        if lines is not None:
            _check_line(job, groups, row, lines[row], times)
    for name, values in expected.items():
        column = groups.table[name]
        stated = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        compare_nullable(groups.path, name, stated.to_pylist(), values)
    if named:
        job.passed("weights and times of groups", f"{len(groups):,} groups")


def _check_nulls(groups: Groups) -> None:
    """Check that columns that are known together are null together."""
    for names in (WEIGHTS, TIMES):
        first = groups.table[names[0]].is_null().to_numpy()
        for name in names[1:]:
            differs = groups.table[name].is_null().to_numpy() != first
            refuse_first(groups.path, differs, f"one of {names[0]} and {name} is null, and the other is not")
    for name in ("busiest_share", "busiest_item_share"):
        share = groups.table[name].fill_null(1.0).to_numpy()
        refuse_first(groups.path, ~((share > 0) & (share <= 1)), f"{name} is not between 0 and 1")
    windows = groups.table["busiest_window"].to_pylist()
    unknown = [window is not None and window not in _HOURS for window in windows]
    refuse_first(groups.path, np.array(unknown, np.bool_), f"busiest_window is none of {', '.join(_HOURS)}")


def _read_lines(job: Job, groups: Groups) -> list[Counter[tuple[int, int]]] | None:
    """Read the time lines: per group, events by start and width in seconds. None without such a table."""
    if job.manifest.config.input.timestamp is None:
        return None
    path = job.run / "group_times.parquet"
    table = without_nulls(path)
    columns = (table["start"].cast(pa.int64()), table["seconds"], table["n_events"])
    starts, seconds, counts = (column.to_numpy() for column in columns)
    of_row = rows_of(path, table, groups.column("group_key"))
    refuse_first(path, (counts < 1) | (seconds < 1), "n_events and seconds; expected at least 1")
    steps = np.diff(of_row)
    ascends = (steps > 0) | ((steps == 0) & (np.diff(starts) > 0))
    refuse_first(path, np.concatenate([[False], ~ascends]), "out of order; expected rows by rank and start")
    lines: list[Counter[tuple[int, int]]] = [Counter() for _ in range(len(groups))]
    for row, start, width, count in zip(
        of_row.tolist(), starts.tolist(), seconds.tolist(), counts.tolist(), strict=True
    ):
        lines[row][start, width] = count
    _check_ends(groups, lines)
    return lines


def _check_ends(groups: Groups, lines: list[Counter[tuple[int, int]]]) -> None:
    """Check that each line begins with the group's first event and ends with its last; without events there is none."""
    ends = (groups.table[name].cast(pa.int64()).to_pylist() for name in ("first_time", "last_time"))
    for row, (line, first, last) in enumerate(zip(lines, *ends, strict=True)):
        parts = sorted(line)
        widths = {width for _, width in parts}
        if first is None and not parts:
            continue
        fits = len(widths) == 1 and first is not None
        fits = fits and all(
            start <= time < start + width * 1_000_000 for (start, width), time in ((parts[0], first), (parts[-1], last))
        )
        if not fits:
            raise groups.refuse(
                row, "its first_time and last_time are not in the first and last interval of group_times"
            )


def _of_groups(groups: Groups, events: Events | None) -> Iterator[tuple[dict[int, list[float]], list[int]]]:
    """Return, per group, the weights of each edge and all times, ascending."""
    if events is None:
        yield from (({}, []) for _ in range(len(groups)))
        return
    by_left = np.argsort(events.left, kind="stable")
    sorted_left = events.left[by_left]
    (left_offsets, left), (right_offsets, right) = groups.side(0), groups.side(1)
    for row in range(len(groups)):
        of_left = left[left_offsets[row] : left_offsets[row + 1]]
        bounds = zip(*(np.searchsorted(sorted_left, of_left, side) for side in ("left", "right")), strict=True)
        rows = np.concatenate([by_left[start:end] for start, end in bounds])
        rows = rows[np.isin(events.right[rows], right[right_offsets[row] : right_offsets[row + 1]])]
        weights: dict[int, list[float]] = defaultdict(list)
        if events.weights is not None:
            pairs = (events.left[rows].astype(np.int64) << 32 | events.right[rows]).tolist()
            for pair, weight in zip(pairs, events.weights[rows].tolist(), strict=True):
                if not math.isnan(weight):
                    weights[pair].append(weight)
        times = [] if events.times is None else events.times[rows].tolist()
        yield weights, sorted(time for time in times if time != NO_TIME)


def _of_items(groups: Groups, events: Events | None) -> Iterator[list[int]]:
    """Return, per group, all times of its items, ascending."""
    times_of_item: dict[int, list[int]] = defaultdict(list)
    wanted = groups.members_of(1)
    if events is not None and events.times is not None:
        rows = np.flatnonzero(np.isin(events.right, groups.side(1)[1]) & (events.times != NO_TIME))
        for item, time in zip(events.right[rows].tolist(), events.times[rows].tolist(), strict=True):
            times_of_item[item].append(time)
    yield from (sorted(time for item in set(items) for time in times_of_item[item]) for items in wanted)


def _weight(weights: dict[int, list[float]]) -> tuple[float | None, float | None]:
    if not weights:
        return None, None
    total = sum((Fraction(weight) for each in weights.values() for weight in each), Fraction(0))
    return float(total), median(math.fsum(each) for each in weights.values())


def _time(times: list[int], of_items: list[int]) -> tuple[int | float | str | None, ...]:
    if not times:
        return (None,) * len(TIMES)
    fullest = {name: _fullest(times, hours * 3_600_000_000) for name, hours in _HOURS.items()}
    name = next((name for name, (most, _) in fullest.items() if Fraction(most, len(times)) >= Fraction(4, 5)), "7d")
    most, start = fullest[name]
    of_all, _ = _fullest(of_items, _HOURS[name] * 3_600_000_000)
    return times[0], times[-1], most / len(times), name, start, of_all / len(of_items)


def _fullest(times: list[int], width: int) -> tuple[int, int]:
    """Return the most events within a window of that width, and the start of the first such window (two pointers)."""
    most, start, end = 0, times[0], 0
    for first, time in enumerate(times):
        while end < len(times) and times[end] - time < width:
            end += 1
        if end - first > most:
            most, start = end - first, time
    return most, start


def _check_line(job: Job, groups: Groups, row: int, stated: Counter[tuple[int, int]], times: list[int]) -> None:
    expected: Counter[tuple[int, int]] = Counter()
    if times:
        reaches = (
            width for width in _PARTS if times[-1] // (width * 1_000_000) - times[0] // (width * 1_000_000) < 120
        )
        width = next(reaches)
        expected = Counter((time // (width * 1_000_000) * width * 1_000_000, width) for time in times)
    if stated != expected:
        path = job.run / "group_times.parquet"
        key = groups.column("group_key")[row]
        raise VerificationError(f"{path}: the intervals of group {key} are not those of its events")
