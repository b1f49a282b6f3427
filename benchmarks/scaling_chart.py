"""The scaling chart: two plots side by side as one SVG file for light and dark mode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mbe_stage.pipeline.report.charts import LogAxis
from mbe_stage.pipeline.report.wording import compact, escape

__all__ = ["Point", "scaling_svg"]

_PANEL, _HEIGHT = 560, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 52, 52
_Box = tuple[float, float, float, float]
_STYLE = """
  .page { fill: #ffffff } text { fill: #5b656d; font: 12px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif }
  .heading { fill: #1c2328; font-size: 15px; font-weight: 600 } .title { font-size: 13px } .name { fill: #1c2328 }
  .grid { stroke: #eceae3; fill: none } .axis { stroke: #5b656d; stroke-opacity: .6; fill: none }
  .rate { stroke: #a3521a; stroke-opacity: .45; stroke-dasharray: 4 4; fill: none } .of-rate { fill: #a3521a }
  .line { stroke: #2b6396; stroke-opacity: .55; stroke-width: 1.5; fill: none } .dot { fill: #2b6396 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #1b1f23 } text { fill: #9ba5ad } .heading, .name { fill: #e6e8ea } .grid { stroke: #272c31 }
    .axis { stroke: #9ba5ad } .rate { stroke: #e8a566 } .of-rate { fill: #e8a566 } .line { stroke: #7fb6e4 }
    .dot { fill: #7fb6e4 }
  }
"""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement in a plot.

    Attributes
    ----------
    x : int
        Bicliques or edges, at least 1.
    seconds : float
    label : str
    """

    x: int
    seconds: float
    label: str


class _Axis:
    """A `LogAxis` that starts at the power of ten below the smallest value instead of 1."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._unit = 10.0 ** math.floor(math.log10(min(values)))
        self._axis = LogAxis(max(values) / self._unit, start, end)

    @property
    def ticks(self) -> list[float]:
        return [tick * self._unit for tick in self._axis.ticks]

    def __call__(self, value: float) -> float:
        return self._axis(value / self._unit)


def scaling_svg(graphs: Sequence[Point], samples: Sequence[Point], sampled: str, note: str) -> str:
    """Return the whole file.

    Parameters
    ----------
    graphs : sequence of Point
        Time against bicliques, at least one.
    samples : sequence of Point
        Time against edges, by growing number of edges; without any there is no second plot.
    sampled : str
        Name of the sampled graph.
    note : str
        A line below both: machine, date, commit.
    """
    panels = [_panel("Time against bicliques", "maximal bicliques", graphs, with_rates=True)]
    if samples:
        panels.append(_panel(f"Time against edges: samples of {escape(sampled)}", "edges", samples, with_rates=False))
    width, height = _PANEL * len(panels), _HEIGHT + 26
    parts = [f'<g transform="translate({_PANEL * k} 0)">{"".join(panel)}</g>' for k, panel in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>Counting on one thread: time against bicliques and edges</title><style>{_STYLE}</style>'
        f'<rect class="page" width="{width}" height="{height}"/>{"".join(parts)}'
        f'<text x="{_LEFT}" y="{_HEIGHT + 10}">{escape(note)}</text></svg>\n'
    )


def _panel(heading: str, x_title: str, points: Sequence[Point], with_rates: bool) -> Iterator[str]:
    x = _Axis([point.x for point in points], _LEFT, _PANEL - _RIGHT)
    y = _Axis([point.seconds for point in points], _HEIGHT - _BOTTOM, _TOP)
    labels = _Labels(x, y, points)
    yield f'<text class="heading" x="{_LEFT}" y="26">{heading}</text>'
    yield from _axes(x, y, x_title)
    yield from _rates(x, y, labels) if with_rates else _line(points, x, y)
    for point in sorted(points, key=lambda point: -point.x):
        title = escape(f"{point.label}: {point.x:,} {x_title}, {point.seconds:.3g} s")
        place = f'cx="{x(point.x)}" cy="{y(point.seconds)}"'
        yield f'<circle class="dot" {place} r="4"><title>{title}</title></circle>'
        yield labels.beside(point)


def _axes(x: _Axis, y: _Axis, x_title: str) -> Iterator[str]:
    bottom, end = _HEIGHT - _BOTTOM, _PANEL - _RIGHT
    for tick in x.ticks:
        yield f'<path class="grid" d="M{x(tick)} {_TOP}V{bottom}"/>'
        yield f'<text x="{x(tick)}" y="{bottom + 18}" text-anchor="middle">{compact(round(tick))}</text>'
    for tick in y.ticks:
        yield f'<path class="grid" d="M{_LEFT} {y(tick)}H{end}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y(tick) + 4}" text-anchor="end">{_duration(tick)}</text>'
    yield f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{end}"/>'
    yield f'<text class="title" x="{(_LEFT + end) / 2}" y="{_HEIGHT - 12}" text-anchor="middle">{x_title}</text>'


def _rates(x: _Axis, y: _Axis, labels: _Labels) -> Iterator[str]:
    """Draw lines of equal speed, one per power of ten, if the plot has room for them."""
    low, high = x.ticks[0], x.ticks[-1]
    for power in range(4, 9):
        rate = 10.0**power
        first, last = max(low, rate * y.ticks[0]), min(high, rate * y.ticks[-1])
        if last / first < 10:
            continue
        yield f'<path class="rate" d="M{x(first)} {y(first / rate)}L{x(last)} {y(last / rate)}"/>'
        at_top = last < high
        at, anchor = (x(last), "middle") if at_top else (x(last) - 4, "end")
        height = y(last / rate) - 5 if at_top else y(last / rate) + 16
        text = f"{compact(int(rate))}/s"
        labels.reserve(at, height, anchor, text)
        yield f'<text class="of-rate" x="{at}" y="{height}" text-anchor="{anchor}">{text}</text>'


def _line(points: Sequence[Point], x: _Axis, y: _Axis) -> Iterator[str]:
    path = "L".join(f"{x(point.x)} {y(point.seconds)}" for point in points)
    yield f'<path class="line" d="M{path}"/>'


class _Labels:
    """Places each label where it covers no dot or other label; otherwise only the dot's tooltip has it."""

    _CHARACTER, _LINE = 6.4, 12.0
    _PLACES = (
        (8, 4, "start"),
        (-8, 4, "end"),
        (8, 16, "start"),
        (-8, -8, "end"),
        (8, -8, "start"),
        (-8, 16, "end"),
        (0, 20, "middle"),
    )

    def __init__(self, x: _Axis, y: _Axis, points: Sequence[Point]) -> None:
        self._x, self._y = x, y
        self._taken: list[_Box] = [(x(p.x) - 4, y(p.seconds) - 4, x(p.x) + 4, y(p.seconds) + 4) for p in points]

    def reserve(self, x: float, y: float, anchor: str, text: str) -> None:
        """Reserve the place of a fixed text."""
        self._taken.append(self._box(x, y, anchor, text))

    def beside(self, point: Point) -> str:
        """Return the label's element; empty without room."""
        px, py = self._x(point.x), self._y(point.seconds)
        for dx, dy, anchor in self._PLACES:
            box = self._box(px + dx, py + dy, anchor, point.label)
            inside = box[0] >= _LEFT and box[2] <= _PANEL - 2 and box[3] <= _HEIGHT - _BOTTOM
            if inside and not any(_overlap(box, other) for other in self._taken):
                self._taken.append(box)
                place = f'x="{px + dx:.1f}" y="{py + dy:.1f}" text-anchor="{anchor}"'
                return f'<text class="name" {place}>{escape(point.label)}</text>'
        return ""

    def _box(self, x: float, y: float, anchor: str, text: str) -> _Box:
        width = self._CHARACTER * len(text)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        return left, y - self._LINE + 2, left + width, y + 2


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _duration(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit * 0.999:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0e} s"
