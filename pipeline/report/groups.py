"""Sections of the report on groups: the sentence, the members and the edge pattern of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Comparison, Manifest
from mbe_stage.pipeline.report.charts import svg
from mbe_stage.pipeline.report.request import right_key, side_name
from mbe_stage.pipeline.report.wording import count, fragment, key, percent, tuple_key
from mbe_stage.pipeline.views.listed_groups import chance_text, nothing_significant
from mbe_stage.pipeline.wording import group_key_text, narrowed_key, plural

_TEMPLATE = "groups.html"
_LISTS = {"labels": "Labels", "allow": "Known good", "verdicts": "Verdicts"}
_EPOCH = datetime(1970, 1, 1)
_AT_ONCE = 100
_MOST_BYTES = 3_000_000
_WIDTH, _HEIGHT, _TEXT = 460, 64, 18
_LEAST_BAR = 2.0
WIDTHS = {
    "1h": (timedelta(hours=1), "1 hour"),
    "1d": (timedelta(days=1), "1 day"),
    "3d": (timedelta(days=3), "3 days"),
    "7d": (timedelta(days=7), "7 days"),
}
"""The windows of `busiest_window`, narrowest first, with their words."""
MOST_ROWS, MOST_COLUMNS = 24, 72
_CELL, _BAR, _GAP = 9, 40, 5


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """Build the section of a run's groups, the first on the page; see `pipeline.problems.base.DerivedPublication`.

    It shows groups up to 3 MB of HTML, and `top` of the muted ones.
    """
    every_group = pq.read_table(run_path / "groups.parquet")
    groups = every_group.filter(pc.invert(every_group["is_muted"]))
    quiet = every_group.filter(every_group["is_muted"])
    items = list(_items(run_path, groups, manifest.config))
    names = [side_name(manifest.config, side) for side in ("left", "right")]
    has_times = any('class="times"' in item for item in items)
    found = (
        fragment(_TEMPLATE, "found", len(items), groups.num_rows, *names, has_times),
        fragment(_TEMPLATE, "controls", _known_orders(groups)),
        fragment(_TEMPLATE, "listed", items),
    )
    inputs = manifest.derived_inputs.get("groups", {})
    parts = (
        _incomplete(manifest),
        *(fragment(_TEMPLATE, "input_list", _LISTS[name], facts) for name, facts in inputs.items()),
        since_last(manifest.derived_comparison.get("groups"), right_key(manifest.config)),
        *(found if items else [_nothing(run_path, manifest)]),
        _chance_copies(run_path),
        fragment(_TEMPLATE, "muted", quiet.slice(0, top).to_pylist(), quiet.num_rows),
    )
    section = PageSection("groups", "Groups", "".join(parts))
    script = files("mbe_stage.pipeline.report").joinpath("groups.js").read_text(encoding="utf-8")
    figures = [
        ("groups", count(groups.num_rows)),
        ("left vertices in groups", count(manifest.derived["groups"]["left_members"])),
    ]
    return Page(figures=figures, first_sections=[section], script=script if items else "")


def _items(run_path: Path, groups: pa.Table, config: Config) -> Iterator[str]:
    """Return the groups by rank, until they fill the page."""
    has_times = config.input.timestamp is not None
    written, n_bytes, is_first = right_key(config), 0, True
    for start in range(0, groups.num_rows, _AT_ONCE):
        part = groups.slice(start, _AT_ONCE)
        members_of = _by_group(run_path / "group_members.parquet", part)
        # Earlier versions had edges of grown groups only, and no halos.
        edges_of, halo_of = (_by_group(run_path / f"group_{name}.parquet", part) for name in ("edges", "halo"))
        times_of = _by_group(run_path / "group_times.parquet", part) if has_times else {}
        for group in part.to_pylist():
            group_key = group["group_key"]
            edges = {(edge["left"], edge["right"], edge.get("key_value")) for edge in edges_of.get(group_key, [])}
            of_key = tuple_key if group.get("key") not in (None, "items") else written
            item = _group(
                group, members_of[group_key], edges, times_of.get(group_key, []), halo_of.get(group_key, []), of_key
            )
            n_bytes += len(item.encode())
            # The first one is shown whatever its size.
            if n_bytes > _MOST_BYTES and not is_first:
                return
            is_first = False
            yield item


def _by_group(path: Path, groups: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """Return a table's rows of some groups, by group."""
    if not path.exists():
        return {}
    of_groups = pc.field("group_key").isin(groups["group_key"].combine_chunks())
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in pq.read_table(path, filters=of_groups).to_pylist():
        rows.setdefault(row["group_key"], []).append(row)
    return rows


def _nothing(run_path: Path, manifest: Manifest) -> str:
    why = nothing_significant(run_path, manifest)
    which = "left" if manifest.derived["groups"]["groups"] else "significant"
    return fragment(_TEMPLATE, "nothing", which, why[0].upper() + why[1:])


def _chance_copies(run_path: Path) -> str:
    text = chance_text(run_path)
    return f"<p>By chance: {text}.</p>" if text else ""


def _incomplete(manifest: Manifest) -> str:
    if manifest.truncated is not None:
        return "<p>This run is incomplete, so better groups may be missing.</p>"
    if manifest.derived["groups"].get("half_later_truncated"):
        return "<p>A limit stopped the search with buckets shifted by half, so better groups may be missing.</p>"
    if n := manifest.derived["groups"].get("keys_not_searched"):
        return f"<p>The time was too short to try {plural(n, 'key')} to the end, so better groups may be missing.</p>"
    return ""


def since_last(comparison: Comparison | None, right: Callable[[object], str] = key) -> str:
    """Describe the changes since the run before, with the lost groups folded; `right` formats right keys."""
    return "" if comparison is None else fragment(_TEMPLATE, "since_last", comparison, right)


def _group(
    group: dict[str, Any],
    rows: list[dict[str, Any]],
    edges: set[tuple[int, int, str | None]],
    times: list[dict[str, Any]],
    halo: list[dict[str, Any]],
    written: Callable[[object], str],
) -> str:
    """Format a group with its edges, the intervals of its time line, and its rows of `group_halo`."""
    # If not all fit, those with most edges are shown.
    left, right = (
        sorted((row for row in rows if row["side"] == side), key=lambda row: (-row["n_edges"], row["vertex"]))
        for side in ("left", "right")
    )
    absent = [
        (i, k)
        for i, one in enumerate(left[:MOST_ROWS])
        for k, other in enumerate(right[:MOST_COLUMNS])
        if edges and (one["vertex"], other["vertex"], other.get("key_value")) not in edges
    ]
    left_shares, right_shares = ([row["edge_share"] for row in side] for side in (left, right))
    orders = [(name, value) for name, value in _orders(group).items() if value is not None]
    nearest = ([row for row in halo if row["side"] == side] for side in ("left", "right"))
    keys, halo_keys = (
        [[narrowed_key(row["key"], row.get("key_value")) for row in side] for side in sides]
        for sides in ((left, right), nearest)
    )
    is_grown = group["kind"] == "grown_cover"
    core = [sum(row.get("is_core", False) for row in side) * is_grown for side in (left, right)]
    chances = _chance(group["known_p_value"]), _chance(group.get("p_bound"))
    group = {**group, "key_text": group_key_text(group)}
    pictures = Markup(pattern(left_shares, right_shares, absent) + time_line(group, times))
    return fragment(_TEMPLATE, "group", group, orders, *keys, written, *chances, pictures, core, halo_keys)


def _chance(value: float | None) -> str:
    if value is None:
        return "not known"
    return "below 1e-300" if value < 1e-300 else f"{value:.1g}" if value < 0.01 else f"{value:.2f}"


def _orders(group: dict[str, Any]) -> dict[str, float | None]:
    """Return the sort keys of a group, by the names of `_ORDERS`."""
    first, last, share = group["first_time"], group["last_time"], group["busiest_share"]
    return {
        "rank": group["rank"],
        "edges": group["n_edges"],
        "left": group["n_left"],
        "right": group["n_right"],
        "surprise": group["surprise"],
        # A narrower window precedes a larger share of a wider one.
        "sudden": None if share is None else share - list(WIDTHS).index(group["busiest_window"]),
        "first": None if first is None else (first - _EPOCH).total_seconds(),
        "last": None if last is None else (last - _EPOCH).total_seconds(),
        "weight": group["weight_total"],
        "known": group["n_known"],
        "since": None if group["since"] is None else _SINCE.index(group["since"]),
    }


_SINCE = ("new", "grown", "changed", "shrunk", "same")


_ORDERS = {
    "rank up": "rank",
    "since up": "new first",
    "known down": "most known cases",
    "surprise down": "surprise",
    "edges down": "most edges",
    "left down": "most left members",
    "right down": "most right members",
    "sudden down": "most sudden",
    "last down": "latest",
    "first up": "earliest",
    "weight down": "most weight",
    "weight up": "least weight",
}


def _known_orders(groups: pa.Table) -> list[tuple[str, str]]:
    """List the sort orders of the page with their labels, without orders for which no group has a value."""
    known = {
        name
        for group in groups.slice(0, _AT_ONCE).to_pylist()
        for name, value in _orders(group).items()
        if value is not None
    }
    return [(order, label) for order, label in _ORDERS.items() if order.split()[0] in known]


def time_line(group: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> str:
    """Draw the time line as a figure with a caption; nothing without times.

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
    """Format a time with the precision of intervals of that width."""
    return moment.strftime("%Y-%m-%d" if step >= timedelta(days=1) else "%Y-%m-%d %H:%M")


def pattern(left: Sequence[float], right: Sequence[float], absent: Iterable[tuple[int, int]] = ()) -> str:
    """Draw a group as a figure; large groups are cut, with a note.

    Bars stand beside the rows and above the columns; a line marks their full length.

    Parameters
    ----------
    left, right : sequence of float
        For each member, the share of its edges inside the group.
    absent : iterable of (int, int)
        The missing edges: positions among the left and the right members.
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
    """Draw the lines between the cells."""
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
