"""What the report shows of groups: each with its sentence, its members and the pattern of its edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.manifest import Manifest
from pipeline.publication import Page, PageSection
from pipeline.report.group_pattern import MOST_COLUMNS, MOST_ROWS, pattern
from pipeline.report.sections import members
from pipeline.report.wording import count, escape
from pipeline.wording import plural

__all__ = ["page"]

_ABOUT = """<p>Groups with more edges than the degrees of their members make likely, the most surprising first; groups
    that nearly repeat a better one are left out. Surprise is a log-likelihood ratio less the cost of naming the group,
    in nats: only what is above 0 is listed.</p>"""
_GROWN = """<p>Groups that the most surprising bicliques have grown to: with more edges than the degrees of their
    members make likely, though some may be missing. Each is there for edges that no group before it explains, which
    is how much of it is new. Surprise is a log-likelihood ratio less the cost of naming the group, in nats: only what
    is above 0 is listed.</p>"""
_NOTHING = """<p><strong>No group is significant.</strong> No biclique of this run has a positive surprise: the degrees
    of the vertices explain what there is. That is a result; nothing was left out. The table
    <code>vertex_scores</code> scores every vertex all the same.</p>"""
_BARS = """<p class="quiet">In the pictures rows are left and columns right members; a filled square is an edge. A bar
    says which share of a member's own edges lies in the group; the line where it would end is all of them.</p>"""
_OPEN = 8


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """The section of a run's groups, before all others; see `pipeline.publication.DerivedPublication`.

    Parameters
    ----------
    run_path : Path
    manifest : Manifest
    top : int
        How many groups are shown.
    """
    groups = pq.read_table(run_path / "groups.parquet")
    shown = groups.slice(0, top)
    members_of = _by_group(run_path / "group_members.parquet", shown)
    is_grown = manifest.config.section("groups").kind == "grown_cover"
    edges_of = _by_group(run_path / "group_edges.parquet", shown) if is_grown else {}
    items = []
    for group in shown.to_pylist():
        of_group = edges_of.get(group["group_key"], [])
        items.append(
            _group(group, members_of[group["group_key"]], {(edge["left"], edge["right"]) for edge in of_group})
        )
    about = _GROWN if is_grown else _ABOUT
    body = f"{about}{_shown(len(items), groups.num_rows)}{_BARS}{_list(items)}" if items else _NOTHING
    return Page(first_sections=[PageSection("groups", "Groups", _incomplete(manifest) + body)])


def _by_group(path: Path, groups: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """The rows of a table that are of some groups, by group."""
    of_groups = pc.field("group_key").isin(groups["group_key"].combine_chunks())
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in pq.read_table(path, filters=of_groups).to_pylist():
        rows.setdefault(row["group_key"], []).append(row)
    return rows


def _incomplete(manifest: Manifest) -> str:
    if manifest.truncated is None:
        return ""
    return "<p>Of the bicliques that this incomplete run has found: better groups may be missing.</p>"


def _shown(n_shown: int, n_groups: int) -> str:
    listed = "All" if n_shown == n_groups else f"The first {count(n_shown)}"
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


def _group(group: dict[str, Any], rows: list[dict[str, Any]], edges: set[tuple[int, int]]) -> str:
    """A group; `edges` are those that it has, where some may be missing."""
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
        members([row["key"] for row in side], name, "group_members")
        for side, name in ((left, "left"), (right, "right"))
    )
    return (
        f'<li><header><span class="rank">{group["rank"]}</span><b>{size}</b>'
        f"<span>surprise {group['surprise']:,.1f}</span>{_stands_for(group)}<code>{group['group_key']}</code></header>"
        f"<p>{escape(group['explanation'])}.</p>"
        f'<div class="members">{sides}</div>{pattern(left_shares, right_shares, absent)}</li>'
    )


def _stands_for(group: dict[str, Any]) -> str:
    if group["residual_gain"] is not None:
        grown = plural(group["n_bicliques"], "biclique")
        return f"<span>{group['residual_gain']:,.1f} new</span><span>grown from {grown}</span>"
    copies = group["n_bicliques"] - 1
    return f"<span>and {plural(copies, 'near copy', 'near copies')}</span>" if copies else ""
