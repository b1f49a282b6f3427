"""The size heat map: how many bicliques have each size, n_left x n_right, as inline SVG with a logarithmic colour."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pipeline.report.charts import svg
from pipeline.report.scales import bin_starts
from pipeline.report.tables import Sizes
from pipeline.report.wording import compact, count
from pipeline.wording import plural

__all__ = ["LEVELS", "heat_map"]

LEVELS = 16  # shades of the style sheet, classes h0 .. h15

_MOST_COLUMNS, _MOST_ROWS = 40, 28
_LEFT, _TOP, _BOTTOM, _LEGEND = 52, 28, 56, 58
_WIDTH = 860
_LARGEST_CELL = 44


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """Bins of one axis: `starts[i] .. ends[i]`, both inclusive."""

    starts: np.ndarray
    ends: np.ndarray
    cell: float

    @property
    def grouped(self) -> bool:
        return bool((self.starts != self.ends).any())

    def label(self, i: int) -> str:
        first, last = int(self.starts[i]), int(self.ends[i])
        return str(first) if first == last else f"{first:,} to {last:,}"


def heat_map(sizes: Sizes) -> str:
    """The heat map of a size histogram with at least one row, as a figure.

    Every size has its own cell where that fits; otherwise the axes are binned logarithmically.
    """
    columns = _axis(sizes.n_left, _MOST_COLUMNS, _WIDTH - _LEFT - 10)
    rows = _axis(sizes.n_right, _MOST_ROWS, 430)
    cells = _binned(sizes, columns, rows)
    width = _LEFT + columns.cell * columns.starts.size + 10
    bottom = _TOP + rows.cell * rows.starts.size
    most = int(cells.max())
    parts = [
        *_cells(cells, columns, rows, bottom, most),
        *_column_labels(columns, bottom),
        *_row_labels(rows, bottom),
        *_legend(most, bottom + _BOTTOM + 6),
    ]
    label = f"Number of bicliques by size; the commonest cell holds {count(most)}"
    height = bottom + _BOTTOM + (_LEGEND if most > 1 else 0)
    drawing = svg(max(width, 420), height, label, parts, least=600)
    grouped = " A cell holds the sizes from its labels up to the next." if columns.grouped or rows.grouped else ""
    return (
        f'<figure class="heat"><div class="scroll">{drawing}</div><figcaption>Bicliques by their number of left and '
        f"right vertices; the colour is logarithmic.{grouped}</figcaption></figure>"
    )


def level(number: int, most: int) -> int:
    """Shade of a count: logarithmic from 1 (0) to `most` (`LEVELS` - 1)."""
    return 0 if number <= 1 or most <= 1 else round(math.log(number) / math.log(most) * (LEVELS - 1))


def _axis(values: np.ndarray, most: int, room: float) -> _Axis:
    starts = bin_starts(int(values.min()), int(values.max()), most)
    ends = np.append(starts[1:] - 1, int(values.max()))
    return _Axis(starts, ends, min(_LARGEST_CELL, math.floor(room / starts.size)))


def _binned(sizes: Sizes, columns: _Axis, rows: _Axis) -> np.ndarray:
    cells = np.zeros((rows.starts.size, columns.starts.size), dtype=np.int64)
    column = np.searchsorted(columns.starts, sizes.n_left, side="right") - 1
    row = np.searchsorted(rows.starts, sizes.n_right, side="right") - 1
    np.add.at(cells, (row, column), sizes.n_bicliques)
    return cells


def _cells(cells: np.ndarray, columns: _Axis, rows: _Axis, bottom: float, most: int) -> list[str]:
    numbered = columns.cell >= 34 and rows.cell >= 22
    parts = []
    for row, column in np.argwhere(cells):
        number = int(cells[row, column])
        x, y = _LEFT + column * columns.cell, bottom - (row + 1) * rows.cell
        shade = level(number, most)
        title = f"{columns.label(column)} left × {rows.label(row)} right: {plural(number, 'biclique')}"
        parts.append(
            f'<rect class="h{shade}" x="{x:g}" y="{y:g}" width="{columns.cell - 1:g}" height="{rows.cell - 1:g}">'
            f"<title>{title}</title></rect>"
        )
        if numbered:
            middle_x, middle_y = x + columns.cell / 2 - 0.5, y + rows.cell / 2 + 3.5
            parts.append(f'<text class="on{shade}" x="{middle_x:g}" y="{middle_y:g}">{compact(number)}</text>')
    return parts


def _column_labels(axis: _Axis, bottom: float) -> list[str]:
    parts = []
    widest = max(len(compact(int(start))) for start in axis.starts) * 7 + 6
    every = max(1, math.ceil(widest / axis.cell))
    for i in range(0, axis.starts.size, every):
        x = _LEFT + axis.cell * (i + 0.5)
        parts.append(f'<text x="{x:g}" y="{bottom + 18:g}" text-anchor="middle">{compact(int(axis.starts[i]))}</text>')
    end = _LEFT + axis.cell * axis.starts.size
    parts.append(f'<path class="axis" d="M{_LEFT} {bottom:g}H{end:g}"/>')
    parts.append(f'<text class="title" x="{_LEFT}" y="{bottom + 40:g}">members on the left</text>')
    return parts


def _row_labels(axis: _Axis, bottom: float) -> list[str]:
    parts = []
    every = max(1, math.ceil(15 / axis.cell))
    for i in range(0, axis.starts.size, every):
        y = bottom - axis.cell * (i + 0.5)
        parts.append(f'<text x="{_LEFT - 9}" y="{y + 4:g}" text-anchor="end">{compact(int(axis.starts[i]))}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom:g}"/>')
    # Above the axis, not along it: the axis may be one cell high.
    parts.append(f'<text class="title" x="{_LEFT - 9}" y="13">members on the right</text>')
    return parts


def _legend(most: int, top: float) -> list[str]:
    """The shades with the counts they stand for; a single count needs none."""
    if most <= 1:
        return []
    step = 20
    parts = [f'<text x="{_LEFT}" y="{top + 10:g}">bicliques per cell</text>']
    parts += [
        f'<rect class="h{i}" x="{_LEFT + i * step}" y="{top + 17:g}" width="{step}" height="11"/>'
        for i in range(LEVELS)
    ]
    length = step * (LEVELS - 1)
    powers = [10**power for power in range(1, len(str(most)))]
    # A power of ten too close to the last mark would run into its label.
    marks = [1, *(mark for mark in powers if math.log(most / mark) / math.log(most) * length > 34), most]
    for mark in marks:
        x = _LEFT + step / 2 + math.log(mark) / math.log(most) * length
        parts.append(f'<text x="{x:.1f}" y="{top + 42:g}" text-anchor="middle">{compact(mark)}</text>')
    return parts
