"""The charts of a group as inline SVG: the pattern of its edges (left members are rows), and its time line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from mbe_stage.pipeline.report.charts import svg
from mbe_stage.pipeline.report.wording import count, percent
from mbe_stage.pipeline.wording import plural

__all__ = ["MOST_COLUMNS", "MOST_ROWS", "WIDTHS", "pattern", "time_line"]

_WIDTH, _HEIGHT, _TEXT = 460, 64, 18
_LEAST_BAR = 2.0
WIDTHS = {
    "1h": (timedelta(hours=1), "1 hour"),
    "1d": (timedelta(days=1), "1 day"),
    "3d": (timedelta(days=3), "3 days"),
    "7d": (timedelta(days=7), "7 days"),
}
"""The windows of `busiest_window`, the narrowest first, with their words."""

MOST_ROWS, MOST_COLUMNS = 24, 72
_CELL, _BAR, _GAP = 9, 40, 5


def time_line(group: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> str:
    """The picture as a figure with a caption; nothing where no times are known.

    Parameters
    ----------
    group : mapping
        A row of `groups`.
    parts : sequence of mapping
        Its rows of `group_times`, ascending.
    """
    if group["first_time"] is None or not parts:
        return ""
    step = timedelta(seconds=parts[0]["seconds"])
    begin, end = parts[0]["start"], parts[-1]["start"] + step
    width, in_words = WIDTHS[group["busiest_window"]]

    def x(moment: datetime) -> float:
        return round(_WIDTH * min(max((moment - begin) / (end - begin), 0.0), 1.0), 1)

    busiest = group["busiest_start"]
    from_x = min(x(busiest), _WIDTH - _LEAST_BAR)
    thick = max(x(busiest + width) - from_x, _LEAST_BAR)
    highest = max(part["n_events"] for part in parts)
    bars = []
    for part in parts:
        height = max(_LEAST_BAR, _HEIGHT * part["n_events"] / highest)
        left = x(part["start"])
        broad = max(x(part["start"] + step) - left - 0.5, 1.0)
        title = f"{plural(part['n_events'], 'event')} from {_said(part['start'], step)} on"
        bars.append(
            f'<rect class="event" x="{left}" y="{_HEIGHT - height:.1f}" width="{broad:.1f}" height="{height:.1f}">'
            f"<title>{title}</title></rect>"
        )
    n_events = sum(part["n_events"] for part in parts)
    ends = (_said(group[name], step) for name in ("first_time", "last_time"))
    drawing = svg(
        _WIDTH,
        _HEIGHT + _TEXT,
        f"{plural(n_events, 'event')} over time, the busiest {in_words} marked",
        [
            f'<rect class="busiest" x="{from_x}" y="0" width="{thick:.1f}" height="{_HEIGHT}"/>',
            *bars,
            f'<rect class="above" x="{from_x}" y="0" width="{thick:.1f}" height="3"/>',
            f'<path class="axis" d="M0 {_HEIGHT}H{_WIDTH}"/>',
            f'<text x="0" y="{_HEIGHT + _TEXT - 4}">{next(ends)}</text>',
            f'<text x="{_WIDTH}" y="{_HEIGHT + _TEXT - 4}" text-anchor="end">{next(ends)}</text>',
        ],
    )
    caption = (
        f"{plural(n_events, 'event')}; marked: {percent(group['busiest_share'], 1)} of them within {in_words}, from "
        f'<span class="moment">{_said(busiest, timedelta(minutes=1))} UTC</span> on'
    )
    return f'<figure class="times">{drawing}<figcaption>{caption}</figcaption></figure>'


def _said(moment: datetime, step: timedelta) -> str:
    """A moment as exactly as parts of that width are worth it."""
    return moment.strftime("%Y-%m-%d" if step >= timedelta(days=1) else "%Y-%m-%d %H:%M")


def pattern(left: Sequence[float], right: Sequence[float], absent: Iterable[tuple[int, int]] = ()) -> str:
    """The picture of a group, as a figure; large groups are cut, and it says so.

    Beside the rows and above the columns stand bars, whose full length is marked by a line.

    Parameters
    ----------
    left, right : sequence of float
        For each member, which share of its own edges lies within the group.
    absent : iterable of (int, int)
        The edges that the group has not: positions among the left and the right members.
    """
    n_rows, n_columns = min(len(left), MOST_ROWS), min(len(right), MOST_COLUMNS)
    width, height = n_columns * _CELL, n_rows * _CELL
    x, y = 0, _BAR + _GAP
    holes = "".join(
        f"M{column * _CELL} {y + row * _CELL}h{_CELL}v{_CELL}h-{_CELL}z"
        for row, column in absent
        if row < n_rows and column < n_columns
    )
    parts = [
        f'<rect class="present" x="{x}" y="{y}" width="{width}" height="{height}"/>',
        *([f'<path class="absent" d="{holes}"/>'] if holes else []),
        f'<path class="rule" d="{_rules(n_rows, n_columns, y)}"/>',
        f'<path class="grid" d="M{width + _GAP + _BAR} {y}v{height}M0 0h{width}"/>',
        *(_row_bar(row, share, width + _GAP, y) for row, share in enumerate(left[:n_rows])),
        *(_column_bar(column, share) for column, share in enumerate(right[:n_columns])),
    ]
    which = "some edges absent" if holes else "every edge present"
    label = f"{count(len(left))} left and {count(len(right))} right members, {which}"
    drawing = svg(width + _GAP + _BAR + 1, y + height, label, parts)
    return f'<figure class="pattern"><div class="scroll">{drawing}</div>{_caption(left, right)}</figure>'


def _rules(n_rows: int, n_columns: int, y: int) -> str:
    """Lines between the cells."""
    width, height = n_columns * _CELL, n_rows * _CELL
    down = "".join(f"M{column * _CELL} {y}v{height}" for column in range(1, n_columns))
    across = "".join(f"M0 {y + row * _CELL}h{width}" for row in range(1, n_rows))
    return down + across or "M0 0"


def _row_bar(row: int, share: float, x: int, y: int) -> str:
    top = y + row * _CELL + 1
    return f'<rect class="dot left" x="{x}" y="{top}" width="{share * _BAR:.1f}" height="{_CELL - 2}"/>'


def _column_bar(column: int, share: float) -> str:
    length = share * _BAR
    return (
        f'<rect class="dot right" x="{column * _CELL + 1}" y="{_BAR - length:.1f}" width="{_CELL - 2}" '
        f'height="{length:.1f}"/>'
    )


def _caption(left: Sequence[float], right: Sequence[float]) -> str:
    cut = [
        f"{most} of {count(len(side))} {name}"
        for side, most, name in ((left, MOST_ROWS, "rows"), (right, MOST_COLUMNS, "columns"))
        if len(side) > most
    ]
    return f"<figcaption>The first {' and '.join(cut)}.</figcaption>" if cut else ""
