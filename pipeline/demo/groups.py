"""Some large groups without near copies, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from mbe_stage.pipeline.cli.terminal import shortened, visible
from mbe_stage.pipeline.views.top import Biclique, Conditions, largest_bicliques

_CANDIDATES = 3000  # among this many of the largest
_KEY = 64  # characters that are shown of a key
_OVERLAP = 0.3  # share of its edges that a group may have in common with one above it


def telling_groups(run_dir: Path, limit: int, fewest: int) -> list[Biclique]:
    """Return the largest bicliques with at least `fewest` vertices on both sides, without near copies of larger ones.

    Large bicliques come in families that differ in a few vertices; one of each family is enough.
    """
    chosen: list[Biclique] = []
    on_both = Conditions(min_left=fewest, min_right=fewest)
    for candidate in largest_bicliques(run_dir, _CANDIDATES, conditions=on_both):
        if all(_common_edges(candidate, group) <= _OVERLAP * candidate.n_edges for group in chosen):
            chosen.append(candidate)
        if len(chosen) == limit:
            break
    return chosen


def _common_edges(one: Biclique, other: Biclique) -> int:
    return len(set(one.left) & set(other.left)) * len(set(one.right) & set(other.right))


def group_table(title: str, left: str, right: str, groups: Iterable[Biclique]) -> Table:
    """Make a table of groups: their sizes, and the first members of each side."""
    table = Table(title=title, title_justify="left", show_lines=True, expand=True)
    table.add_column("size", no_wrap=True)
    table.add_column(left, ratio=1)
    table.add_column(right, ratio=1)
    for group in groups:
        size = f"{len(group.left)} × {len(group.right)}"
        # Text, not str: keys may hold what rich would read as markup.
        table.add_row(size, Text(_listed(group.left)), Text(_listed(group.right)))
    return table


def _listed(keys: Sequence[object], most: int = 6) -> str:
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return ", ".join(visible(shortened(key, _KEY)) for key in keys[:most]) + more
