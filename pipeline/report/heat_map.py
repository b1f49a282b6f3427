"""The size heat map: how many bicliques have each size, n_left x n_right, as inline SVG with a logarithmic colour."""

from __future__ import annotations

import math

import numpy as np

from pipeline.report.heat_grid import Axis, Cell, HeatWords, heat_grid
from pipeline.report.scales import bin_starts
from pipeline.report.tables import Sizes
from pipeline.report.wording import count
from pipeline.wording import plural

__all__ = ["heat_map"]

_MOST_COLUMNS, _MOST_ROWS = 40, 28
_WIDTH, _HEIGHT = 798, 430
_LARGEST_CELL = 44


def heat_map(sizes: Sizes) -> str:
    """The heat map of a size histogram with at least one row, as a figure.

    Every size has its own cell where that fits; otherwise the axes are binned logarithmically.
    """
    columns = _axis(sizes.n_left, _MOST_COLUMNS, _WIDTH)
    rows = _axis(sizes.n_right, _MOST_ROWS, _HEIGHT)
    cells = _binned(sizes, columns, rows)
    most = int(cells.max())
    words = HeatWords(
        "members on the left",
        "members on the right",
        "bicliques per cell",
        f"Number of bicliques by size; the commonest cell holds {count(most)}",
    )
    drawing = heat_grid(_cells(cells, columns, rows), columns, rows, most, words)
    grouped = " A cell holds the sizes from its labels up to the next." if columns.grouped or rows.grouped else ""
    return (
        f'<figure class="heat"><div class="scroll">{drawing}</div><figcaption>Bicliques by their number of left and '
        f"right vertices; the colour is logarithmic.{grouped}</figcaption></figure>"
    )


def _axis(values: np.ndarray, most: int, room: float) -> Axis:
    starts = bin_starts(int(values.min()), int(values.max()), most)
    ends = np.append(starts[1:] - 1, int(values.max()))
    return Axis(starts, ends, min(_LARGEST_CELL, math.floor(room / starts.size)))


def _binned(sizes: Sizes, columns: Axis, rows: Axis) -> np.ndarray:
    cells = np.zeros((rows.starts.size, columns.starts.size), dtype=np.int64)
    column = np.searchsorted(columns.starts, sizes.n_left, side="right") - 1
    row = np.searchsorted(rows.starts, sizes.n_right, side="right") - 1
    np.add.at(cells, (row, column), sizes.n_bicliques)
    return cells


def _cells(cells: np.ndarray, columns: Axis, rows: Axis) -> list[Cell]:
    found = []
    for row, column in np.argwhere(cells):
        number = int(cells[row, column])
        title = f"{columns.label(column)} left × {rows.label(row)} right: {plural(number, 'biclique')}"
        found.append(Cell(int(row), int(column), number, title))
    return found
