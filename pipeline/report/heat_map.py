"""Heat maps as inline SVG with logarithmic colours: numbers of results by size, and the common grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mbe_stage.pipeline.report.charts import bin_starts, svg
from mbe_stage.pipeline.report.tables import Sizes
from mbe_stage.pipeline.report.wording import compact, count
from mbe_stage.pipeline.wording import plural

_MOST_COLUMNS, _MOST_ROWS = 40, 28
_WIDTH, _HEIGHT = 798, 430
_LARGEST_CELL = 44

_LEVELS = 16  # Shades in the style sheet, classes h0 .. h15.
_LEFT, _TOP, _BOTTOM, _LEGEND = 52, 28, 56, 58
_STEP = 20
_LEAST_BETWEEN_MARKS = 34


def heat_map(sizes: Sizes) -> str:
    """Draw the heat map of a size histogram with at least one row, as a figure.

    Every size has its own cell if they fit; otherwise the axes are binned logarithmically.
    """
    columns = _axis(sizes.n_left, _MOST_COLUMNS, _WIDTH)
    rows = _axis(sizes.n_right, _MOST_ROWS, _HEIGHT)
    cells = _binned(sizes, columns, rows)
    most = int(cells.max())
    words = HeatWords(
        "members on the left",
        "members on the right",
        "bicliques per cell",
        f"Number of bicliques by size; the fullest cell holds {count(most)}",
    )
    drawing = heat_grid(_size_cells(cells, columns, rows), columns, rows, most, words)
    grouped = " A cell holds the sizes from its labels up to the next." if columns.grouped or rows.grouped else ""
    return (
        f'<figure class="heat"><div class="scroll">{drawing}</div><figcaption>Bicliques by their number of left and '
        f"right vertices; the colour is logarithmic.{grouped}</figcaption></figure>"
    )


def _axis(values: np.ndarray, most: int, pixels: float) -> Axis:
    starts = bin_starts(int(values.min()), int(values.max()), most)
    ends = np.append(starts[1:] - 1, int(values.max()))
    return Axis(starts, ends, min(_LARGEST_CELL, math.floor(pixels / starts.size)))


def _binned(sizes: Sizes, columns: Axis, rows: Axis) -> np.ndarray:
    cells = np.zeros((rows.starts.size, columns.starts.size), dtype=np.int64)
    column = np.searchsorted(columns.starts, sizes.n_left, side="right") - 1
    row = np.searchsorted(rows.starts, sizes.n_right, side="right") - 1
    np.add.at(cells, (row, column), sizes.n_bicliques)
    return cells


def _size_cells(cells: np.ndarray, columns: Axis, rows: Axis) -> list[Cell]:
    found = []
    for row, column in np.argwhere(cells):
        number = int(cells[row, column])
        title = f"{columns.label(column)} left × {rows.label(row)} right: {plural(number, 'biclique')}"
        found.append(Cell(int(row), int(column), number, title))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Bins of one axis: `starts[i] .. ends[i]`, both inclusive, `cell` pixels each."""

    starts: np.ndarray
    ends: np.ndarray
    cell: float

    @property
    def grouped(self) -> bool:
        """True if a bin holds more than one number."""
        return bool((self.starts != self.ends).any())

    def label(self, i: int) -> str:
        """Return the numbers of a bin as a label."""
        first, last = int(self.starts[i]), int(self.ends[i])
        return str(first) if first == last else f"{first:,} to {last:,}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A positive number where two bins meet; `title` (HTML) is its tooltip."""

    row: int
    column: int
    number: int
    title: str


@dataclass(frozen=True, slots=True)
class HeatWords:
    """Texts for the axes, the legend and screen readers, and the short form of numbers."""

    columns: str
    rows: str
    legend: str
    label: str
    short: Callable[[int], str] = compact


def heat_grid(cells: Sequence[Cell], columns: Axis, rows: Axis, most: int, words: HeatWords) -> str:
    """Draw the grid; `most` is the largest number."""
    width = _LEFT + columns.cell * columns.starts.size + 10
    bottom = _TOP + rows.cell * rows.starts.size
    parts = [
        *_cells(cells, columns, rows, bottom, most, words.short),
        *_column_labels(columns, bottom, words.columns),
        *_row_labels(rows, bottom, words.rows),
        *_legend(most, bottom + _BOTTOM + 6, words),
    ]
    height = bottom + _BOTTOM + (_LEGEND if most > 1 else 0)
    return svg(max(width, 420), height, words.label, parts, least=600)


def _shade(number: int, most: int) -> int:
    """Return the shade of a number, logarithmic from 1 (the first) to `most` (the last)."""
    return 0 if number <= 1 or most <= 1 else round(math.log(number) / math.log(most) * (_LEVELS - 1))


def _cells(
    cells: Sequence[Cell], columns: Axis, rows: Axis, bottom: float, most: int, short: Callable[[int], str]
) -> list[str]:
    """Draw the coloured squares, with numbers that fit.

    `bottom` is the end of the first row, `most` the largest number, and `short` shortens a number.
    """
    longest = max((len(short(cell.number)) for cell in cells), default=0)
    numbered = columns.cell >= max(34, 6 * longest + 4) and rows.cell >= 22
    parts = []
    for cell in cells:
        x, y = _LEFT + cell.column * columns.cell, bottom - (cell.row + 1) * rows.cell
        shade = _shade(cell.number, most)
        parts.append(
            f'<rect class="h{shade}" x="{x:g}" y="{y:g}" width="{columns.cell - 1:g}" height="{rows.cell - 1:g}">'
            f"<title>{cell.title}</title></rect>"
        )
        if numbered:
            middle_x, middle_y = x + columns.cell / 2 - 0.5, y + rows.cell / 2 + 3.5
            parts.append(f'<text class="on{shade}" x="{middle_x:g}" y="{middle_y:g}">{short(cell.number)}</text>')
    return parts


def _column_labels(axis: Axis, bottom: float, title: str) -> list[str]:
    parts = []
    widest = max(len(compact(int(start))) for start in axis.starts) * 7 + 6
    every = max(1, math.ceil(widest / axis.cell))
    for i in range(0, axis.starts.size, every):
        x = _LEFT + axis.cell * (i + 0.5)
        parts.append(f'<text x="{x:g}" y="{bottom + 18:g}" text-anchor="middle">{compact(int(axis.starts[i]))}</text>')
    end = _LEFT + axis.cell * axis.starts.size
    parts.append(f'<path class="axis" d="M{_LEFT} {bottom:g}H{end:g}"/>')
    parts.append(f'<text class="title" x="{_LEFT}" y="{bottom + 40:g}">{title}</text>')
    return parts


def _row_labels(axis: Axis, bottom: float, title: str) -> list[str]:
    parts = []
    every = max(1, math.ceil(15 / axis.cell))
    for i in range(0, axis.starts.size, every):
        y = bottom - axis.cell * (i + 0.5)
        parts.append(f'<text x="{_LEFT - 9}" y="{y + 4:g}" text-anchor="end">{compact(int(axis.starts[i]))}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom:g}"/>')
    # Above the axis, not along it: the axis may be one cell high.
    parts.append(f'<text class="title" x="{_LEFT - 9}" y="13">{title}</text>')
    return parts


def _legend(most: int, top: float, words: HeatWords) -> list[str]:
    """Draw the legend of shades and counts; a single count needs none."""
    if most <= 1:
        return []
    parts = [f'<text x="{_LEFT}" y="{top + 10:g}">{words.legend}</text>']
    parts += [
        f'<rect class="h{i}" x="{_LEFT + i * _STEP}" y="{top + 17:g}" width="{_STEP}" height="11"/>'
        for i in range(_LEVELS)
    ]
    for mark in _marks(most):
        x = _LEFT + _STEP / 2 + math.log(mark) / math.log(most) * _STEP * (_LEVELS - 1)
        parts.append(f'<text x="{x:.1f}" y="{top + 42:g}" text-anchor="middle">{words.short(mark)}</text>')
    return parts


def _marks(most: int) -> list[int]:
    """Return 1, powers of ten and the largest number, as far as their labels fit."""
    length = _STEP * (_LEVELS - 1)
    decades = math.log10(most)
    every = max(1, math.ceil(_LEAST_BETWEEN_MARKS / length * decades))
    last = decades - _LEAST_BETWEEN_MARKS / length * decades
    return [1, *(10**power for power in range(every, math.ceil(decades), every) if power < last), most]
