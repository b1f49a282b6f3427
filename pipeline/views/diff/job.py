"""Compare two runs: differing bicliques, pairs of partners, and the comparability of the runs."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from mbe_stage.options import Execution
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.publish.manifest import Manifest, read_manifest
from mbe_stage.pipeline.publish.reading import check_problem
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.pipeline.publish.run_store import resolve_run
from mbe_stage.pipeline.views.diff import kernels, keys, prefixes, rows
from mbe_stage.pipeline.views.diff.keys import differing_keys, run_keys
from mbe_stage.pipeline.views.diff.partners import SEARCH_LIMIT, Pairs, no_pairs, pair_up
from mbe_stage.pipeline.views.diff.remarks import Comparability, comparability
from mbe_stage.pipeline.views.diff.rows import Rows, Side, read_side, read_sizes
from mbe_stage.pipeline.views.diff.vertices import SharedVertices, shared_vertices
from mbe_stage.runtime.compile_ahead import CompileProgress, CompileStep, compile_ahead

Status = Literal["new", "gone", "grown", "shrunk", "changed", "only_in_old", "only_in_new"]

PAIRED: tuple[Status, ...] = ("grown", "shrunk", "changed")
"""Statuses of a new group with a gone partner, in the order of `kernels.GROWN`, `SHRUNK`, `CHANGED`."""

STATUSES: tuple[Status, ...] = ("new", "gone", *PAIRED, "only_in_new", "only_in_old")


_LATEST = Path("latest")
# Seconds between checks of the readers.
_MOMENT = 0.2

_WORDS: dict[Status, str] = {
    "new": "new",
    "gone": "gone",
    "grown": "grown",
    "shrunk": "shrunk",
    "changed": "changed",
    "only_in_new": "only in NEW",
    "only_in_old": "only in OLD",
}


@dataclass(frozen=True, slots=True, eq=False)
class RunDiff:
    """The difference of two runs.

    Attributes
    ----------
    old, new : Path
        The run directories.
    comparability : Comparability
        Remarks, and whether the words ``gone`` and ``new`` apply.
    counts : dict
        Number of bicliques per status in `STATUSES`; a pair counts once.
    n_old, n_new, n_same : int
        Bicliques of the old run, of the new run, and in both.
    only_new, only_old : Side
        Bicliques of one run only, including those in pairs.
    pairs : Pairs or None
        None if partners were not sought, because the runs are not comparable or too much differs.
    """

    old: Path
    new: Path
    comparability: Comparability
    counts: dict[Status, int]
    n_old: int
    n_new: int
    n_same: int
    only_new: Side
    only_old: Side
    pairs: Pairs | None

    @property
    def differ(self) -> bool:
        """True if any biclique is in one run only."""
        return bool(len(self.only_new) or len(self.only_old))


def diff_runs(
    old: str | Path,
    new: str | Path,
    *,
    search_limit: int = SEARCH_LIMIT,
    most_differing: int | None = None,
    threads: int = 0,
    on_progress: Callable[[str, float], None] = lambda *_: None,
    on_compile: Callable[[CompileProgress], None] | None = None,
) -> RunDiff:
    """Compare two published runs of any size: 100 bytes of memory per differing biclique; members are on disk.

    Parameters
    ----------
    old, new : path
        Run directories, or output directories for their latest runs.
    search_limit : int
        Bound on the search for partners, in shared members to count; `RunDiff.pairs` says how far the search got.
    most_differing : int, optional
        Seek no partners if more bicliques than this are in one run only.
    threads : int
        0 uses every core available to this process.
    on_progress : callable
        Called with the name of the step and the share of it done.
    on_compile : callable, optional
        Called with a `mbe_stage.runtime.compile_ahead.CompileProgress`; by default there are log lines.

    Raises
    ------
    PublishError
        One of the two is not a run, or temporary files cannot be written (in ``TMPDIR``).

    Examples
    --------
    >>> from mbe_stage.pipeline.views.diff import diff_runs, largest_differences  # doctest: +SKIP
    >>> found = diff_runs("out/runs/20261119T060001Z-77ab90", "out")  # doctest: +SKIP
    >>> found.counts["new"], largest_differences(found, "new", 3)  # doctest: +SKIP
    """
    runs = [(run, read_manifest(run)) for run in resolve_both(old, new)]
    for run, _ in runs:
        check_problem(run)
    return diff_between(
        *runs,
        search_limit=search_limit,
        most_differing=most_differing,
        threads=threads,
        on_progress=on_progress,
        on_compile=on_compile,
    )


def diff_between(
    of_old: tuple[Path, Manifest],
    of_new: tuple[Path, Manifest],
    *,
    search_limit: int = SEARCH_LIMIT,
    most_differing: int | None = None,
    threads: int = 0,
    on_progress: Callable[[str, float], None] = lambda *_: None,
    on_compile: Callable[[CompileProgress], None] | None = None,
) -> RunDiff:
    """Compare two run paths with their manifests, as `diff_runs`; the second need not be published yet."""
    (old, old_manifest), (new, new_manifest) = of_old, of_new
    known = comparability(old, new, old_manifest, new_manifest)
    # If the fingerprints agree, so do the sets of keys, and nothing has to be read.
    same = old_manifest.content_fingerprint == new_manifest.content_fingerprint
    if not same:
        compile_ahead(compile_steps(), on_compile)
    on_progress("comparing keys", 0.0)
    none = np.zeros(0, np.int64)
    keys = [none, none] if same else list(differing_keys(run_keys(old), run_keys(new)))
    sizes = [each.size for each in keys]
    few_enough = most_differing is None or sum(sizes) <= most_differing
    pairs = None
    if known.knows_gone and known.knows_new and few_enough and all(sizes):
        only_old, only_new, pairs = _paired(old, new, keys, search_limit, threads, on_progress)
    else:
        only_old, only_new = (read_sizes(run, of_run) for run, of_run in zip((old, new), keys, strict=True))
        if known.knows_gone and known.knows_new and not all(sizes):
            pairs = no_pairs(len(only_new), len(only_old))
    return RunDiff(
        old=old,
        new=new,
        comparability=known,
        counts=_counts(known, len(only_old), len(only_new), pairs),
        n_old=old_manifest.counts.bicliques,
        n_new=new_manifest.counts.bicliques,
        n_same=old_manifest.counts.bicliques - len(only_old),
        only_new=only_new,
        only_old=only_old,
        pairs=pairs,
    )


def resolve_both(old: str | Path, new: str | Path) -> tuple[Path, Path]:
    """Return the two run directories; ``latest`` is the latest run of the other's output directory.

    Raises
    ------
    PublishError
        One of the two is not a run, or both are ``latest``.
    """
    names = [Path(old), Path(new)]
    meant = [resolve_run(name) if name != _LATEST or name.exists() else None for name in names]
    known = next((run for run in meant if run is not None), None)
    if known is None:
        raise PublishError(
            "latest: given for both runs; expected a run or an output directory for one of them; name it"
        )
    first, second = (run or resolve_run(known.resolve().parent.parent) for run in meant)
    return first, second


def _paired(
    old: Path,
    new: Path,
    keys: list[np.ndarray],
    search_limit: int,
    threads: int,
    on_progress: Callable[[str, float], None],
) -> tuple[Side, Side, Pairs]:
    """Read the differing bicliques and seek partners.

    Parameters
    ----------
    keys : list of (n,) int64
        Ascending keys of only the old and only the new run. The list is emptied as they are read.
    on_progress : callable
        Takes the name of the step and the share of it done.
    """
    shared = shared_vertices(old, new)
    with tempfile.TemporaryDirectory(prefix="mbe-diff-") as directory:
        scratch = Path(directory)
        with as_publish_errors(scratch, "the runs are unchanged"):
            rows = _read_both((old, new), keys, shared, scratch, on_progress)
            only_old, only_new = (of_run.side for of_run in rows)
            # Free memory for the next step: the keys are in the rows, and the reader holds buffers.
            keys.clear()
            pa.default_memory_pool().release_unused()
            pairs = pair_up(
                rows,
                shared,
                scratch,
                search_limit,
                threads or Execution().worker_count,
                lambda share: on_progress("seeking partners", share),
            )
    return only_old, only_new, pairs


def _read_both(
    runs: tuple[Path, Path],
    keys: list[np.ndarray],
    shared: SharedVertices,
    scratch: Path,
    on_progress: Callable[[str, float], None],
) -> list[Rows]:
    """Read the rows of both sides in parallel; Ctrl-C ends both readers at their next batch."""
    stopped = threading.Event()
    done = [0.0, 0.0]

    def read(at: int) -> Rows:
        def note(share: float) -> None:
            if stopped.is_set():
                raise KeyboardInterrupt
            done[at] = share

        translation = (shared.old, shared.new)[at]
        return read_side(runs[at], keys[at], shared, translation, scratch / f"side-{at}", note)

    with ThreadPoolExecutor(2) as pool:
        try:
            readers = [pool.submit(read, at) for at in (0, 1)]
            while wait(readers, _MOMENT, FIRST_EXCEPTION).not_done and not any(map(_failed, readers)):
                on_progress("reading what differs", sum(done) / 2)
            return [reader.result() for reader in readers]
        finally:
            stopped.set()


def _failed(reader: Future[Rows]) -> bool:
    return reader.done() and reader.exception() is not None


def _counts(known: Comparability, n_old: int, n_new: int, pairs: Pairs | None) -> dict[Status, int]:
    counts: dict[Status, int] = dict.fromkeys(STATUSES, 0)
    kinds = np.zeros(4, np.int64) if pairs is None else np.bincount(pairs.kind, minlength=4)
    counts.update(zip(PAIRED, kinds[1:].tolist(), strict=True))
    n_pairs = int(kinds[1:].sum())
    counts["new" if known.knows_new else "only_in_new"] = n_new - n_pairs
    counts["gone" if known.knows_gone else "only_in_old"] = n_old - n_pairs
    return counts


def compile_steps() -> tuple[CompileStep, ...]:
    """Return the compile steps of a comparison, the longest first."""
    return tuple(step for module in (kernels, prefixes, keys, rows) for step in module.compile_steps())


def status_words(status: Status) -> str:
    """Return a status in words."""
    return _WORDS[status]


def counts_words(diff: RunDiff) -> str:
    """Return the counts in one line, without those that are unknown for these runs."""
    known = diff.comparability
    shown: list[Status] = ["new" if known.knows_new else "only_in_new", "gone" if known.knows_gone else "only_in_old"]
    if diff.pairs is not None:
        shown += PAIRED
    return ", ".join(f"{diff.counts[status]:,} {_WORDS[status]}" for status in shown)


def searched_words(diff: RunDiff) -> str | None:
    """Return a sentence if partners were not searched among all pairs; else None."""
    if diff.pairs is None:
        known = diff.comparability
        comparable = known.knows_gone and known.knows_new
        return "too many bicliques differ to pair them" if comparable and diff.differ else None
    if diff.pairs.searched_from == 0:
        return None
    among = (
        "that differ by one member"
        if diff.pairs.searched_from == 1
        else f"with a Jaccard of at least {diff.pairs.searched_from:g}"
    )
    return (
        f"partners were sought only among groups {among}, because comparing all pairs would take too long: some "
        "new and gone groups may belong together"
    )
