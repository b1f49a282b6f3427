"""Degree plots as inline SVG; colours come from the page's style sheet, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mbe_stage.pipeline.report.scales import LogAxis
from mbe_stage.pipeline.report.tables import SideSummary
from mbe_stage.pipeline.report.wording import compact
from mbe_stage.pipeline.wording import plural

__all__ = ["degree_plot", "svg", "thinned"]

_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 14, 46


def svg(width: float, height: float, label: str, parts: Iterable[str], least: float = 0) -> str:
    """An inline SVG image that scales with its container; `label` (HTML) is what a screen reader says.

    A wide one stops shrinking at `least` pixels, below which its text could not be read: let its container scroll.
    """
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px;min-width:{min(width, least):g}px" '
        f'role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def degree_plot(side: SideSummary) -> str:
    """Degree distribution of one side, both axes logarithmic.

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
    """Steps: the number of vertices of at least each degree, falling from all of them to the hub alone."""
    at_least = np.cumsum(side.degree_counts[::-1])[::-1]
    points = [(x(degree), y(number)) for degree, number in zip(side.degrees, at_least, strict=True)]
    points = thinned(points)
    # Just above a degree only the vertices of larger ones are left: the step falls there, and then runs to the next.
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
    """One point per `grid` x `grid` pixels: thousands of degrees overplot, and would only make the file large."""
    cells: dict[tuple[int, int], tuple[float, float]] = {}
    for point in points:
        cells.setdefault((round(point[0] / grid), round(point[1] / grid)), point)
    return list(cells.values())
