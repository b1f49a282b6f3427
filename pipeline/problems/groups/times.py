"""Weights and times of groups, from the input rows behind each group's edges.

An edge may have several rows. Its weight is their sum; each row is one event. Sums are rounded once, so the order of
rows and edges does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mbe_stage.pipeline.clean.events import NO_TIME, Events
from mbe_stage.pipeline.problems.groups.chosen import GroupEdges
from mbe_stage.pipeline.problems.groups.schemas import GROUP_TIMES, MOMENT

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
WINDOWS = {
    "1h": (3600 * _SECOND, "1 hour"),
    "1d": (_DAY, "1 day"),
    "3d": (3 * _DAY, "3 days"),
    "7d": (7 * _DAY, "7 days"),
}
"""The widths of `busiest_window`, in microseconds and in words, the narrowest first."""

# Minimum share of the events in the reported window, as a fraction.
_MOST = (4, 5)
# From one minute to a year of 52 weeks, each at most four times the previous one.
_STEPS = tuple(
    seconds * _SECOND
    for seconds in (
        60,
        180,
        600,
        1800,
        3600,
        10_800,
        43_200,
        86_400,
        172_800,
        604_800,
        2_419_200,
        7_862_400,
        31_449_600,
    )
)
_MOST_STEPS = 120
_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True)
class GroupEvents:
    """Times and weights of the rows behind each group's edges; None if unknown.

    Attributes
    ----------
    weight_total, weight_median : float or None
        Sum and median over the edges with a weight.
    first_time, last_time : int or None
        First and last time, in microseconds since 1970.
    busiest_share : float or None
        Share of the timed events that lie in the window.
    busiest_window : str or None
        Width of the window: the first of `WINDOWS` that holds four fifths of the events, or the widest.
    busiest_start : int or None
        Start of the first such window with the most events. The window excludes its end, start + width.
    busiest_item_share : float or None
        The largest share of all timed events of the group's items, by any account, in one window of this width.
    step : int
        Width of the time line's intervals, in microseconds.
    steps, counts : (m,) int64
        The non-empty intervals, as multiples of the width since 1970, and their numbers of events.
    """

    weight_total: float | None = None
    weight_median: float | None = None
    first_time: int | None = None
    last_time: int | None = None
    busiest_share: float | None = None
    busiest_window: str | None = None
    busiest_start: int | None = None
    busiest_item_share: float | None = None
    step: int = _STEPS[0]
    steps: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()


NOTHING = GroupEvents()


def figures_of(
    events: Events | None, edges: GroupEdges, n_right: int, items: np.ndarray | None = None
) -> list[GroupEvents]:
    """Return the figures of each group, in order.

    Memory: 100 MB, 50 bytes per distinct edge of a group and per row behind one, 20 bytes per row of a group's items.

    Parameters
    ----------
    events : Events or None
        None if the input has neither weights nor times.
    edges : GroupEdges
        Edges with the vertex ids of `events`.
    n_right : int
        Vertices on the right.
    items : (n_right,) int32, optional
        The item of each right vertex; by default they are items themselves.
    """
    if events is None:
        return [NOTHING] * edges.n_edges.size
    found = [_figures(events, *rows) for rows in _rows_of_groups(events, edges, n_right)]
    items = np.arange(n_right) if items is None else items
    return found if events.times is None else _with_items(found, events, edges, items)


def times_table(keys: np.ndarray, found: list[GroupEvents]) -> pa.Table:
    """Build `group_times`: the time line of each group, interval by interval.

    Parameters
    ----------
    keys : (n,) int64
        Keys of the groups.
    """
    sizes = [len(group.steps) for group in found]
    starts = [step * group.step for group in found for step in group.steps]
    columns = [
        pa.array(np.repeat(keys, sizes)),
        pa.array(starts, pa.int64()).cast(MOMENT),
        pa.array(np.repeat(np.array([group.step // _SECOND for group in found], np.int64), sizes)),
        pa.array([count for group in found for count in group.counts], pa.int64()),
    ]
    return pa.Table.from_arrays(columns, schema=GROUP_TIMES)


def within_words(group: GroupEvents) -> tuple[float, float, str] | None:
    """Return the shares of the group and of its items in one window, and its width in words, if times are known."""
    if group.busiest_share is None or group.busiest_item_share is None or group.busiest_window is None:
        return None
    return group.busiest_share, group.busiest_item_share, WINDOWS[group.busiest_window][1]


def _rows_of_groups(events: Events, edges: GroupEdges, n_right: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return the rows behind each group's edges, and the edge of each row."""
    codes = edges.left.astype(np.int64) * n_right + edges.right
    wanted, of_code = np.unique(codes, return_inverse=True)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, events.left.size if wanted.size else 0, _CHUNK):
        found = events.left[start : start + _CHUNK].astype(np.int64) * n_right + events.right[start : start + _CHUNK]
        at = np.minimum(np.searchsorted(wanted, found), wanted.size - 1)
        there = np.flatnonzero(wanted[at] == found)
        parts.append((there + start, at[there]))
    rows, of_row = (np.concatenate([part[i] for part in parts] or [np.empty(0, np.int64)]) for i in (0, 1))
    rows = rows[np.argsort(of_row, kind="stable")]
    sizes = np.bincount(of_row, minlength=wanted.size)
    starts = np.cumsum(sizes) - sizes
    end = 0
    for n_edges in edges.n_edges.tolist():
        of_group = of_code[end : end + n_edges]
        end += n_edges
        # Positions in `rows`, edge after edge.
        counts = sizes[of_group]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        yield rows[np.repeat(starts[of_group], counts) + within], np.repeat(np.arange(n_edges), counts)


def _figures(events: Events, rows: np.ndarray, edge_of_row: np.ndarray) -> GroupEvents:
    total, median = (None, None) if events.weights is None else _weight(events.weights[rows], edge_of_row)
    times = np.empty(0, np.int64) if events.times is None else np.sort(events.times[rows])
    times = times[np.searchsorted(times, NO_TIME, side="right") :]
    if not times.size:
        return GroupEvents(weight_total=total, weight_median=median)
    window, start, n_within = _busiest(times)
    step = _step(int(times[0]), int(times[-1]))
    steps, counts = np.unique(times // step, return_counts=True)
    return GroupEvents(
        weight_total=total,
        weight_median=median,
        first_time=int(times[0]),
        last_time=int(times[-1]),
        busiest_share=n_within / times.size,
        busiest_window=window,
        busiest_start=start,
        step=step,
        steps=tuple(steps.tolist()),
        counts=tuple(counts.tolist()),
    )


def _with_items(found: list[GroupEvents], events: Events, edges: GroupEdges, items: np.ndarray) -> list[GroupEvents]:
    """Add the shares of the events of each group's items."""
    assert events.times is not None
    is_wanted = np.zeros(int(items.max(initial=-1)) + 1, np.bool_)
    is_wanted[items[edges.right]] = True
    rows = np.flatnonzero(is_wanted[items[events.right]] & (events.times != NO_TIME))
    rows = rows[np.argsort(items[events.right[rows]], kind="stable")]
    of_rows, times = items[events.right[rows]], events.times[rows]
    more, ends = list[GroupEvents](), np.cumsum(edges.n_edges)
    for group, right in zip(found, np.split(edges.right, ends[:-1]), strict=False):
        if group.busiest_window is not None:
            own = np.unique(items[right])
            bounds = zip(*(np.searchsorted(of_rows, own, side) for side in ("left", "right")), strict=True)
            of_items = np.sort(np.concatenate([times[start:end] for start, end in bounds]))
            most = int(_within(of_items, WINDOWS[group.busiest_window][0]).max())
            group = replace(group, busiest_item_share=most / of_items.size)
        more.append(group)
    return more


def _weight(weights: np.ndarray, edge_of_row: np.ndarray) -> tuple[float | None, float | None]:
    """Return the total, and the median of the edges' sums; rows without a weight do not count."""
    is_there = ~np.isnan(weights)
    weights, edge_of_row = weights[is_there], edge_of_row[is_there]
    if not weights.size:
        return None, None
    ends = np.flatnonzero(np.append(np.diff(edge_of_row) != 0, True)) + 1
    of_edges = [
        weights[start] if end - start == 1 else math.fsum(weights[start:end])
        for start, end in zip((0, *ends[:-1].tolist()), ends.tolist(), strict=True)
    ]
    return math.fsum(weights), float(np.median(of_edges))


def _busiest(times: np.ndarray) -> tuple[str, int, int]:
    """Return width, start and number of events of the busiest window; times ascend."""
    for window, (width, _) in WINDOWS.items():
        name = window
        within = _within(times, width)
        first = int(np.argmax(within))
        if within[first] * _MOST[1] >= times.size * _MOST[0]:
            break
    return name, int(times[first]), int(within[first])


def _within(times: np.ndarray, width: int) -> np.ndarray:
    """Return the number of events in the window that begins at each; times ascend."""
    return np.searchsorted(times, times + width) - np.arange(times.size)


def _step(first: int, last: int) -> int:
    """Return the narrowest step whose time line has few enough intervals; for centuries, divide the span evenly."""
    for step in _STEPS:
        if last // step - first // step < _MOST_STEPS:
            return step
    step = _STEPS[-1]
    while last // step - first // step >= _MOST_STEPS:
        step *= 10
    return step
