"""What the report shows of groups: each with its sentence, its members and the pattern of its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.group_cases import marks, muted, preface
from mbe_stage.pipeline.report.group_charts import MOST_COLUMNS, MOST_ROWS, WIDTHS, pattern, time_line
from mbe_stage.pipeline.report.request import right_key, side_name
from mbe_stage.pipeline.report.sections import members
from mbe_stage.pipeline.report.wording import count, escape, key
from mbe_stage.pipeline.views.no_groups import nothing_significant
from mbe_stage.pipeline.wording import plural

__all__ = ["page"]

_ABOUT = """<p>Groups with more edges than the degrees of their members make likely, the most surprising first; groups
    that nearly repeat a better one are left out. Surprise is a log-likelihood ratio less the cost of naming the group,
    in nats: only what is above 0 is listed.</p>"""
_GROWN = """<p>Groups that the most surprising bicliques have grown to: with more edges than the degrees of their
    members make likely, though some may be missing. Each is there for edges that no group before it explains, which
    is what it adds. Surprise is a log-likelihood ratio less the cost of naming the group, in nats: only what
    is above 0 is listed.</p>"""
_NOTHING = """<p><strong>No group is {which}.</strong> {why}.</p><p>The table <code>vertex_scores</code> scores every
    vertex all the same.</p>"""
_BARS = Template(
    """<p class="quiet">In the pictures rows are members on the <span class="left-name">$left</span>, columns on the
    <span class="right-name">$right</span>; a filled square is an edge. A bar says which share of a member's own edges
    lies in the group; the line where it would end is all of them.</p>"""
)
_LINES = """<p class="quiet">A time line counts the rows behind a group's edges; the window that holds most of them is
    marked.</p>"""
_OPEN = 8
_EPOCH = datetime(1970, 1, 1)
_AT_ONCE = 100
_MOST_BYTES = 3_000_000


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """The section of a run's groups, before all others; see `pipeline.problems.base.DerivedPublication`.

    All groups are shown as far as they take 3 MB, and `top` of those that are muted.
    """
    every_group = pq.read_table(run_path / "groups.parquet")
    groups = every_group.filter(pc.invert(every_group["is_muted"]))
    quiet = every_group.filter(every_group["is_muted"])
    is_grown = manifest.config.section("groups").kind == "grown_cover"
    about = _GROWN if is_grown else _ABOUT
    items = list(_items(run_path, groups, manifest.config))
    bars = _BARS.substitute({side: side_name(manifest.config, side) for side in ("left", "right")})
    pictures = bars + (_LINES if any('class="times"' in item for item in items) else "")
    found = f"{about}{_shown(len(items), groups.num_rows)}{pictures}{_controls(groups)}{_list(items)}"
    parts = (
        _incomplete(manifest),
        preface(manifest),
        found if items else _nothing(run_path, manifest),
        muted(quiet.slice(0, top).to_pylist(), quiet.num_rows),
    )
    section = PageSection("groups", "Groups", "".join(parts))
    script = files("mbe_stage.pipeline.report").joinpath("groups.js").read_text(encoding="utf-8")
    figures = [
        ("groups", count(groups.num_rows)),
        ("left vertices in groups", count(manifest.derived["groups"]["left_members"])),
    ]
    return Page(figures=figures, first_sections=[section], script=script if items else "")


def _items(run_path: Path, groups: pa.Table, config: Config) -> Iterator[str]:
    """The groups by rank, until they fill the page."""
    is_grown = config.section("groups").kind == "grown_cover"
    has_times = config.input.timestamp is not None
    written, n_bytes, is_first = right_key(config), 0, True
    for start in range(0, groups.num_rows, _AT_ONCE):
        part = groups.slice(start, _AT_ONCE)
        members_of = _by_group(run_path / "group_members.parquet", part)
        edges_of = _by_group(run_path / "group_edges.parquet", part) if is_grown else {}
        times_of = _by_group(run_path / "group_times.parquet", part) if has_times else {}
        for group in part.to_pylist():
            group_key = group["group_key"]
            edges = {(edge["left"], edge["right"]) for edge in edges_of.get(group_key, [])}
            item = _group(group, members_of[group_key], edges, times_of.get(group_key, []), written)
            n_bytes += len(item.encode())
            # The first one is there however large it is.
            if n_bytes > _MOST_BYTES and not is_first:
                return
            is_first = False
            yield item


def _by_group(path: Path, groups: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """The rows of a table that are of some groups, by group."""
    of_groups = pc.field("group_key").isin(groups["group_key"].combine_chunks())
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in pq.read_table(path, filters=of_groups).to_pylist():
        rows.setdefault(row["group_key"], []).append(row)
    return rows


def _nothing(run_path: Path, manifest: Manifest) -> str:
    why = nothing_significant(run_path, manifest)
    which = "left" if manifest.derived["groups"]["groups"] else "significant"
    return _NOTHING.format(which=which, why=escape(why[0].upper() + why[1:]))


def _incomplete(manifest: Manifest) -> str:
    if manifest.truncated is not None:
        return "<p>Of the bicliques that this incomplete run has found: better groups may be missing.</p>"
    if manifest.derived["groups"].get("half_later_truncated"):
        return "<p>A limit ended the search of the buckets that begin half later: better groups may be missing.</p>"
    return ""


def _shown(n_shown: int, n_groups: int) -> str:
    listed = (
        "All" if n_shown == n_groups else f"The first {count(n_shown)}, which fill this page and are searched here,"
    )
    where = "<code>groups</code>, <code>group_members</code> and <code>vertex_scores</code>"
    return (
        f"<p>{listed} of {plural(n_groups, 'group')}. The tables {where} have them, with a score of every vertex.</p>"
    )


def _list(items: list[str]) -> str:
    """The first groups in the open, the others folded."""
    shown = f'<ol class="groups">{"".join(items[:_OPEN])}</ol>'
    if len(items) <= _OPEN:
        return shown
    summary = f"<summary>{len(items) - _OPEN} more</summary>"
    return f'{shown}<details class="more">{summary}<ol class="groups">{"".join(items[_OPEN:])}</ol></details>'


def _group(
    group: dict[str, Any],
    rows: list[dict[str, Any]],
    edges: set[tuple[int, int]],
    times: list[dict[str, Any]],
    written: Callable[[object], str],
) -> str:
    """A group; `edges` are those that it has, where some may be missing, `times` the parts of its time line."""
    size = f"{count(group['n_left'])} × {count(group['n_right'])}"
    # Where not all can be shown, those with most edges are.
    left, right = (
        sorted((row for row in rows if row["side"] == side), key=lambda row: (-row["n_edges"], row["vertex"]))
        for side in ("left", "right")
    )
    absent = [
        (i, k)
        for i, one in enumerate(left[:MOST_ROWS])
        for k, other in enumerate(right[:MOST_COLUMNS])
        if edges and (one["vertex"], other["vertex"]) not in edges
    ]
    left_shares, right_shares = ([row["edge_share"] for row in side] for side in (left, right))
    sides = "".join(
        members([row["key"] for row in side], name, "group_members", of_side)
        for side, name, of_side in ((left, "left", key), (right, "right", written))
    )
    return (
        f'<li {_sortable(group)}><header><span class="rank">{group["rank"]}</span><b>{size}</b>'
        f"<span>surprise {group['surprise']:,.1f}</span>{_stands_for(group)}{_weight(group)}{marks(group)}"
        f"<code>{group['group_key']}</code></header>"
        f"<p>{escape(group['explanation'])}.</p>"
        f'<div class="members">{sides}</div>'
        f'<div class="pictures">{pattern(left_shares, right_shares, absent)}{time_line(group, times)}</div></li>'
    )


def _weight(group: dict[str, Any]) -> str:
    if group["weight_total"] is None:
        return ""
    return f"<span>weight {group['weight_total']:,.6g}, median {group['weight_median']:,.6g}</span>"


def _sortable(group: dict[str, Any]) -> str:
    """The figures that the page can be sorted by, as attributes; what is not known has none."""
    return " ".join(f'data-{name}="{value}"' for name, value in _orders(group).items() if value is not None)


def _orders(group: dict[str, Any]) -> dict[str, float | None]:
    """By the names of `_ORDERS`."""
    first, last, share = group["first_time"], group["last_time"], group["busiest_share"]
    return {
        "rank": group["rank"],
        "edges": group["n_edges"],
        "left": group["n_left"],
        "right": group["n_right"],
        "surprise": group["surprise"],
        # A narrower window before a larger share of a wider one.
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


def _controls(groups: pa.Table) -> str:
    """What finds and sorts, hidden until the script shows it; orders by what no group has are left out."""
    known = {
        name
        for group in groups.slice(0, _AT_ONCE).to_pylist()
        for name, value in _orders(group).items()
        if value is not None
    }
    options = "".join(
        f'<option value="{order}">{label}</option>' for order, label in _ORDERS.items() if order.split()[0] in known
    )
    return (
        '<div id="find-groups" class="find" role="search" hidden>'
        '<label>Find <input id="wanted-groups" type="search" placeholder="a member, a case, a group"></label>'
        f'<label>Order <select id="order-groups">{options}</select></label>'
        '<span id="found-groups" aria-live="polite"></span></div>'
    )


def _stands_for(group: dict[str, Any]) -> str:
    if group["residual_gain"] is not None:
        grown = plural(group["n_bicliques"], "biclique")
        return f"<span>adds {group['residual_gain']:,.1f}</span><span>grown from {grown}</span>"
    copies = group["n_bicliques"] - 1
    return f"<span>and {plural(copies, 'near copy', 'near copies')}</span>" if copies else ""
