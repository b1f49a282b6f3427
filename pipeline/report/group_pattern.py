"""The pattern of a group's edges as inline SVG: left members are rows, right members columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.report.charts import svg
from pipeline.report.wording import count

__all__ = ["MOST_COLUMNS", "MOST_ROWS", "pattern"]

MOST_ROWS, MOST_COLUMNS = 24, 72
_CELL, _BAR, _GAP = 9, 40, 5


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
