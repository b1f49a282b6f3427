"""Degree plots as inline SVG, their bins and logarithmic axes.

Colours come from the page's style sheet, so they follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mbe_stage.pipeline.report.tables import SideSummary
from mbe_stage.pipeline.report.wording import compact
from mbe_stage.pipeline.wording import plural

_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 14, 46


def svg(width: float, height: float, label: str, parts: Iterable[str], least: float = 0) -> str:
    """Return an inline SVG image that scales with its container; `label` (HTML) is for screen readers.

    A wide image stops shrinking at `least` pixels, so that its text stays readable; let its container scroll.
    """
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px;min-width:{min(width, least):g}px" '
        f'role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def degree_plot(side: SideSummary) -> str:
    """Draw the degree distribution of one side, both axes logarithmic.

    Dots: vertices of exactly that degree; line: vertices of at least that degree.
    """
    if not side.degrees.size or side.degrees[-1] < 1:
        return '<p class="quiet">No vertices on this side.</p>'
    x = LogAxis(int(side.degrees[-1]), _LEFT, _WIDTH - _RIGHT)
    y = LogAxis(side.n_vertices, _HEIGHT - _BOTTOM, _TOP)
    label = f"Degree distribution of the {side.side} side, from {side.degrees[0]} to {side.degrees[-1]}"
    parts = [*_axes(x, y, side.side), _tail_line(side, x, y), *_dots(side, x, y)]
    return svg(_WIDTH, _HEIGHT, label, parts)


def _axes(x: LogAxis, y: LogAxis, side: str) -> list[str]:
    bottom, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in x.ticks:
        parts.append(f'<path class="grid" d="M{x(tick)} {_TOP}V{bottom}"/>')
        parts.append(f'<text x="{x(tick)}" y="{bottom + 17}" text-anchor="middle">{compact(tick)}</text>')
    for tick in y.ticks:
        parts.append(f'<path class="grid" d="M{_LEFT} {y(tick)}H{end}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(tick) + 4}" text-anchor="end">{compact(tick)}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{end}"/>')
    middle = (_LEFT + end) / 2
    parts.append(f'<text class="title" x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">degree ({side} side)</text>')
    height = (_TOP + bottom) / 2
    parts.append(
        f'<text class="title" transform="translate(12 {height}) rotate(-90)" text-anchor="middle">vertices</text>'
    )
    return parts


def _tail_line(side: SideSummary, x: LogAxis, y: LogAxis) -> str:
    """Draw the number of vertices of at least each degree as steps, from all vertices down to the hub."""
    at_least = np.cumsum(side.degree_counts[::-1])[::-1]
    points = [(x(degree), y(number)) for degree, number in zip(side.degrees, at_least, strict=True)]
    points = thinned(points)
    # Just above a degree only vertices of larger degrees remain, so the step falls there and runs to the next degree.
    path = f"M{x(1)} {points[0][1]}" + "".join(f"V{py}H{px}" for px, py in points)
    return f'<path class="tail {side.side}" d="{path}"/>'


def _dots(side: SideSummary, x: LogAxis, y: LogAxis) -> list[str]:
    named = {
        (x(degree), y(number)): (int(degree), int(number))
        for degree, number in zip(side.degrees, side.degree_counts, strict=True)
    }
    parts = []
    for point in thinned(list(named)):
        degree, number = named[point]
        title = f"{plural(number, 'vertex', 'vertices')} of degree {degree:,}"
        parts.append(
            f'<circle class="dot {side.side}" cx="{point[0]}" cy="{point[1]}" r="3"><title>{title}</title></circle>'
        )
    return parts


def thinned(points: list[tuple[float, float]], grid: float = 2.0) -> list[tuple[float, float]]:
    """Keep one point per `grid` x `grid` pixels, because overlapping points only enlarge the file."""
    cells: dict[tuple[int, int], tuple[float, float]] = {}
    for point in points:
        cells.setdefault((round(point[0] / grid), round(point[1] / grid)), point)
    return list(cells.values())


def bin_starts(low: int, high: int, most: int) -> np.ndarray:
    """Return the first whole number of each bin over ``low .. high``: one per number if `most` allows, else growing.

    Growing bins have a nearly constant ratio, so that a logarithmic axis shows them equally wide.

    Returns
    -------
    (n_bins,) int64
        Ascending; the last bin ends at `high`.

    Examples
    --------
    >>> bin_starts(1, 5, 10).tolist()
    [1, 2, 3, 4, 5]
    >>> bin_starts(1, 100, 8).tolist()
    [1, 2, 4, 8, 16, 32, 64]
    """
    if high - low + 1 <= most:
        return np.arange(low, high + 1, dtype=np.int64)
    for ratio in (1.1, 1.15, 1.2, 1.25, 1.33, 1.5, 1.75, 2, 2.5, 3, 4, 5, 10, 100, 1000):
        starts = _growing(low, high, ratio)
        if len(starts) <= most:
            return np.array(starts, dtype=np.int64)
    return np.array([low], dtype=np.int64)


def _growing(low: int, high: int, ratio: float) -> list[int]:
    starts, exact = [low], float(max(low, 1))
    while True:
        exact = max(exact * ratio, starts[-1] + 1)
        start = math.floor(exact)
        if start > high:
            return starts
        starts.append(start)


class LogAxis:
    """Maps positive numbers up to `high` to positions between `start` and `end`, logarithmically.

    Parameters
    ----------
    high : float
        Largest number; the axis extends to the next tick.
    start, end : float
        Positions of 1 and of the end of the axis.
    """

    def __init__(self, high: float, start: float, end: float) -> None:
        self.ticks = _ticks(max(high, 2))
        self._scale = (end - start) / math.log10(self.ticks[-1])
        self._start = start

    def __call__(self, value: float) -> float:
        """Return the position of a number of at least 1."""
        return round(self._start + math.log10(value) * self._scale, 1)


def _ticks(high: float) -> list[int]:
    """Return 1, 2, 5, 10 ... for few decades, else 1, 10, 100 ...; the last tick is at least `high`."""
    decades = math.log10(high)
    steps = (1, 2, 5) if decades <= 2 else (1, 3) if decades <= 3 else (1,)
    ticks: list[int] = []
    power = 1
    while True:
        for step in steps:
            ticks.append(step * power)
            if ticks[-1] >= high:
                return ticks
        power *= 10
