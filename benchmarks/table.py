"""The table as Markdown, which is also readable in a terminal, and as values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.measuring import Row
from benchmarks.peers import AT_MOST_SECONDS, PeerFigure, best_cpu, best_single_thread
from benchmarks.targets import Target, ratio_to_best

__all__ = ["markdown_table", "results_table", "row_values", "target_table"]

_NONE = "-"


def results_table(rows: Sequence[Row]) -> str:
    threads = list(dict.fromkeys(n for row in rows for n in row.counts))
    several = [n for n in threads if n != 1] if 1 in threads else []
    columns = [
        "graph",
        "bicliques",
        *(f"count, {_threads(n)}" for n in threads),
        *(f"speed-up, {n}" for n in several),
        f"write, {_threads(threads[0])}",
        "write / count",
        "peak memory",
        "best program, 1 thread",
        "ours / best",
        "at most",
        "met",
    ]
    return markdown_table(columns, [_cells(row, threads, several) for row in rows], right_from=1)


def target_table(found: Sequence[Target]) -> str:
    lines = [[target.what, target.wanted, target.found, _yes_no(target.met)] for target in found]
    return markdown_table(["target", "wanted", "found", "met"], lines, right_from=1)


def markdown_table(columns: Sequence[str], lines: Sequence[Sequence[str]], right_from: int) -> str:
    """Return a Markdown table with aligned source.

    Parameters
    ----------
    right_from : int
        Columns from this one on are right-aligned.
    """
    widths = [max(len(cell) for cell in column) for column in zip(columns, *lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if k >= right_from else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f"{'-' * (width - 1)}:" if k >= right_from else "-" * width for k, width in enumerate(widths)]
    return "\n".join([line(columns), line(rule), *map(line, lines)])


def row_values(row: Row) -> dict[str, Any]:
    best = best_single_thread(row.name)
    return {
        "graph": row.name,
        "bicliques": row.n_bicliques,
        "wrong": row.wrong,
        "count_seconds": {str(n): row.count_seconds(n) for n in row.counts},
        "speed_up": {str(n): row.speed_up(n) for n in row.counts if n != 1},
        "busy_ratio": {str(n): row.busy_ratio(n) for n in row.counts if n},
        "write_seconds": row.write_seconds,
        "peak_memory_bytes": row.peak_memory_bytes,
        "best_single_thread": None if best is None else asdict(best),
        "ratio_to_best": ratio_to_best(row),
        "at_most_seconds": AT_MOST_SECONDS.get(row.name),
        "count": {str(n): asdict(times) for n, times in row.counts.items()},
        "write": None if row.write is None else asdict(row.write),
    }


def _cells(row: Row, threads: Sequence[int], several: Sequence[int]) -> list[str]:
    one, most, ratio = row.count_seconds(1), AT_MOST_SECONDS.get(row.name), ratio_to_best(row)
    write = row.write_seconds
    return [
        row.name,
        f"{row.n_bicliques:,}" + (" WRONG" if row.wrong else ""),
        *(_seconds(row.count_seconds(n)) for n in threads),
        *(_ratio(row.speed_up(n)) for n in several),
        _seconds(write),
        _ratio(None if write is None else write / row.first_count_seconds),
        f"{row.peak_memory_bytes / 1e6:,.0f} MB",
        _peer(row.name),
        _ratio(ratio),
        _NONE if most is None else _seconds(most),
        _NONE if most is None or one is None else _yes_no(one <= most),
    ]


def _peer(name: str) -> str:
    """Return the best program on one thread or, if there is none, the best on a CPU with its threads."""
    single = best_single_thread(name)
    if single is not None:
        return f"{_seconds(single.seconds)} {single.program}"
    several = best_cpu(name)
    return _NONE if several is None else _with_threads(several)


def _with_threads(figure: PeerFigure) -> str:
    threads = "" if figure.threads is None else f", {figure.threads} threads"
    return f"({_seconds(figure.seconds)} {figure.program}{threads})"


def _threads(n: int) -> str:
    return {0: "all cores", 1: "1 thread"}.get(n, f"{n} threads")


def _seconds(value: float | None) -> str:
    if value is None:
        return _NONE
    # Repeats on an idle machine agree in three digits.
    return f"{value * 1e3:.3g} ms" if value < 0.9995e-1 else f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def _ratio(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _yes_no(met: bool) -> str:
    return "yes" if met else "NO"
