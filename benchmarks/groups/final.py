"""The labelled graphs that nothing was tuned on: looked at once, wins and losses alike."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.groups import metrics
from benchmarks.groups.baselines import fraudar_blocks
from benchmarks.groups.labelled import DEVELOPMENT, Key, available, load
from benchmarks.groups.lines import RANK_OF_COMMUNITIES, Line
from benchmarks.groups.ours import Search, groups, lefts, search
from benchmarks.groups.vertices import DEFAULT, Case, measure

__all__ = ["final_lines"]

N_GROUPS = 50
LIMIT_SECONDS = 20.0
"""Of a search. Some of these graphs have more bicliques than anybody waits for: then what was found is measured, and
depends on the machine."""


def final_lines() -> Iterator[Line]:
    """One line a graph: average precision where a class is positive, purity of groups where classes are communities."""
    for name in available():
        if name in DEVELOPMENT:
            continue
        try:
            classes = set(load(name).labels.tolist()) - {-1}
        except ValueError as error:
            yield Line(name, "", "", f"not measured: {error}", None)
            continue
        yield _communities(name) if name.startswith("comm_") else _vertices(name, classes)


def _vertices(name: str, classes: set[int]) -> Line:
    if classes != {0, 1}:
        return Line(name, "", "", f"not measured: found the classes {sorted(classes)}, expected 0 and 1", None)
    found = measure(Case(name, Key(), 2, 2), time_limit_seconds=LIMIT_SECONDS)
    others = "; ".join(
        f"{score} {found.precision[score].value:.3f}" for score in found.precision if score not in (DEFAULT, "FRAUDAR")
    )
    listed = lefts(groups(found.searches, N_GROUPS, "short_list"))
    return Line(
        f"{name}, item, 2 x 2: average precision, and top {N_GROUPS} groups",
        "",
        str(found.precision["FRAUDAR"]),
        f"{found.precision[DEFAULT]} {DEFAULT}; {others}; short list of {len(listed)}, "
        f"{metrics.pooled_purity(listed, found.labels)}{_truncated(found.searches[0])}",
        None,
    )


def _communities(name: str) -> Line:
    events = load(name)
    graph = events.graphs()[0]
    found = search(graph, time_limit_seconds=LIMIT_SECONDS)
    listed = lefts(groups([found], N_GROUPS, "short_list", RANK_OF_COMMUNITIES))
    blocks = [block.left for block in fraudar_blocks(graph)]
    ours, theirs = (metrics.mean_estimate(metrics.majority_purity(some, events.labels)) for some in (listed, blocks))
    return Line(
        f"{name}, item, 2 x 2: top {N_GROUPS} groups, share of the majority class, mean",
        "",
        str(theirs),
        f"{ours} {len(listed)} groups{_truncated(found)}",
        None,
    )


def _truncated(found: Search) -> str:
    if not found.is_truncated:
        return ""
    return f"; of the first {found.n_bicliques:,} bicliques, truncated after {LIMIT_SECONDS:.0f} s"
