"""What a run found, as Markdown for a page that shows no files: counts, the size heat map, groups, what has changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.compared import Comparison
from pipeline.manifest import Manifest
from pipeline.report.scales import bin_starts
from pipeline.report.tables import Sizes, read_sizes
from pipeline.report.wording import compact
from pipeline.terminal import shortened, visible
from pipeline.top import Biclique, largest_bicliques

__all__ = ["code", "report_markdown", "since_markdown", "text"]

_ROWS, _COLUMNS, _GROUPS = 12, 10, 5
_MEMBERS = 12
_LONGEST_KEY = 80
_SHADES = "░▒▓█"
# What Markdown, a cell of its tables, HTML or whoever makes links of addresses would take for its own.
_SPECIAL = re.compile(r"[\\`*_{}\[\]|~<>&:@]|(?<=www)\.")


def text(value: object) -> str:
    r"""A key as Markdown shows it within a line, whatever it holds: nothing of it is Markdown, HTML or a link.

    Examples
    --------
    >>> print(text("a|b <i>"))
    a&#124;b &#60;i&#62;
    """
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", visible(shortened(value, _LONGEST_KEY)))


def code(value: object) -> str:
    """A path or a name as code, which is shown as it is."""
    return f"`{visible(value).replace('`', chr(0x2CB))}`"


def report_markdown(run_dir: Path, manifest: Manifest) -> str:
    """The essence of a run's report, and where the report lies."""
    counts, sizes = manifest.counts, read_sizes(run_dir / "size_histogram.parquet")
    incomplete = "" if manifest.truncated is None else f"\n\n**Incomplete**: {text(manifest.truncated)}"
    report = run_dir / "report.html"
    place = f"The whole report: {code(report.absolute())}" if report.is_file() else "No report was asked for"
    return "\n".join(
        [
            f"# {counts.bicliques:,} maximal bicliques{incomplete}",
            "",
            f"Largest left side {counts.max_left:,}, right side {counts.max_right:,}, {counts.max_edges:,} edges.",
            "",
            "## How large they are",
            "",
            *_heat_map(sizes),
            "",
            "## The largest, by edges",
            "",
            *_groups(largest_bicliques(run_dir, _GROUPS)),
            "",
            f"{place}, on the machine that ran this.",
        ]
    )


def since_markdown(comparison: Comparison) -> str:
    """What differs from the run before."""
    remarks = [f"{text(remark)}." for remark in comparison.remarks]
    if comparison.run_id is None:
        return "\n\n".join(["# Since the last run", *remarks])
    lines = ["# Since the last run", "", f"Compared with run {code(comparison.run_id)}.", "", *remarks, ""]
    if comparison.n_same is not None:
        shown = ", ".join(f"**{n:,}** {text(status.replace('_', ' '))}" for status, n in comparison.counts.items())
        lines += [f"{shown or 'Nothing differs'}; {comparison.n_same:,} as before.", ""]
    if comparison.largest:
        rows = [
            [
                one.status.replace("_", " "),
                f"{one.n_left:,} × {one.n_right:,}",
                *(_members(keys, n) for keys, n in ((one.left, one.n_left), (one.right, one.n_right))),
                *(_members(keys, len(keys)) for keys in (one.came, one.went)),
            ]
            for one in comparison.largest
        ]
        lines += _table(["", "size", "left", "right", "came", "went"], rows)
    return "\n".join(lines)


def _heat_map(sizes: Sizes) -> list[str]:
    """How many bicliques of each size: right members across, left ones down, darker where there are more."""
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
    return _table(["left \\ right", *_bins(across, int(sizes.n_right.max()))], rows)


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
            *(_members(keys, len(keys)) for keys in (one.left, one.right)),
        ]
        for one in bicliques
    ]
    return _table(["size", "edges", "left", "right"], rows) if rows else ["None."]


def _members(keys: Sequence[object], of_all: int) -> str:
    shown = keys[:_MEMBERS]
    more = f" and {of_all - len(shown):,} more" if of_all > len(shown) else ""
    return ", ".join(map(text, shown)) + more


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [names, ["---"] * len(names), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
