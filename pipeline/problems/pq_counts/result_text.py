"""What is told of (p, q)-counts, on the terminal, as JSON and in a flow; where a limit stopped the search: at least."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mbe_stage.graphs.bipartite import BipartiteCSR
from mbe_stage.pipeline.config.model import Config
from mbe_stage.pipeline.large_numbers import digits_text, grouped_text, number_of, short_text
from mbe_stage.pipeline.problems.base import ResultText
from mbe_stage.pipeline.problems.pq_counts.cells import read_cells
from mbe_stage.pipeline.problems.pq_counts.section import PqCountsSection
from mbe_stage.pipeline.publish.manifest import Manifest
from mbe_stage.pq_counts.results import PqSink

__all__ = ["JSON_EXACT", "listed", "result_text", "text_of_run", "unit", "zero_reasons"]

JSON_EXACT = 2**53 - 1
"""Up to here every reader of JSON takes a number as it is written."""

_MOST_ROWS, _MOST_COLUMNS = 30, 12


def result_text(sink: PqSink, config: Config, graph: BipartiteCSR, truncated: str | None) -> ResultText:
    """What a search found that stored nothing."""
    most = int(graph.left_degrees.max()), int(graph.right_degrees.max())
    return _text(sink.counts(), config.asked, most, is_lower=truncated is not None)


def text_of_run(run_path: Path, manifest: Manifest) -> ResultText:
    """What a run has published."""
    most = manifest.counts.most_left_degree, manifest.counts.most_right_degree
    return _text(read_cells(run_path), manifest.config.asked, most, is_lower=manifest.truncated is not None)


def listed(manifest: Manifest) -> str:
    """The largest count, and whose it is."""
    counts, at_least = manifest.counts, ">= " if manifest.truncated is not None else ""
    largest = number_of(counts.largest)
    return "?" if largest is None else f"{at_least}{short_text(largest)} ({counts.largest_p}, {counts.largest_q})"


def unit(cell: tuple[int, int], count: int = 2) -> str:
    """What is counted: ``(2, 3)-bicliques``."""
    return f"({cell[0]}, {cell[1]})-biclique{'' if count == 1 else 's'}"


def zero_reasons(asked: PqCountsSection, most: tuple[int, int]) -> list[str]:
    """Why counts that are asked for are 0, as far as degrees and what is asked tell.

    Parameters
    ----------
    most : (int, int)
        The largest degree of a left and of a right vertex.
    """
    reasons = []
    for letter, size, side, other, degree in (
        ("p", asked.p, "left", "right", most[1]),
        ("q", asked.q, "right", "left", most[0]),
    ):
        if size > degree:
            beyond = f"from {letter} = {degree + 1:,} on every count is 0: " if asked.table else ""
            reasons.append(f"{beyond}no {other} vertex has {size:,} neighbours; the most is {degree:,}")
        n_wanted = len({str(key) for key in getattr(asked, f"containing_{side}")})
        if n_wanted > size:
            reasons.append(f"{n_wanted:,} {side} vertices have to be in it, which are more than {letter} = {size:,}")
    return reasons


def _text(
    counts: Mapping[tuple[int, int], int], asked: PqCountsSection, most: tuple[int, int], *, is_lower: bool
) -> ResultText:
    rows = [{"p": p, "q": q, "count": _for_json(n), "count_text": digits_text(n)} for (p, q), n in counts.items()]
    why_zero = zero_reasons(asked, most)
    values = {"counts": rows, "lower_bounds": is_lower, "why_zero": why_zero}
    lines = [("zero", reason) for reason in why_zero]
    if not asked.table:
        ((cell, count),) = counts.items()
        headline = f"{'at least ' if is_lower else ''}{grouped_text(count)} {unit(cell, count)}"
        return ResultText(1, headline, values, lines)
    if asked.p > _MOST_ROWS or asked.q > _MOST_COLUMNS:
        lines.append(("shown", f"of {asked.p} rows and {asked.q} columns the first; --json and the table have all"))
    return ResultText(len(counts), _of_table(counts, asked, is_lower), values, lines, _table(counts, asked, is_lower))


def _of_table(counts: Mapping[tuple[int, int], int], asked: PqCountsSection, is_lower: bool) -> str:
    cell, largest = max(counts.items(), key=lambda item: item[1])
    what = "lower bounds of the numbers" if is_lower else "numbers"
    at_least = "at least " if is_lower else ""
    return (
        f"{len(counts):,} {what} of (p, q)-bicliques up to ({asked.p}, {asked.q}), the largest {at_least}"
        f"{short_text(largest)}, of ({cell[0]}, {cell[1]}),"
    )


def _table(
    counts: Mapping[tuple[int, int], int], asked: PqCountsSection, is_lower: bool
) -> tuple[list[str], list[list[str]]]:
    ps, qs = range(1, min(asked.p, _MOST_ROWS) + 1), range(1, min(asked.q, _MOST_COLUMNS) + 1)
    mark = ">= " if is_lower else ""
    return ["p \\ q", *map(str, qs)], [[str(p), *(f"{mark}{short_text(counts[p, q])}" for q in qs)] for p in ps]


def _for_json(count: int) -> Any:
    return count if count <= JSON_EXACT else None
