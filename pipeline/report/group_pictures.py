"""Pictures of groups as inline SVG: the pattern of edges and the time line.

Each picture has a few paths instead of an element per cell, so that a page can have a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from mbe_stage.pipeline.report.wording import count, escape, percent
from mbe_stage.pipeline.wording import plural

WIDTHS = {
    "1h": (timedelta(hours=1), "1 hour"),
    "1d": (timedelta(days=1), "1 day"),
    "3d": (timedelta(days=3), "3 days"),
    "7d": (timedelta(days=7), "7 days"),
}
"""The windows of `busiest_window`, narrowest first, with their names."""
MOST_ROWS, MOST_COLUMNS = 24, 72
_WIDTH, _HEIGHT, _TEXT = 460, 64, 18
_LEAST_BAR = 2
_CELL, _BAR, _GAP = 8, 36, 4


def pattern(
    left: Sequence[float],
    right: Sequence[float],
    absent: Iterable[tuple[int, int]] = (),
    names: tuple[str, str] = ("left", "right"),
) -> str:
    """Draw a group as a figure; large groups are cropped, with a note.

    Bars beside the rows and above the columns show the share of each member's edges inside the group; a line marks a
    share of 1. `absent` has the positions of the missing edges.
    """
    n_rows, n_columns = min(len(left), MOST_ROWS), min(len(right), MOST_COLUMNS)
    width, height, top = n_columns * _CELL, n_rows * _CELL, _BAR + _GAP
    broad, high = width + _GAP + _BAR, top + height
    holes = _holes(cell for cell in absent if cell[0] < n_rows and cell[1] < n_columns)
    rows = _steps("H", (broad - _BAR + round(share * _BAR) for share in left[:n_rows]), "v", _CELL)
    columns = _steps("V", (_BAR - round(share * _BAR) for share in right[:n_columns]), "h", _CELL)
    parts = [
        f'<path class="present" d="M0 {top}h{width}v{height}H0z"/>',
        f'<path class="absent" d="{holes}"/>' if holes else "",
        f'<path class="bars left" d="M{broad - _BAR} {top}{rows}H{broad - _BAR}z"/>',
        f'<path class="bars right" d="M0 {_BAR}{columns}V{_BAR}z"/>',
        # Dashed strokes as thick as the picture draw the lines between cells and bars, one stroke per direction.
        f'<path class="rule" stroke-width="{height}" d="M0 {top + height / 2:g}H{width}"/>',
        f'<path class="rule" stroke-width="{broad}" d="M{broad / 2:g} {top}V{high}"/>',
        f'<path class="rule" stroke-width="{_BAR}" d="M0 {_BAR / 2:g}H{width}"/>',
        f'<path class="grid" d="M{broad} {top}v{height}M0 0h{width}"/>',
    ]
    which = "some edges absent" if holes else "every edge present"
    label = f"{count(len(left))} {escape(names[0])} × {count(len(right))} {escape(names[1])}, {which}"
    drawing = _svg(broad + 1, high, label, parts)
    return f'<figure class="pattern">{drawing}{_caption(left, right)}</figure>'


def _svg(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    """Return an inline SVG image of at most this size; `label` (HTML) is for screen readers."""
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _steps(to: str, lengths: Iterable[int], along: str, width: int) -> str:
    """Draw the outline of bars, with equal neighbours joined; separating lines are drawn over it."""
    return "".join(f"{to}{length}{along}{width * len(list(run))}" for length, run in groupby(lengths))


def _holes(absent: Iterable[tuple[int, int]]) -> str:
    """Draw each run of missing edges in a row as a stroke as thick as a cell."""
    strokes = []
    for row, cells in groupby(sorted(absent), key=lambda cell: cell[0]):
        columns = [column for _, column in cells]
        y = _BAR + _GAP + row * _CELL + _CELL // 2
        # Columns of a run have a constant distance to their position in the list.
        for _, of_run in groupby(enumerate(columns), key=lambda at: at[1] - at[0]):
            run = [column for _, column in of_run]
            strokes.append(f"M{run[0] * _CELL} {y}h{len(run) * _CELL}")
    return "".join(strokes)


def _caption(left: Sequence[float], right: Sequence[float]) -> str:
    cut = [
        f"{most} of {count(len(side))} {name}"
        for side, most, name in ((left, MOST_ROWS, "rows"), (right, MOST_COLUMNS, "columns"))
        if len(side) > most
    ]
    return f"<figcaption>The first {' and '.join(cut)}.</figcaption>" if cut else ""


def time_line(group: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> str:
    """Draw the time line of a group from its rows of `group_times`, as a figure; empty without times."""
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
    tops = [_HEIGHT] * round((end - begin) / step)
    for part in parts:
        place = min(round((part["start"] - begin) / step), len(tops) - 1)
        tops[place] = _HEIGHT - max(_LEAST_BAR, round(_HEIGHT * part["n_events"] / highest))
    bars = _steps("V", tops, "h", 1)
    n_events = sum(part["n_events"] for part in parts)
    ends = (said(group[name], step) for name in ("first_time", "last_time"))
    drawing = _svg(
        _WIDTH,
        _HEIGHT + _TEXT,
        f"{plural(n_events, 'event')} over time",
        [
            f'<path class="busiest" d="M{from_x} 0h{thick:.1f}v{_HEIGHT}h-{thick:.1f}z"/>',
            f'<path class="above" d="M{from_x} 1.5h{thick:.1f}"/>',
            f'<path class="events" transform="scale({_WIDTH / len(tops):.5g} 1)" d="M0 {_HEIGHT}{bars}V{_HEIGHT}z"/>',
            f'<path class="axis" d="M0 {_HEIGHT}H{_WIDTH}"/>',
            f'<text y="{_HEIGHT + _TEXT - 4}">{next(ends)}</text>',
            f'<text x="{_WIDTH}" y="{_HEIGHT + _TEXT - 4}" text-anchor="end">{next(ends)}</text>',
        ],
    )
    caption = (
        f"{plural(n_events, 'event')}; marked: {percent(group['busiest_share'], 1)} of them within {in_words}, from "
        f'<span class="moment">{said(busiest, timedelta(minutes=1))} UTC</span> on'
    )
    return f'<figure class="times">{drawing}<figcaption>{caption}</figcaption></figure>'


def said(moment: datetime, step: timedelta) -> str:
    """Format a time with the precision of intervals of width `step`."""
    return moment.strftime("%Y-%m-%d" if step >= timedelta(days=1) else "%Y-%m-%d %H:%M")
