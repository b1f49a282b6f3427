"""What the report shows of groups: each with its sentence, its members and the pattern of its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from markupsafe import Markup

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.publish.changes import Comparison
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.group_charts import MOST_COLUMNS, MOST_ROWS, WIDTHS, pattern, time_line
from mbe_stage.pipeline.report.rendering import fragment
from mbe_stage.pipeline.report.request import right_key, side_name
from mbe_stage.pipeline.report.wording import count, key
from mbe_stage.pipeline.views.listed_groups import nothing_significant

__all__ = ["page", "since_last"]

_TEMPLATE = "groups.html"
_LISTS = {"labels": "Labels", "allow": "Known good"}
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
    items = list(_items(run_path, groups, manifest.config))
    names = [side_name(manifest.config, side) for side in ("left", "right")]
    has_times = any('class="times"' in item for item in items)
    found = (
        fragment(_TEMPLATE, "found", is_grown, len(items), groups.num_rows, *names, has_times),
        fragment(_TEMPLATE, "controls", _known_orders(groups)),
        fragment(_TEMPLATE, "listed", items),
    )
    inputs = manifest.derived_inputs.get("groups", {})
    parts = (
        _incomplete(manifest),
        *(fragment(_TEMPLATE, "input_list", _LISTS[name], facts) for name, facts in inputs.items()),
        since_last(manifest.derived_comparison.get("groups"), right_key(manifest.config)),
        *(found if items else [_nothing(run_path, manifest)]),
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
    return fragment(_TEMPLATE, "nothing", which, why[0].upper() + why[1:])


def _incomplete(manifest: Manifest) -> str:
    if manifest.truncated is not None:
        return "<p>Of the bicliques that this incomplete run has found: better groups may be missing.</p>"
    if manifest.derived["groups"].get("half_later_truncated"):
        return "<p>A limit ended the search of the buckets that begin half later: better groups may be missing.</p>"
    return ""


def since_last(comparison: Comparison | None, right: Callable[[object], str] = key) -> str:
    """How the groups differ from those of the run before, and those that are gone, folded; `right` writes keys."""
    return "" if comparison is None else fragment(_TEMPLATE, "since_last", comparison, right)


def _group(
    group: dict[str, Any],
    rows: list[dict[str, Any]],
    edges: set[tuple[int, int]],
    times: list[dict[str, Any]],
    written: Callable[[object], str],
) -> str:
    """A group; `edges` are those that it has, where some may be missing, `times` the parts of its time line."""
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
    orders = [(name, value) for name, value in _orders(group).items() if value is not None]
    keys = ([row["key"] for row in side] for side in (left, right))
    pictures = Markup(pattern(left_shares, right_shares, absent) + time_line(group, times))
    return fragment(_TEMPLATE, "group", group, orders, *keys, written, _chance(group["known_p_value"]), pictures)


def _chance(value: float | None) -> str:
    if value is None:
        return "not known"
    return "below 1e-300" if value < 1e-300 else f"{value:.1g}" if value < 0.01 else f"{value:.2f}"


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


def _known_orders(groups: pa.Table) -> list[tuple[str, str]]:
    """What the page can be sorted by, with its words; orders by what no group has are left out."""
    known = {
        name
        for group in groups.slice(0, _AT_ONCE).to_pylist()
        for name, value in _orders(group).items()
        if value is not None
    }
    return [(order, label) for order, label in _ORDERS.items() if order.split()[0] in known]
