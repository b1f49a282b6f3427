"""What the report shows of groups: each with its sentence, its members and the pattern of its edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.manifest import Manifest
from pipeline.publication import Page, PageSection
from pipeline.report.group_pattern import pattern
from pipeline.report.sections import members
from pipeline.report.wording import count, escape
from pipeline.wording import plural

__all__ = ["page"]

_ABOUT = """<p>Groups with more edges than the degrees of their members make likely, the most surprising first; groups
    that nearly repeat a better one are left out. Surprise is a log-likelihood ratio less the cost of naming the group,
    in nats: only what is above 0 is listed.</p>"""
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
    of_shown = pc.field("group_key").isin(shown["group_key"].combine_chunks())
    rows: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for row in pq.read_table(run_path / "group_members.parquet", filters=of_shown).to_pylist():
        rows.setdefault(row["group_key"], {"left": [], "right": []})[row["side"]].append(row)
    items = [_group(group, rows[group["group_key"]]) for group in shown.to_pylist()]
    body = f"{_ABOUT}{_shown(len(items), groups.num_rows)}{_BARS}{_list(items)}" if items else _NOTHING
    return Page(first_sections=[PageSection("groups", "Groups", _incomplete(manifest) + body)])


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


def _group(group: dict[str, Any], rows: dict[str, list[dict[str, Any]]]) -> str:
    size = f"{count(group['n_left'])} × {count(group['n_right'])}"
    copies = group["n_bicliques"] - 1
    stands = f"<span>and {plural(copies, 'near copy', 'near copies')}</span>" if copies else ""
    sides = "".join(members([row["key"] for row in rows[side]], side, "group_members") for side in ("left", "right"))
    left, right = ([row["edge_share"] for row in rows[side]] for side in ("left", "right"))
    return (
        f'<li><header><span class="rank">{group["rank"]}</span><b>{size}</b>'
        f"<span>surprise {group['surprise']:,.1f}</span>{stands}<code>{group['group_key']}</code></header>"
        f"<p>{escape(group['explanation'])}.</p>"
        f'<div class="members">{sides}</div>{pattern(left, right)}</li>'
    )
