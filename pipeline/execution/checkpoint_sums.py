"""Checkpoints of runs that write no rows: all sums so far are in one file, which the journal names.

A newer file replaces the older one, so there is only one record, with everything done so far.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from mbe_stage.pipeline.backends.arrow.parts import next_number
from mbe_stage.pipeline.errors import PublishError
from mbe_stage.pipeline.execution.journal import Journal
from mbe_stage.pipeline.publish.run_files import as_publish_errors
from mbe_stage.tasks import OpenWork, Task

Arrays = dict[str, np.ndarray]
"""Sums as arrays by name, of numbers rather than objects."""

_OWN = "run"  # Not the name of a derived output: sections and problems have other names.


def book_sums(
    journal: Journal, remaining: Sequence[Task | OpenWork], work_done: float, sums: Callable[[], Arrays], n_items: int
) -> None:
    """Record in the journal that everything but these tasks is done, with the sums so far.

    Parameters
    ----------
    remaining : sequence of Task or OpenWork
        The remaining tasks, at least one.
    work_done : float
        See `Journal.add`.
    sums : callable
        Returns the sums of this process and earlier ones; it is called once.
    n_items : int
        Number of results in the sums.

    Raises
    ------
    PublishError
        The file cannot be written.
    """
    directory = journal.staging_dir / "sums"
    with as_publish_errors(directory):
        directory.mkdir(exist_ok=True)
        path = directory / f"sums-{next_number(directory):05d}.npz"
        np.savez(path, **cast(Any, sums()))
        journal.add(remaining, work_done, [path], n_items, is_whole=True)


def taken_back(journal: Journal | None) -> Arrays | None:
    """Return the sums in the journal's file; None if there are none.

    Raises
    ------
    PublishError
        The file cannot be read, although its checksum is right.
    """
    if journal is None or not journal.files:
        return None
    (path,) = journal.files
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise PublishError(
            f"{path}: cannot be read ({error}); expected the sums of a run; start over without --resume"
        ) from None


def can_be_kept(derived: Sequence[Any]) -> bool:
    """Return whether all derived outputs can save their state and restore it in another process."""
    return all(each.gives_sums for each in derived)


def together(own: Arrays, derived: Sequence[Any]) -> Arrays:
    """Combine the sums of a run with those of its derived outputs."""
    every = {_OWN: own, **{each.name: each.sums() for each in derived}}
    return {f"{name}/{key}": array for name, arrays in every.items() for key, array in arrays.items()}


def restore(sums: Arrays, own: Callable[[Arrays], None], derived: Sequence[Any]) -> None:
    """Split the sums that `together` combined, and restore the run's own part and its derived outputs."""
    own(_of(_OWN, sums))
    for each in derived:
        each.restore(_of(each.name, sums))


def _of(name: str, sums: Arrays) -> Arrays:
    return {key.removeprefix(f"{name}/"): array for key, array in sums.items() if key.startswith(f"{name}/")}
