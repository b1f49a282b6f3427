"""The counts of a run as text: on the terminal, as JSON, in a flow and in the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.large_numbers import digits_text, grouped_text, number_of, short_text
from mbe_stage.pipeline.problems.base import ResultText
from mbe_stage.pipeline.problems.pq_counts.section import PqCountsSection
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.report.markdown import table, text
from mbe_stage.pq_counts.results import PqSink

_BATCH_ROWS = 1 << 17

JSON_EXACT = 2**53 - 1
"""Up to this number, every JSON reader takes whole numbers exactly."""

_MOST_ROWS, _MOST_COLUMNS = 30, 12
_MARKDOWN_CELLS = 12
_MARKDOWN_VERTICES = 5


def read_cells(run_path: Path) -> dict[tuple[int, int], int]:
    """Return ``(p, q) -> count`` in the order of the table `pq_counts`.

    Raises
    ------
    ValueError
        A count is no number.
    """
    table = pq.read_table(run_path / "pq_counts.parquet", columns=["p", "q", "count_text"])
    found = {}
    for p, q, digits in zip(*(table.column(name).to_pylist() for name in ("p", "q", "count_text")), strict=True):
        number = number_of(digits)
        if number is None:
            raise ValueError(f"{run_path / 'pq_counts.parquet'}: count_text of ({p}, {q}) is no number")
        found[p, q] = number
    return found


def top_rows(path: Path, cell: tuple[int, int], limit: int, side: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of a cell with the largest counts above zero, largest first, ties in the order of the table.

    Parameters
    ----------
    path : Path
        `pq_vertices` or `pq_edges`.
    cell : (int, int)
    side : str, optional
        Only vertices of this side.
    """
    best: pa.Table | None = None
    p, q = cell
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            is_wanted = pc.and_(pc.equal(rows["p"], p), pc.equal(rows["q"], q))
            if side is not None:
                is_wanted = pc.and_(is_wanted, pc.equal(rows["side"].cast(pa.string()), side))
            rows = rows.filter(pc.and_(is_wanted, pc.not_equal(rows["count_text"], "0")))
            best = _larger(rows if best is None else pa.concat_tables([best, rows]), limit)
    return [] if best is None else best.to_pylist()


def _larger(rows: pa.Table, limit: int) -> pa.Table:
    """Order texts as whole numbers, largest first: by number of digits, then by text."""
    text = rows["count_text"].combine_chunks()
    lengths, ranks = pc.utf8_length(text).to_numpy(zero_copy_only=False), _ranks(text)
    order = np.lexsort((np.arange(len(text)), -ranks, -lengths))[:limit]
    return rows.take(pa.array(order))


def _ranks(text: pa.Array) -> np.ndarray:
    return pc.rank(text, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)


def result_text(sink: PqSink, config: Config, degrees: tuple[Any, Any], truncated: str | None) -> ResultText:
    """Return the text of a search that stored nothing."""
    most = int(degrees[0].max()), int(degrees[1].max())
    return _text(sink.counts(), config.problem_section, most, is_lower=truncated is not None)


def text_of_run(run_path: Path, manifest: Manifest) -> ResultText:
    """Return the text of a published run."""
    most = manifest.counts.most_left_degree, manifest.counts.most_right_degree
    return _text(read_cells(run_path), manifest.config.problem_section, most, is_lower=manifest.truncated is not None)


def listed(manifest: Manifest) -> str:
    """Return the largest count and its sizes."""
    counts, at_least = manifest.counts, ">= " if manifest.truncated is not None else ""
    largest = number_of(counts.largest)
    return "?" if largest is None else f"{at_least}{short_text(largest)} ({counts.largest_p}, {counts.largest_q})"


def unit(cell: tuple[int, int], count: int = 2) -> str:
    """Return the name of the counted objects: ``(2, 3)-bicliques``."""
    return f"({cell[0]}, {cell[1]})-biclique{'' if count == 1 else 's'}"


def zero_reasons(section: PqCountsSection, most: tuple[int, int]) -> list[str]:
    """Return reasons why requested counts are 0, as far as degrees and the request tell.

    Parameters
    ----------
    most : (int, int)
        The largest degree of a left and of a right vertex.
    """
    reasons = []
    for letter, size, side, other, degree in (
        ("p", section.p, "left", "right", most[1]),
        ("q", section.q, "right", "left", most[0]),
    ):
        if size > degree:
            beyond = f"from {letter} = {degree + 1:,} on every count is 0: " if section.table else ""
            reasons.append(f"{beyond}no {other} vertex has {size:,} neighbours; the most is {degree:,}")
        n_wanted = len({str(key) for key in getattr(section, f"containing_{side}")})
        if n_wanted > size:
            reasons.append(f"{n_wanted:,} {side} vertices have to be in it, which are more than {letter} = {size:,}")
    return reasons


def _text(
    counts: Mapping[tuple[int, int], int], section: PqCountsSection, most: tuple[int, int], *, is_lower: bool
) -> ResultText:
    rows = [{"p": p, "q": q, "count": _for_json(n), "count_text": digits_text(n)} for (p, q), n in counts.items()]
    why_zero = zero_reasons(section, most)
    values = {"counts": rows, "lower_bounds": is_lower, "why_zero": why_zero}
    lines = [("zero", reason) for reason in why_zero]
    if not section.table:
        ((cell, count),) = counts.items()
        headline = f"{'at least ' if is_lower else ''}{grouped_text(count)} {unit(cell, count)}"
        return ResultText(1, headline, values, lines)
    if section.p > _MOST_ROWS or section.q > _MOST_COLUMNS:
        lines.append(("shown", f"of {section.p} rows and {section.q} columns the first; --json and the table have all"))
    return ResultText(
        len(counts), _of_table(counts, section, is_lower), values, lines, _table(counts, section, is_lower)
    )


def _of_table(counts: Mapping[tuple[int, int], int], section: PqCountsSection, is_lower: bool) -> str:
    cell, largest = max(counts.items(), key=lambda item: item[1])
    what = "lower bounds of the numbers" if is_lower else "numbers"
    at_least = "at least " if is_lower else ""
    return (
        f"{len(counts):,} {what} of (p, q)-bicliques up to ({section.p}, {section.q}), the largest {at_least}"
        f"{short_text(largest)}, of ({cell[0]}, {cell[1]}),"
    )


def _table(
    counts: Mapping[tuple[int, int], int], section: PqCountsSection, is_lower: bool
) -> tuple[list[str], list[list[str]]]:
    ps, qs = range(1, min(section.p, _MOST_ROWS) + 1), range(1, min(section.q, _MOST_COLUMNS) + 1)
    mark = ">= " if is_lower else ""
    return ["p \\ q", *map(str, qs)], [[str(p), *(f"{mark}{short_text(counts[p, q])}" for q in qs)] for p in ps]


def _for_json(count: int) -> Any:
    return count if count <= JSON_EXACT else None


def essence(run_path: Path, manifest: Manifest) -> list[str]:
    """Return the essence of the report as Markdown."""
    counts, section = read_cells(run_path), manifest.config.problem_section
    mark = "≥ " if manifest.truncated is not None else ""
    ps = sorted({p for p, _ in counts})[:_MARKDOWN_CELLS]
    qs = sorted({q for _, q in counts})[:_MARKDOWN_CELLS]
    rows = [[f"**{p}**", *(f"{mark}{short_text(counts[p, q])}" for q in qs)] for p in ps]
    most = manifest.counts.most_left_degree, manifest.counts.most_right_degree
    lines = [*(f"{reason}." for reason in zero_reasons(section, most)), *table(["p \\ q", *map(str, qs)], rows)]
    if section.local == "none":
        return lines
    p, q = shown_cell(manifest)
    shown = [
        [side, text(row["key"]), f"{mark}{short_text(int(row['count_text']))}"]
        for side in ("left", "right")
        for row in top_rows(run_path / "pq_vertices.parquet", (p, q), _MARKDOWN_VERTICES, side)
    ]
    return [*lines, "", f"## The vertices in most ({p}, {q})-bicliques", "", *table(["side", "vertex", "in"], shown)]


def largest(run_path: Path, limit: int) -> list[dict[str, Any]]:
    """Return the vertices in the most bicliques if these are counted, else the counts, as rows of plain values."""
    manifest = read_manifest(run_path)
    if manifest.config.problem_section.local == "none":
        rows = [{"p": p, "q": q, "count": short_text(count)} for (p, q), count in read_cells(run_path).items()]
        return rows[:limit]
    cell, path = shown_cell(manifest), run_path / "pq_vertices.parquet"
    return [
        {"side": side, "key": str(row["key"]), "p": cell[0], "q": cell[1], "count": row["count_text"]}
        for side in ("left", "right")
        for row in top_rows(path, cell, limit, side)
    ]


def shown_cell(manifest: Manifest) -> tuple[int, int]:
    """Return the cell whose vertices are shown; in a table, (2, 2) or the nearest cell that is not 0."""
    section, counts = manifest.config.problem_section, manifest.counts
    if not section.table:
        return section.p, section.q
    return min(section.p, counts.most_right_degree, 2), min(section.q, counts.most_left_degree, 2)
