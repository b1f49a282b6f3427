"""Labelled graphs that were not used for tuning: measured once, wins and losses alike."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.groups import metrics
from benchmarks.groups.baselines import fraudar_blocks
from benchmarks.groups.labelled import DEVELOPMENT, Key, available, load
from benchmarks.groups.lines import Line
from benchmarks.groups.ours import Search, groups, lefts, search
from benchmarks.groups.vertices import DEFAULT, Case, measure

__all__ = ["final_lines"]

N_GROUPS = 50
LIMIT_SECONDS = 20.0
"""Limit of a search. Some of these graphs have too many bicliques: then the results so far are measured, and depend on
the machine.
"""


def final_lines() -> Iterator[Line]:
    """Return one line per graph: average precision for a positive class, purity of groups for communities."""
    for name in available():
        if name in DEVELOPMENT:
            continue
        classes = set(load(name).labels.tolist()) - {-1}
        if not classes:
            yield Line(name, "not measured: no labels")
        elif name.startswith("comm_"):
            yield _communities(name)
        elif classes == {0, 1}:
            yield _vertices(name)
        else:
            yield Line(name, f"not measured: found the classes {sorted(classes)}, expected 0 and 1")


def _vertices(name: str) -> Line:
    found = measure(Case(name, Key(), 2, 2), time_limit_seconds=LIMIT_SECONDS)
    listed = lefts(groups(found.searches, N_GROUPS))
    return Line(
        f"{name}, item, 2 x 2: average precision, and purity of the first {N_GROUPS} groups",
        f"{found.precision[DEFAULT]} {DEFAULT}; {len(listed)} groups, "
        f"{metrics.positive_purity(listed, found.labels)}{_truncated(found.searches[0])}",
        "; ".join(f"{score} {one.value:.3f}" for score, one in found.precision.items() if score != DEFAULT),
    )


def _communities(name: str) -> Line:
    events = load(name)
    graph = events.graphs()[0]
    found = search(graph, time_limit_seconds=LIMIT_SECONDS)
    listed = lefts(groups([found], N_GROUPS))
    blocks = [block.left for block in fraudar_blocks(graph)]
    return Line(
        f"{name}, item, 2 x 2: share of the majority class in the first {N_GROUPS} groups",
        f"{metrics.majority_purity(listed, events.labels)}{_truncated(found)}",
        f"FRAUDAR {metrics.majority_purity(blocks, events.labels)}",
    )


def _truncated(found: Search) -> str:
    if not found.is_truncated:
        return ""
    return f"; of the first {found.n_bicliques:,} bicliques, truncated after {LIMIT_SECONDS:.0f} s"
