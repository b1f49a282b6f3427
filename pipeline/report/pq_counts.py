"""Sections of the report on (p, q)-counts: the count or their table, and the top vertices and edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from mbe_stage.pipeline.large_numbers import digits_text, grouped_text, number_of, short_text
from mbe_stage.pipeline.problems.base import Page, PageSection
from mbe_stage.pipeline.problems.pq_counts.result_text import read_cells, shown_cell, top_rows, unit, zero_reasons
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pipeline.report.heat_map import Axis, Cell, HeatWords, heat_grid
from mbe_stage.pipeline.report.request import conditions, right_key
from mbe_stage.pipeline.report.wording import fragment, key, percent

_LEDE = """A (p, q)-biclique is a group of p <span class="left-name">left</span> vertices and q
    <span class="right-name">right</span> vertices, each of one joined to each of the other, maximal or not."""
_LOWER_BOUNDS = "Every count is a lower bound."
_FOOTER = """\
<p>The tables lie beside this page. <code>count</code> is null where a count has more than 38 digits;
    <code>count_text</code> has all digits of every one.</p>
<pre>SELECT p, q, count_text FROM 'pq_counts.parquet' ORDER BY p, q;      -- DuckDB, in this directory</pre>"""
_MOST_COLUMNS, _MOST_ROWS = 40, 28
_WIDTH, _HEIGHT, _WIDEST, _HIGHEST = 798, 700, 64, 32
_LONGEST_TITLE = 1000


def page(run_path: Path, manifest: Manifest, top: int) -> Page:
    """Build the page of a run of counts; see `pipeline.problems.base.Publication`."""
    counts, section = read_cells(run_path), manifest.config.problem_section
    at_least = "≥ " if manifest.truncated is not None else ""
    largest = number_of(manifest.counts.largest) or 0
    cell = manifest.counts.largest_p, manifest.counts.largest_q
    if section.table:
        first = "counts", f"{section.p} × {section.q}"
        figures = [(f"the most: {unit(cell)}", f"{at_least}{short_text(largest)}")]
    else:
        first, figures = (unit(cell), f"{at_least}{short_text(largest)}"), []
    return Page(
        title="Counts of (p, q)-bicliques",
        lede=_LEDE,
        first_figure=first,
        figures=figures,
        sections=[
            PageSection("counts", "The counts" if section.table else "The count", _counts(manifest, counts)),
            *_local(run_path, manifest, counts, top),
        ],
        lower_bounds=_LOWER_BOUNDS,
        footer=_FOOTER,
    )


def _counts(manifest: Manifest, counts: Mapping[tuple[int, int], int]) -> str:
    section, at_least = manifest.config.problem_section, "at least " if manifest.truncated is not None else ""
    exact = grouped = named = None
    if not section.table:
        ((cell, count),) = counts.items()
        exact, grouped, named = _exact(count), grouped_text(count), unit(cell, count)
    most = manifest.counts.most_left_degree, manifest.counts.most_right_degree
    parts = _conditions(manifest), at_least, exact, grouped, named, zero_reasons(section, most)
    return fragment("pq_counts.html", "counts", *parts) + Markup(_heat_map(counts, at_least) if section.table else "")


def _conditions(manifest: Manifest) -> list[str]:
    section = manifest.config.problem_section
    containing = [
        Markup(f"containing on the {side}: {', '.join(key(vertex) for vertex in wanted)}")
        for side, wanted in (("left", section.containing_left), ("right", section.containing_right))
        if wanted
    ]
    return [*containing, *conditions(manifest.config)]


def _heat_map(counts: Mapping[tuple[int, int], int], at_least: str) -> str:
    """Draw every nonzero count as a cell, up to the available space."""
    most = max(counts.values())
    if not most:
        return '<p class="quiet">All are 0.</p>'
    n_columns = min(_MOST_COLUMNS, max(p for p, _ in counts))
    n_rows = min(_MOST_ROWS, max(q for _, q in counts))
    columns, rows = _axis(n_columns, _WIDTH, _WIDEST), _axis(n_rows, _HEIGHT, _HIGHEST)
    cells = [
        Cell(q - 1, p - 1, count, f"{p} left × {q} right: {at_least}{_exact(count)}")
        for (p, q), count in counts.items()
        if count and p <= n_columns and q <= n_rows
    ]
    words = HeatWords(
        "p, vertices on the left",
        "q, vertices on the right",
        "bicliques",
        f"Number of (p, q)-bicliques; the most are {short_text(most)}",
        short_text,
    )
    cut = len(counts) > n_columns * n_rows
    left_out = f" Only the first {n_columns} × {n_rows}; the table has all." if cut else ""
    return (
        f'<figure class="heat"><div class="scroll">{heat_grid(cells, columns, rows, most, words)}</div><figcaption>'
        "Bicliques by p and q; the colour is logarithmic, and the tooltip of a cell shows every digit."
        f"{left_out}</figcaption></figure>"
    )


def _axis(n: int, pixels: int, widest: int) -> Axis:
    sizes = np.arange(1, n + 1)
    return Axis(sizes, sizes, min(widest, math.floor(pixels / n)))


def _exact(count: int) -> str:
    digits = digits_text(count)
    return digits if len(digits) <= _LONGEST_TITLE else grouped_text(count)


def _local(run_path: Path, manifest: Manifest, counts: Mapping[tuple[int, int], int], top: int) -> list[PageSection]:
    """Return the vertices and edges in most bicliques, if these were counted."""
    local, cell = manifest.config.problem_section.local, shown_cell(manifest)
    if local == "none":
        return []
    mark, written = "≥ " if manifest.truncated is not None else "", right_key(manifest.config)
    total, what = counts[cell], unit(cell)
    of_sides = [
        ([f"{side} vertex"], _shown(top_rows(run_path / "pq_vertices.parquet", cell, top, side), {"key": write}, total))
        for side, write in (("left", key), ("right", written))
    ]
    tables = fragment("pq_counts.html", "tables", of_sides, mark)
    found = [PageSection("vertices", f"The vertices in most {what}", f'<div class="pair">{tables}</div>')]
    if local == "edges":
        rows = top_rows(run_path / "pq_edges.parquet", cell, top)
        shown = ["left vertex", "right vertex"], _shown(rows, {"left_key": key, "right_key": written}, total)
        body = fragment("pq_counts.html", "tables", [shown], mark)
        found.append(PageSection("edges", f"The edges in most {what}", body))
    return found


def _shown(
    rows: Sequence[dict[str, Any]], written: Mapping[str, Callable[[object], str]], total: int
) -> list[dict[str, Any]]:
    """Return the cells of some rows: keys, count and share."""
    shown = []
    for row in rows:
        count = number_of(row["count_text"]) or 0
        keys = [write(row[name]) for name, write in written.items()]
        share = percent(count, total) if total else ""
        shown.append({"names": keys, "exact": _exact(count), "short": short_text(count), "share": share})
    return shown
