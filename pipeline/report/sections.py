"""The sections of the page as HTML fragments; every text that comes from the user goes through `wording`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mbe_stage.pipeline.report.explain import Rung
from mbe_stage.pipeline.report.tables import SideSummary, VertexRow
from mbe_stage.pipeline.report.wording import count, escape, key, percent
from mbe_stage.pipeline.views.top import Biclique
from mbe_stage.pipeline.wording import plural, seconds_text

__all__ = [
    "bar",
    "facts",
    "groups",
    "ladder_table",
    "members",
    "more_to_find",
    "notice",
    "paragraphs",
    "side_facts",
    "tiles",
    "timings",
    "vertex_table",
    "warnings",
]

_SHOWN_MEMBERS = 12
_NOT_WORTH_FOLDING = 4
_LISTED_MEMBERS = 300  # a star of a million leaves must not make a page of a million names
_OPEN_GROUPS = 8


def tiles(items: Iterable[tuple[str, str]]) -> str:
    """The figures at the top: label and (escaped) value."""
    return "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in items)


def notice(truncated: str | None, meaning: str) -> str:
    """The banner of an incomplete result, with what that means."""
    if truncated is None:
        return ""
    return (
        f'<p class="notice" role="alert"><strong>Incomplete.</strong> The enumeration {escape(truncated)}. '
        f"{escape(meaning)}</p>"
    )


def more_to_find(results: str, consequence: str) -> str:
    """What it means that there may be more such `results`."""
    return f"What is listed is exact, but there may be more {results}: {consequence}."


def warnings(texts: Iterable[str]) -> str:
    """A banner for each thing that the run had to do otherwise than asked, or could not check."""
    return "".join(f'<p class="notice"><strong>Note.</strong> {escape(text)}</p>' for text in texts)


def paragraphs(texts: Iterable[str]) -> str:
    """HTML texts as paragraphs."""
    return "".join(f"<p>{text}</p>" for text in texts)


def facts(items: Iterable[tuple[str, str]]) -> str:
    """A list of labels and (escaped) values."""
    return '<dl class="facts">' + "".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in items) + "</dl>"


def side_facts(side: SideSummary) -> str:
    """One line on the degrees of a side."""
    if side.hub is None:
        return ""
    return (
        f"{plural(side.n_vertices, 'vertex', 'vertices')}; degree {side.mean_degree:.1f} on average, "
        f"{count(side.median_degree)} at the median, {count(side.hub.degree)} at most: <b>{key(side.hub.key)}</b>."
    )


def ladder_table(rungs: Sequence[Rung]) -> str:
    """What each minimum size leaves."""
    if not rungs:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{rung.size}</th><td class="lead">{count(rung.both)}</td>'
        f"<td>{count(rung.left)}</td><td>{count(rung.right)}</td></tr>"
        for rung in rungs
    )
    return (
        '<table class="numbers"><caption>Bicliques left by a minimum size</caption><thead><tr>'
        '<th scope="col">at least</th><th scope="col">on both sides</th>'
        '<th scope="col">on the left</th><th scope="col">on the right</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def groups(bicliques: Sequence[Biclique], written: Callable[[object], str] = key) -> str:
    """Bicliques with their members, the first ones open and the rest folded; right keys as `written` writes them."""
    items = [_group(rank, biclique, written) for rank, biclique in enumerate(bicliques, 1)]
    shown = f'<ol class="groups">{"".join(items[:_OPEN_GROUPS])}</ol>'
    if len(items) <= _OPEN_GROUPS:
        return shown
    rest = "".join(items[_OPEN_GROUPS:])
    summary = f"<summary>{len(items) - _OPEN_GROUPS} more</summary>"
    return f'{shown}<details class="more">{summary}<ol class="groups">{rest}</ol></details>'


def _group(rank: int, biclique: Biclique, written: Callable[[object], str]) -> str:
    size = f"{count(len(biclique.left))} × {count(len(biclique.right))}"
    return (
        f'<li><header><span class="rank">{rank}</span><b>{size}</b>'
        f"<span>{plural(biclique.n_edges, 'edge')}</span><code>{biclique.key}</code></header>"
        f'<div class="members">{members(biclique.left, "left", "bicliques")}'
        f"{members(biclique.right, 'right', 'bicliques', written)}</div></li>"
    )


def members(keys: Sequence[object], side: str, table: str, written: Callable[[object], str] = key) -> str:
    """The first keys in the open, more of them folded, and a pointer to the table for the rest."""
    shown = _chips(keys[:_SHOWN_MEMBERS], side, written)
    if len(keys) <= _SHOWN_MEMBERS + _NOT_WORTH_FOLDING:
        return f"<div>{_chips(keys, side, written)}</div>"
    folded = _chips(keys[_SHOWN_MEMBERS:_LISTED_MEMBERS], side, written)
    unlisted = len(keys) - _LISTED_MEMBERS
    if unlisted > 0:
        folded += f'<p class="quiet">and {count(unlisted)} that only the table <code>{escape(table)}</code> lists</p>'
    summary = f"and {count(len(keys) - _SHOWN_MEMBERS)} more"
    return f"<div>{shown}<details><summary>{summary}</summary>{folded}</details></div>"


def _chips(keys: Iterable[object], side: str, written: Callable[[object], str]) -> str:
    return f'<ul class="chips {side}">' + "".join(f"<li>{written(value)}</li>" for value in keys) + "</ul>"


def vertex_table(side: SideSummary, total: int) -> str:
    """The vertices of one side that are in most bicliques."""
    if not side.busiest:
        return '<p class="quiet">No vertex of this side is in a biclique that was asked for.</p>'
    rows = "".join(_vertex(row, side.side, total) for row in side.busiest)
    return (
        f'<table class="numbers vertices"><thead><tr><th scope="col">{side.side} vertex</th><th scope="col">degree</th>'
        '<th scope="col"><abbr title="other vertices of this side that share a neighbour with it">two-hop</abbr></th>'
        '<th scope="col">in bicliques</th><th scope="col">share</th><th scope="col"><abbr title="edges of the largest '
        f'biclique that the vertex is in">largest</abbr></th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _vertex(row: VertexRow, side: str, total: int) -> str:
    drawn = bar(row.n_bicliques / max(total, 1), side)
    return (
        f'<tr><th scope="row">{key(row.key)}</th><td>{count(row.degree)}</td>'
        f"<td>{'–' if row.two_hop_degree is None else count(row.two_hop_degree)}</td><td>{count(row.n_bicliques)}</td>"
        f'<td>{drawn}<span class="share">{percent(row.n_bicliques, total)}</span></td>'
        f"<td>{count(row.largest_biclique_edges)}</td></tr>"
    )


def timings(seconds: dict[str, float]) -> str:
    """Wall time of every step, as bars; `total` comes last, without one."""
    steps = {step: value for step, value in seconds.items() if step != "total"}
    longest = max(steps.values(), default=0.0) or 1.0
    rows = [
        f'<tr><th scope="row">{escape(step)}</th><td>{seconds_text(value)}</td>'
        f"<td>{bar(value / longest, 'step')}</td></tr>"
        for step, value in steps.items()
    ]
    if "total" in seconds:
        rows.append(
            f'<tr class="total"><th scope="row">total</th><td>{seconds_text(seconds["total"])}</td><td></td></tr>'
        )
    return f'<table class="numbers timings"><tbody>{"".join(rows)}</tbody></table>'


def bar(share: float, kind: str) -> str:
    """A bar that is that share of its track."""
    return f'<span class="track"><span class="bar {kind}" style="width:{100 * share:.1f}%"></span></span>'
