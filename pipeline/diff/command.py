"""What `mbe diff` does."""

from __future__ import annotations

import time
from pathlib import Path

from pipeline import show_diff
from pipeline.console import ProgressDisplay, set_up_logging
from pipeline.diff.job import diff_runs
from pipeline.diff.largest import largest_differences
from pipeline.diff.write import check_free, write_diff

__all__ = ["compare"]


def compare(old: Path, new: Path, out: Path | None, limit: int, threads: int, as_json: bool, quiet: bool) -> bool:
    """Compare two runs, write what differs where `out` says so, and show it; returns whether anything differs.

    Parameters
    ----------
    old, new : Path
        Run directories.
    out : Path, optional
        Where all differences are written.
    limit : int
        So many of each kind are shown.
    threads : int
        0: one a core.
    as_json, quiet : bool
    """
    start = time.perf_counter()
    if out is not None:
        check_free(out)
    with ProgressDisplay(set_up_logging(quiet), quiet, "comparing keys") as progress:
        diff = diff_runs(old, new, threads=threads, on_progress=progress.working, on_compile=progress.compiled)
        if out is not None:
            write_diff(diff, out, show_diff.summary(diff), lambda share: progress.working("writing", share))
        largest = largest_differences(diff, limit) if limit else []
    show_diff.differences(diff, largest, out, time.perf_counter() - start, as_json)
    return diff.differ
