"""Why there are so many (or so few) bicliques, and which size limits would leave how many."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from mbe_stage.pipeline.report.tables import SideSummary, Sizes
from mbe_stage.pipeline.report.wording import count, key, percent
from mbe_stage.pipeline.wording import plural

__all__ = ["Rung", "explanation", "ladder"]

_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000)
_A_HUB = 0.05  # a vertex in this share of all bicliques is worth naming


@dataclass(frozen=True, slots=True)
class Rung:
    """How many bicliques a minimum size leaves: on both sides, on the left only, on the right only."""

    size: int
    both: int
    left: int
    right: int


def ladder(sizes: Sizes, min_left: int = 1, min_right: int = 1) -> list[Rung]:
    """What each minimum size would leave, from the histogram; the last rung is the first where nothing is left.

    Parameters
    ----------
    min_left, min_right : int
        Minimum sizes of the run itself: smaller ones would need another run, so they have no rung.
    """
    rungs = []
    for size in _STEPS:
        if size <= min(min_left, min_right):
            continue
        both = sizes.at_least(size, size)
        rungs.append(Rung(size, both, sizes.at_least(left=size), sizes.at_least(right=size)))
        if both == 0:
            break
    return rungs


def explanation(sizes: Sizes, n_edges: int, sides: tuple[SideSummary, SideSummary], truncated: str | None) -> list[str]:
    """HTML paragraphs on the number of bicliques; long only where the number is surprising."""
    total = sizes.total
    if total == 0:
        return [
            "No maximal biclique satisfies what was asked. A graph with an edge always has some: "
            "lower the minimum sizes, raise the maximum sizes, or ask for fewer vertices to be contained."
        ]
    coverage = float((sizes.n_left * sizes.n_right) @ sizes.n_bicliques.astype(float)) / max(n_edges, 1)
    held = f"An edge is in {coverage:,.1f} of the bicliques listed here on average."
    if total <= n_edges:
        return [f"{plural(total, 'maximal biclique')} from {plural(n_edges, 'edge')}. {held}"]
    paragraphs = [_why_so_many(total, n_edges, truncated) + " " + held, _drivers(total, sides), _reduction(sizes)]
    return [Markup(text) for text in paragraphs if text]


def _why_so_many(total: int, n_edges: int, truncated: str | None) -> str:
    ratio = total / n_edges
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
    floor = "at least " if truncated else ""
    return (
        f"<strong>{count(total)} maximal bicliques from {plural(n_edges, 'edge')}: {floor}{times} times as many. "
        "That is no error.</strong> "
        "A maximal biclique is a set of vertices together with <em>everything they have in common</em>, and what "
        "vertices have in common can be combined in many ways: where <i>k</i> neighbourhoods overlap, up to "
        "2<sup><i>k</i></sup> − 1 different intersections can each be a maximal biclique. In the extreme, "
        "<i>n</i> vertices each joined to all but one of <i>n</i> others have <i>n</i>(<i>n</i> − 1) edges and "
        "2<sup><i>n</i></sup> − 2 maximal bicliques: for <i>n</i> = 20 that is 380 edges and 1,048,574 bicliques."
    )


def _drivers(total: int, sides: tuple[SideSummary, SideSummary]) -> str:
    named = []
    for side in sides:
        hubs = [row for row in side.busiest[:3] if row.n_bicliques >= _A_HUB * total]
        named += [
            f"<b>{key(row.key)}</b> ({side.side}, degree {count(row.degree)}) in {percent(row.n_bicliques, total)}"
            for row in hubs
        ]
    if not named:
        return (
            "No single vertex drives it: none is in more than 5 % of the bicliques. "
            "The overlaps are spread over the whole graph."
        )
    return f"Busy vertices drive it, because their neighbourhoods overlap with most others: {'; '.join(named)}."


def _reduction(sizes: Sizes) -> str:
    total = sizes.total
    rungs = [rung for rung in ladder(sizes) if 0 < rung.both < total]
    if not rungs:
        return ""
    chosen = next((rung for rung in rungs if rung.both <= total / 10), rungs[-1])
    lost = total - chosen.both
    return (
        f"Size limits cut the number and the time: {percent(lost, total)} of these bicliques have a side of fewer than "
        f"{chosen.size} vertices. With minimum sizes {chosen.size} × {chosen.size} "
        f"(<code>--min-left {chosen.size} --min-right {chosen.size}</code>) {count(chosen.both)} are left; "
        "the table below shows the other choices."
    )
