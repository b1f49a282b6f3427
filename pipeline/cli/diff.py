"""`mbe diff`: compare two runs; remarks and counts on stdout, then the largest of each kind, or one JSON object."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.table import Table

from mbe_stage.pipeline.cli.console import ProgressDisplay, set_up_logging
from mbe_stage.pipeline.cli.tables import biclique_values, results_console, table
from mbe_stage.pipeline.cli.terminal import print_json, say
from mbe_stage.pipeline.publish.manifest import peak_memory_bytes
from mbe_stage.pipeline.publish.new_directory import check_free
from mbe_stage.pipeline.publish.reading import run_with_bicliques
from mbe_stage.pipeline.stores.local_copies import address_of
from mbe_stage.pipeline.views.diff import PAIRED, Difference, RunDiff, searched_words, status_words
from mbe_stage.pipeline.views.diff.job import counts_words, diff_runs
from mbe_stage.pipeline.views.diff.members import largest_differences
from mbe_stage.pipeline.views.diff.write import write_diff
from mbe_stage.pipeline.wording import first_keys, plural


def compare(old: Path, new: Path, out: Path | None, limit: int, threads: int, as_json: bool, quiet: bool) -> bool:
    """Compare two runs, write all differences to `out` if given, and show `limit` of each kind.

    Return whether there are differences. With 0 `threads` there is one per core.
    """
    start = time.perf_counter()
    if out is not None:
        check_free(out)
    with ProgressDisplay(set_up_logging(quiet), quiet, "comparing keys") as progress:
        diff = diff_runs(old, new, threads=threads, on_progress=progress.working, on_compile=progress.compiled)
        if out is not None:
            write_diff(diff, out, summary(diff), lambda share: progress.working("writing", share))
        largest = largest_differences(diff, limit) if limit else []
    differences(diff, largest, out, time.perf_counter() - start, as_json)
    return diff.differ


def compare_groups(old: Path, new: Path, out: Path | None, limit: int, as_json: bool) -> bool | None:
    """Compare the groups of two runs, show the differences, and return whether there are any.

    None if both runs have bicliques, or one has no groups.
    """
    runs = (old, new)
    has_both = all((run / "groups.parquet").is_file() for run in runs)
    if not has_both or all(run_with_bicliques(run) is not None for run in runs):
        return None
    from mbe_stage.pipeline.cases.changes import compared
    from mbe_stage.pipeline.cli.show import print_view, tables_of_groups

    with tables_of_groups(new):
        view = compared(old, new, limit, out)
    print_view(view, as_json, None)
    return bool(view.values["counts"])


def summary(diff: RunDiff) -> dict[str, Any]:
    """Summarise a difference as plain values."""
    return {
        "old": address_of(diff.old),
        "new": address_of(diff.new),
        "remarks": list(diff.comparability.remarks),
        "knows_gone": diff.comparability.knows_gone,
        "knows_new": diff.comparability.knows_new,
        "counts": diff.counts,
        "bicliques": {"old": diff.n_old, "new": diff.n_new, "same": diff.n_same},
        "searched_from": None if diff.pairs is None else diff.pairs.searched_from,
    }


def differences(diff: RunDiff, largest: list[Difference], out: Path | None, seconds: float, as_json: bool) -> None:
    """Print the whole result."""
    if as_json:
        rest = {
            "differences": [_as_values(one) for one in largest],
            "out": None if out is None else str(out),
            "seconds": round(seconds, 6),
            "peak_memory_bytes": peak_memory_bytes(),
        }
        print_json(summary(diff) | rest)
        return
    searched = searched_words(diff)
    for remark in (*diff.comparability.remarks, *([] if searched is None else [searched])):
        say(f"NOTE       {remark}")
    say(f"old        {address_of(diff.old)}: {plural(diff.n_old, 'biclique')}")
    say(f"new        {address_of(diff.new)}: {plural(diff.n_new, 'biclique')}, {diff.n_same:,} of them as before")
    say(f"different  {counts_words(diff) if diff.differ else 'nothing: both hold the same bicliques'}")
    for status in dict.fromkeys(one.status for one in largest):
        rows = [one for one in largest if one.status == status]
        of_all = f", {len(rows)} of {diff.counts[status]:,}" if len(rows) < diff.counts[status] else ""
        results_console().print(_table(rows, f"{status_words(status)}{of_all}"))
    if out is not None:
        say(f"written    {out}")


def _table(rows: list[Difference], title: str) -> Table:
    if rows[0].status not in PAIRED:
        lines: list[list[object]] = [
            [one.biclique.n_edges, first_keys(one.biclique.left), first_keys(one.biclique.right), str(one.biclique.key)]
            for one in rows
        ]
        return table(["edges", "left members", "right members", "biclique_key"], lines, title)
    lines = []
    for one in rows:
        assert one.partner is not None
        came, went = one.biclique.without(one.partner), one.partner.without(one.biclique)
        sides = [first_keys(one.biclique.left), first_keys(one.biclique.right), first_keys(came), first_keys(went)]
        lines.append([one.biclique.n_edges, *sides, f"{one.jaccard:.2f}", str(one.biclique.key)])
    columns = ["edges", "left members", "right members", "came", "went", "Jaccard", "biclique_key"]
    return table(columns, lines, title)


def _as_values(one: Difference) -> dict[str, Any]:
    values: dict[str, Any] = {"status": one.status, **biclique_values(one.biclique)}
    if one.partner is not None:
        values |= {"jaccard": one.jaccard, "partner": biclique_values(one.partner)}
    return values
