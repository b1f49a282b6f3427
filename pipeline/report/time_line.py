"""The time line of a group as inline SVG: how many events when, and the busiest window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pipeline.report.charts import svg
from pipeline.report.wording import percent
from pipeline.wording import plural

__all__ = ["WIDTHS", "time_line"]

_WIDTH, _HEIGHT, _TEXT = 460, 64, 18
_LEAST_BAR = 2.0
WIDTHS = {
    "1h": (timedelta(hours=1), "1 hour"),
    "1d": (timedelta(days=1), "1 day"),
    "3d": (timedelta(days=3), "3 days"),
    "7d": (timedelta(days=7), "7 days"),
}
"""The windows of `busiest_window`, the narrowest first, with their words."""


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
