"""Markdown for pages without files: escaped keys, tables, and the main facts of a run of bicliques."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mbe_stage.pipeline.cli.terminal import shortened, visible
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.publish.reading import has_bicliques
from mbe_stage.pipeline.report.charts import bin_starts
from mbe_stage.pipeline.report.tables import Sizes, read_sizes
from mbe_stage.pipeline.report.wording import compact
from mbe_stage.pipeline.views.near_copies import affordable, largest_distinct
from mbe_stage.pipeline.views.top import Biclique, largest_bicliques

_ROWS, _COLUMNS, _GROUPS = 12, 10, 5
_MEMBERS = 12
_LONGEST_KEY = 80
_LEFT_OUT = "Not known: the bicliques were counted and not written (`output.bicliques: false`)."
_SHADES = "░▒▓█"
# Characters with a meaning in Markdown, table cells or HTML, or for programs that link addresses.
_SPECIAL = re.compile(r"[\\`*_{}\[\]|~<>&:@]|(?<=www)\.")


def text(value: object, most: int = _LONGEST_KEY) -> str:
    r"""Escape a key for a line of Markdown: no part of it becomes Markdown, HTML or a link.

    It is cut to `most` characters.

    Examples
    --------
    >>> print(text("a|b <i>"))
    a&#124;b &#60;i&#62;
    """
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", visible(shortened(value, most)))


def code(value: object) -> str:
    """Format a path or a name as code, unchanged."""
    return f"`{visible(value).replace('`', chr(0x2CB))}`"


def code_cell(value: object) -> str:
    r"""Format a path or a name as code in a table cell, where a bar would begin the next cell.

    Examples
    --------
    >>> print(code_cell("a|b"))
    `a\|b`
    """
    return code(value).replace("|", r"\|")


def members(keys: Sequence[object], of_all: int) -> str:
    """Return the first keys in a line, and the number of the rest."""
    shown = keys[:_MEMBERS]
    more = f" and {of_all - len(shown):,} more" if of_all > len(shown) else ""
    return ", ".join(map(text, shown)) + more


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table, line by line."""
    lines = [names, ["---"] * len(names), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def essence(run_dir: Path, manifest: Manifest) -> list[str]:
    """Return the first facts of a report of bicliques."""
    counts, sizes = manifest.counts, read_sizes(run_dir / "size_histogram.parquet")
    return [
        f"Largest left side {counts.max_left:,}, right side {counts.max_right:,}, {counts.max_edges:,} edges.",
        "",
        "## How large they are",
        "",
        *_heat_map(sizes),
        "",
        "## The largest, by edges, near copies left out",
        "",
        *(_groups(_largest(run_dir, sizes)) if has_bicliques(run_dir) else [_LEFT_OUT]),
    ]


def _largest(run_dir: Path, sizes: Sizes) -> list[Biclique]:
    return largest_distinct(run_dir, _GROUPS, most=affordable(sizes.n_members, _GROUPS)).bicliques


def groups_table(run_dir: Path, limit: int) -> list[dict[str, str | int]]:
    """Return the largest bicliques, with their vertices' own keys, as rows for a table.

    `biclique_key` is text because a browser would round an int64.
    """
    return [
        {
            "biclique_key": str(group.key),
            "n_left": len(group.left),
            "n_right": len(group.right),
            "n_edges": group.n_edges,
            "left": first_keys(group.left),
            "right": first_keys(group.right),
        }
        for group in largest_bicliques(run_dir, limit)
    ]


def first_keys(keys: Sequence[object]) -> str:
    """Return the first keys as plain text, and the number of the rest, for a table that is not Markdown."""
    text = ", ".join(str(key) for key in keys[:_MEMBERS])
    return text if len(keys) <= _MEMBERS else f"{text} and {len(keys) - _MEMBERS:,} more"


def _heat_map(sizes: Sizes) -> list[str]:
    """Return counts of bicliques by size: right members across, left members down, darker for more."""
    if not sizes.total:
        return ["None."]
    down = bin_starts(int(sizes.n_left.min()), int(sizes.n_left.max()), _ROWS)
    across = bin_starts(int(sizes.n_right.min()), int(sizes.n_right.max()), _COLUMNS)
    cells = np.zeros((down.size, across.size), np.int64)
    at = (np.searchsorted(starts, n, "right") - 1 for starts, n in ((down, sizes.n_left), (across, sizes.n_right)))
    np.add.at(cells, tuple(at), sizes.n_bicliques)
    most = np.log1p(cells.max())
    rows = [
        [f"**{name}**", *(_cell(int(n), float(most)) for n in row)]
        for name, row in zip(_bins(down, int(sizes.n_left.max())), cells, strict=True)
    ]
    return table(["left \\ right", *_bins(across, int(sizes.n_right.max()))], rows)


def _cell(n: int, most: float) -> str:
    if not n:
        return ""
    shade = _SHADES[min(int(np.log1p(n) / most * len(_SHADES)), len(_SHADES) - 1)]
    return f"{shade} {compact(n)}"


def _bins(starts: np.ndarray, last: int) -> list[str]:
    ends = [*(int(start) - 1 for start in starts[1:]), last]
    return [f"{first}" if first == end else f"{first}–{end}" for first, end in zip(starts.tolist(), ends, strict=True)]


def _groups(bicliques: Sequence[Biclique]) -> list[str]:
    rows = [
        [
            f"{len(one.left):,} × {len(one.right):,}",
            f"{one.n_edges:,}",
            *(members(keys, len(keys)) for keys in (one.left, one.right)),
        ]
        for one in bicliques
    ]
    return table(["size", "edges", "left", "right"], rows) if rows else ["None."]
