"""What the report says of groups beside finding them: cases, known cases, muted groups, and the run before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mbe_stage.pipeline.problems.derived_inputs import DerivedInput
from mbe_stage.pipeline.publish.changes import Comparison
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.request import right_key
from mbe_stage.pipeline.report.wording import count, escape, key, percent
from mbe_stage.pipeline.wording import plural

__all__ = ["marks", "muted", "preface", "since_last"]

_LISTS = {"labels": "Labels", "allow": "Known good"}


def preface(manifest: Manifest) -> str:
    """What was given beside the edges, and what is new: above the list."""
    inputs = manifest.derived_inputs.get("groups", {})
    lists = "".join(_list(_LISTS[name], facts) for name, facts in inputs.items())
    return lists + since_last(manifest.derived_comparison.get("groups"), right_key(manifest.config))


def marks(group: dict[str, Any]) -> str:
    """What stands in the head of a group: what became of it, its case, and what is known of it."""
    since = ""
    if group["since"]:
        status = "as in" if group["since"] == "same" else f"{group['since']} since"
        since = f"<span>{escape(status)} the last run</span>"
    known = ""
    if group["n_known"]:
        share = "" if group["known_share"] is None else f" ({percent(group['known_share'], 1.0)})"
        known = f"<span>{plural(group['n_known'], 'known case')}{share}, p {_chance(group['known_p_value'])}</span>"
    return f"{since}<span>case <code>{escape(group['case'])}</code></span>{known}"


def muted(groups: Sequence[dict[str, Any]], n_muted: int) -> str:
    """The groups of what is known good alone, folded; the first of so many."""
    if not groups:
        return ""
    rows = "".join(
        f"<li>{count(group['n_left'])} × {count(group['n_right'])}, surprise {group['surprise']:,.1f}, rank "
        f"{group['rank']}, <code>{group['group_key']}</code></li>"
        for group in groups
    )
    first = "" if len(groups) == n_muted else f" (the first {count(len(groups))})"
    return (
        f'<details class="more"><summary>{plural(n_muted, "muted group")}{first}: all members of a side are known '
        "good</summary>"
        f"<ul>{rows}</ul></details>"
    )


def since_last(comparison: Comparison | None, right: Callable[[object], str] = key) -> str:
    """How the groups differ from those of the run before, and those that are gone, folded; `right` writes keys."""
    if comparison is None:
        return ""
    remarks = "".join(f'<p class="quiet">Groups: {escape(remark)}.</p>' for remark in comparison.remarks)
    if comparison.n_same is None:
        return remarks
    told = ", ".join(f"<b>{count(n)}</b> {escape(status)}" for status, n in comparison.counts.items())
    line = (
        f"<p>Since run <code>{escape(comparison.run_id)}</code>: {told or 'nothing differs'}; "
        f"{count(comparison.n_same)} as before.</p>"
    )
    rows = "".join(
        f"<li>{count(group.n_left)} × {count(group.n_right)}: {_keys(group.n_left, group.left)} with "
        f"{_keys(group.n_right, group.right, right)}</li>"
        for group in comparison.largest
    )
    if not rows:
        return remarks + line
    n_gone = comparison.counts.get("gone", len(comparison.largest))
    shown = "" if n_gone == len(comparison.largest) else f", the first {count(len(comparison.largest))}"
    summary = f"<summary>Gone since the run before: {plural(n_gone, 'group')}{shown}</summary>"
    return f'{remarks}{line}<details class="more">{summary}<ul>{rows}</ul></details>'


def _list(name: str, facts: DerivedInput) -> str:
    source, classes = key(facts.source), f" Taken as: {escape(facts.classes_text)}." if facts.classes else ""
    if not facts.n_not_in_graph:
        return f'<p class="quiet">{name}: {plural(facts.rows, "key")} of {source}.{classes}</p>'
    named = ", ".join(map(escape, facts.not_in_graph))
    more = " and others" if facts.n_not_in_graph > len(facts.not_in_graph) else ""
    return (
        f'<p class="quiet">{name}, {source}: {count(facts.n_not_in_graph)} of {plural(facts.rows, "key")} are no '
        f"vertex of this graph: {named}{more}.{classes}</p>"
    )


def _chance(value: float | None) -> str:
    if value is None:
        return "not known"
    return "below 1e-300" if value < 1e-300 else f"{value:.1g}" if value < 0.01 else f"{value:.2f}"


def _keys(n: int, shown: Sequence[str], written: Callable[[object], str] = key) -> str:
    return ", ".join(map(written, shown)) + ("" if n <= len(shown) else f" and {count(n - len(shown))} more")
